//! The only place where the game speaks with the recorder.
//!
//! Recording begins before `main` where the environment asks for it (`heapreel record`, or
//! HEAPREEL_OUT), so nothing here starts it.

use crate::tally::Tally;
use heapreel::{ContextScope, Loop, Phase, Recorder, SegmentScope};

pub use heapreel::{Context, Role, mark, phase, thread_role};

#[global_allocator]
static ALLOCATOR: Recorder<Tally> = Recorder::new(Tally);

/// The loops that have frames of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum GameLoop {
    /// The default one.
    Main,
    /// Simulation, 60 a second.
    Sim,
    /// Rendering, 30 a second.
    Render,
}

impl GameLoop {
    /// The loop's name in traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Sim => "sim",
            Self::Render => "render",
        }
    }
}

/// The uses of memory that have a budget.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Segment {
    /// Whatever has no other.
    Default,
    /// Lives as long as the program.
    Permanent,
    /// Textures, meshes, sounds.
    Resource,
    /// Tools and overlays that a released game does not have.
    Develop,
    /// Gone by the end of the frame.
    Temp,
}

impl Segment {
    /// The segment's name in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "Default",
            Self::Permanent => "Permanent",
            Self::Resource => "Resource",
            Self::Develop => "Develop",
            Self::Temp => "Temp",
        }
    }

    /// How much it may use.
    pub const fn budget_bytes(self) -> usize {
        match self {
            Self::Default => 4 << 20,
            Self::Permanent => 2 << 20,
            Self::Resource => 16 << 20,
            Self::Develop => 1 << 20,
            Self::Temp => 1 << 20,
        }
    }
}

/// The scope of a phase; it ends where this is dropped.
pub type PhaseScope = Phase;

/// Ends a game frame.
pub fn frame_mark(game_loop: GameLoop) {
    static SIM: Loop = Loop::new("sim");
    static RENDER: Loop = Loop::new("render");
    match game_loop {
        GameLoop::Main => heapreel::frame_mark(),
        GameLoop::Sim => heapreel::frame_mark_in(&SIM),
        GameLoop::Render => heapreel::frame_mark_in(&RENDER),
    }
}

/// Says which use of memory the next allocations of this thread belong to. Default is
/// what a thread is in anyway.
pub fn segment(segment: Segment) -> Option<SegmentScope> {
    static PERMANENT: heapreel::Segment = recorded(Segment::Permanent);
    static RESOURCE: heapreel::Segment = recorded(Segment::Resource);
    static DEVELOP: heapreel::Segment = recorded(Segment::Develop);
    static TEMP: heapreel::Segment = recorded(Segment::Temp);
    match segment {
        Segment::Default => None,
        Segment::Permanent => Some(PERMANENT.enter()),
        Segment::Resource => Some(RESOURCE.enter()),
        Segment::Develop => Some(DEVELOP.enter()),
        Segment::Temp => Some(TEMP.enter()),
    }
}

const fn recorded(segment: Segment) -> heapreel::Segment {
    heapreel::Segment::new(segment.name()).budget(segment.budget_bytes() as u64)
}

/// Says which level the next allocations of this thread are for.
pub fn level(name: &str) -> ContextScope {
    heapreel::context!("level", name)
}

/// Says which asset the next allocations of this thread are for.
pub fn asset(name: &str) -> ContextScope {
    heapreel::context!("asset", name)
}

/// Announces a heap of the game's own.
///
/// The recorder cannot be told of heaps yet; this and the next two are where it will be.
pub fn heap_created(_name: &'static str, _start: usize, _bytes: usize, _budget: usize) {}

/// Announces a block handed out by such a heap.
pub fn heap_allocated(_heap: &'static str, _address: usize, _bytes: usize) {}

/// Announces that such a heap took a block back.
pub fn heap_freed(_heap: &'static str, _address: usize) {}
