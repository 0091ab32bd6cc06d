//! Sums that are kept for the whole trace, for threads and for frames alike.

use crate::replay::{Effect, Outcome, Step, StepKind};
use serde::Serialize;

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
    /// Adds one step.
    #[inline(always)]
    pub(crate) fn add_step(&mut self, step: &Step, effect: &Effect) {
        match step.kind {
            StepKind::Alloc | StepKind::AllocZeroed => {
                self.allocations += 1;
                self.requested_bytes += step.size;
            }
            StepKind::Release => {
                self.deallocations += 1;
                self.freed_bytes += effect.block.size;
                let known = effect.outcome == Outcome::Released;
                self.foreign_frees += u64::from(known && effect.block.thread != step.thread);
            }
            StepKind::ReallocEnd => {
                self.reallocations += 1;
                self.requested_bytes += step.size;
            }
            StepKind::FailedAlloc | StepKind::FailedRealloc => self.failed += 1,
            StepKind::ReleaseInFlight
            | StepKind::MoveOut
            | StepKind::ResizeBegin
            | StepKind::Rare
            | StepKind::Evict => {}
        }
        self.ticks += step.latency;
    }

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
