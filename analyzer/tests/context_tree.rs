//! The tree of contexts against a slow and simple replay of the same trace.

use heapreel_analyzer::testing::Game;
use heapreel_analyzer::{Analysis, ContextSums, ContextUse, Options, analyze_trace};
use heapreel_format::{ContextId, Event, EventKind, Trace};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};

fn analysis(trace: &Trace, kind: Option<&str>) -> Analysis {
    let options = Options {
        context_kind: kind.map(str::to_owned),
        ..Options::default()
    };
    analyze_trace(trace, &options, |_| ()).expect("a sound trace")
}

/// A context's path of (kind, name), all of it or only what is of one kind.
fn path(trace: &Trace, id: ContextId, kind: Option<&str>) -> Vec<String> {
    let Some((parent, its, name)) = trace.definitions().contexts.get(&id) else {
        return Vec::new();
    };
    let mut path = path(trace, *parent, kind);
    if kind.is_none_or(|kind| kind == its) {
        path.push(format!("{its}:{name}"));
    }
    path
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Naive {
    instances: u64,
    allocations: u64,
    requested_bytes: u64,
    live_bytes: u64,
    live_blocks: u64,
}

enum Half<'a> {
    Acquire(&'a Event),
    Release(u64),
}

/// Blocks come when a call ends and go when one begins, that of a reallocation too; what
/// comes and goes at one instant comes first.
fn halves(events: &[Event]) -> Vec<(u64, Half<'_>)> {
    let mut halves = Vec::new();
    for event in events {
        match event.kind {
            EventKind::Dealloc => halves.push((event.start, Half::Release(event.address))),
            EventKind::Realloc => halves.push((event.start, Half::Release(event.old_address))),
            _ => {}
        }
        if event.kind != EventKind::Dealloc {
            halves.push((event.key(), Half::Acquire(event)));
        }
    }
    halves.sort_by_key(|(key, half)| (*key, matches!(half, Half::Release(_))));
    halves
}

/// By path, what was done in each context itself.
fn naive(trace: &Trace, kind: Option<&str>) -> BTreeMap<String, Naive> {
    let mut events: Vec<Event> = Vec::new();
    let mut sums: BTreeMap<String, Naive> = BTreeMap::new();
    let at = |id: ContextId| match path(trace, id, kind).join(" / ") {
        path if path.is_empty() => "(no context)".to_owned(),
        path => path,
    };
    for chunk in trace.chunks() {
        let chunk = trace.decode(chunk).expect("a sound chunk");
        events.extend(chunk.events);
        for (_, _, id) in chunk.entered {
            let (_, its, _) = &trace.definitions().contexts[&id];
            if kind.is_none_or(|kind| kind == its) {
                sums.entry(at(id)).or_default().instances += 1;
            }
        }
    }
    let mut live: HashMap<u64, (String, u64)> = HashMap::new();
    for (_, half) in halves(&events) {
        let event = match half {
            Half::Release(address) => {
                let (path, size) = live.remove(&address).expect("a live block");
                let sums = sums.entry(path).or_default();
                sums.live_bytes -= size;
                sums.live_blocks -= 1;
                continue;
            }
            Half::Acquire(event) => event,
        };
        let path = at(event.context);
        live.insert(event.address, (path.clone(), event.size));
        let sums = sums.entry(path).or_default();
        sums.allocations += 1;
        sums.requested_bytes += event.size;
        sums.live_bytes += event.size;
        sums.live_blocks += 1;
    }
    sums.retain(|_, sums| *sums != Naive::default());
    sums
}

fn own(analysis: &Analysis) -> BTreeMap<String, Naive> {
    let of = |it: &ContextUse| Naive {
        instances: it.instances,
        allocations: it.own.allocations + it.own.reallocations,
        requested_bytes: it.own.requested_bytes,
        live_bytes: it.own.live_bytes,
        live_blocks: it.own.live_blocks,
    };
    let rows = analysis.contexts.iter().map(|it| (it.path.clone(), of(it)));
    rows.filter(|(_, sums)| *sums != Naive::default()).collect()
}

/// Sums but for peaks, which do not add up.
fn add(sums: &mut ContextSums, other: &ContextSums) {
    sums.allocations += other.allocations;
    sums.reallocations += other.reallocations;
    sums.deallocations += other.deallocations;
    sums.failed += other.failed;
    sums.requested_bytes += other.requested_bytes;
    sums.live_bytes += other.live_bytes;
    sums.live_blocks += other.live_blocks;
}

fn without_peak(sums: &ContextSums) -> ContextSums {
    ContextSums {
        peak_bytes: 0,
        ..*sums
    }
}

/// Sums over the tree equal the total, at each of its branches.
fn assert_adds_up(analysis: &Analysis) -> Result<(), TestCaseError> {
    let contexts = &analysis.contexts;
    let mut sums: Vec<_> = contexts.iter().map(|it| without_peak(&it.own)).collect();
    let mut peaks: Vec<u64> = contexts.iter().map(|it| it.own.peak_bytes).collect();
    for (at, it) in contexts.iter().enumerate().skip(1).rev() {
        let parent = it.parent.expect("all but the first have one") as usize;
        prop_assert!(parent < at);
        let own = sums[at];
        add(&mut sums[parent], &own);
        peaks[parent] += it.total.peak_bytes;
    }
    for (it, (sums, peaks)) in contexts.iter().zip(sums.iter().zip(&peaks)) {
        prop_assert_eq!(without_peak(&it.total), *sums);
        prop_assert!(it.total.peak_bytes <= *peaks);
        prop_assert!(it.total.peak_bytes >= it.own.peak_bytes.max(it.total.live_bytes));
    }
    let (root, totals) = (&contexts[0].total, &analysis.totals);
    prop_assert_eq!(root.allocations, totals.allocations);
    prop_assert_eq!(root.reallocations, totals.reallocations);
    prop_assert_eq!(root.deallocations, totals.deallocations);
    prop_assert_eq!(root.requested_bytes, totals.requested_bytes);
    prop_assert_eq!(root.live_bytes, totals.live_bytes);
    prop_assert_eq!(root.live_blocks, totals.live_blocks);
    prop_assert_eq!(root.peak_bytes, analysis.peak.bytes);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_tree_adds_up(seed in any::<u64>(), threads in 1u32..5, contexts in 1u32..120, chunk_records in 20u32..2_000) {
        let game = Game { seed, threads, contexts, chunk_records, events: 2_000, leak_one_in: 40, ..Game::default() };
        let trace = Trace::from_bytes(game.bytes()).expect("a sound trace");
        for kind in [None, Some("level"), Some("asset")] {
            let kind = kind.filter(|kind| trace.definitions().contexts.values().any(|it| it.1 == *kind));
            let analysis = analysis(&trace, kind);
            assert_adds_up(&analysis)?;
            prop_assert_eq!(own(&analysis), naive(&trace, kind));
        }
    }
}

#[test]
fn leaks_spikes_and_slow_calls_name_the_context() {
    let game = Game {
        contexts: 60,
        leak_one_in: 20,
        frame_events: 200,
        ..Game::default()
    };
    let trace = Trace::from_bytes(game.bytes()).expect("a sound trace");
    let analysis = analysis(&trace, None);
    let mut live = BTreeMap::new();
    for share in analysis.leaks.sites.iter().flat_map(|site| &site.contexts) {
        *live.entry(share.path.clone()).or_insert(0) += share.bytes;
        assert_eq!(analysis.contexts[share.context as usize].path, share.path);
    }
    let own = |it: &&ContextUse| it.own.live_bytes > 0;
    let expected: BTreeMap<_, _> = analysis
        .contexts
        .iter()
        .filter(own)
        .map(|it| (it.path.clone(), it.own.live_bytes))
        .collect();
    assert_eq!(live, expected);
    assert!(live.len() > 10, "{live:?}");
    let slow = analysis.slow_calls.iter().filter_map(|call| call.context);
    assert!(slow.clone().any(|at| at > 0));
    assert!(slow.clone().count() == analysis.slow_calls.len());
}

#[test]
fn a_trace_without_contexts_has_none() {
    let trace = Trace::from_bytes(Game::default().bytes()).expect("a sound trace");
    let analysis = analysis(&trace, Some("asset"));
    assert!(analysis.contexts.is_empty());
    assert!(
        analysis
            .leaks
            .sites
            .iter()
            .all(|site| site.contexts.is_empty())
    );
}
