//! Drift: what calls and frames cost in the first tenth of a loop's frames against the last.
//!
//! Each tenth is cut into batches; how much their means scatter is the noise of the tenth's
//! mean, however uneven or correlated single calls are.

use super::second_look::SecondLook;
use super::values::{Drift, DriftRow, FrameRow};
use crate::facts::{FrameFacts, LoopFacts};
use heapreel_format::{DecodedChunk, Event, EventKind, ReadError};
use std::collections::BTreeMap;

/// With fewer frames outside of phases a tenth says nothing.
pub const MIN_FRAMES: usize = 100;
/// Batches of a tenth.
const BATCHES: usize = 20;
/// Batches with calls that each tenth must have.
const MIN_BATCHES: usize = 8;
/// A cost drifts if it changes by more than so many times its noise …
pub const DRIFT_NOISE: f64 = 4.0;
/// … and by this factor, up or down.
pub const DRIFT_FACTOR: f64 = 1.2;
/// Chunks of a tenth that are looked at; of more, evenly chosen ones.
///
/// PERF: some million events, so the second look takes at most some tenths of a second.
const MAX_CHUNKS: usize = 256;

impl SecondLook<'_> {
    /// The drift over a loop's frames; empty where it has too few.
    pub(crate) fn drift(&self, facts: &LoopFacts, rows: &[FrameRow]) -> Result<Drift, ReadError> {
        let frames = facts.frames.iter().zip(rows);
        let steady: Vec<_> = frames.filter(|(_, row)| !row.in_phase).collect();
        if steady.len() < MIN_FRAMES {
            return Ok(Drift::default());
        }
        let count = steady.len() / 10;
        let ends = [&steady[..count], &steady[steady.len() - count..]];
        let mut costs = Costs::default();
        for (tenth, frames) in ends.into_iter().enumerate() {
            for (at, (_, row)) in frames.iter().enumerate() {
                costs.frames.add(tenth, batch(at, count), row.net_nanos);
            }
            if self.trace.header().settings.latency {
                let frames: Vec<_> = frames.iter().map(|(facts, _)| *facts).collect();
                self.add_tenth(tenth, &frames, &mut costs)?;
            }
        }
        Ok(self.compared(count as u64, &costs))
    }

    /// Adds the calls in some frames.
    fn add_tenth(
        &self,
        tenth: usize,
        frames: &[&FrameFacts],
        costs: &mut Costs,
    ) -> Result<(), ReadError> {
        let (Some(first), Some(last)) = (frames.first(), frames.last()) else {
            return Ok(());
        };
        let chunks = self.trace.chunks();
        let overlapping: Vec<_> = (0..chunks.len())
            .filter(|at| self.overlaps(*at, first.start, last.end))
            .collect();
        let step = overlapping.len().div_ceil(MAX_CHUNKS).max(1);
        let mut decoded = DecodedChunk::default();
        for at in overlapping.into_iter().step_by(step) {
            if self.decode(&chunks[at], &mut decoded)? {
                self.add_calls(tenth, frames, &decoded.events, costs);
            }
        }
        Ok(())
    }

    fn add_calls(&self, tenth: usize, frames: &[&FrameFacts], events: &[Event], costs: &mut Costs) {
        for event in events {
            let key = event.key();
            let after = frames.partition_point(|frame| frame.start <= key);
            let Some(at) = after.checked_sub(1).filter(|at| key <= frames[*at].end) else {
                continue;
            };
            let batch = batch(at, frames.len());
            let add = |cost: &mut Cost| cost.add(tenth, batch, event.latency());
            match event.kind {
                EventKind::Dealloc => add(&mut costs.deallocations),
                EventKind::Alloc | EventKind::AllocZeroed | EventKind::Realloc => {
                    add(&mut costs.allocations);
                    if let Some(site) = self.sites.of(self.dense.stack(event.stack)) {
                        add(costs.sites.entry(site).or_default());
                    }
                }
                EventKind::FailedAlloc | EventKind::FailedRealloc => {}
            }
        }
    }

    fn compared(&self, frames: u64, costs: &Costs) -> Drift {
        let row = |cost: &Cost| cost.row(|ticks| self.cost.mean_nanos(&self.times, ticks));
        let of_site = |(site, cost): (&u32, &Cost)| {
            let site = Some(*site);
            row(cost).map(|row| DriftRow { site, ..row })
        };
        let mut sites: Vec<_> = costs.sites.iter().filter_map(of_site).collect();
        sites.sort_by(|a, b| {
            let added = |row: &DriftRow| row.added_nanos().abs();
            let by_weight = (b.drifts, added(b)).partial_cmp(&(a.drifts, added(a)));
            let by_weight = by_weight.unwrap_or(std::cmp::Ordering::Equal);
            by_weight.then(a.site.cmp(&b.site))
        });
        Drift {
            frames,
            frame_time: costs.frames.row(|nanos| nanos),
            allocations: row(&costs.allocations),
            deallocations: row(&costs.deallocations),
            sites,
        }
    }
}

