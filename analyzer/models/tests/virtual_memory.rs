//! The virtual memory model keeps its invariants under random runs. V1 to V6 and V9 are in
//! `Virtual::audit`, which goes through every page, slice and granule.

mod paged_support;

use std::collections::HashMap;

use heapreel_models::paged::{HeapFacts, HeapKind};
use heapreel_models::virtual_memory::Parameters;
use heapreel_models::{
    BlockId, FailureCause, Model, Moment, Request, SegmentId, ThreadRole, Virtual,
};
use paged_support::golden::{self, Event};
use paged_support::random::{Player, Step, config, steps};
use proptest::prelude::*;

const THREADS: u32 = 6;

fn model(preset: &str, settings: &[(&str, &str)]) -> Virtual {
    let mut parameters = Parameters::preset(preset).expect("the preset exists");
    for (name, value) in settings {
        parameters.set(name, value).unwrap();
    }
    Virtual::new(&parameters).unwrap()
}

fn play(model: &mut Virtual, player: &mut Player, steps: &[Step]) {
    for (number, step) in steps.iter().enumerate() {
        player.play(model, *step);
        if number % 64 == 0 {
            model.audit().unwrap();
            player.check(model);
        }
    }
    model.audit().unwrap();
}

fn request(size: u64) -> Request {
    Request {
        size,
        align: 0,
        zeroed: false,
    }
}

fn thread(thread: u32) -> Moment {
    Moment {
        thread,
        ..Moment::default()
    }
}

/// Settings that lead through all of the code.
fn settings() -> impl Strategy<Value = (&'static str, Vec<(&'static str, &'static str)>)> {
    let one = |name: &'static str, values: &'static [&'static str]| {
        prop::sample::select(values).prop_map(move |value| (name, value))
    };
    let sets = (
        one("map_granule", &["4KiB", "16KiB", "64KiB"]),
        one("lru_entries", &["0", "3", "16", "64"]),
        one("lru_match", &["address", "any"]),
        one("free_mode", &["release_queue", "direct"]),
        one("reset_delay", &["0", "25"]),
        one("gc_steps", &["1", "100", "all"]),
        one("collect_scope", &["heap", "visited"]),
        one("abandon", &["heaps", "segments"]),
        one("segment_cache_cap", &["0", "2"]),
        one("lru_counts_as_used", &["true", "false"]),
    );
    let preset = prop::sample::select(Parameters::PRESETS);
    (preset, sets).prop_map(|(preset, (a, b, c, d, e, f, g, h, i, j))| {
        (preset, vec![a, b, c, d, e, f, g, h, i, j])
    })
}

