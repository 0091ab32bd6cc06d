//! TLSF against the crate rlsf: the same requests succeed, at the same addresses.
//!
//! rlsf puts 16 bytes in front of each block, hands out multiples of 32 bytes, counts
//! headers for a range's class, and ends its pool with 32 bytes of its own; the preset
//! `rlsf` has these numbers. Not comparable: alignments above 16 (rlsf leaves the gap in
//! the block) and blocks that grow (rlsf also moves them down into a free range in front).
#![expect(unsafe_code, reason = "rlsf's release and resize are unsafe")]

mod support;

use std::alloc::Layout;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use heapreel_models::heap::{Heap, Parameters, Policy, SegmentSpec};
use heapreel_models::{BlockId, FailureCause, Model, Moment, Request, RunState, SegmentId};
use proptest::prelude::*;
use support::{Op, Outcome, Run, Shape};

const POOL: usize = 64 << 10;
const SENTINEL: u64 = 32;

#[repr(align(64))]
struct Pool([MaybeUninit<u8>; POOL]);

/// The real allocator, with one pool.
struct Real<'pool> {
    tlsf: rlsf::Tlsf<'pool, u32, u32, 28, 32>,
    base: usize,
    /// By block: its address and layout.
    blocks: std::collections::HashMap<u32, (NonNull<u8>, Layout)>,
}

