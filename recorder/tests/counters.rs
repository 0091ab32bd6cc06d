//! Counting without a trace. One test for all figures: they are those of all threads.

use heapreel::{Recorder, Segment, Stats, frame_mark, frame_stats, thread_stats};
use std::alloc::System;
use std::hint::black_box;
use std::thread;
use std::time::Duration;

#[global_allocator]
static ALLOC: Recorder<System> = Recorder::system();

static LEVEL: Segment = Segment::new("Level").budget(1 << 20);
static TEMP: Segment = Segment::new("Temp");

fn block(bytes: usize) -> Vec<u8> {
    black_box(Vec::with_capacity(bytes))
}

/// Allocations, deallocations, reallocations, bytes, live bytes of a segment.
fn figures(stats: &Stats, segment: &str) -> (u64, u64, u64, u64, i64) {
    let counts = stats.segment(segment);
    (
        counts.allocations,
        counts.deallocations,
        counts.reallocations,
        counts.bytes,
        counts.live_bytes,
    )
}

/// What a process says that is started with this variable.
const ASKED: &str = "HEAPREEL_TEST_COUNTERS";

#[test]
fn the_environment_can_ask_to_count() {
    let allocates = || {
        drop(block(100));
        thread_stats().total.allocations
    };
    if std::env::var_os(ASKED).is_some() {
        // Within the process started below: it counted before it came here.
        assert!(allocates() > 0);
        return;
    }
    for (value, should_count) in [("1", true), ("0", false)] {
        let status = std::process::Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "the_environment_can_ask_to_count"])
            .envs([("HEAPREEL_COUNT", value), (ASKED, "")])
            .output()
            .expect("it runs");
        assert_eq!(status.status.success(), should_count, "{status:?}");
    }
}

#[test]
fn counters_without_a_trace() {
    // `heapreel record` may stand around it: the figures are the same.
    let is_recorded = heapreel::is_recording();
    let early = block(1000);
    assert_eq!(frame_stats().frames, 0);
    assert_eq!(thread_stats().total.allocations, 0, "nothing counts yet");
    assert!(heapreel::count());
    assert!(heapreel::count(), "once more changes nothing");
    assert_eq!(heapreel::is_recording(), is_recorded);
    blocks_from_before(early);
    of_one_thread();
    of_one_frame();
    of_many_threads();
    of_segments();
    reading_allocates_nothing();
    a_thread_that_takes_over();
    if !is_recorded {
        names_from_before_a_recording();
    }
}

/// They are given back, but were never counted as live.
fn blocks_from_before(early: Vec<u8>) {
    let before = thread_stats().total;
    drop(early);
    let after = thread_stats().total;
    assert_eq!(after.deallocations - before.deallocations, 1);
    assert_eq!(after.live_bytes, before.live_bytes);
}

fn of_one_thread() {
    let before = thread_stats().total;
    let mut grows = block(100);
    let zeroed = black_box(vec![0u8; 50]);
    grows.reserve_exact(400);
    drop(zeroed);
    let mut refused: Vec<u8> = Vec::new();
    assert!(refused.try_reserve_exact(isize::MAX as usize).is_err());
    let after = thread_stats().total;
    assert_eq!(after.allocations - before.allocations, 2);
    assert_eq!(after.reallocations - before.reallocations, 1);
    assert_eq!(after.deallocations - before.deallocations, 1);
    assert_eq!(after.failed - before.failed, 1);
    assert_eq!(after.bytes - before.bytes, 100 + 50 + 400);
    assert_eq!(after.live_bytes - before.live_bytes, 400);
    assert!(after.allocator_time > before.allocator_time);
    assert!(after.slowest_call > Duration::ZERO);
}

fn of_one_frame() {
    frame_mark();
    let kept = {
        let _temp = TEMP.enter();
        drop(block(10));
        block(30)
    };
    frame_mark();
    let first = frame_stats();
    assert_eq!(figures(&first, "Temp"), (2, 1, 0, 40, 30));
    let temp = first.segment("Temp");
    assert!(temp.slowest_call > Duration::ZERO);
    assert!(temp.slowest_call <= temp.allocator_time);
    assert!(temp.allocator_time <= first.frame_time);
    frame_mark();
    let empty = frame_stats();
    assert_eq!(empty.frames, first.frames + 1);
    assert_eq!(figures(&empty, "Temp"), (0, 0, 0, 0, 30), "live bytes stay");
    assert_eq!(empty.segment("Temp").slowest_call, Duration::ZERO);
    drop(kept);
    frame_mark();
    assert_eq!(figures(&frame_stats(), "Temp"), (0, 1, 0, 0, 0));
}

