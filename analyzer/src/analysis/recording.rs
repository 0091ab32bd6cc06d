//! What recording cost, and how it is kept apart from the allocator's time.
//!
//! Recording an event costs the program time outside the inner call (the backtrace,
//! the record), and a little inside its measured latency (the clock itself). The first
//! is the mean of the events whose cost was measured during the run, or, where these
//! are few, what was calibrated when recording started; the second was calibrated.

use super::clock::Times;
use super::values::RecordingCost;
use crate::facts::{Counts, Facts};
use heapreel_format::Trace;

/// Samples of one kind from which on their mean is used instead of the calibration.
const ENOUGH_SAMPLES: u64 = 32;

/// Ticks that recording costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CostModel {
    acquisition: f64,
    release: f64,
    /// Of each latency, what the clock alone shows.
    clock: f64,
    sampled: u64,
    calibrated: bool,
}

impl CostModel {
    pub(crate) fn of(trace: &Trace, facts: &Facts) -> CostModel {
        let (acquire, release, clock) = trace.definitions().calibration.unwrap_or_default();
        let mean = |samples: crate::facts::CostSamples, calibrated: u32| {
            if samples.count >= ENOUGH_SAMPLES || calibrated == 0 {
                samples.ticks as f64 / samples.count.max(1) as f64
            } else {
                f64::from(calibrated)
            }
        };
        CostModel {
            acquisition: mean(facts.calls.acquire_cost, acquire),
            release: mean(facts.calls.release_cost, release),
            clock: f64::from(clock),
            sampled: facts.calls.acquire_cost.count + facts.calls.release_cost.count,
            calibrated: trace.definitions().calibration.is_some(),
        }
    }

    /// Something is known.
    pub(crate) fn is_known(&self) -> bool {
        self.calibrated || self.sampled > 0
    }

    /// Ticks that recording these events cost, the clock's part of latencies included.
    pub(crate) fn ticks(&self, counts: &Counts) -> f64 {
        let releases = counts.deallocations as f64;
        let acquisitions = counts.events() as f64 - releases;
        acquisitions * self.acquisition
            + releases * self.release
            + counts.events() as f64 * self.clock
    }

    /// Time in the allocator: measured latencies less the clock's part.
    pub(crate) fn allocator_nanos(&self, times: &Times, ticks: u64, calls: u64) -> u64 {
        let clock = calls as f64 * self.clock;
        times.nanos_f64((ticks as f64 - clock).max(0.0)).round() as u64
    }

    /// One latency less the clock's part.
    pub(crate) fn latency_nanos(&self, times: &Times, ticks: f64) -> u64 {
        self.mean_nanos(times, ticks).round() as u64
    }

    /// A mean of latencies less the clock's part.
    pub(crate) fn mean_nanos(&self, times: &Times, ticks: f64) -> f64 {
        times.nanos_f64((ticks - self.clock).max(0.0))
    }

    /// For the report.
    pub(crate) fn value(&self, times: &Times, all: &Counts, duration_nanos: u64) -> RecordingCost {
        let total = times.nanos_f64(self.ticks(all)).round() as u64;
        let source = match (self.sampled, self.calibrated) {
            (0, false) => "unknown",
            (sampled, true) if sampled < ENOUGH_SAMPLES => "calibration",
            _ => "samples",
        };
        RecordingCost {
            source: source.to_owned(),
            per_acquisition_nanos: times.nanos_f64(self.acquisition),
            per_release_nanos: times.nanos_f64(self.release),
            clock_nanos: times.nanos_f64(self.clock),
            sampled_events: self.sampled,
            total_nanos: total,
            share_of_duration: if duration_nanos == 0 {
                0.0
            } else {
                total as f64 / duration_nanos as f64
            },
        }
    }
}
