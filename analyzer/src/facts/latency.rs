//! Latency of allocation, reallocation and deallocation, each by size class.

use super::histogram::Histogram;
use crate::replay::{Outcome, Span, StepKind};

/// Size classes: to 4 KiB, to 1 MiB, above; and blocks whose size is not known.
pub(crate) const CLASSES: usize = 4;
pub(crate) const SMALL: u64 = 4 << 10;
pub(crate) const MEDIUM: u64 = 1 << 20;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Allocation,
    Reallocation,
    Deallocation,
}

/// Histograms of each operation by size class, and one for all other steps.
#[derive(Clone, Debug)]
pub(crate) struct Latency {
    histograms: Vec<Histogram>,
}

impl Default for Latency {
    fn default() -> Self {
        Latency {
            histograms: vec![Histogram::default(); 4 * CLASSES],
        }
    }
}

impl Latency {
    /// PERF: one place of a table for every kind of step, so that nothing branches.
    pub(crate) fn on_events(&mut self, span: Span<'_>) {
        for (step, effect) in span.ticks() {
            let operation = match step.kind {
                StepKind::Alloc | StepKind::AllocZeroed => Operation::Allocation as usize,
                StepKind::ReallocEnd => Operation::Reallocation as usize,
                StepKind::Release => Operation::Deallocation as usize,
                _ => 3,
            };
            let release = step.kind == StepKind::Release;
            let size = if release {
                effect.block.size
            } else {
                step.size
            };
            let unknown = release & (effect.outcome != Outcome::Released);
            let class = if unknown { CLASSES - 1 } else { class(size) };
            if let Some(histogram) = self.histograms.get_mut(operation * CLASSES + class) {
                histogram.add(step.latency);
            }
        }
    }

    /// The histogram of an operation in a size class.
    pub(crate) fn of(&self, operation: Operation, class: usize) -> &Histogram {
        &self.histograms[operation as usize * CLASSES + class]
    }
}

#[inline(always)]
fn class(size: u64) -> usize {
    usize::from(size > SMALL) + usize::from(size > MEDIUM)
}