/// Threads that allocate, and others that give back; frames end meanwhile, and none of what
/// happened is in two of them or in none.
fn of_many_threads() {
    const THREADS: usize = 8;
    const BLOCKS: usize = 5_000;
    frame_mark();
    let mut sum = (0, 0, 0, 0);
    let mut add = || {
        frame_mark();
        let (allocations, deallocations, _, bytes, live) = figures(&frame_stats(), "Level");
        sum = (
            sum.0 + allocations,
            sum.1 + deallocations,
            sum.2 + bytes,
            live,
        );
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    let mut blocks = Vec::with_capacity(BLOCKS);
                    let _level = LEVEL.enter();
                    blocks.extend((0..BLOCKS).map(|_| block(16)));
                    blocks
                })
            })
            .collect();
        for worker in workers {
            add();
            let blocks = worker.join().expect("a worker");
            scope.spawn(move || blocks.into_iter().skip(1).for_each(drop));
        }
    });
    add();
    let (threads, blocks) = (THREADS as u64, BLOCKS as u64);
    // Of each thread's blocks the first is given back with the others: `skip` drops it.
    assert_eq!(
        sum,
        (threads * blocks, threads * blocks, threads * blocks * 16, 0)
    );
}

fn of_segments() {
    frame_mark();
    let mut of_level = {
        let _level = LEVEL.enter();
        block(64)
    };
    {
        // A block stays its segment's, wherever it is changed or given back.
        let _temp = TEMP.enter();
        of_level.reserve_exact(200);
    }
    frame_mark();
    let stats = frame_stats();
    assert_eq!(figures(&stats, "Level"), (1, 0, 1, 264, 200));
    assert_eq!(figures(&stats, "Temp"), (0, 0, 0, 0, 0));
    let level = stats.segments().find(|segment| segment.name() == "Level");
    assert_eq!(level.map(|segment| segment.budget), Some(1 << 20));
    drop(of_level);
    frame_mark();
    assert_eq!(figures(&frame_stats(), "Level"), (0, 1, 0, 0, 0));
}

fn reading_allocates_nothing() {
    heapreel::assert_allocs!(0, || {
        frame_mark();
        black_box(frame_stats().segment("Level"));
        black_box(thread_stats().segments().count());
    });
}

/// A new thread begins at nothing, also where it takes the counters of one that is gone.
fn a_thread_that_takes_over() {
    for _ in 0..3 {
        let (before, after) = thread::spawn(|| {
            let before = thread_stats().total.bytes;
            drop(block(100_000));
            (before, thread_stats().total.bytes)
        })
        .join()
        .expect("a thread");
        assert!(before < 100_000, "{before}");
        assert_eq!(after - before, 100_000);
    }
}

/// A recording that begins later knows the segments that were named before.
fn names_from_before_a_recording() {
    let trace =
        std::env::temp_dir().join(format!("heapreel-counters-{}.hreel", std::process::id()));
    heapreel::start(heapreel::Config::new(&trace)).expect("a recording");
    assert!(heapreel::is_recording());
    let before = thread_stats();
    {
        let _level = LEVEL.enter();
        drop(block(77));
    }
    let after = thread_stats();
    heapreel::stop();
    assert!(!heapreel::is_recording());
    // Counted beside the recording, and after it.
    let level = |stats: &Stats| stats.segment("Level").allocations;
    assert_eq!(level(&after) - level(&before), 1);
    let before = thread_stats().total.allocations;
    drop(block(5));
    assert_eq!(thread_stats().total.allocations - before, 1);
    let bytes = std::fs::read(&trace).expect("the trace");
    _ = std::fs::remove_file(&trace);
    let trace = heapreel_format::Trace::from_bytes(bytes).expect("a trace");
    let named = |(name, budget): &&(String, u64)| name == "Level" && *budget == 1 << 20;
    assert_eq!(
        trace.definitions().segments.values().filter(named).count(),
        1
    );
}
