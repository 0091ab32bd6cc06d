//! Random runs for models, and what must hold of any model at any time.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod holdings;

use heapreel_models::ledger::{Ledger, Options};
use heapreel_models::{
    BlockId, Identity, Model, Moment, Placed, Region, Request, RunState, SegmentId,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

/// The same cases on every run.
pub fn config(cases: u32) -> Config {
    Config {
        cases,
        rng_seed: RngSeed::Fixed(0x4EAB),
        failure_persistence: None,
        ..Config::default()
    }
}

/// One event. `pick` chooses among the live blocks, whatever their number.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    Allocate {
        size: u64,
        align: u64,
        segment: u16,
        thread: u32,
        zeroed: bool,
    },
    Reallocate {
        pick: usize,
        size: u64,
        thread: u32,
    },
    Free {
        pick: usize,
        thread: u32,
    },
    FrameEnd,
}

/// What a random run is made of.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub ops: usize,
    pub max_size: u64,
    pub max_align_log2: u32,
    pub segments: u16,
    pub threads: u32,
}

pub fn ops(shape: Shape) -> impl Strategy<Value = Vec<Op>> {
    let size = prop_oneof![3 => 0..=shape.max_size / 16, 1 => 0..=shape.max_size].boxed();
    let align =
        prop_oneof![4 => Just(0), 1 => (0..=shape.max_align_log2).prop_map(|bits| 1 << bits)];
    let thread = 0..shape.threads;
    let allocate = (
        size.clone(),
        align,
        0..shape.segments,
        thread.clone(),
        any::<bool>(),
    )
        .prop_map(|(size, align, segment, thread, zeroed)| Op::Allocate {
            size,
            align,
            segment,
            thread,
            zeroed,
        });
    let reallocate = (any::<usize>(), size, thread.clone())
        .prop_map(|(pick, size, thread)| Op::Reallocate { pick, size, thread });
    let free = (any::<usize>(), thread).prop_map(|(pick, thread)| Op::Free { pick, thread });
    let op = prop_oneof![12 => allocate, 3 => reallocate, 8 => free, 1 => Just(Op::FrameEnd)];
    proptest::collection::vec(op, 1..=shape.ops)
}

/// What an event came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Placed(BlockId, Placed),
    Failed,
    Freed(BlockId),
    Nothing,
}

/// A replay of a random run.
pub struct Run {
    pub ledger: Ledger,
    /// Live blocks as the program sees them, with their alignment.
    pub live: Vec<(BlockId, u64)>,
    next: u32,
    pub at: Moment,
}

impl Run {
    pub fn new(model: Box<dyn Model>) -> Run {
        Run {
            ledger: Ledger::new(model, Options::default()),
            live: Vec::new(),
            next: 0,
            at: Moment::default(),
        }
    }

    pub fn model(&self) -> &dyn Model {
        self.ledger.model()
    }

    pub fn checkpoint(&self) -> Run {
        Run {
            ledger: self.ledger.checkpoint(),
            live: self.live.clone(),
            ..*self
        }
    }

    pub fn step(&mut self, op: Op) -> Outcome {
        self.at.nanos += 1000;
        self.at.site += 1;
        match op {
            Op::Allocate {
                size,
                align,
                segment,
                thread,
                zeroed,
            } => {
                (self.at.segment, self.at.thread) = (SegmentId(segment), thread);
                let id = BlockId(self.next);
                self.next += 1;
                let request = Request {
                    size,
                    align,
                    zeroed,
                };
                match self.ledger.allocate(&self.at, id, request) {
                    Ok(placed) => {
                        self.live.push((id, align));
                        Outcome::Placed(id, placed)
                    }
                    Err(_) => Outcome::Failed,
                }
            }
            Op::Reallocate { pick, size, thread } => {
                let Some(&(id, _)) = pick.checked_rem(self.live.len()).map(|at| &self.live[at])
                else {
                    return Outcome::Nothing;
                };
                self.at.thread = thread;
                match self.ledger.reallocate(&self.at, id, size) {
                    Ok(placed) => Outcome::Placed(id, placed.expect("it is live")),
                    Err(_) => Outcome::Failed,
                }
            }
            Op::Free { pick, thread } => {
                let Some(at) = pick.checked_rem(self.live.len()) else {
                    return Outcome::Nothing;
                };
                let (id, _) = self.live.swap_remove(at);
                self.at.thread = thread;
                assert!(self.ledger.free(&self.at, id));
                Outcome::Freed(id)
            }
            Op::FrameEnd => {
                self.ledger.frame_end(&self.at);
                self.at.frame += 1;
                Outcome::Nothing
            }
        }
    }

