//! Contexts of a Rust game that carries the recorder: which blocks are in which.

use heapreel::{Config, Context, Recorder};
use heapreel_format::{ContextId, Event, EventKind, Trace};
use std::alloc::System;
use std::collections::BTreeMap;

#[global_allocator]
static ALLOC: Recorder<System> = Recorder::system();

/// A block that says by its size which one it is.
fn block(size: usize) -> Vec<u8> {
    Vec::with_capacity(size)
}

/// What is recorded of a game that does all there is to do with contexts.
fn play(held: &mut Vec<Vec<u8>>) -> Context {
    let (level, number) = (String::from("forest"), 7);
    let _level = heapreel::context!("level", level);
    held.push(block(10_001));
    let rock = {
        let _asset = heapreel::context!("asset", "rock_{number:02}");
        held.push(block(10_002));
        Context::current()
    };
    held.push(block(10_003));
    {
        let _same = heapreel::context!("asset", "rock_{}", format!("{:02}", number));
        held.push(block(10_004));
        let _inner = heapreel::context!(String::from("sys") + "tem", "physics");
        held.push(block(10_005));
        let _outside = Context::NONE.enter();
        held.push(block(10_006));
    }
    held.push(block(10_007));
    let _long = heapreel::context!("user", "x{}", "ä".repeat(400));
    held.push(block(10_008));
    rock
}

#[test]
fn blocks_are_in_the_contexts_they_were_made_in() {
    let mut held = Vec::with_capacity(64);
    let early = {
        // Not recording: nothing is evaluated, and there is nothing to carry.
        let _none = heapreel::context!("level", "{}", never::<i32>());
        let _none = heapreel::context!(never::<&str>(), never::<String>());
        Context::current()
    };
    assert_eq!(early, Context::NONE);
    let path = std::env::temp_dir().join(format!("contexts-test-{}.hreel", std::process::id()));
    heapreel::start(Config::new(&path)).expect("a recording");
    let rock = play(&mut held);
    // Its scope has ended, and this is another thread.
    let job = std::thread::spawn(move || {
        let mut held = Vec::with_capacity(4);
        held.push(block(10_009));
        {
            let _here = rock.enter();
            assert_eq!(Context::current(), rock);
            held.push(block(10_010));
        }
        held.push(block(10_011));
        held
    });
    let others = job.join().expect("a thread");
    held.push(block(10_012));
    let _early = early.enter();
    held.push(block(10_013));
    heapreel::stop();
    let trace = Trace::open(&path).expect("a trace");
    _ = std::fs::remove_file(&path);
    let long = format!("level:forest / user:x{}", "ä".repeat(255));
    let rock = "level:forest / asset:rock_07";
    let physics = "level:forest / asset:rock_07 / system:physics";
    let expected = [
        (10_001, "level:forest"),
        (10_002, rock),
        (10_003, "level:forest"),
        (10_004, rock),
        (10_005, physics),
        (10_006, ""),
        (10_007, "level:forest"),
        (10_008, &*long),
        (10_009, ""),
        (10_010, rock),
        (10_011, ""),
        (10_012, ""),
        (10_013, ""),
    ];
    let expected: BTreeMap<u64, String> = expected
        .iter()
        .map(|(size, path)| (*size, (*path).to_owned()))
        .collect();
    assert_eq!(contexts_by_size(&trace), expected);
    let entered = entered(&trace);
    assert_eq!(entered.get(rock), Some(&2));
    assert_eq!(entered.values().sum::<u32>(), 5);
    drop((held, others));
}

fn never<T>() -> T {
    panic!("evaluated while nothing is recorded");
}

fn contexts_by_size(trace: &Trace) -> BTreeMap<u64, String> {
    let chunks = trace.chunks().iter();
    let events = chunks.flat_map(|chunk| trace.decode(chunk).expect("a sound chunk").events);
    let ours =
        |event: &Event| event.kind == EventKind::Alloc && (10_001..10_100).contains(&event.size);
    events
        .filter(ours)
        .map(|event| (event.size, path(trace, event.context)))
        .collect()
}

fn entered(trace: &Trace) -> BTreeMap<String, u32> {
    let mut entered = BTreeMap::new();
    for chunk in trace.chunks() {
        for (_, _, id) in trace.decode(chunk).expect("a sound chunk").entered {
            *entered.entry(path(trace, id)).or_default() += 1;
        }
    }
    entered
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
