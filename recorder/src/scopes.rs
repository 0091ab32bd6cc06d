//! What a game tells about itself: frames, phases, marks, segments, roles.
//!
//! All of it costs a load and a branch while nothing is recorded.

use crate::text::Text;
use crate::told::{self, tell};
use heapreel_format::Role;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that is asked for once and then remembered: 0 is "not yet".
#[derive(Debug)]
struct Remembered(AtomicU64);

impl Remembered {
    const fn new() -> Self {
        Remembered(AtomicU64::new(0))
    }

    /// The number, counted from 0.
    fn get(&self, ask: impl FnOnce() -> u64) -> u64 {
        match self.0.load(Relaxed) {
            0 => {
                let number = ask();
                self.0.store(number + 1, Relaxed);
                number
            }
            known => known - 1,
        }
    }

    fn forget(&self) {
        self.0.store(0, Relaxed);
    }
}

/// Ends a game frame of the loop "main", and begins the next one.
///
/// ```
/// // at the end of every turn of the game loop
/// heapreel::frame_mark();
/// ```
#[inline]
pub fn frame_mark() {
    if told::listening() {
        tell(told::FRAME, "", 0);
    }
}

/// Ends a game frame of another loop.
#[inline]
pub fn frame_mark_in(game_loop: &'static Loop) {
    if told::recording() {
        game_loop.mark();
    } else if game_loop.name == "main" {
        frame_mark();
    }
}

/// A game loop beside "main": simulation, render, server.
///
/// ```
/// static SIM: heapreel::Loop = heapreel::Loop::new("sim");
/// heapreel::frame_mark_in(&SIM);
/// ```
#[derive(Debug)]
pub struct Loop {
    name: &'static str,
    number: Remembered,
}

impl Loop {
    /// A loop of this name; the same name is the same loop.
    pub const fn new(name: &'static str) -> Loop {
        Loop {
            name,
            number: Remembered::new(),
        }
    }

    fn mark(&self) {
        let ask = || tell(told::LOOP, self.name, 0);
        if tell(told::FRAME, "", self.number.get(ask)) == told::STALE {
            // In a forked child, whose recording is another one.
            self.number.forget();
            tell(told::FRAME, "", self.number.get(ask));
        }
    }
}

/// Notes a named instant; reports can begin or end there.
///
/// ```
/// heapreel::mark("level loaded");
/// ```
pub fn mark(name: &str) {
    if told::recording() {
        tell(told::MARK, "", tell(told::NAME, name, 0));
    }
}

/// Asks for a clip of the last frames, where the game runs under `heapreel record --clips`;
/// elsewhere it is the mark `clip: NAME`. Of the name the first 250 bytes count.
///
/// ```
/// heapreel::clip("the boss fell through the floor");
/// ```
pub fn clip(name: &str) {
    if told::recording() {
        let mut text = Text::<256>::new();
        text.push(heapreel_format::clips::CLIP_MARK);
        text.push(name);
        mark(text.as_str());
    }
}

/// A stretch such as loading, whose long frames are no spikes; it ends when dropped.
///
/// ```
/// let loading = heapreel::phase("loading");
/// // load
/// drop(loading);
/// ```
#[must_use = "the phase ends when this value is dropped"]
pub fn phase(name: &str) -> Phase {
    let name = told::recording().then(|| {
        let name = tell(told::NAME, name, 0);
        tell(told::PHASE_BEGIN, "", name);
        name
    });
    Phase { name }
}

/// See [`phase`].
#[derive(Debug)]
pub struct Phase {
    name: Option<u64>,
}

impl Drop for Phase {
    fn drop(&mut self) {
        if let Some(name) = self.name
            && told::recording()
        {
            tell(told::PHASE_END, "", name);
        }
    }
}

/// A named use of memory, with a budget.
///
/// ```
/// static TEMP: heapreel::Segment = heapreel::Segment::new("Temp").budget(8 << 20);
///
/// let _temp = TEMP.enter(); // this thread's allocations belong to Temp until it is dropped
/// ```
#[derive(Debug)]
pub struct Segment {
    name: &'static str,
    budget: u64,
    number: Remembered,
}

impl Segment {
    /// A segment of this name without a budget; the same name is the same segment.
    pub const fn new(name: &'static str) -> Segment {
        Segment {
            name,
            budget: 0,
            number: Remembered::new(),
        }
    }

    /// Gives it a budget in bytes.
    pub const fn budget(mut self, bytes: u64) -> Segment {
        self.budget = bytes;
        self
    }

    /// Makes it this thread's segment until the value is dropped.
    #[must_use = "the segment is left when this value is dropped"]
    pub fn enter(&'static self) -> SegmentScope {
        let before = told::listening().then(|| {
            let ask = || tell(told::SEGMENT, self.name, self.budget);
            tell(told::ENTER, "", self.number.get(ask))
        });
        SegmentScope {
            before,
            on_this_thread: PhantomData,
        }
    }
}

/// See [`Segment::enter`].
#[derive(Debug)]
pub struct SegmentScope {
    before: Option<u64>,
    on_this_thread: PhantomData<*const ()>,
}

impl Drop for SegmentScope {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            tell(told::ENTER, "", before);
        }
    }
}

/// Says what this thread means to the frame.
pub fn thread_role(role: Role) {
    if told::recording() {
        let number = match role {
            Role::Unknown => 0,
            Role::Critical => 1,
            Role::Background => 2,
        };
        tell(told::ROLE, "", number);
    }
}