    pub fn free_all(&mut self) {
        for (id, _) in std::mem::take(&mut self.live) {
            self.ledger.free(&self.at, id);
        }
    }
}

/// P0: what is held adds up, whole and by segment; P7: segments add up to the whole; P8:
/// peaks are not below what is.
pub fn check_counters(model: &dyn Model) {
    let whole = model.counters();
    assert_eq!(whole.identity(), Identity::Kept, "{whole:?}");
    assert_eq!(whole.held, model.held());
    assert!(whole.peak_held >= whole.held);
    let parts = model.by_segment();
    for (segment, part) in &parts {
        assert_eq!(part.identity(), Identity::Kept, "{segment:?} {part:?}");
    }
    if !parts.is_empty() {
        assert_eq!(
            parts.iter().map(|part| part.1.requested).sum::<u64>(),
            whole.requested
        );
        assert_eq!(
            parts.iter().map(|part| part.1.used).sum::<u64>(),
            whole.used
        );
        assert_eq!(
            parts.iter().map(|part| part.1.held).sum::<u64>(),
            whole.held
        );
        assert_eq!(
            parts.iter().map(|part| part.1.blocks).sum::<u64>(),
            whole.blocks
        );
    }
}

/// Runs of regions add up to them, regions do not overlap (so no blocks do: P1), and each
/// live block lies where the model says (P2), aligned as asked (P3).
pub fn check_regions(run: &Run) {
    let model = run.model();
    let regions = model.regions();
    let mut found = std::collections::BTreeMap::new();
    let mut end = 0;
    for region in &regions {
        assert!(region.start >= end, "{} overlaps", region.name);
        end = region.start + region.bytes;
        assert_eq!(
            region.runs.iter().map(|run| run.0).sum::<u64>(),
            region.bytes,
            "{}",
            region.name
        );
        used_runs(region, |start, bytes, id| {
            assert_eq!(found.insert(id, (start, bytes)), None)
        });
    }
    let held = run
        .live
        .iter()
        .filter_map(|&(id, align)| Some((model.block(id)?, align)));
    let mut count = 0;
    for (block, align) in held {
        count += 1;
        assert_eq!(
            found.get(&block.id),
            Some(&(block.address, block.usable)),
            "{block:?}"
        );
        assert!(block.usable >= block.requested);
        assert_eq!(block.address % align.max(1), 0, "{block:?}");
    }
    assert_eq!(count, found.len());
    assert_eq!(count as u64, model.counters().blocks);
    holdings::check(model);
}

pub fn used_runs(region: &Region, mut each: impl FnMut(u64, u64, BlockId)) {
    let mut at = region.start;
    for &(bytes, state) in &region.runs {
        if let RunState::Used(id) = state {
            each(at, bytes, id);
        }
        at += bytes;
    }
}

/// Runs all events, and checks what must hold of any model every `every` of them.
pub fn drive(model: Box<dyn Model>, ops: &[Op], every: usize) -> Run {
    let mut run = Run::new(model);
    for (step, &op) in ops.iter().enumerate() {
        run.step(op);
        check_counters(run.model());
        if step % every == 0 {
            check_regions(&run);
        }
    }
    check_regions(&run);
    run
}

/// P4 to P6: freeing everything leaves nothing live; the same run again, and one gone on
/// from a copy made in the middle, place every block alike.
pub fn check_repeatable(model: impl Fn() -> Box<dyn Model>, ops: &[Op]) {
    let mut first = Run::new(model());
    let mut copy = None;
    for (step, &op) in ops.iter().enumerate() {
        if step == ops.len() / 2 {
            copy = Some(first.checkpoint());
        }
        first.step(op);
    }
    let mut again = Run::new(model());
    ops.iter().for_each(|&op| {
        again.step(op);
    });
    let mut resumed = copy.expect("there is at least one event");
    ops[ops.len() / 2..].iter().for_each(|&op| {
        resumed.step(op);
    });
    for other in [&again, &resumed] {
        assert_eq!(first.ledger.fingerprint(), other.ledger.fingerprint());
        assert_eq!(first.model().counters(), other.model().counters());
        assert_eq!(first.model().regions(), other.model().regions());
        assert_eq!(first.ledger.frames(), other.ledger.frames());
        for block in first
            .live
            .iter()
            .filter_map(|&(id, _)| first.model().block(id))
        {
            let (left, right) = (first.model(), other.model());
            assert_eq!(left.lookup(block.address), right.lookup(block.address));
        }
    }
    first.free_all();
    let end = first.model().counters();
    assert_eq!((end.requested, end.used, end.blocks), (0, 0, 0));
}
