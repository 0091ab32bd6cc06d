//! The analysis against a slow and simple replay of the same trace.

use heapreel_analyzer::testing::Game;
use heapreel_analyzer::{Analysis, Options, Progress, analyze_trace};
use heapreel_format::testing::TraceBuilder;
use heapreel_format::{Entry, Event, EventKind, Rare, Trace};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn analysis(trace: &Trace) -> Analysis {
    analyze_trace(trace, &Options::default(), |_| ()).expect("a sound trace")
}

/// What a list of all actions, sorted, comes to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Naive {
    allocations: u64,
    reallocations: u64,
    deallocations: u64,
    requested_bytes: u64,
    live_bytes: u64,
    live_blocks: u64,
    peak_bytes: u64,
    foreign_frees: u64,
    temporary: u64,
    anomalies: u64,
    /// Live bytes at the peak by backtrace.
    at_peak: BTreeMap<u32, u64>,
    /// Live bytes at the end by backtrace.
    at_end: BTreeMap<u32, u64>,
    /// Allocations of each frame.
    frames: Vec<u64>,
}

#[derive(Clone, Copy)]
enum Act {
    Release(Event),
    BeginMove(Event),
    Mark,
    Acquire(Event),
    EndMove(Event),
}

impl Act {
    fn rank(&self) -> u8 {
        match self {
            Act::Release(_) | Act::BeginMove(_) => 0,
            Act::Mark => 1,
            Act::Acquire(_) | Act::EndMove(_) => 2,
        }
    }
}

/// All actions in order. Only for traces in which no two records share a key.
fn acts(trace: &Trace) -> Vec<(u64, Act)> {
    let mut acts = Vec::new();
    for chunk in trace.chunks() {
        let decoded = trace.decode(chunk).expect("a sound chunk");
        for event in decoded.events {
            match event.kind {
                EventKind::Dealloc => acts.push((event.start, Act::Release(event))),
                EventKind::Realloc => {
                    acts.push((event.start, Act::BeginMove(event)));
                    acts.push((event.end, Act::EndMove(event)));
                }
                _ => acts.push((event.end, Act::Acquire(event))),
            }
        }
        let marks = decoded
            .rares
            .iter()
            .filter(|(_, _, rare)| matches!(rare, Rare::FrameMark { .. }));
        acts.extend(marks.map(|(key, ..)| (*key, Act::Mark)));
    }
    acts.sort_by_key(|(key, act)| (*key, act.rank()));
    acts
}

fn naive(trace: &Trace) -> Naive {
    let mut told = Naive::default();
    // Address to size, backtrace, thread, key.
    let mut live: BTreeMap<u64, (u64, u32, u32, u64)> = BTreeMap::new();
    let mut moving: BTreeMap<(u32, u64), (u64, u32, u32, u64)> = BTreeMap::new();
    let mut frame_start = None;
    let mut before = 0;
    for (key, act) in acts(trace) {
        match act {
            Act::Acquire(event) => {
                told.allocations += 1;
                told.requested_bytes += event.size;
                let block = (event.size, event.stack.0, event.thread.0, key);
                told.anomalies += u64::from(live.insert(event.address, block).is_some());
            }
            Act::Release(event) => {
                told.deallocations += 1;
                let (_, _, thread, born) = live.remove(&event.address).expect("a live block");
                told.foreign_frees += u64::from(thread != event.thread.0);
                told.temporary += u64::from(frame_start.is_some_and(|start| born >= start));
            }
            Act::BeginMove(event) if event.address == event.old_address => {
                let block = live.get_mut(&event.address).expect("a live block");
                block.0 = block.0.min(event.size);
            }
            Act::BeginMove(event) => {
                let block = live.remove(&event.old_address).expect("a live block");
                moving.insert((event.thread.0, event.start), block);
            }
            Act::EndMove(event) => {
                told.reallocations += 1;
                told.requested_bytes += event.size;
                // Two threads may begin at the same instant.
                let moved = event.address != event.old_address;
                let block = if moved {
                    moving.remove(&(event.thread.0, event.start))
                } else {
                    live.remove(&event.address)
                };
                let (_, _, _, born) = block.expect("a live block");
                live.insert(
                    event.address,
                    (event.size, event.stack.0, event.thread.0, born),
                );
            }
            Act::Mark => {
                if frame_start.is_some() {
                    told.frames.push(told.allocations - before);
                }
                before = told.allocations;
                frame_start = Some(key);
            }
        }
        let bytes = live
            .values()
            .chain(moving.values())
            .map(|block| block.0)
            .sum();
        told.live_bytes = bytes;
        if bytes > told.peak_bytes {
            told.peak_bytes = bytes;
            told.at_peak = by_stack(live.values().chain(moving.values()));
        }
    }
    told.live_blocks = live.len() as u64;
    told.at_end = by_stack(live.values());
    told
}

fn by_stack<'a>(blocks: impl Iterator<Item = &'a (u64, u32, u32, u64)>) -> BTreeMap<u32, u64> {
    let mut sums = BTreeMap::new();
    for (size, stack, ..) in blocks.filter(|block| block.0 > 0) {
        *sums.entry(*stack).or_default() += size;
    }
    sums
}

