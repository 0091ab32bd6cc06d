//! What every scene shares: the loop's clock, the dice, and the notes about the truth.

use crate::cli::Common;
use crate::frame_log::{FrameLog, LoopTruth};
use crate::random::Random;
use crate::tally::{self, Counts};
use crate::telemetry::{self, GameLoop, PhaseScope};
use crate::truth::{Ending, LeakTruth, MarkTruth, Notes, PhaseTruth, SlowCallTruth, SpikeTruth};
use crate::work::Work;
use std::time::{Duration, Instant};

/// A running scene.
pub struct Game {
    /// How many frames it plays.
    pub frames: u64,
    /// Its dice.
    pub random: Random,
    /// Its processor.
    pub work: Work,
    /// The frames of the loop that the main thread runs.
    pub log: FrameLog,
    /// The frames of the renderer, where the main thread only simulates.
    pub render_log: Option<FrameLog>,
    pace: Option<Pace>,
    notes: Notes,
    begin: Counts,
    ending: Option<Ending>,
}

impl Game {
    /// Takes all the memory that the notes will need.
    pub fn new(common: &Common, default_frames: u64, game_loop: GameLoop) -> Self {
        Self {
            frames: common.frames.map_or(default_frames, u64::from),
            random: Random::new(common.seed),
            work: Work::calibrate(),
            log: FrameLog::new(game_loop),
            render_log: (game_loop == GameLoop::Sim).then(|| FrameLog::new(GameLoop::Render)),
            pace: common.pace.map(Pace::new),
            notes: Notes::new(),
            begin: Counts::default(),
            ending: None,
        }
    }

    /// From here the counts run.
    pub fn begin(&mut self) {
        telemetry::mark("begin");
        tally::restart_peak();
        self.begin = tally::all_threads();
        self.log.begin();
    }

    /// Ends a frame of the main thread's loop.
    pub fn end_frame(&mut self) {
        if let Some(pace) = &mut self.pace {
            pace.wait();
        }
        self.log.end_frame();
    }

    /// The number of the current frame, from 0.
    pub fn frame(&self) -> u64 {
        self.log.frame()
    }

    /// Whether there is a frame left to play.
    pub fn running(&self) -> bool {
        self.frame() < self.frames
    }

    /// A named instant, for the recorder and the truth.
    pub fn mark(&mut self, name: &'static str) {
        telemetry::mark(name);
        let frame = self.frame();
        self.notes.marks.push(MarkTruth { name, frame });
    }

    /// Begins a phase; the current frame is its first.
    pub fn begin_phase(&mut self, name: &'static str) -> Phase {
        self.log.phase_begins();
        Phase {
            scope: telemetry::phase(name),
            name,
            first_frame: self.frame(),
        }
    }

    /// Ends a phase; the current frame is its last.
    pub fn end_phase(&mut self, phase: Phase) {
        drop(phase.scope);
        self.log.phase_ends();
        let last_frame = self.frame();
        self.notes.phases.push(PhaseTruth {
            name: phase.name,
            first_frame: phase.first_frame,
            last_frame,
        });
    }

    /// Notes a frame made long on purpose.
    pub fn note_spike(&mut self, spike: SpikeTruth) {
        self.notes.spikes.push(spike);
    }

    /// Notes a call of the allocator made slow on purpose.
    pub fn note_slow_call(&mut self, call: SlowCallTruth) {
        self.notes.slow_calls.push(call);
    }

    /// Notes blocks that nobody will ever free.
    pub fn note_leak(&mut self, leak: LeakTruth) {
        self.notes.leaks.push(leak);
    }

    /// The instant that the totals stand for. Threads that still allocate must have been
    /// stopped before; what the scene frees afterwards is not counted.
    pub fn finish(&mut self) {
        let end = tally::all_threads();
        telemetry::mark("truth");
        self.ending = Some(Ending::between(self.begin, end, tally::peak_live_bytes()));
    }

    /// What is known about the scene once [`finish`](Self::finish) was called.
    pub fn into_parts(mut self) -> (LoopTruth, Notes, Ending) {
        if self.ending.is_none() {
            self.finish();
        }
        let ending = self.ending.unwrap_or_default();
        (self.log.into_truth(), self.notes, ending)
    }
}

/// A phase that has begun.
#[must_use]
pub struct Phase {
    scope: PhaseScope,
    name: &'static str,
    first_frame: u64,
}

/// Keeps to so many frames a second.
struct Pace {
    period: Duration,
    next: Instant,
}

impl Pace {
    fn new(frames_per_second: u32) -> Self {
        let period = Duration::from_secs(1) / frames_per_second;
        Self {
            period,
            next: Instant::now() + period,
        }
    }

    /// Sleeps until the frame is due. A late frame shifts those after it: a game does not
    /// hurry to make up for one.
    fn wait(&mut self) {
        let now = Instant::now();
        if let Some(rest) = self.next.checked_duration_since(now) {
            std::thread::sleep(rest);
        }
        self.next = self.next.max(now) + self.period;
    }
}
