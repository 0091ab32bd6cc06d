//! Frame rows and their distributions.

use super::clock::Times;
use super::recording::CostModel;
use super::sites::Sites;
use super::values::{Bursts, Distribution, FrameRow, LoopAnalysis, LoopSummary};
use crate::facts::{Facts, FrameFacts, LoopFacts};
use crate::replay::Dense;
use heapreel_format::{FrameSource, LoopId, Trace};

/// A frame that takes this many times the median is a spike, where no budget is given …
pub const SPIKE_FACTOR: f64 = 1.5;
/// … lies beyond the third quartile by this many times the distance between the first
/// and the third (Tukey's outer fence): where a third of all frames is long, long frames
/// are no spikes but the rule …
pub const SPIKE_SPREADS: f64 = 3.0;
/// … and only if it is also this much longer than the median: in a loop of tenths of
/// milliseconds every interruption by the system would be one otherwise.
pub const SPIKE_MIN_EXCESS_NANOS: u64 = 1_000_000;

/// [`LoopAnalysis::budget_source`] of a budget that the user gave.
pub(crate) const BUDGET_GIVEN: &str = "given";

/// What loops are made from.
pub(crate) struct LoopMaker<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) dense: &'a Dense,
    pub(crate) facts: &'a Facts,
    pub(crate) sites: &'a Sites,
    pub(crate) times: Times,
    pub(crate) cost: CostModel,
    /// A budget that the user gave.
    pub(crate) budget_nanos: Option<u64>,
    /// Instead: the calls that a frame may make.
    pub(crate) count_budget: Option<u64>,
}

impl LoopMaker<'_> {
    /// All loops with frames, the main one first.
    pub(crate) fn loops(&self) -> Vec<(LoopId, LoopAnalysis)> {
        let primary = self.facts.frames.primary;
        let mut loops: Vec<_> = self
            .facts
            .frames
            .loops
            .iter()
            .filter(|(_, facts)| facts.marks > 0)
            .collect();
        loops.sort_by_key(|(id, _)| (**id != primary, **id));
        loops
            .into_iter()
            .map(|(id, facts)| (*id, self.one(*id, facts)))
            .collect()
    }

    fn one(&self, id: LoopId, facts: &LoopFacts) -> LoopAnalysis {
        let (name, source) = self.names(id);
        let first = self.facts.first_frame(id);
        let rows = facts
            .frames
            .iter()
            .zip(first..)
            .map(|(frame, number)| self.row(frame, number));
        let mut frames: Vec<_> = rows.collect();
        let (budget_nanos, budget_source) = self.budget(&frames);
        for frame in &mut frames {
            let over = match self.count_budget {
                Some(most) => frame.allocations + frame.reallocations > most,
                None => frame.net_nanos > budget_nanos,
            };
            frame.spike = !frame.in_phase && over;
        }
        let thread = facts
            .frames
            .last()
            .map_or(facts.before.thread, |frame| frame.thread);
        LoopAnalysis {
            name,
            source,
            thread: super::threads::thread_name(self.trace, self.facts_thread(thread)),
            budget_nanos,
            budget_source,
            start_up: self.row(&facts.before, first),
            steady: summary(&frames),
            after_end: self.row(&facts.after, first + frames.len() as u64),
            frames,
            spikes: Default::default(),
        }
    }

    fn facts_thread(&self, position: u32) -> heapreel_format::ThreadId {
        self.dense
            .threads
            .get(position as usize)
            .copied()
            .unwrap_or_default()
    }

    fn names(&self, id: LoopId) -> (String, String) {
        match self.trace.definitions().loops.get(&id) {
            Some((name, source, symbol)) => (name.clone(), source_name(*source, symbol)),
            None if id == LoopId(0) => ("main".to_owned(), source_name(FrameSource::Interface, "")),
            None => (format!("loop {}", id.0), "unknown".to_owned()),
        }
    }

    fn row(&self, frame: &FrameFacts, number: u64) -> FrameRow {
        let duration = self.times.nanos(frame.end.saturating_sub(frame.start));
        let recorder =
            (self.times.nanos_f64(self.cost.ticks(&frame.own)).round() as u64).min(duration);
        let (all, own) = (&frame.all, &frame.own);
        let slowest = &frame.slowest;
        FrameRow {
            number,
            start_nanos: self.times.since_start(frame.start),
            duration_nanos: duration,
            recorder_nanos: recorder,
            net_nanos: duration - recorder,
            allocations: all.allocations,
            reallocations: all.reallocations,
            deallocations: all.deallocations,
            failed: all.failed,
            requested_bytes: all.requested_bytes,
            freed_bytes: all.freed_bytes,
            allocator_nanos: self
                .cost
                .allocator_nanos(&self.times, own.ticks, own.events()),
            all_threads_allocator_nanos: self.cost.allocator_nanos(
                &self.times,
                all.ticks,
                all.events(),
            ),
            own_events: own.events(),
            slowest_call_nanos: self.times.nanos(slowest.ticks),
            slowest_call_site: self.sites.of(slowest.stack),
            temporary: frame.temporary,
            foreign_frees: all.foreign_frees,
            live_bytes: frame.live_bytes,
            live_blocks: frame.live_blocks,
            peak_bytes: frame.peak_bytes,
            in_phase: frame.in_phase,
            spike: false,
        }
    }

    /// The budget, and where it comes from.
    fn budget(&self, frames: &[FrameRow]) -> (u64, String) {
        if let Some(budget) = self.budget_nanos {
            return (budget, BUDGET_GIVEN.to_owned());
        }
        if let Some(most) = self.count_budget {
            return (u64::MAX, format!("more than {most} allocations"));
        }
        let steady = frames.iter().filter(|frame| !frame.in_phase);
        let budget = usual_budget(steady.map(|frame| frame.net_nanos).collect());
        (
            budget,
            "1.5 times the median, 1 ms above it, and beyond the usual spread".to_owned(),
        )
    }
}

