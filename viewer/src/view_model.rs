//! What the viewer draws: the analyzer's figures, laid out for quick pictures.
//!
//! Nothing here is computed from events. The only additions are the search trees
//! that let a picture of any stretch be drawn in time proportional to its width.

use crate::metric::Metric;
use crate::range_tree::RangeTree;
use std::collections::BTreeMap;
use std::ops::Range;

/// Everything the viewer shows of a trace.
#[derive(Clone, Debug, Default)]
pub struct ViewModel {
    /// The trace's file name.
    pub title: String,
    /// Named frame loops, each with its frames; empty for a trace without marks.
    pub loops: Vec<FrameLoop>,
    /// Live bytes over time.
    pub live: LiveCurve,
    /// Marks set by the game, by time.
    pub marks: Vec<Mark>,
    /// Phases such as loading, by time.
    pub phases: Vec<Phase>,
    /// The report's findings, worst first.
    pub findings: Vec<Finding>,
    /// The program that was recorded.
    pub process: Vec<Fact>,
    /// Totals of the whole trace.
    pub totals: Vec<Fact>,
    /// What is missing from the trace, worst first; empty for a whole one.
    pub missing: Vec<String>,
    /// Length of the recording in seconds.
    pub duration: f64,
}

/// One named game loop.
#[derive(Clone, Debug, Default)]
pub struct FrameLoop {
    /// Its name; `main` unless the game says otherwise.
    pub name: String,
    /// Its frames by start.
    frames: Vec<FrameRow>,
    /// Time that a frame may take, in seconds.
    pub budget: f64,
    /// Where the budget comes from, for people; empty where that needs no word.
    pub budget_source: String,
    /// How each metric spreads over frames outside of phases, in [`Metric::ALL`]'s order.
    pub spreads: Vec<Spread>,
    /// What the worst spikes come from, by frame number.
    pub causes: BTreeMap<u64, SpikeCause>,
    tracks: Vec<Track>,
    spikes: Prefix,
    in_phase: Prefix,
}

/// One frame.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FrameRow {
    /// Its number within its loop.
    pub number: u64,
    /// Start in seconds since the recording began.
    pub start: f64,
    /// End in seconds since the recording began.
    pub end: f64,
    /// Its time less the recorder's share, in seconds.
    pub time: f64,
    /// The recorder's share, in seconds.
    pub recorder_time: f64,
    /// Time in the allocator on the loop's own thread, in seconds.
    pub allocator_time: f64,
    /// Time in the allocator on all threads, in seconds.
    pub all_allocator_time: f64,
    /// The slowest call of any thread, in seconds.
    pub slowest_call: f64,
    /// Allocations and reallocations of all threads.
    pub allocations: u64,
    /// Deallocations of all threads.
    pub deallocations: u64,
    /// Requests that failed, of all threads.
    pub failed: u64,
    /// Bytes asked for by all threads.
    pub bytes: u64,
    /// Live bytes at its end.
    pub live_bytes: u64,
    /// The analyzer calls it a spike.
    pub spike: bool,
    /// It lies in a phase, so it is never a spike.
    pub in_phase: bool,
}

/// How a metric spreads over frames: seconds, a count or bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Greatest.
    pub max: f64,
    /// Number of the frame that has the greatest.
    pub max_frame: u64,
}

/// What a spike comes from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpikeCause {
    /// Whether allocation explains it, in a sentence.
    pub verdict: String,
    /// The call sites with most time in it.
    pub sites: Vec<Blamed>,
}

/// A call site's part in a spike.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blamed {
    /// The function's short name.
    pub name: String,
    /// Its time in the allocator.
    pub time: String,
    /// Calls, place and bytes in few words.
    pub detail: String,
    /// Full name and place.
    pub whole: String,
}

/// Search trees over one metric of a loop's frames.
#[derive(Clone, Debug, Default)]
struct Track {
    all: RangeTree,
    /// Frames in a phase count as 0 here.
    steady: RangeTree,
}

/// How many of the frames before each index have a property.
#[derive(Clone, Debug, Default)]
struct Prefix(Vec<u32>);