proptest! {
    #![proptest_config(config(24))]

    #[test]
    fn the_books_are_right_at_any_time(
        steps in steps(1500, THREADS, 23),
        (preset, settings) in settings(),
    ) {
        let (mut model, mut player) = (model(preset, &settings), Player::new());
        player.start_threads(&mut model, THREADS);
        play(&mut model, &mut player, &steps);
        player.free_all(&mut model);
        model.audit().unwrap();
    }

    /// V7: when a request fails, nothing is left that could have gone back.
    #[test]
    fn a_request_fails_only_when_all_that_is_free_has_gone_back(
        steps in steps(6000, THREADS, 22),
        (preset, settings) in settings(),
        mib in 8_u32..10,
    ) {
        prop_assume!(preset != "stock203");
        let budget = format!("{mib}MiB");
        let (mut model, mut player) = (model(preset, &settings), Player::new());
        let mut parameters = Parameters::preset(preset).unwrap();
        for (name, value) in settings.iter().chain(&[("phys_budget", &*budget)]) {
            parameters.set(name, value).unwrap();
        }
        model.clone_from(&Virtual::new(&parameters).unwrap());
        player.start_threads(&mut model, THREADS);
        // Half of the frees are left out, so that memory runs short.
        let odd = |number: usize, step: &Step| number % 2 == 1 || !matches!(step, Step::Free { .. });
        for (_, step) in steps.iter().enumerate().filter(|(number, step)| odd(*number, step)) {
            let failures = player.failures.len();
            player.play(&mut model, *step);
            let Some(failure) = player.failures.get(failures) else { continue };
            prop_assert!(failure.free < failure.needed, "{:?}", failure);
            prop_assert_eq!(failure.free, model.free_physical());
            let heaps = model.heaps();
            prop_assert!(heaps.iter().all(|heap| heap.queued == 0));
            let waste = model.waste();
            prop_assert_eq!((waste.cached, waste.queued, waste.retired), (0, 0, 0));
            model.audit().unwrap();
            player.check(&model);
        }
        prop_assert!(!player.failures.is_empty());

        player.free_all(&mut model);
    }

    /// P5 and P6.
    #[test]
    fn a_run_from_a_checkpoint_is_the_run_from_the_start(
        steps in steps(1500, THREADS, 23),
        (preset, settings) in settings(),
    ) {
        let (mut model, mut player) = (model(preset, &settings), Player::new());
        player.start_threads(&mut model, THREADS);
        play(&mut model, &mut player, &steps[..steps.len() / 2]);
        let (mut later, mut later_player) = (model.checkpoint(), player.clone());
        for step in &steps[steps.len() / 2..] {
            player.play(&mut model, *step);
            later_player.play(&mut *later, *step);
        }
        prop_assert_eq!(player.hash, later_player.hash);
        prop_assert_eq!(model.counters(), later.counters());
        prop_assert_eq!(model.regions(), later.regions());
    }

    /// V8: an allocation works off the first blocks of its heap's queue, at most so many.
    #[test]
    fn a_release_queue_drains_from_its_front(steps in steps(1200, THREADS, 16)) {
        let (mut model, mut player) = (model("capcom8", &[("gc_steps", "5")]), Player::new());
        for step in &steps {
            let before = queues(&model);
            player.play(&mut model, *step);
            let after = queues(&model);
            for (heap, queue) in before {
                let Some(now) = after.get(&heap).filter(|_| !matches!(step, Step::Exit { .. })) else {
                    continue;
                };
                if let Step::Free { .. } = step {
                    prop_assert!(now.starts_with(&queue));
                } else if let Step::Allocate { .. } | Step::Reallocate { .. } = step {
                    let gone = (0..=queue.len().min(5)).find(|gone| now.starts_with(&queue[*gone..]));
                    prop_assert!(gone.is_some(), "{:?} became {:?}", queue, now);
                }
            }
        }
    }

    /// V13: what one thread allocates leaves the heaps of others alone.
    #[test]
    fn no_allocation_touches_the_heap_of_another_thread(steps in steps(1000, THREADS, 20)) {
        let (mut model, mut player) = (model("capcom8", &[]), Player::new());
        for step in &steps {
            let before = without_ages(&model);
            player.play(&mut model, *step);
            if let Step::Allocate { .. } = step {
                let after = without_ages(&model);
                let same = before.iter().filter(|heap| after.contains(heap)).count();
                prop_assert!(same + 1 >= before.len());
            }
        }
    }

    /// V10: a budget that is exceeded is a warning.
    #[test]
    fn budgets_never_make_a_request_fail(steps in steps(1500, THREADS, 20)) {
        let segments = "a=0,b=1KiB,c=1MiB,d=64KiB,e=0";
        let settings = [("segments", segments), ("phys_budget", "1GiB")];
        let (mut model, mut player) = (model("capcom8", &settings), Player::new());
        play(&mut model, &mut player, &steps);
        prop_assert!(player.failures.is_empty());
        prop_assert!(!model.exceeded().is_empty());
    }

    /// V12: which segment of the engine a block is for changes no address.
    #[test]
    fn the_engines_segments_change_no_address(steps in steps(1500, THREADS, 20), by in 1_u16..5) {
        let hash = |by: u16| {
            let (mut model, mut player) = (model("capcom8", &[]), Player::new());
            for step in &steps {
                let step = match *step {
                    Step::Allocate { thread, size, align, segment } => {
                        Step::Allocate { thread, size, align, segment: (segment + by) % 5 }
                    }
                    step => step,
                };
                player.play(&mut model, step);
            }
            player.hash
        };
        prop_assert_eq!(hash(0), hash(by));
    }

    /// V11 with random calls, aligned and resized too.
    #[test]
    fn a_queue_that_is_drained_at_once_changes_no_address(steps in steps(2000, 1, 23)) {
        let place = |mut model: Virtual| {
            let mut player = Player::new();
            let mut addresses = Vec::new();
            for step in steps.iter().filter(|step| !matches!(step, Step::Exit { .. })) {
                player.play(&mut model, *step);
                addresses.push(model.regions().iter().map(|region| region.start).max());
            }
            (addresses, player.live())
        };
        let queue = [("free_mode", "release_queue"), ("gc_steps", "all")];
        prop_assert_eq!(place(model("stock203", &[])), place(model("stock203", &queue)));
    }
}