/// What frames usually stay below: see [`SPIKE_FACTOR`] and its neighbours.
fn usual_budget(mut net_nanos: Vec<u64>) -> u64 {
    net_nanos.sort_unstable();
    let at = |quarter: usize| {
        net_nanos
            .get(net_nanos.len() * quarter / 4)
            .copied()
            .unwrap_or(0)
    };
    let (first, median, third) = (at(1), at(2), at(3));
    let spread = (third - first) as f64;
    let times = (median as f64 * SPIKE_FACTOR).round() as u64;
    let beyond = (third as f64 + spread * SPIKE_SPREADS).round() as u64;
    times
        .max(median.saturating_add(SPIKE_MIN_EXCESS_NANOS))
        .max(beyond)
}

fn source_name(source: FrameSource, symbol: &str) -> String {
    match source {
        FrameSource::Interface => "marked by the game".to_owned(),
        FrameSource::Present => format!("calls of {symbol}, which shows a picture"),
        FrameSource::Symbol => format!("calls of {symbol}"),
        FrameSource::Interval => "equal slices of time".to_owned(),
    }
}

fn summary(frames: &[FrameRow]) -> LoopSummary {
    let steady: Vec<&FrameRow> = frames.iter().filter(|frame| !frame.in_phase).collect();
    let of = |value: fn(&FrameRow) -> u64| {
        Distribution::of(steady.iter().map(|frame| (frame.number, value(frame))))
    };
    let bursts = |value: fn(&FrameRow) -> u64| {
        let counts: Vec<u64> = steady.iter().map(|frame| value(frame)).collect();
        Bursts::of(&counts)
    };
    LoopSummary {
        frames: steady.len() as u64,
        frames_in_phases: (frames.len() - steady.len()) as u64,
        duration_nanos: of(|frame| frame.duration_nanos),
        net_nanos: of(|frame| frame.net_nanos),
        allocations: of(|frame| frame.allocations + frame.reallocations),
        deallocations: of(|frame| frame.deallocations),
        requested_bytes: of(|frame| frame.requested_bytes),
        allocator_nanos: of(|frame| frame.allocator_nanos),
        free_bursts: bursts(|frame| frame.deallocations),
        allocation_bursts: bursts(|frame| frame.allocations + frame.reallocations),
    }
}

/// The frame of a loop in which an instant lies.
pub(crate) fn frame_at(facts: &LoopFacts, first: u64, key: u64) -> Option<u64> {
    let after = facts.frames.partition_point(|frame| frame.start <= key);
    let at = after.checked_sub(1)?;
    (key <= facts.frames[at].end).then_some(first + at as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_steady_game_has_its_budget_near_the_median() {
        let mut frames = vec![16 * MS; 100];
        frames.push(60 * MS);
        assert_eq!(usual_budget(frames), 24 * MS);
        assert_eq!(usual_budget(vec![MS / 10; 50]), MS + MS / 10);
        assert_eq!(usual_budget(Vec::new()), MS);
    }

    #[test]
    fn a_game_whose_frames_vary_has_a_wide_one() {
        let frames = (0..100)
            .map(|n| if n % 3 == 0 { 12 * MS } else { MS })
            .collect();
        assert_eq!(usual_budget(frames), 45 * MS);
    }
}
