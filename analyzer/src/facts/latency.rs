//! Latency of allocation, reallocation and deallocation, each by size class.

use super::histogram::Histogram;
use crate::replay::{Outcome, Span, StepKind};

/// Size classes: to 4 KiB, to 1 MiB, above; and blocks whose size is not known.
pub(crate) const CLASSES: usize = 4;
pub(crate) const SMALL: u64 = 4 << 10;
pub(crate) const MEDIUM: u64 = 1 << 20;

/// Nine histograms, and those of blocks that were never seen allocated.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latency {
    pub(crate) allocation: [Histogram; CLASSES],
    pub(crate) reallocation: [Histogram; CLASSES],
    pub(crate) deallocation: [Histogram; CLASSES],
}

impl Latency {
    pub(crate) fn on_events(&mut self, span: Span<'_>) {
        for (step, effect) in span.ticks() {
            match step.kind {
                StepKind::Alloc | StepKind::AllocZeroed => {
                    self.allocation[class(step.size)].add(step.latency);
                }
                StepKind::ReallocEnd => self.reallocation[class(step.size)].add(step.latency),
                StepKind::Release if effect.outcome == Outcome::Released => {
                    self.deallocation[class(effect.block.size)].add(step.latency);
                }
                StepKind::Release => self.deallocation[CLASSES - 1].add(step.latency),
                _ => {}
            }
        }
    }
}

#[inline(always)]
fn class(size: u64) -> usize {
    usize::from(size > SMALL) + usize::from(size > MEDIUM)
}