/// All heaps; how old something is in them depends on the frame alone.
fn without_ages(model: &Virtual) -> Vec<HeapFacts> {
    let heaps = model.heaps().into_iter();
    heaps
        .map(|heap| HeapFacts {
            oldest_frames: 0,
            abandoned_frames: 0,
            ..heap
        })
        .collect()
}

fn queues(model: &Virtual) -> HashMap<u32, Vec<(u32, u16)>> {
    let heaps = model.heaps();
    heaps
        .iter()
        .map(|heap| (heap.heap, model.release_queue(heap.heap)))
        .collect()
}

/// V11: with one heap whose queue is drained before anything else happens, the model places
/// blocks as mimalloc 2.0.3 does, and so as the real one.
#[test]
fn one_heap_with_stock_rules_is_mimalloc() {
    let events = golden::events(&golden::file("st.trace"), true);
    let want = golden::addresses(&golden::file("st.mi203-default.out"));
    let queue = [
        ("free_mode", "release_queue"),
        ("gc_steps", "all"),
        ("heaps", "single"),
    ];
    for settings in [&[][..], &queue] {
        let mut model = model("stock203", settings);
        let got = golden::addresses(&golden::replay(&mut model, &events));
        golden::assert_same("st", &got, &want);
        // A slice is a granule here, and nothing is given back.
        assert_eq!(model.committed(), model.counters().held - table(&model));
    }
}

/// With the rules of mimalloc the model is mimalloc, for several threads too.
#[test]
fn six_threads_with_stock_rules_are_mimalloc() {
    let events = golden::events(&golden::file("mt.trace"), true);
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::Exit { .. }))
    );
    let mut model = model("stock203", &[]);
    let got = golden::addresses(&golden::replay(&mut model, &events));
    golden::assert_same(
        "mt",
        &got,
        &golden::addresses(&golden::file("mt.mi203-default.out")),
    );
}

fn table(model: &Virtual) -> u64 {
    model.waste().tables
}

/// A thread that works for the frame leaves a heap; the ends of frames tidy it, and when its
/// last block is back it is gone.
#[test]
fn a_left_heap_is_tidied_until_it_is_empty() {
    let mut model = model("capcom8", &[]);
    for id in 0..300 {
        model
            .allocate(&thread(1), BlockId(id), request(1000))
            .unwrap();
    }
    model
        .allocate(&thread(2), BlockId(300), request(1000))
        .unwrap();
    model.thread_exit(&thread(1));
    let left = |model: &Virtual| {
        let heaps = model.heaps();
        heaps
            .into_iter()
            .find(|heap| heap.kind == HeapKind::Abandoned)
    };
    let before = left(&model).expect("it has live blocks");
    for id in 0..299 {
        model.free(&thread(2), BlockId(id));
    }
    let queued = left(&model).unwrap();
    assert_eq!((queued.queued, queued.used), (299, 1024));
    assert_eq!(model.waste().abandoned, before.committed - 1024 - (8 << 10));
    model.frame_end(&Moment {
        frame: 4,
        ..thread(0)
    });
    let tidied = left(&model).unwrap();
    assert_eq!(
        (tidied.queued, tidied.pages, tidied.abandoned_frames),
        (0, 1, 4)
    );
    model.free(&thread(2), BlockId(299));
    assert!(
        left(&model).is_some(),
        "nobody looks at it before the frame ends"
    );
    model.frame_end(&Moment {
        frame: 5,
        ..thread(0)
    });
    assert!(left(&model).is_none());
    assert_eq!(model.heaps().len(), 1);
    model.audit().unwrap();
}

