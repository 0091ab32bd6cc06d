//! Calls by entry point, and what recording them cost.

use crate::replay::{Outcome, Span, StepKind};
use heapreel_format::{Entry, Rare};

/// Numbers of entry points are below this.
const ENTRIES: usize = 32;

/// Sampled cost of recording one kind of event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CostSamples {
    pub(crate) count: u64,
    pub(crate) ticks: u64,
}

/// What is counted by entry point or not at all elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    releases: [u64; ENTRIES],
    unknown_releases: [u64; ENTRIES],
    /// Reallocations of blocks never seen acquired, by backtrace.
    pub(crate) unknown_reallocations: u64,
    pub(crate) in_flight: u64,
    pub(crate) acquire_cost: CostSamples,
    pub(crate) release_cost: CostSamples,
    /// Sums of the recorder's own records of its cost.
    pub(crate) told_records: u64,
    pub(crate) told_ticks: u64,
    /// The greatest resident size that was told, in bytes.
    pub(crate) resident_peak: u64,
}

impl Default for Calls {
    fn default() -> Self {
        Calls {
            releases: [0; ENTRIES],
            unknown_releases: [0; ENTRIES],
            unknown_reallocations: 0,
            in_flight: 0,
            acquire_cost: CostSamples::default(),
            release_cost: CostSamples::default(),
            told_records: 0,
            told_ticks: 0,
            resident_peak: 0,
        }
    }
}

impl Calls {
    pub(crate) fn on_events(&mut self, span: Span<'_>) {
        for (step, effect) in span.ticks() {
            let entry = step.entry as usize % ENTRIES;
            let release = step.kind == StepKind::Release;
            self.releases[entry] += u64::from(release);
            if effect.outcome == Outcome::UnknownRelease {
                self.unknown_releases[entry] += u64::from(release);
                self.unknown_reallocations += u64::from(matches!(
                    step.kind,
                    StepKind::MoveOut | StepKind::ResizeBegin
                ));
            }
            if step.kind == StepKind::ReleaseInFlight {
                self.in_flight += 1;
            }
            if step.cost > 0 {
                let samples = if release {
                    &mut self.release_cost
                } else {
                    &mut self.acquire_cost
                };
                samples.count += 1;
                samples.ticks += u64::from(step.cost);
            }
        }
    }

    pub(crate) fn on_rare(&mut self, rare: &Rare) {
        match *rare {
            Rare::Cost { records, ticks } => {
                self.told_records += u64::from(records);
                self.told_ticks = self.told_ticks.saturating_add(ticks);
            }
            Rare::Resident {
                anonymous,
                file_backed,
                shared,
                ..
            } => {
                let resident = anonymous.saturating_add(file_backed).saturating_add(shared);
                self.resident_peak = self.resident_peak.max(resident);
            }
            _ => {}
        }
    }

    /// Deallocations by entry point, those with a count.
    pub(crate) fn releases(&self) -> impl Iterator<Item = (Entry, u64)> {
        by_entry(&self.releases)
    }

    /// Deallocations of blocks never seen acquired.
    pub(crate) fn unknown_releases(&self) -> impl Iterator<Item = (Entry, u64)> {
        by_entry(&self.unknown_releases)
    }
}

fn by_entry(counts: &[u64; ENTRIES]) -> impl Iterator<Item = (Entry, u64)> {
    let entries = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    entries.map(|(number, count)| (Entry::from_number(number as u8), *count))
}