impl<'pool> Real<'pool> {
    fn new(pool: &'pool mut Pool) -> Real<'pool> {
        let base = pool.0.as_ptr() as usize;
        let mut tlsf = rlsf::Tlsf::new();
        let _ = tlsf.insert_free_block(&mut pool.0);
        Real {
            tlsf,
            base,
            blocks: std::collections::HashMap::new(),
        }
    }

    fn offset(&self, at: NonNull<u8>) -> u64 {
        (at.as_ptr() as usize - self.base) as u64
    }

    fn allocate(&mut self, id: u32, size: u64) -> Option<u64> {
        let layout = Layout::from_size_align(size as usize, 8).unwrap();
        let at = self.tlsf.allocate(layout)?;
        self.blocks.insert(id, (at, layout));
        Some(self.offset(at))
    }

    fn shrink(&mut self, id: u32, size: u64) -> Option<u64> {
        let (at, layout) = self.blocks[&id];
        let layout = Layout::from_size_align(size as usize, layout.align()).unwrap();
        // SAFETY: `at` came from this allocator with the same alignment and is live, as
        // `blocks` holds exactly the live ones.
        let at = unsafe { self.tlsf.reallocate(at, layout) }?;
        self.blocks.insert(id, (at, layout));
        Some(self.offset(at))
    }

    fn free(&mut self, id: u32) {
        let (at, layout) = self.blocks.remove(&id).unwrap();
        // SAFETY: as above; the block is taken out of `blocks` and never used again.
        unsafe { self.tlsf.deallocate(at, layout.align()) };
    }
}

fn rlsf_heap() -> (Box<dyn Model>, u64) {
    let mut parameters = Parameters::preset("rlsf").unwrap();
    parameters.segments = vec![SegmentSpec::new("Pool", POOL as u64 - SENTINEL)];
    let base = parameters.base;
    (Box::new(Heap::new(parameters).unwrap()), base)
}

fn compare(ops: &[Op]) -> (usize, usize) {
    let mut pool = Box::new(Pool([MaybeUninit::uninit(); POOL]));
    let mut real = Real::new(&mut pool);
    let (model, base) = rlsf_heap();
    let mut run = Run::new(model);
    let (mut placed, mut failed) = (0, 0);
    for &op in ops {
        let op = as_comparable(&run, op);
        match (op, run.step(op)) {
            (Op::Allocate { size, .. }, Outcome::Placed(id, at)) => {
                assert_eq!(real.allocate(id.0, size), Some(at.address - base), "{op:?}");
                placed += 1;
            }
            (Op::Allocate { size, .. }, Outcome::Failed) => {
                assert_eq!(real.allocate(u32::MAX, size), None, "{op:?}");
                failed += 1;
            }
            (Op::Reallocate { size, .. }, Outcome::Placed(id, at)) => {
                assert_eq!(real.shrink(id.0, size), Some(at.address - base), "{op:?}");
            }
            (_, Outcome::Freed(id)) => real.free(id.0),
            (Op::Reallocate { .. }, Outcome::Failed) => panic!("a block shrinks in place"),
            _ => {}
        }
    }
    (placed, failed)
}

/// The same event with what rlsf does differently taken out.
fn as_comparable(run: &Run, op: Op) -> Op {
    match op {
        Op::Allocate {
            size,
            align,
            segment,
            thread,
            zeroed,
        } => Op::Allocate {
            size,
            align: align.min(16),
            segment,
            thread,
            zeroed,
        },
        Op::Reallocate { pick, size, thread } if !run.live.is_empty() => {
            let (id, _) = run.live[pick % run.live.len()];
            let now = run.model().block(id).unwrap().requested;
            Op::Reallocate {
                pick,
                size: size.min(now),
                thread,
            }
        }
        other => other,
    }
}

const SHAPE: Shape = Shape {
    ops: 800,
    max_size: 8 << 10,
    max_align_log2: 4,
    segments: 1,
    threads: 1,
};

/// H8: the range comes from the first class of which every range is long enough.
fn check_minimal_class(ops: &[Op]) {
    let mut parameters = Parameters::preset("tlsf").unwrap();
    parameters.segments = vec![SegmentSpec::new("Pool", POOL as u64)];
    let mut run = Run::new(Box::new(Heap::new(parameters).unwrap()));
    // 32 classes a power of two above 256 bytes of payload, exact below.
    let width = |payload: u64| {
        if payload < 256 {
            8
        } else {
            1 << (payload.ilog2() - 5)
        }
    };
    let floor = |payload: u64| payload / width(payload) * width(payload);
    for &op in ops {
        let before = run.model().regions().remove(0);
        let outcome = run.step(op);
        let Op::Allocate {
            size, align: 0..=8, ..
        } = op
        else {
            continue;
        };
        let payload = size.max(24).next_multiple_of(8);
        let least = payload.next_multiple_of(width(payload));
        let mut at = before.start;
        let mut free = Vec::new();
        for &(bytes, state) in &before.runs {
            if state == RunState::Free {
                free.push((at, floor(bytes - 8)));
            }
            at += bytes;
        }
        let best = free
            .iter()
            .map(|range| range.1)
            .filter(|&class| class >= least)
            .min();
        match outcome {
            Outcome::Placed(_, placed) => {
                let chosen = free
                    .iter()
                    .find(|range| range.0 == placed.address - 8)
                    .unwrap();
                assert_eq!(Some(chosen.1), best);
            }
            _ => assert_eq!(best, None),
        }
    }
}

proptest! {
    #![proptest_config(support::config(96))]

    #[test]
    fn rlsf_places_every_block_where_the_model_does(ops in support::ops(SHAPE)) {
        compare(&ops);
    }

    #[test]
    fn h8_the_chosen_class_is_minimal(ops in support::ops(SHAPE)) {
        check_minimal_class(&ops);
    }
}

#[test]
fn a_long_run_that_fills_the_pool_agrees_with_rlsf() {
    let mut state = 1_u64;
    let mut random = move |limit: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % limit
    };
    let ops: Vec<_> = (0..100_000)
        .map(|_| {
            let (pick, thread) = (random(1 << 20) as usize, 0);
            let bits = random(12);
            let size = random(1 << bits) + 1;
            match random(20) {
                0..10 => Op::Allocate {
                    size,
                    align: 0,
                    segment: 0,
                    thread,
                    zeroed: false,
                },
                10 => Op::Reallocate { pick, size, thread },
                _ => Op::Free { pick, thread },
            }
        })
        .collect();
    let full: Vec<_> = (0..300)
        .map(|_| Op::Allocate {
            size: 500,
            align: 0,
            segment: 0,
            thread: 0,
            zeroed: false,
        })
        .chain(ops)
        .collect();
    let (placed, failed) = compare(&full);
    assert!(placed > 40_000, "{placed}");
    assert!(failed > 100, "{failed}");
}

#[test]
fn a_range_of_the_requests_own_class_is_missed_and_counted() {
    let mut parameters = Parameters::preset("tlsf").unwrap();
    // One free range of 1008 bytes with its header; payload 1000 is in the class from 992.
    parameters.segments = vec![SegmentSpec::new("Pool", 1008)];
    let mut heap = Heap::new(parameters).unwrap();
    let request = Request {
        size: 1000,
        align: 0,
        zeroed: false,
    };
    let failure = heap
        .allocate(&Moment::default(), BlockId(0), request)
        .unwrap_err();
    assert_eq!(
        (failure.cause, failure.largest_free),
        (FailureCause::NoContiguous, 1008)
    );
    assert_eq!(heap.report(SegmentId(0)).class_misses, 1);
    let request = Request {
        size: 992,
        ..request
    };
    assert!(
        heap.allocate(&Moment::default(), BlockId(0), request)
            .is_ok()
    );
    assert_eq!(Parameters::preset("tlsf").unwrap().fit, Policy::Tlsf);
}
