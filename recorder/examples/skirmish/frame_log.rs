//! What each frame of one loop did, noted by the loop's own thread.

use crate::tally::{self, Counts};
use crate::telemetry::{self, GameLoop};
use serde::Serialize;
use std::time::Instant;

/// Frames noted one by one; later ones are only counted.
const FRAMES_NOTED: usize = 2000;

/// The frames of one loop. Frame `i` ends with the loop's mark number `i`, both from 0;
/// frame 0 begins with the mark "begin".
pub struct FrameLog {
    game_loop: GameLoop,
    frames: u64,
    columns: Columns,
    own_before: Counts,
    all_before: Counts,
    start: Instant,
    temporaries: u64,
    phase_open: bool,
    phase_touched: bool,
}

/// One entry a frame, for the first two thousand.
#[derive(Serialize)]
pub struct Columns {
    /// By the thread that runs the loop: exact, and the same in every run.
    own_thread: Calls,
    /// By all threads: where more than one allocates, which frame a call of another
    /// thread falls into is up to the scheduler.
    all_threads: Calls,
    /// Blocks made and freed again within the frame by the loop's thread.
    temporaries: Vec<u32>,
    /// Whether the frame shares an instant with a phase.
    in_phase: Vec<bool>,
    /// From mark to mark by the game's own clock.
    nanos: Vec<u64>,
}

/// Calls of each kind, one entry a frame.
#[derive(Serialize)]
struct Calls {
    /// Allocations, zeroed or not.
    allocations: Vec<u32>,
    reallocations: Vec<u32>,
    deallocations: Vec<u32>,
    requested_bytes: Vec<u64>,
}

impl FrameLog {
    /// A log with room for all it will hold, so that noting takes no memory.
    pub fn new(game_loop: GameLoop) -> Self {
        Self {
            game_loop,
            frames: 0,
            columns: Columns {
                own_thread: Calls::new(),
                all_threads: Calls::new(),
                temporaries: Vec::with_capacity(FRAMES_NOTED),
                in_phase: Vec::with_capacity(FRAMES_NOTED),
                nanos: Vec::with_capacity(FRAMES_NOTED),
            },
            own_before: Counts::default(),
            all_before: Counts::default(),
            start: Instant::now(),
            temporaries: 0,
            phase_open: false,
            phase_touched: false,
        }
    }

    /// Frame 0 begins, on the thread that will run the loop.
    pub fn begin(&mut self) {
        self.own_before = tally::this_thread();
        self.all_before = tally::all_threads();
        self.start = Instant::now();
    }

    /// Ends a frame: the recorder gets its mark, the log its line.
    pub fn end_frame(&mut self) {
        telemetry::frame_mark(self.game_loop);
        let (own, all, now) = (tally::this_thread(), tally::all_threads(), Instant::now());
        if self.columns.nanos.len() < FRAMES_NOTED {
            let columns = &mut self.columns;
            columns.own_thread.push(own - self.own_before);
            columns.all_threads.push(all - self.all_before);
            columns.temporaries.push(self.temporaries as u32);
            columns.in_phase.push(self.phase_touched);
            columns.nanos.push((now - self.start).as_nanos() as u64);
        }
        self.frames += 1;
        (self.own_before, self.all_before, self.start) = (own, all, now);
        self.temporaries = 0;
        self.phase_touched = self.phase_open;
    }

    /// Frames ended so far, which is the number of the current one.
    pub fn frame(&self) -> u64 {
        self.frames
    }

    /// From now on frames belong to a phase.
    pub fn phase_begins(&mut self) {
        self.phase_open = true;
        self.phase_touched = true;
    }

    /// The current frame is the last one of the phase.
    pub fn phase_ends(&mut self) {
        self.phase_open = false;
    }

    /// For a loop that learns of another loop's phases with each piece of work: a phase
    /// that began or ended since the last one touches the current frame.
    pub fn follow_phase(&mut self, in_phase: bool) {
        match (self.phase_open, in_phase) {
            (false, true) => self.phase_begins(),
            (true, false) => self.phase_ends(),
            _ => {}
        }
    }

    /// Runs `work`, which gives back all that it takes, and counts its blocks as
    /// temporary ones of this frame.
    pub fn temporary<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let before = tally::this_thread();
        let result = work();
        let counts = tally::this_thread() - before;
        debug_assert_eq!(counts.live_blocks(), 0, "temporary work kept a block");
        self.temporaries += counts.blocks_made();
        result
    }

    /// The truth about this loop.
    pub fn into_truth(self) -> LoopTruth {
        let counted = self.columns.nanos.len() as u64 == self.frames;
        LoopTruth {
            name: self.game_loop.name(),
            frames: self.frames,
            allocations_outside_phases: counted
                .then(|| Spread::of(self.columns.outside_phases()))
                .flatten(),
            per_frame: self.columns,
        }
    }
}

impl Columns {
    fn outside_phases(&self) -> Vec<u32> {
        let calls = self.own_thread.allocations.iter();
        calls
            .zip(&self.in_phase)
            .filter(|(_, in_phase)| !**in_phase)
            .map(|(&calls, _)| calls)
            .collect()
    }
}

impl Calls {
    fn new() -> Self {
        Self {
            allocations: Vec::with_capacity(FRAMES_NOTED),
            reallocations: Vec::with_capacity(FRAMES_NOTED),
            deallocations: Vec::with_capacity(FRAMES_NOTED),
            requested_bytes: Vec::with_capacity(FRAMES_NOTED),
        }
    }

    fn push(&mut self, counts: Counts) {
        self.allocations.push(counts.blocks_made() as u32);
        self.reallocations.push(counts.reallocations as u32);
        self.deallocations.push(counts.deallocations as u32);
        self.requested_bytes.push(counts.requested_bytes);
    }
}

/// The truth about one loop.
#[derive(Serialize)]
pub struct LoopTruth {
    name: &'static str,
    frames: u64,
    /// Allocations a frame by the loop's thread; none if not every frame was noted.
    allocations_outside_phases: Option<Spread>,
    per_frame: Columns,
}

/// How a count spreads over the frames. A percentile is the smallest count that at least
/// so many percent of the frames do not exceed (nearest rank).
#[derive(Serialize, PartialEq, Debug)]
struct Spread {
    frames: u64,
    mean: f64,
    p50: u32,
    p95: u32,
    p99: u32,
    max: u32,
}

impl Spread {
    fn of(mut counts: Vec<u32>) -> Option<Self> {
        counts.sort_unstable();
        let max = *counts.last()?;
        let rank = |percent: usize| counts[(counts.len() * percent).div_ceil(100).max(1) - 1];
        let sum: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        Some(Self {
            frames: counts.len() as u64,
            mean: sum as f64 / counts.len() as f64,
            p50: rank(50),
            p95: rank(95),
            p99: rank(99),
            max,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_nearest_rank() {
        let spread = Spread::of((1..=200).rev().collect()).expect("frames");
        assert_eq!((spread.frames, spread.mean), (200, 100.5));
        assert_eq!((spread.p50, spread.p95, spread.p99), (100, 190, 198));
        assert_eq!(spread.max, 200);
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn a_phase_leaves_out_each_frame_it_touches() {
        let mut log = FrameLog::new(GameLoop::Main);
        log.begin();
        log.end_frame();
        log.phase_begins();
        log.end_frame();
        log.phase_ends();
        log.end_frame();
        log.end_frame();
        assert_eq!(log.columns.in_phase, [false, true, true, false]);
    }
}
