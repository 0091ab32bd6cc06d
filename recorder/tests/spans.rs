//! Spans of `tracing` are contexts: which blocks are in which.

use heapreel::tracing::SpanContexts;
use heapreel::{Config, Recorder};
use heapreel_format::{ContextId, Event, EventKind, Trace};
use std::alloc::System;
use std::collections::BTreeMap;
use tracing::{info_span, trace_span};
use tracing_subscriber::layer::SubscriberExt;

#[global_allocator]
static ALLOC: Recorder<System> = Recorder::system();

/// A block that says by its size which one it is.
fn block(size: usize) -> Vec<u8> {
    Vec::with_capacity(size)
}

fn play(held: &mut Vec<Vec<u8>>) {
    let physics = info_span!("system", name = "physics");
    for size in [10_001, 10_002] {
        let _run = physics.enter();
        held.push(block(size));
        let _asset = info_span!("asset", path = "rock.mesh", lod = 2).entered();
        held.push(block(size + 10));
    }
    held.push(block(10_003));
    let autosave = info_span!("autosave").entered();
    held.push(block(10_004));
    let level = heapreel::context!("level", "forest");
    let late = info_span!("job", name = tracing::field::Empty);
    late.record("name", "of late");
    late.in_scope(|| held.push(block(10_005)));
    drop(level);
    drop(autosave);
}

/// Left in the order in which they were entered, not from the innermost out.
fn cross(held: &mut Vec<Vec<u8>>) {
    let first = info_span!("first").entered();
    let second = info_span!("second").entered();
    let third = info_span!("third").entered();
    drop(second);
    held.push(block(10_021));
    drop(third);
    held.push(block(10_022));
    drop(first);
    held.push(block(10_023));
}

/// One span on two threads, and more spans than are contexts.
fn carry_and_dig(held: &mut Vec<Vec<u8>>) {
    let job = info_span!("job", name = "shared");
    let _here = job.enter();
    let there = job.clone();
    let other = std::thread::spawn(move || there.in_scope(|| block(10_031)));
    held.push(other.join().expect("a thread"));
    held.push(block(10_032));
    let deep: Vec<_> = (0..heapreel::tracing::MOST_SPANS + 10)
        .map(|_| trace_span!("deep").entered())
        .collect();
    // Innermost first, as scopes end.
    deep.into_iter().rev().for_each(drop);
    held.push(block(10_033));
}

#[test]
fn blocks_are_in_the_spans_they_were_made_in() {
    let subscriber = tracing_subscriber::registry().with(SpanContexts);
    tracing::subscriber::set_global_default(subscriber).expect("the only one");
    let mut held = Vec::with_capacity(64);
    let before = info_span!("system", name = "made before").entered();
    let path = std::env::temp_dir().join(format!("spans-test-{}.hreel", std::process::id()));
    heapreel::start(Config::new(&path)).expect("a recording");
    // Entered while nothing was recorded: it is no context.
    held.push(block(10_000));
    drop(before);
    play(&mut held);
    cross(&mut held);
    carry_and_dig(&mut held);
    held.push(block(10_040));
    heapreel::stop();
    let trace = Trace::open(&path).expect("a trace");
    _ = std::fs::remove_file(&path);
    let physics = "system:physics";
    let rock = "system:physics / asset:path=rock.mesh lod=2";
    let expected = [
        (10_000, ""),
        (10_001, physics),
        (10_002, physics),
        (10_011, rock),
        (10_012, rock),
        (10_003, ""),
        (10_004, "span:autosave"),
        (10_005, "span:autosave / level:forest / job:of late"),
        (10_021, "span:first / span:second / span:third"),
        (10_022, "span:first"),
        (10_023, ""),
        (10_031, "job:shared"),
        (10_032, "job:shared"),
        (10_033, "job:shared"),
        (10_040, ""),
    ];
    let expected: BTreeMap<u64, String> = expected
        .iter()
        .map(|(size, path)| (*size, (*path).to_owned()))
        .collect();
    assert_eq!(contexts_by_size(&trace), expected);
    drop(held);
}

fn contexts_by_size(trace: &Trace) -> BTreeMap<u64, String> {
    let chunks = trace.chunks().iter();
    let events = chunks.flat_map(|chunk| trace.decode(chunk).expect("a sound chunk").events);
    let ours =
        |event: &Event| event.kind == EventKind::Alloc && (10_000..10_100).contains(&event.size);
    events
        .filter(ours)
        .map(|event| (event.size, path(trace, event.context)))
        .collect()
}

fn path(trace: &Trace, id: ContextId) -> String {
    match trace.definitions().contexts.get(&id) {
        None => String::new(),
        Some((parent, kind, name)) => match path(trace, *parent) {
            around if around.is_empty() => format!("{kind}:{name}"),
            around => format!("{around} / {kind}:{name}"),
        },
    }
}