/// The end of a frame can be told to tidy only so many heaps; the others come later.
#[test]
fn so_many_left_heaps_are_tidied_a_frame() {
    let mut model = model("capcom8", &[("abandoned_gc", "2")]);
    for id in 0..5 {
        model
            .allocate(&thread(id), BlockId(id), request(100))
            .unwrap();
        model.thread_exit(&thread(id));
        model.free(&thread(9), BlockId(id));
    }
    let mut left = Vec::new();
    for frame in 0..3 {
        model.frame_end(&Moment { frame, ..thread(9) });
        left.push(model.report().abandoned_heaps);
    }
    assert_eq!(left, [3, 1, 0]);
}

/// Threads of low priority share a heap that outlives them, and take its lock.
#[test]
fn low_threads_share_a_heap_that_never_exits() {
    let mut model = model("capcom8", &[]);
    for number in [3, 4, 5] {
        model.thread_start(&thread(number), ThreadRole::Low);
        model
            .allocate(&thread(number), BlockId(number), request(100))
            .unwrap();
        model.thread_exit(&thread(number));
    }
    model
        .allocate(&thread(0), BlockId(0), request(100))
        .unwrap();
    let heaps = model.heaps();
    let kinds: Vec<_> = heaps.iter().map(|heap| heap.kind).collect();
    assert_eq!(kinds, [HeapKind::Shared, HeapKind::Own]);
    assert_eq!(heaps[0].used, 3 * 112);
    assert_eq!(model.counters().locks, 3);
}

/// A segment over its budget is told of with its time and peak.
#[test]
fn a_budget_that_is_exceeded_has_a_beginning_a_peak_and_an_end() {
    let mut model = model("capcom8", &[("segments", "Default=1KiB,Temp=1GiB")]);
    let at = |nanos| Moment {
        nanos,
        frame: nanos as u32 / 10,
        ..Moment::default()
    };
    for (nanos, id) in [(10, 0), (20, 1), (30, 2)] {
        model
            .allocate(&at(nanos), BlockId(id), request(512))
            .unwrap();
    }
    let temp = Moment {
        segment: SegmentId(1),
        ..at(35)
    };
    model.allocate(&temp, BlockId(3), request(512)).unwrap();
    model.free(&at(40), BlockId(0));
    let [exceeded] = model.exceeded() else {
        panic!("once")
    };
    assert_eq!(
        (exceeded.segment, exceeded.frame, exceeded.peak),
        (0, 3, 1536)
    );
    assert_eq!((exceeded.from_nanos, exceeded.until_nanos), (30, Some(40)));
}

/// More than there is at all can never be placed; less than that can once there is room.
#[test]
fn a_request_beyond_the_budget_is_too_large() {
    let mut model = model("capcom8", &[("phys_budget", "32MiB")]);
    let at = Moment::default();
    let failed = model
        .allocate(&at, BlockId(0), request(33 << 20))
        .unwrap_err();
    assert_eq!(failed.cause, FailureCause::TooLarge);
    model.allocate(&at, BlockId(0), request(20 << 20)).unwrap();
    let failed = model
        .allocate(&at, BlockId(1), request(20 << 20))
        .unwrap_err();
    assert_eq!(failed.cause, FailureCause::Exhausted);
    // 20 MiB and a header of 48 KiB are 321 granules of 64 KiB.
    assert_eq!((failed.needed, failed.free), (321 << 16, (512 - 321) << 16));
    model.free(&at, BlockId(0));
    model.allocate(&at, BlockId(1), request(20 << 20)).unwrap();
    model.audit().unwrap();
}

/// What others gave back and have not worked off serves a request before it fails: blocks in
/// a release queue, and the heap of a thread that exited.
#[test]
fn a_request_that_would_fail_gets_what_waits_elsewhere() {
    for exits in [false, true] {
        let mut model = model("capcom8", &[("phys_budget", "16MiB")]);
        let fits = (0..).find(|id| {
            model
                .allocate(&thread(1), BlockId(*id), request(4000))
                .is_err()
        });
        let fits = fits.expect("it is full some time");
        if exits {
            model.thread_exit(&thread(1));
        }
        for id in 0..fits {
            model.free(&thread(2), BlockId(id));
        }
        assert_eq!(model.free_physical(), 0);
        model
            .allocate(&thread(2), BlockId(0), request(12 << 20))
            .unwrap();
        model.audit().unwrap();
    }
}
