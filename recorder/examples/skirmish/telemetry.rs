//! The only place where the game speaks with the recorder.

use crate::tally::Tally;

#[global_allocator]
static ALLOCATOR: Tally = Tally;

/// What a thread means to the frame.
#[derive(Clone, Copy)]
pub enum Role {
    /// The frame waits for it.
    Critical,
    /// The frame does not.
    Background,
}

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
    pub fn name(self) -> &'static str {
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

/// Something that ends where it goes out of scope.
#[must_use]
pub struct Scope;

/// Begins to record where the environment asks for it.
pub fn start() {}

/// Ends a game frame.
pub fn frame_mark(_game_loop: GameLoop) {}

/// A stretch, such as loading, in which long frames are no spikes.
pub fn phase(_name: &'static str) -> Scope {
    Scope
}

/// A named instant.
pub fn mark(_name: &'static str) {}

/// Says which use of memory the next allocations of this thread belong to.
pub fn segment(_segment: Segment) -> Scope {
    Scope
}

/// Says what this thread means to the frame.
pub fn thread_role(_role: Role) {}

/// Says which asset the next allocations of this thread are for.
pub fn asset(_name: &str) -> Scope {
    Scope
}

/// Announces a heap of the game's own.
pub fn heap_created(_name: &'static str, _start: usize, _bytes: usize, _budget: usize) {}

/// Announces a block handed out by such a heap.
pub fn heap_allocated(_heap: &'static str, _address: usize, _bytes: usize) {}

/// Announces that such a heap took a block back.
pub fn heap_freed(_heap: &'static str, _address: usize) {}
