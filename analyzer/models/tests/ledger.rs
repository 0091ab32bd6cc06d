//! The books: phantoms, bad frees, budgets, frames.

mod support;

use heapreel_models::heap::{Heap, Parameters, SegmentSpec};
use heapreel_models::ledger::{Ledger, Options};
use heapreel_models::{BlockId, FailureCause, Moment, Request, SegmentId};
use proptest::prelude::*;
use support::{Op, Outcome, Run, Shape};

fn ledger(capacity: u64, options: Options) -> Ledger {
    let segments = vec![SegmentSpec::new("Default", capacity)];
    let parameters = Parameters {
        segments,
        ..Parameters::default()
    };
    Ledger::new(Box::new(Heap::new(parameters).unwrap()), options)
}

fn ask(size: u64) -> Request {
    Request {
        size,
        align: 0,
        zeroed: false,
    }
}

#[test]
fn a_failed_block_is_a_phantom_until_it_is_freed() {
    let mut ledger = ledger(4096, Options::default());
    let at = Moment {
        frame: 3,
        site: 9,
        ..Moment::default()
    };
    ledger.allocate(&at, BlockId(0), ask(3000)).unwrap();
    let failure = ledger.allocate(&at, BlockId(1), ask(2000)).unwrap_err();
    assert_eq!(
        (failure.cause, failure.needed, failure.free),
        (FailureCause::Exhausted, 2032, 1056)
    );
    assert_eq!(ledger.phantoms(), (1, 2000));
    assert_eq!(ledger.reallocate(&at, BlockId(1), 100), Ok(None));
    assert_eq!(ledger.phantoms(), (1, 100));
    assert!(!ledger.free(&at, BlockId(1)));
    assert_eq!(
        (ledger.phantoms(), ledger.peak_phantom_bytes()),
        ((0, 0), 2000)
    );
    assert_eq!(
        (ledger.tally().phantom_events, ledger.tally().bad_frees()),
        (2, 0)
    );
    let failed = ledger.failures()[0];
    assert_eq!(
        (failed.frame, failed.site, failed.size, failed.resize),
        (3, 9, 2000, false)
    );
    // One free range of 1056 bytes: the class from 1024 to 2047.
    assert_eq!(
        (
            failed.free.count(),
            failed.free.total(),
            failed.free.ranges[10]
        ),
        (1, 1056, 1)
    );
    assert_eq!(failed.free.classes()[0].to, 2048);
}

#[test]
fn frees_of_no_block_are_counted_and_change_nothing() {
    let mut ledger = ledger(4096, Options::default());
    let at = Moment::default();
    assert!(!ledger.free(&at, BlockId(7)));
    ledger.allocate(&at, BlockId(0), ask(100)).unwrap();
    assert!(ledger.free(&at, BlockId(0)));
    let before = ledger.model().counters();
    assert!(!ledger.free(&at, BlockId(0)));
    assert_eq!(ledger.reallocate(&at, BlockId(0), 50), Ok(None));
    assert_eq!(
        (ledger.tally().unknown_frees, ledger.tally().double_frees),
        (1, 2)
    );
    assert_eq!(ledger.model().counters(), before);
}

#[test]
fn a_block_that_cannot_grow_stays_as_it_was() {
    let mut ledger = ledger(4096, Options::default());
    let at = Moment::default();
    ledger.allocate(&at, BlockId(0), ask(1000)).unwrap();
    let before = ledger.model().block(BlockId(0));
    assert_eq!(
        ledger.reallocate(&at, BlockId(0), 5000).unwrap_err().cause,
        FailureCause::TooLarge
    );
    assert_eq!(ledger.model().block(BlockId(0)), before);
    assert!(ledger.failures()[0].resize);
    assert_eq!(ledger.requested(), 1000);
    assert!(ledger.free(&at, BlockId(0)));
}

