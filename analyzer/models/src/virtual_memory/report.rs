//! What the virtual memory model tells beyond the counters.

use serde::Serialize;

use super::Mapping;
use crate::budgets::BudgetExceeded;
use crate::paged::{HeapFacts, Waste};

/// The frame in which something was at its worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorstFrame {
    /// Number of the frame; the first one, if several were as bad.
    pub frame: u32,
    /// How bad.
    pub value: u64,
}

impl WorstFrame {
    /// A frame ended.
    pub(crate) fn see(&mut self, frame: u32, value: u64) {
        if value > self.value {
            *self = WorstFrame { frame, value };
        }
    }
}

/// The state at one instant. Bytes, unless a field says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VirtualReport {
    /// Asked for by live blocks.
    pub requested: u64,
    /// In live blocks.
    pub used: u64,
    /// In slices with memory behind them, and thread blocks.
    pub committed: u64,
    /// In granules with a slice in use.
    pub mapped: u64,
    /// In granules that are kept mapped without one.
    pub cached: u64,
    /// Of the budget, not mapped.
    pub free_physical: u64,
    /// The budget.
    pub physical_budget: u64,
    /// Mapped and cached, thread blocks, tables.
    pub held: u64,
    /// `1 - requested / held`.
    pub waste: f64,
    /// `1 - used / held`.
    pub waste_in_blocks: f64,
    /// Held and in no block, by cause.
    pub waste_by_cause: Waste,
    /// System calls, hits and clearing since the start.
    pub mapping: Mapping,
    /// `hits / (hits + misses)`.
    pub lru_hit_rate: f64,
    /// The frame with the most system calls.
    pub worst_calls: WorstFrame,
    /// The frame with the most bytes cleared.
    pub worst_zeroed: WorstFrame,
    /// Blocks that were worked off of release queues since the start.
    pub gc_steps: u64,
    /// All heaps, by number.
    pub heaps: Vec<HeapFacts>,
    /// Abandoned heaps.
    pub abandoned_heaps: u64,
    /// Bytes with memory behind them in those.
    pub abandoned_bytes: u64,
    /// Frames since the first of those was left.
    pub abandoned_frames: u32,
    /// Pages of 4 KiB, 64 KiB and 2 MiB that hold a part of a live block: what the
    /// processor has to translate.
    pub tlb_pages: [u64; 3],
    /// When segments were over their budgets.
    pub exceeded: Vec<BudgetExceeded>,
}