impl Prefix {
    fn new(flags: impl Iterator<Item = bool>) -> Self {
        let mut sum = 0;
        let counts = flags.map(|flag| {
            sum += u32::from(flag);
            sum
        });
        Self(std::iter::once(0).chain(counts).collect())
    }

    fn count(&self, range: Range<usize>) -> usize {
        let at = |index: usize| self.0.get(index).or(self.0.last()).copied().unwrap_or(0);
        at(range.end).saturating_sub(at(range.start)) as usize
    }
}

impl FrameLoop {
    /// A loop of frames; they are put in order of their start.
    ///
    /// Frames with times that are no numbers are dropped: nothing could place them.
    pub fn new(name: impl Into<String>, budget: f64, mut frames: Vec<FrameRow>) -> Self {
        frames.retain(|frame| frame.start.is_finite() && frame.end >= frame.start);
        frames.sort_by(|a, b| a.start.total_cmp(&b.start));
        let tracks = Metric::ALL
            .map(|metric| Track {
                all: RangeTree::new(frames.iter().map(|frame| metric.of(frame))),
                steady: RangeTree::new(frames.iter().map(|frame| match frame.in_phase {
                    true => 0.0,
                    false => metric.of(frame),
                })),
            })
            .into();
        Self {
            name: name.into(),
            budget,
            tracks,
            spikes: Prefix::new(frames.iter().map(|frame| frame.spike)),
            in_phase: Prefix::new(frames.iter().map(|frame| frame.in_phase)),
            frames,
            ..Self::default()
        }
    }

    /// Its frames by start.
    pub fn frames(&self) -> &[FrameRow] {
        &self.frames
    }

    /// The tree over a metric of all frames.
    pub fn values(&self, metric: Metric) -> &RangeTree {
        &self.track(metric).all
    }

    /// The tree over a metric, in which frames of phases count as 0.
    pub fn steady_values(&self, metric: Metric) -> &RangeTree {
        &self.track(metric).steady
    }

    fn track(&self, metric: Metric) -> &Track {
        static EMPTY: Track = Track {
            all: RangeTree::EMPTY,
            steady: RangeTree::EMPTY,
        };
        self.tracks.get(metric as usize).unwrap_or(&EMPTY)
    }

    /// How many of these frames are spikes.
    pub fn spikes(&self, range: Range<usize>) -> usize {
        self.spikes.count(range)
    }

    /// How many of these frames lie in a phase.
    pub fn in_phase(&self, range: Range<usize>) -> usize {
        self.in_phase.count(range)
    }

    /// The frames that overlap a stretch of time.
    pub fn overlapping(&self, from: f64, to: f64) -> Range<usize> {
        let first = self.frames.partition_point(|frame| frame.end <= from);
        let end = self.frames.partition_point(|frame| frame.start < to);
        first..end.max(first)
    }

    /// The frame that holds an instant.
    pub fn at(&self, time: f64) -> Option<usize> {
        let after = self.frames.partition_point(|frame| frame.start <= time);
        let index = after.checked_sub(1)?;
        (time < self.frames[index].end).then_some(index)
    }

    /// The frame with a number.
    pub fn numbered(&self, number: u64) -> Option<usize> {
        let index = self.frames.partition_point(|frame| frame.number < number);
        (self.frames.get(index)?.number == number).then_some(index)
    }

    /// The next spike after a frame, or the first one of all.
    pub fn next_spike(&self, after: Option<usize>) -> Option<usize> {
        let from = after.map_or(0, |index| index + 1);
        (from..self.frames.len()).find(|&index| self.frames[index].spike)
    }

    /// The last spike before a frame, or the last one of all.
    pub fn previous_spike(&self, before: Option<usize>) -> Option<usize> {
        let end = before.unwrap_or(self.frames.len()).min(self.frames.len());
        (0..end).rev().find(|&index| self.frames[index].spike)
    }
}

/// Bytes in use over time.
#[derive(Clone, Debug, Default)]
pub struct LiveCurve {
    points: Vec<LivePoint>,
    tree: RangeTree,
    /// Where most bytes were in use.
    pub high_water: Option<LivePoint>,
}

/// Bytes in use at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LivePoint {
    /// Seconds since the recording began.
    pub time: f64,
    /// Bytes in use.
    pub bytes: f64,
}

