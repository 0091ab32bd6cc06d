//! Frames over budget, and whether allocation explains them.
//!
//! A spike's *excess* is its duration, less the recorder's share, over the median
//! frame's. Allocation explains the part of it that the loop's own thread spent in the
//! allocator beyond the median frame. Frames in phases are no spikes.

use super::stats::{common_share, median, rank_correlation};
use super::values::{Coincidence, FrameRow, LoopAnalysis, Spike, SpikeAnalysis, Verdict};
use crate::place::FrameRange;

/// From this share of the excess on, allocation explains a spike.
pub const EXPLAINED_SHARE: f64 = 0.5;
/// From this share on, partly.
pub const PARTLY_SHARE: f64 = 0.2;
/// With fewer steady frames there is no median to speak of.
pub const MIN_FRAMES: usize = 8;
/// Where the recorder took a greater share of a frame, what remains is too uncertain.
pub const MAX_RECORDER_SHARE: f64 = 0.5;
/// The share of the longest frames that is compared with those of most calls.
pub const TOP_SHARE: f64 = 0.05;

/// What is known beside the frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Basis {
    /// Calls were timed.
    pub(crate) latency: bool,
    /// The recorder's cost is known.
    pub(crate) cost_known: bool,
    /// Calls that took longer are slow.
    pub(crate) slow_call_nanos: u64,
}

/// Judges all spikes of a loop; the `limit` longest are listed.
///
/// With `range` only frames in it count; where none of them is a spike, they are
/// listed all the same: someone wants to know about them.
pub(crate) fn spikes(
    frames: &LoopAnalysis,
    basis: Basis,
    limit: usize,
    range: Option<&FrameRange>,
) -> SpikeAnalysis {
    let steady: Vec<&FrameRow> = frames
        .frames
        .iter()
        .filter(|frame| !frame.in_phase)
        .collect();
    let medians = Medians::of(&steady);
    let asked = asked_for(frames, range);
    let slow = |frame: &&&FrameRow| frame.slowest_call_nanos > basis.slow_call_nanos;
    let over = asked.iter().filter(|frame| frame.spike);
    let mut spikes: Vec<Spike> = over.map(|frame| spike(frame, &medians, basis)).collect();
    let of = |verdict| {
        spikes
            .iter()
            .filter(|spike| spike.verdict == verdict)
            .count() as u64
    };
    let mut analysis = SpikeAnalysis {
        count: spikes.len() as u64,
        explained: of(Verdict::Explained),
        partly: of(Verdict::Partly),
        not_explained: of(Verdict::NotExplained),
        cannot_tell: of(Verdict::CannotTell),
        excess_nanos: spikes.iter().map(|spike| spike.excess_nanos).sum(),
        allocator_excess_nanos: spikes
            .iter()
            .map(|spike| spike.allocator_excess_nanos.min(spike.excess_nanos))
            .sum(),
        frames_with_slow_calls: steady.iter().filter(slow).count() as u64,
        spikes_with_slow_calls: spikes
            .iter()
            .filter(|spike| spike.slowest_call_nanos > basis.slow_call_nanos)
            .count() as u64,
        coincidence: coincidence(&steady),
        worst: Vec::new(),
    };
    if spikes.is_empty() && range.is_some() {
        spikes = asked
            .iter()
            .map(|frame| spike(frame, &medians, basis))
            .collect();
    }
    spikes.sort_by_key(|spike| (std::cmp::Reverse(spike.net_nanos), spike.frame));
    spikes.truncate(limit);
    analysis.worst = spikes;
    analysis
}

fn asked_for<'a>(frames: &'a LoopAnalysis, range: Option<&FrameRange>) -> &'a [FrameRow] {
    let first = frames.frames.first().map_or(0, |frame| frame.number);
    match range {
        Some(range) => &frames.frames[range.positions(first, frames.frames.len())],
        None => &frames.frames,
    }
}

struct Medians {
    frames: usize,
    net: u64,
    allocator: u64,
}

impl Medians {
    fn of(steady: &[&FrameRow]) -> Medians {
        Medians {
            frames: steady.len(),
            net: median(steady.iter().map(|frame| frame.net_nanos).collect()),
            allocator: median(steady.iter().map(|frame| frame.allocator_nanos).collect()),
        }
    }
}

fn spike(frame: &FrameRow, medians: &Medians, basis: Basis) -> Spike {
    let excess = frame.net_nanos.saturating_sub(medians.net);
    let allocator_excess = frame.allocator_nanos.saturating_sub(medians.allocator);
    let share = if excess == 0 {
        0.0
    } else {
        (allocator_excess as f64 / excess as f64).min(1.0)
    };
    let recorder_share = frame.recorder_nanos as f64 / frame.duration_nanos.max(1) as f64;
    let can_tell = basis.latency
        && (basis.cost_known || frame.own_events == 0)
        && medians.frames >= MIN_FRAMES
        && excess > 0
        && recorder_share <= MAX_RECORDER_SHARE;
    let verdict = match share {
        _ if !can_tell => Verdict::CannotTell,
        share if share >= EXPLAINED_SHARE => Verdict::Explained,
        share if share >= PARTLY_SHARE => Verdict::Partly,
        _ => Verdict::NotExplained,
    };
    Spike {
        frame: frame.number,
        start_nanos: frame.start_nanos,
        duration_nanos: frame.duration_nanos,
        net_nanos: frame.net_nanos,
        excess_nanos: excess,
        allocator_nanos: frame.allocator_nanos,
        allocator_excess_nanos: allocator_excess,
        calls: frame.own_events,
        slowest_call_nanos: frame.slowest_call_nanos,
        share,
        verdict,
        sites: Vec::new(),
    }
}