/// Each backtrace of a made-up game is a call site of its own.
fn by_site(analysis: &Analysis, bytes: fn(&heapreel_analyzer::Site) -> u64) -> BTreeMap<u32, u64> {
    let sites = analysis.sites.iter().filter(|site| bytes(site) > 0);
    sites.map(|site| (site.stacks[0].id, bytes(site))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn it_agrees_with_a_naive_replay(seed: u64, threads in 1u32..6, live_blocks in 1usize..300, frame_events in 3u64..300) {
        let game = Game { seed, threads, live_blocks, frame_events, events: 3_000, leak_one_in: 50, ..Game::default() };
        let trace = Trace::from_bytes(game.bytes()).expect("a sound trace");
        let expected = naive(&trace);
        let told = analysis(&trace);
        let first = told.loops.first();
        let got = Naive {
            allocations: told.totals.allocations,
            reallocations: told.totals.reallocations,
            deallocations: told.totals.deallocations,
            requested_bytes: told.totals.requested_bytes,
            live_bytes: told.totals.live_bytes,
            live_blocks: told.totals.live_blocks,
            peak_bytes: told.peak.bytes,
            foreign_frees: told.foreign_frees.count,
            temporary: first.map_or(0, |l| l.frames.iter().map(|f| f.temporary).sum::<u64>() + l.after_end.temporary),
            anomalies: told.health.order_anomalies,
            at_peak: by_site(&told, |site| site.peak_bytes),
            at_end: by_site(&told, |site| site.live_bytes),
            frames: first.map_or_else(Vec::new, |l| l.frames.iter().map(|frame| frame.allocations).collect()),
        };
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn sums_equal_the_total(seed: u64, threads in 1u32..8, clock_step in 1u64..50) {
        let game = Game { seed, threads, clock_step, events: 4_000, leak_one_in: 30, ..Game::default() };
        let trace = Trace::from_bytes(game.bytes()).expect("a sound trace");
        let told = analysis(&trace);
        let totals = &told.totals;
        let sites = |of: fn(&heapreel_analyzer::Site) -> u64| told.sites.iter().map(of).sum::<u64>();
        prop_assert_eq!(sites(|s| s.allocations), totals.allocations);
        prop_assert_eq!(sites(|s| s.reallocations), totals.reallocations);
        prop_assert_eq!(sites(|s| s.requested_bytes), totals.requested_bytes);
        prop_assert_eq!(sites(|s| s.live_bytes), totals.live_bytes);
        prop_assert_eq!(sites(|s| s.live_blocks), totals.live_blocks);
        prop_assert_eq!(sites(|s| s.peak_bytes), told.peak.bytes);
        prop_assert_eq!(sites(|s| s.peak_blocks), told.peak.blocks);
        prop_assert_eq!(sites(|s| s.frees), totals.deallocations);
        prop_assert_eq!(told.leaks.bytes, totals.live_bytes);
        prop_assert_eq!(told.leaks.sites.iter().map(|s| s.blocks).sum::<u64>(), totals.live_blocks);
        prop_assert_eq!(told.live_curve.iter().map(|p| p.bytes).max(), Some(told.peak.bytes));
        prop_assert_eq!(told.live_curve.last().map(|p| p.bytes), Some(totals.live_bytes));
        prop_assert_eq!(told.threads.iter().map(|t| t.deallocations).sum::<u64>(), totals.deallocations);
        prop_assert_eq!(told.threads.iter().map(|t| t.requested_bytes).sum::<u64>(), totals.requested_bytes);
        prop_assert_eq!(told.segments.iter().map(|s| s.live_bytes).sum::<u64>(), totals.live_bytes);
        prop_assert_eq!(told.latency.iter().map(|l| l.count).sum::<u64>(), totals.events);
        prop_assert_eq!(totals.calls_by_entry.values().sum::<u64>(), totals.events);
        prop_assert_eq!(told.health.order_anomalies, 0);
        for game_loop in &told.loops {
            let stretches = game_loop.frames.iter().chain([&game_loop.start_up, &game_loop.after_end]);
            prop_assert_eq!(stretches.clone().map(|f| f.allocations).sum::<u64>(), totals.allocations);
            prop_assert_eq!(stretches.clone().map(|f| f.deallocations).sum::<u64>(), totals.deallocations);
            prop_assert_eq!(stretches.clone().map(|f| f.peak_bytes).max(), Some(told.peak.bytes));
            prop_assert_eq!(stretches.map(|f| f.requested_bytes).sum::<u64>(), totals.requested_bytes);
        }
    }

    #[test]
    fn small_chunks_change_nothing(seed: u64, records in 1u32..40) {
        let game = Game { seed, events: 1_500, ..Game::default() };
        let whole = Trace::from_bytes(game.bytes()).expect("a sound trace");
        let pieces = Trace::from_bytes(Game { chunk_records: records, ..game }.bytes()).expect("a sound trace");
        let told = |trace: &Trace| {
            let mut analysis = analysis(trace);
            analysis.trace.bytes = 0;
            serde_json::to_string(&analysis).expect("plain values")
        };
        prop_assert_eq!(told(&whole), told(&pieces));
    }
}

#[test]
fn the_same_trace_gives_the_same_bytes() {
    let trace = Trace::from_bytes(Game::default().bytes()).unwrap();
    let json = || serde_json::to_string(&analysis(&trace)).unwrap();
    assert_eq!(json(), json());
}

#[test]
fn progress_reaches_the_end() {
    let trace = Trace::from_bytes(Game::default().bytes()).unwrap();
    let mut last = Progress { done: 0, total: 1 };
    analyze_trace(&trace, &Options::default(), |progress| {
        assert!(progress.done >= last.done && progress.done <= progress.total);
        last = progress;
    })
    .unwrap();
    assert_eq!(last.done, last.total);
}

/// Two blocks at one address, and a block given back twice.
#[test]
fn faults_of_order_are_counted() {
    let bytes = TraceBuilder::new()
        .alloc(1, 2_000, 2_010, 0x1000, 24, 0)
        .alloc(2, 2_000, 2_020, 0x1000, 32, 0)
        .free(1, 2_100, 2_110, 0x1000)
        .free(2, 2_200, 2_210, 0x1000)
        .free(2, 2_300, 2_310, 0x5000)
        .bytes();
    let told = analysis(&Trace::from_bytes(bytes).unwrap());
    assert_eq!(
        (told.health.acquired_while_live, told.health.released_twice),
        (1, 1)
    );
    assert_eq!(told.health.order_anomalies, 2);
    assert_eq!(
        told.health.unknown_releases,
        BTreeMap::from([("free".to_owned(), 2)])
    );
    assert_eq!(
        (
            told.totals.live_blocks,
            told.totals.live_bytes,
            told.peak.bytes
        ),
        (0, 0, 32)
    );
    assert!(!told.health.complete);
}

/// An address that another thread gets while its block is moving away is no fault, and
/// the block's bytes count all the time.
#[test]
fn a_moving_block_stays_live() {
    let bytes = TraceBuilder::new()
        .alloc(1, 2_000, 2_010, 0x1000, 100, 0)
        .realloc(1, 2_100, 2_200, 0x1000, 0x2000, 300, 0)
        .alloc(2, 2_120, 2_150, 0x1000, 50, 0)
        .bytes();
    let told = analysis(&Trace::from_bytes(bytes).unwrap());
    assert_eq!(told.health.order_anomalies, 0);
    let curve: Vec<_> = told
        .live_curve
        .iter()
        .map(|point| (point.nanos, point.bytes))
        .collect();
    assert!(curve.contains(&(1_200, 350)), "{curve:?}");
    assert_eq!((told.totals.live_bytes, told.totals.live_blocks), (350, 2));
}

/// A block that shrinks where it lies is small from the call's start on, one that grows
/// is large from its end on.
#[test]
fn a_block_resized_in_place_is_never_absent() {
    let shrink = TraceBuilder::new()
        .alloc(1, 2_000, 2_010, 0x1000, 100, 0)
        .realloc(1, 2_100, 2_200, 0x1000, 0x1000, 40, 0)
        .alloc(2, 2_120, 2_150, 0x3000, 1_000, 0)
        .bytes();
    let told = analysis(&Trace::from_bytes(shrink).unwrap());
    assert_eq!(
        (told.peak.bytes, told.peak.nanos, told.totals.live_bytes),
        (1_040, 1_150, 1_040)
    );
    let grow = TraceBuilder::new()
        .alloc(1, 2_000, 2_010, 0x1000, 100, 0)
        .realloc(1, 2_100, 2_200, 0x1000, 0x1000, 400, 0)
        .alloc(2, 2_120, 2_150, 0x3000, 1_000, 0)
        .free(2, 2_160, 2_170, 0x3000)
        .bytes();
    let told = analysis(&Trace::from_bytes(grow).unwrap());
    assert_eq!(
        (told.peak.bytes, told.peak.nanos, told.totals.live_bytes),
        (1_100, 1_150, 400)
    );
}

#[test]
fn a_failed_reallocation_changes_nothing() {
    let failed = Event {
        old_address: 0x1000,
        size: 1 << 40,
        ..heapreel_format::testing::blank(1, 2_100, 2_200, EventKind::FailedRealloc)
    };
    let bytes = TraceBuilder::new()
        .stack(1, Entry::Malloc, &[0x40_0000])
        .alloc(1, 2_000, 2_010, 0x1000, 100, 1)
        .event(failed)
        .free(1, 2_300, 2_310, 0x1000)
        .bytes();
    let told = analysis(&Trace::from_bytes(bytes).unwrap());
    assert_eq!(
        (
            told.totals.failed_allocations,
            told.totals.failed_reallocations
        ),
        (1, 1)
    );
    assert_eq!(
        (
            told.peak.bytes,
            told.totals.live_bytes,
            told.totals.requested_bytes
        ),
        (100, 0, 100)
    );
    assert_eq!(
        told.findings
            .iter()
            .map(|finding| finding.kind.as_str())
            .collect::<Vec<_>>(),
        ["failed"]
    );
}
