//! Sums that are kept for the whole trace, for threads and for frames alike.

use crate::replay::{Effect, Outcome, Step, StepKind};
use serde::Serialize;

/// Numbers of step kinds are below this.
const KINDS: usize = 16;

/// Sums while steps come in.
///
/// PERF: kinds follow each other at random, so every branch on one is mispredicted
/// half of the time; nothing here branches.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    by_kind: [u64; KINDS],
    requested_bytes: u64,
    freed_bytes: u64,
    ticks: u64,
    foreign_frees: u64,
}

impl Tally {
    /// Adds one step.
    #[inline(always)]
    pub(crate) fn add(&mut self, step: &Step, effect: &Effect) {
        let acquires = matches!(
            step.kind,
            StepKind::Alloc | StepKind::AllocZeroed | StepKind::ReallocEnd
        );
        let freed = step.kind == StepKind::Release && effect.outcome == Outcome::Released;
        let foreign = freed & (effect.block.thread != step.thread);
        self.by_kind[step.kind as usize % KINDS] += 1;
        self.requested_bytes =
            self.requested_bytes
                .wrapping_add(if acquires { step.size } else { 0 });
        self.freed_bytes = self
            .freed_bytes
            .wrapping_add(if freed { effect.block.size } else { 0 });
        self.foreign_frees += u64::from(foreign);
        self.ticks = self.ticks.wrapping_add(step.latency);
    }

    /// The sums so far.
    pub(crate) fn counts(&self) -> Counts {
        let of = |kind: StepKind| self.by_kind[kind as usize % KINDS];
        Counts {
            allocations: of(StepKind::Alloc) + of(StepKind::AllocZeroed),
            reallocations: of(StepKind::ReallocEnd),
            deallocations: of(StepKind::Release),
            failed: of(StepKind::FailedAlloc) + of(StepKind::FailedRealloc),
            requested_bytes: self.requested_bytes,
            freed_bytes: self.freed_bytes,
            ticks: self.ticks,
            foreign_frees: self.foreign_frees,
        }
    }

    /// How many steps of a kind.
    pub(crate) fn of(&self, kind: StepKind) -> u64 {
        self.by_kind[kind as usize % KINDS]
    }
}

/// How many events there were and what they came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Allocations, zeroed ones included.
    pub allocations: u64,
    /// Reallocations.
    pub reallocations: u64,
    /// Deallocations.
    pub deallocations: u64,
    /// Requests that failed, for new blocks and for other sizes.
    pub failed: u64,
    /// Requested sizes of allocations and new sizes of reallocations, in bytes.
    pub requested_bytes: u64,
    /// Sizes of the blocks given back, in bytes.
    pub freed_bytes: u64,
    /// Time inside the allocator, in ticks, clock overhead included.
    pub ticks: u64,
    /// Deallocations of blocks that another thread had allocated.
    pub foreign_frees: u64,
}

impl Counts {
    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &Counts) -> Counts {
        let mut difference = *self;
        difference.each(earlier, |a, b| *a = a.wrapping_sub(b));
        difference
    }

    /// All events.
    pub fn events(&self) -> u64 {
        self.allocations + self.reallocations + self.deallocations + self.failed
    }

    fn each(&mut self, other: &Counts, change: impl Fn(&mut u64, u64)) {
        change(&mut self.allocations, other.allocations);
        change(&mut self.reallocations, other.reallocations);
        change(&mut self.deallocations, other.deallocations);
        change(&mut self.failed, other.failed);
        change(&mut self.requested_bytes, other.requested_bytes);
        change(&mut self.freed_bytes, other.freed_bytes);
        change(&mut self.ticks, other.ticks);
        change(&mut self.foreign_frees, other.foreign_frees);
    }
}