#[test]
fn a_budget_is_told_never_enforced() {
    let options = Options {
        budgets: vec![(SegmentId(0), 992)],
        ..Options::default()
    };
    let mut ledger = ledger(65536, options);
    let at = |frame| Moment {
        frame,
        nanos: u64::from(frame) * 10,
        ..Moment::default()
    };
    ledger.allocate(&at(0), BlockId(0), ask(992)).unwrap();
    // Met exactly, it is not exceeded.
    assert_eq!(ledger.excess_count(), 0);
    ledger.allocate(&at(1), BlockId(1), ask(160)).unwrap();
    ledger.reallocate(&at(2), BlockId(1), 320).unwrap();
    ledger.allocate(&at(2), BlockId(2), ask(32)).unwrap();
    ledger.free(&at(4), BlockId(0));
    ledger.allocate(&at(5), BlockId(3), ask(992)).unwrap();
    let excesses = ledger.excesses();
    assert_eq!((ledger.excess_count(), excesses.len()), (2, 2));
    assert_eq!(
        (excesses[0].peak, excesses[0].budget),
        (992 + 320 + 32, 992)
    );
    assert_eq!(
        (excesses[0].from_frame, excesses[0].until_frame),
        (1, Some(4))
    );
    assert_eq!((excesses[1].from_frame, excesses[1].until_nanos), (5, None));
    assert_eq!(ledger.peak_charged(SegmentId(0)), 992 + 320 + 32);
}

#[test]
fn a_frame_has_what_happened_in_it() {
    let mut ledger = ledger(65536, Options::default());
    let at = |frame| Moment {
        frame,
        ..Moment::default()
    };
    ledger.allocate(&at(0), BlockId(0), ask(1000)).unwrap();
    ledger.allocate(&at(0), BlockId(1), ask(500)).unwrap();
    ledger.free(&at(0), BlockId(0));
    ledger.frame_end(&at(0));
    ledger.frame_end(&at(1));
    let [first, second] = ledger.frames() else {
        panic!("two frames")
    };
    assert_eq!(
        (
            first.tally.allocations,
            first.tally.frees,
            first.peak_requested
        ),
        (2, 1, 1500)
    );
    assert_eq!((first.end.requested, first.end.blocks), (500, 1));
    assert_eq!(
        (
            second.frame,
            second.tally.allocations,
            second.peak_requested
        ),
        (1, 0, 500)
    );
}

/// What a run did, counted by hand.
#[derive(Default)]
struct Naive {
    sizes: std::collections::BTreeMap<u32, u64>,
    peak: u64,
    failures: u64,
}

proptest! {
    #![proptest_config(support::config(64))]

    #[test]
    fn the_books_agree_with_a_naive_count(ops in support::ops(Shape {
        ops: 300, max_size: 8 << 10, max_align_log2: 6, segments: 1, threads: 2,
    })) {
        let segments = vec![SegmentSpec::new("Default", 64 << 10)];
        let parameters = Parameters { segments, ..Parameters::default() };
        let mut run = Run::new(Box::new(Heap::new(parameters).unwrap()));
        let mut naive = Naive::default();
        for &op in &ops {
            match (op, run.step(op)) {
                (Op::Allocate { size, .. } | Op::Reallocate { size, .. }, Outcome::Placed(id, _)) => {
                    naive.sizes.insert(id.0, size);
                }
                (_, Outcome::Freed(id)) => drop(naive.sizes.remove(&id.0)),
                (_, Outcome::Failed) => naive.failures += 1,
                _ => {}
            }
            let live: u64 = naive.sizes.values().sum();
            naive.peak = naive.peak.max(live);
            prop_assert_eq!(run.ledger.requested(), live);
            prop_assert_eq!(run.model().counters().requested, live);
            prop_assert_eq!(run.ledger.live(), naive.sizes.len() as u64);
            prop_assert_eq!(run.ledger.charged(SegmentId(0)), run.model().counters().used);
        }
        prop_assert_eq!(run.ledger.johnstone_wilson().peak_requested(), naive.peak);
        prop_assert_eq!(run.ledger.tally().failures, naive.failures);
        let frames = run.ledger.frames();
        let in_frames: u64 = frames.iter().map(|row| row.tally.allocations).sum();
        prop_assert!(in_frames <= run.ledger.tally().allocations);
    }
}