impl LiveCurve {
    /// A curve through points, which are put in order of time.
    pub fn new(mut points: Vec<LivePoint>, high_water: Option<LivePoint>) -> Self {
        points.retain(|point| point.time.is_finite() && point.bytes.is_finite());
        points.sort_by(|a, b| a.time.total_cmp(&b.time));
        let tree = RangeTree::new(points.iter().map(|point| point.bytes));
        Self {
            points,
            tree,
            high_water,
        }
    }

    /// Its points by time.
    pub fn points(&self) -> &[LivePoint] {
        &self.points
    }

    /// The tree over its bytes.
    pub fn tree(&self) -> &RangeTree {
        &self.tree
    }

    /// Bytes in use at an instant: those of the last point not after it.
    pub fn at(&self, time: f64) -> Option<f64> {
        let after = self.points.partition_point(|point| point.time <= time);
        Some(self.points[after.checked_sub(1)?].bytes)
    }
}

/// A mark that the game set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mark {
    /// Seconds since the recording began.
    pub time: f64,
    /// Its text.
    pub name: String,
}

/// A stretch that the game named, such as loading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Start in seconds since the recording began.
    pub start: f64,
    /// End in seconds.
    pub end: f64,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Severity {
    /// Worth knowing.
    #[default]
    Note,
    /// Worth mending.
    Warning,
    /// Wrong, or the trace cannot be trusted.
    Error,
}

/// A sentence of the report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// The sentence.
    pub text: String,
    /// The command that tells more; empty where there is none.
    pub command: String,
    /// Loop and number of the frame that it speaks of.
    pub frame: Option<(String, u64)>,
}

/// A named figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fact {
    /// Its name.
    pub name: String,
    /// Its value with unit.
    pub value: String,
    /// What it means.
    pub meaning: String,
}

impl Fact {
    /// A fact from its three texts.
    pub fn new(
        name: impl Into<String>,
        value: impl Into<String>,
        meaning: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
            meaning: meaning.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(number: u64, start: f64, end: f64) -> FrameRow {
        FrameRow {
            number,
            start,
            end,
            time: end - start,
            spike: number.is_multiple_of(5),
            ..Default::default()
        }
    }

    fn game_loop() -> FrameLoop {
        let frames = (0..20)
            .map(|n| frame(n, n as f64, n as f64 + 0.9))
            .collect();
        FrameLoop::new("main", 0.016, frames)
    }

    #[test]
    fn a_gap_between_frames_belongs_to_none() {
        let game = game_loop();
        assert_eq!(game.at(3.5), Some(3));
        assert_eq!(game.at(3.95), None);
        assert_eq!(game.at(-1.0), None);
        assert_eq!(game.overlapping(2.95, 3.0), 3..3);
        assert_eq!(game.overlapping(2.5, 5.5), 2..6);
    }

    #[test]
    fn spikes_are_walked_in_both_directions() {
        let game = game_loop();
        assert_eq!(game.next_spike(None), Some(0));
        assert_eq!(game.next_spike(Some(0)), Some(5));
        assert_eq!(game.next_spike(Some(15)), None);
        assert_eq!(game.previous_spike(None), Some(15));
        assert_eq!(game.previous_spike(Some(5)), Some(0));
        assert_eq!(game.spikes(0..20), 4);
        assert_eq!(game.spikes(1..5), 0);
    }

    #[test]
    fn frames_that_are_no_numbers_are_dropped() {
        let frames = vec![
            frame(0, f64::NAN, 1.0),
            frame(1, 2.0, 1.0),
            frame(2, 1.0, 2.0),
        ];
        let game = FrameLoop::new("main", 0.016, frames);
        assert_eq!(game.frames().len(), 1);
        assert_eq!(game.numbered(2), Some(0));
        assert_eq!(game.numbered(1), None);
    }

    #[test]
    fn live_bytes_hold_until_the_next_point() {
        let point = |time, bytes| LivePoint { time, bytes };
        let curve = LiveCurve::new(vec![point(2.0, 20.0), point(1.0, 10.0)], None);
        assert_eq!(curve.at(0.5), None);
        assert_eq!(curve.at(1.5), Some(10.0));
        assert_eq!(curve.at(9.0), Some(20.0));
    }
}