/// All costs.
#[derive(Debug, Default)]
struct Costs {
    /// A frame's time, in nanoseconds; the others are in ticks.
    frames: Cost,
    /// All allocations and reallocations.
    allocations: Cost,
    /// All deallocations.
    deallocations: Cost,
    /// Allocations and reallocations by call site.
    sites: BTreeMap<u32, Cost>,
}

/// Count and sum of each batch of both tenths.
#[derive(Clone, Copy, Debug, Default)]
struct Cost([[(u64, u64); BATCHES]; 2]);

impl Cost {
    fn add(&mut self, tenth: usize, batch: usize, value: u64) {
        let (count, sum) = &mut self.0[tenth][batch];
        *count += 1;
        *sum = sum.saturating_add(value);
    }

    /// Both tenths compared, with `nanos` made of means; `None` where too little is known.
    fn row(&self, nanos: impl Fn(f64) -> f64) -> Option<DriftRow> {
        let [first, last] = self.0.each_ref().map(|batches| mean(batches));
        let ((first_calls, first, first_noise), (last_calls, last, last_noise)) = (first?, last?);
        let unit = nanos(first.max(last)) / first.max(last).max(f64::MIN_POSITIVE);
        let (first_mean, last_mean) = (nanos(first), nanos(last));
        let noise = first_noise.hypot(last_noise) * unit;
        let mut row = DriftRow {
            site: None,
            first_calls,
            last_calls,
            first_mean_nanos: first_mean,
            last_mean_nanos: last_mean,
            noise_nanos: noise,
            drifts: false,
        };
        let change = (last_mean - first_mean).abs();
        let by_factor = !(1.0 / DRIFT_FACTOR..=DRIFT_FACTOR).contains(&row.factor());
        row.drifts = change > DRIFT_NOISE * noise && by_factor && first_mean > 0.0;
        Some(row)
    }
}

/// Count, mean and the mean's standard error, from the scatter of batches by their weight.
fn mean(batches: &[(u64, u64)]) -> Option<(u64, f64, f64)> {
    let count: u64 = batches.iter().map(|(count, _)| count).sum();
    let used: Vec<_> = batches.iter().filter(|(count, _)| *count > 0).collect();
    if used.len() < MIN_BATCHES {
        return None;
    }
    let sum: f64 = used.iter().map(|(_, sum)| *sum as f64).sum();
    let mean = sum / count as f64;
    let scatter = used.iter().map(|(n, sum)| {
        let n = *n as f64;
        let weight = n / count as f64;
        (weight * (*sum as f64 / n - mean)).powi(2)
    });
    let batches = used.len() as f64;
    let error = (scatter.sum::<f64>() * batches / (batches - 1.0)).sqrt();
    Some((count, mean, error))
}

/// The batch of the frame at this place among `count`.
fn batch(at: usize, count: usize) -> usize {
    at * BATCHES / count.max(1)
}

impl DriftRow {
    /// What the last tenth's calls cost more than at the first tenth's mean; negative for less.
    pub fn added_nanos(&self) -> f64 {
        (self.last_mean_nanos - self.first_mean_nanos) * self.last_calls as f64
    }

    /// How many times the first tenth's mean the last one's is.
    pub fn factor(&self) -> f64 {
        self.last_mean_nanos / self.first_mean_nanos.max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both tenths with ten calls in each batch, of these values by batch.
    fn cost(value: impl Fn(usize, usize) -> u64) -> DriftRow {
        let mut cost = Cost::default();
        for tenth in 0..2 {
            for batch in 0..BATCHES {
                (0..10).for_each(|_| cost.add(tenth, batch, value(tenth, batch)));
            }
        }
        cost.row(|nanos| nanos).unwrap()
    }

    #[test]
    fn twice_the_cost_drifts_and_noise_is_the_scatter_of_batches() {
        let row = cost(|tenth, batch| (tenth as u64 + 1) * 60 + batch as u64 % 2 * 2);
        assert_eq!((row.first_mean_nanos, row.last_mean_nanos), (61.0, 121.0));
        assert_eq!(row.factor().round(), 2.0);
        // Batch means lie 1 off the mean: each standard error is sqrt(20/19 · 20 · (1/20)²).
        let error = (20.0_f64 / 19.0 / 20.0).sqrt();
        assert!((row.noise_nanos - error * 2.0_f64.sqrt()).abs() < 1e-9);
        assert!(row.drifts);
    }

    #[test]
    fn one_slow_batch_is_noise() {
        let row = cost(|tenth, batch| if (tenth, batch) == (1, 3) { 5_000 } else { 60 });
        assert!(row.factor() > 5.0 && !row.drifts, "{row:?}");
        let row = cost(|tenth, _| 100 + tenth as u64 * 15);
        assert!(!row.drifts, "15 % more is too little: {row:?}");
    }

    #[test]
    fn a_site_with_few_calls_says_nothing() {
        let mut cost = Cost::default();
        for batch in 0..MIN_BATCHES - 1 {
            (0..100).for_each(|_| cost.add(0, batch, 60));
            (0..100).for_each(|_| cost.add(1, batch, 120));
        }
        assert!(cost.row(|nanos| nanos).is_none());
    }
}
