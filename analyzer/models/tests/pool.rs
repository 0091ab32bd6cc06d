//! The object pool: invariants L1 to L6, and the rows of seed 003.

mod support;

use heapreel_models::pool::{OnFull, Parameters, Pool};
use heapreel_models::{BlockId, FailureCause, Model, Moment, Request, metrics};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap, VecDeque};
use support::{Op, Shape};

fn ask(size: u64) -> Request {
    Request {
        size,
        align: 0,
        zeroed: false,
    }
}

fn pool(block: u64, capacity: u32, on_full: OnFull) -> Pool {
    Pool::new(Parameters {
        block,
        capacity,
        on_full,
        ..Parameters::default()
    })
    .unwrap()
}

const SHAPE: Shape = Shape {
    ops: 300,
    max_size: 256,
    max_align_log2: 4,
    segments: 1,
    threads: 2,
};

/// The pool as a queue of live objects, oldest first.
#[derive(Default)]
struct Naive {
    live: VecDeque<BlockId>,
    stale: Vec<BlockId>,
    recycled: u64,
    stale_uses: u64,
    peak: usize,
}

fn check(pool: &Pool, naive: &Naive, generations: &mut HashMap<u64, u32>) {
    let counters = pool.counters();
    // L1 and L2: each slot is live or free, once.
    let slots = &pool.regions()[0].runs;
    assert_eq!(slots.len(), 16);
    assert_eq!(counters.blocks, naive.live.len() as u64);
    assert_eq!(
        counters.blocks + pool.free_sizes(Default::default()).count(),
        16
    );
    // L3: a slot's generation grows with each new object in it.
    for &id in &naive.live {
        let (block, handle) = (pool.block(id).unwrap(), pool.handle(id).unwrap());
        assert!(pool.is_valid(handle));
        let last = generations.insert(block.address, handle.generation);
        assert!(last.is_none_or(|last| last <= handle.generation));
    }
    // L4: a handle is valid as long as its object has not made room.
    for &id in &naive.stale {
        assert!(!pool.is_valid(pool.handle(id).unwrap()));
        assert_eq!(pool.block(id), None);
    }
    let report = pool.report();
    assert_eq!(
        (report.recycled, report.stale_uses),
        (naive.recycled, naive.stale_uses)
    );
    assert_eq!(report.peak as usize, naive.peak);
    assert_eq!(pool.stale(), naive.stale.len() as u64);
}

proptest! {
    #![proptest_config(support::config(96))]

    #[test]
    fn p0_to_p8(ops in support::ops(SHAPE)) {
        for on_full in [OnFull::RecycleOldest, OnFull::Fail] {
            support::drive(Box::new(pool(64, 16, on_full)), &ops, 3);
            support::check_repeatable(|| Box::new(pool(64, 16, on_full)), &ops);
        }
    }

    /// P9: more capacity never means more failures. That holds where all blocks are
    /// alike: of a heap or an arena, a long block that now finds room can be what keeps
    /// out two short ones.
    #[test]
    fn p9_more_capacity_fails_no_more(ops in support::ops(SHAPE), more in 1_u32..16) {
        let failures = |capacity| {
            let mut run = support::Run::new(Box::new(pool(64, capacity, OnFull::Fail)));
            for (id, &op) in ops.iter().enumerate() {
                replay_by_number(&mut run, id as u32, op);
            }
            run.ledger.tally().exhausted
        };
        prop_assert!(failures(8 + more) <= failures(8));
    }

    #[test]
    fn l1_to_l6_against_a_queue(ops in support::ops(SHAPE)) {
        let mut pool = pool(64, 16, OnFull::RecycleOldest);
        let (mut naive, mut next, mut generations) = (Naive::default(), 0, HashMap::new());
        let at = Moment::default();
        for op in ops {
            let known = naive.live.len() + naive.stale.len();
            let pick = |naive: &Naive, pick: usize| {
                let all: Vec<_> = naive.live.iter().chain(&naive.stale).copied().collect();
                all[pick % all.len()]
            };
            match op {
                Op::Allocate { size, .. } => {
                    let id = BlockId(next);
                    next += 1;
                    let placed = pool.allocate(&at, id, ask(size));
                    // L5: what fits a block is served, whatever came before.
                    prop_assert_eq!(placed.is_ok(), size <= 64);
                    if placed.is_err() {
                        continue;
                    }
                    if naive.live.len() == 16 {
                        // L6: the oldest makes room, and the new one lies where it lay.
                        let victim = naive.live.pop_front().unwrap();
                        naive.stale.push(victim);
                        naive.recycled += 1;
                        let slot = pool.handle(victim).unwrap().index;
                        prop_assert_eq!(pool.handle(id).unwrap().index, slot);
                    }
                    naive.live.push_back(id);
                    naive.peak = naive.peak.max(naive.live.len());
                }
                Op::Free { pick: which, .. } if known > 0 => {
                    let id = pick(&naive, which);
                    pool.free(&at, id);
                    let stale = naive.stale.iter().position(|&stale| stale == id);
                    match stale {
                        Some(place) => {
                            naive.stale.remove(place);
                            naive.stale_uses += 1;
                        }
                        None => naive.live.retain(|&live| live != id),
                    }
                }
                Op::Reallocate { pick: which, size, .. } if known > 0 => {
                    let id = pick(&naive, which);
                    let before = pool.counters();
                    let resized = pool.reallocate(&at, id, size);
                    if naive.stale.contains(&id) {
                        naive.stale_uses += 1;
                        prop_assert_eq!(pool.counters(), before);
                    } else {
                        prop_assert_eq!(resized.is_ok(), size <= 64);
                    }
                }
                _ => {}
            }
            check(&pool, &naive, &mut generations);
        }
    }
}