/// Are the frames with many calls the long ones?
fn coincidence(steady: &[&FrameRow]) -> Coincidence {
    let calls: Vec<u64> = steady.iter().map(|frame| frame.own_events).collect();
    let times: Vec<u64> = steady.iter().map(|frame| frame.net_nanos).collect();
    Coincidence {
        frames: steady.len() as u64,
        rank_correlation: rank_correlation(&calls, &times),
        common_share: common_share(&times, &calls, TOP_SHARE),
        chance_share: TOP_SHARE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sixty frames of 10 ms, 1 ms of it in the allocator, and one of `net` and `allocator` ms.
    fn game(net: u64, allocator: u64, recorder: u64) -> LoopAnalysis {
        let row = |number, net: u64, allocator: u64, recorder: u64| FrameRow {
            number,
            duration_nanos: (net + recorder) * 1_000_000,
            net_nanos: net * 1_000_000,
            recorder_nanos: recorder * 1_000_000,
            allocator_nanos: allocator * 1_000_000,
            own_events: 10 + number % 3,
            spike: net > 16,
            ..FrameRow::default()
        };
        let mut frames: Vec<_> = (0..60).map(|number| row(number, 10, 1, 0)).collect();
        frames.push(row(60, net, allocator, recorder));
        LoopAnalysis {
            frames,
            ..LoopAnalysis::default()
        }
    }

    const BASIS: Basis = Basis {
        latency: true,
        cost_known: true,
        slow_call_nanos: 5_000,
    };

    fn verdict(game: &LoopAnalysis, basis: Basis) -> Verdict {
        spikes(game, basis, 5, None).worst[0].verdict
    }

    #[test]
    fn a_spike_is_judged_by_what_it_exceeds_the_median_by() {
        // 20 ms of excess: 16, 6 and 2 ms of it in the allocator.
        assert_eq!(verdict(&game(30, 17, 0), BASIS), Verdict::Explained);
        assert_eq!(verdict(&game(30, 7, 0), BASIS), Verdict::Partly);
        assert_eq!(verdict(&game(30, 3, 0), BASIS), Verdict::NotExplained);
        assert_eq!(verdict(&game(30, 0, 0), BASIS), Verdict::NotExplained);
    }

    #[test]
    fn what_cannot_be_told_is_not_judged() {
        assert_eq!(verdict(&game(30, 17, 40), BASIS), Verdict::CannotTell);
        assert_eq!(
            verdict(
                &game(30, 17, 0),
                Basis {
                    latency: false,
                    ..BASIS
                }
            ),
            Verdict::CannotTell
        );
        assert_eq!(
            verdict(
                &game(30, 17, 0),
                Basis {
                    cost_known: false,
                    ..BASIS
                }
            ),
            Verdict::CannotTell
        );
        let mut short = game(30, 17, 0);
        short.frames.drain(..55);
        assert_eq!(verdict(&short, BASIS), Verdict::CannotTell);
    }

    #[test]
    fn verdicts_are_counted_and_the_longest_come_first() {
        let mut game = game(30, 17, 0);
        let longer = FrameRow {
            number: 61,
            net_nanos: 50_000_000,
            ..game.frames[60].clone()
        };
        game.frames.push(longer);
        let told = spikes(&game, BASIS, 1, None);
        assert_eq!(
            (told.count, told.explained, told.partly, told.not_explained),
            (2, 1, 1, 0)
        );
        assert_eq!(told.worst.len(), 1);
        assert_eq!(told.worst[0].frame, 61);
        assert_eq!(told.excess_nanos, 60_000_000);
    }

    #[test]
    fn frames_that_are_asked_for_are_listed_though_no_spikes() {
        let game = game(30, 17, 0);
        let quiet = spikes(&game, BASIS, 5, Some(&FrameRange::Numbers(3, Some(5))));
        assert_eq!((quiet.count, quiet.worst.len()), (0, 2));
        let last = spikes(&game, BASIS, 5, Some(&FrameRange::Last));
        assert_eq!((last.count, last.worst[0].frame), (1, 60));
    }

    #[test]
    fn slow_calls_are_held_against_spikes() {
        let mut game = game(30, 17, 0);
        for number in [3, 20, 60] {
            game.frames[number].slowest_call_nanos = 40_000;
        }
        let told = spikes(&game, BASIS, 5, None);
        assert_eq!(
            (told.frames_with_slow_calls, told.spikes_with_slow_calls),
            (3, 1)
        );
    }

    #[test]
    fn without_spikes_there_is_nothing() {
        let told = spikes(&game(10, 1, 0), BASIS, 5, None);
        assert_eq!((told.count, told.worst.len()), (0, 0));
        assert_eq!(told.coincidence.rank_correlation, None);
    }
}