/// Asks for and frees blocks whether or not they were placed, as a trace does.
fn replay_by_number(run: &mut support::Run, number: u32, op: Op) {
    let at = Moment::default();
    match op {
        Op::Allocate { size, .. } => {
            let _ = run.ledger.allocate(&at, BlockId(number), ask(size));
        }
        Op::Free { pick, .. } if number > 0 => {
            run.ledger.free(&at, BlockId(pick as u32 % number));
        }
        _ => {}
    }
}

#[test]
fn row_003_f_a_peak_of_2870_of_4096() {
    let mut pool = pool(48, 4096, OnFull::RecycleOldest);
    for id in 0..2870 {
        pool.allocate(&Moment::default(), BlockId(id), ask(48))
            .unwrap();
    }
    (0..2870).for_each(|id| pool.free(&Moment::default(), BlockId(id)));
    let report = pool.report();
    assert_eq!(
        (report.peak, report.capacity, report.next_power_of_two),
        (2870, 4096, 4096)
    );
    assert_eq!(format!("{:.1} %", report.occupancy * 100.0), "70.1 %");
    assert_eq!(format!("{:.2}", report.headroom), "1.43");
    assert_eq!((report.bytes, report.span), (192 << 10, 2870 * 48));
    assert_eq!((report.recycled, report.stale_uses), (0, 0));
}

#[test]
fn row_003_g_an_object_of_48_bytes_is_three_quarters_of_a_line() {
    let [hot, whole] = [48, 96].map(|block| pool(block, 4096, OnFull::RecycleOldest).report());
    assert_eq!((whole.lines_per_object, hot.lines_per_object), (1.5, 0.75));
    // Four in three lines, not two in one as seed 003 has it.
    assert_eq!(hot.objects_per_line * 3.0, 4.0);
    assert_eq!((whole.bytes, hot.bytes), (384 << 10, 192 << 10));
}

#[test]
fn row_003_l_a_link_of_eight_bytes_and_a_handle_of_eight() {
    assert_eq!(pool(1, 4, OnFull::Fail).report().stride, 16);
    let parameters = Parameters {
        block: 1,
        align: 1,
        ..Parameters::default()
    };
    assert_eq!(Pool::new(parameters).unwrap().report().stride, 8);
    let mut pool = pool(16, 1, OnFull::RecycleOldest);
    pool.allocate(&Moment::default(), BlockId(0), ask(1))
        .unwrap();
    let first = pool.handle(BlockId(0)).unwrap();
    pool.allocate(&Moment::default(), BlockId(1), ask(1))
        .unwrap();
    let second = pool.handle(BlockId(1)).unwrap();
    assert_eq!(size_of_val(&first), 8);
    assert_eq!((first.index, first.generation), (0, 0));
    assert_eq!((second.index, second.generation), (0, 1));
    assert!(!pool.is_valid(first) && pool.is_valid(second));
}

#[test]
fn slots_are_taken_last_in_first_out() {
    let mut pool = pool(64, 8, OnFull::Fail);
    let mut addresses = BTreeMap::new();
    for id in 0..8 {
        let placed = pool
            .allocate(&Moment::default(), BlockId(id), ask(64))
            .unwrap();
        addresses.insert(id, placed.address);
    }
    let full = pool
        .allocate(&Moment::default(), BlockId(8), ask(64))
        .unwrap_err();
    assert_eq!((full.cause, full.free), (FailureCause::Exhausted, 0));
    let too_large = pool
        .allocate(&Moment::default(), BlockId(8), ask(65))
        .unwrap_err();
    assert_eq!(too_large.cause, FailureCause::TooLarge);
    pool.free(
        &Moment {
            thread: 5,
            ..Moment::default()
        },
        BlockId(2),
    );
    pool.free(&Moment::default(), BlockId(6));
    assert_eq!(
        (pool.counters().locks, pool.counters().foreign_frees),
        (1, 1)
    );
    assert_eq!(metrics::free_runs(&pool.regions()), [64, 64]);
    for (id, expected) in [(8, 6), (9, 2)] {
        let placed = pool
            .allocate(&Moment::default(), BlockId(id), ask(64))
            .unwrap();
        assert_eq!(placed.address, addresses[&expected]);
    }
}

#[test]
fn every_listed_preset_and_name_is_known() {
    for preset in Parameters::PRESETS {
        Parameters::preset(preset).unwrap();
    }
    for name in Parameters::NAMES {
        let error = Parameters::default()
            .set(name, "?")
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(&format!("{name} cannot be")), "{error}");
    }
}
