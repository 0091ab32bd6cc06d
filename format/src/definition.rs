//! Definitions: what the small numbers in events stand for.
//!
//! They are postcard values in chunks of their own. A definition is always
//! published before its number appears in any event, so losing one costs a name
//! and never a count. Repeating one is harmless: the number says which it is.

use crate::event::Entry;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);
    };
}

index!(
    /// Number of a backtrace with its entry point; 0 is none.
    StackId(u32)
);
index!(
    /// Number of a thread of the recording, counted from 1 as threads were first met.
    ThreadId(u32)
);
index!(
    /// Number of a segment; 0 is "Default".
    SegmentId(u16)
);
index!(
    /// Number of a context; 0 is none.
    ContextId(u32)
);
index!(
    /// Number of a game loop; 0 is "main".
    LoopId(u16)
);
index!(
    /// Number of a name of a mark or phase.
    NameId(u32)
);
index!(
    /// Number of a heap that the game announced; 0 is none.
    HeapId(u32)
);

impl StackId {
    /// No backtrace was taken.
    pub const NONE: StackId = StackId(0);
}

impl ContextId {
    /// Outside any context.
    pub const NONE: ContextId = ContextId(0);
}

/// What a thread means to the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Role {
    /// The game did not say.
    #[default]
    Unknown,
    /// The frame waits for this thread.
    Critical,
    /// The frame does not wait for this thread.
    Background,
}

/// Where a loop's frame marks came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FrameSource {
    /// The game called the interface.
    #[default]
    Interface,
    /// The preload library noticed a call that shows a picture.
    Present,
    /// The preload library noticed a function named by the user.
    Symbol,
    /// Equal slices of time.
    Interval,
}

/// What kind of heap the game announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HeapKind {
    /// Blocks of any size in any order.
    General,
    /// Slots of one size.
    Pool,
    /// Everything is given back at once.
    Arena,
    /// Memory of the graphics processor: never mixed with the rest.
    Gpu,
    /// A mapped file.
    FileMapped,
}

/// Why a clip was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ClipCause {
    /// A frame took longer than its budget.
    Budget,
    /// Somebody sent a signal.
    Signal,
    /// The game asked for it.
    Call,
    /// A signal ended the program.
    Crash,
}

/// One definition. Borrowed while recording, owned when read.
///
/// The order of variants and fields is the wire format: append only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Definition<'a> {
    /// A backtrace together with the entry point that was called.
    Stack {
        /// Its number.
        id: StackId,
        /// The allocation function.
        entry: Entry,
        /// Requested alignment as a power of two; 0 where none was asked for.
        align_log2: u8,
        /// The generation of modules in which its addresses are to be read.
        generation: u32,
        /// Outer stack frames are missing: the depth limit, or unwinding ended early.
        cut: bool,
        /// Return addresses, innermost first: the first as it is, each later
        /// one as the difference from the one before it.
        deltas: Cow<'a, [i64]>,
    },
    /// A program or library in memory.
    Module {
        /// Its number, from 1.
        id: u32,
        /// The generation in which it was met.
        generation: u32,
        /// Its path as the loader knows it.
        path: Cow<'a, str>,
        /// Address in memory minus address in the file.
        bias: u64,
        /// First address of its mapping.
        start: u64,
        /// Address behind its mapping.
        end: u64,
        /// GNU build-id, empty where it has none.
        build_id: Cow<'a, [u8]>,
        /// When it was met, in ticks.
        key: u64,
    },
    /// Libraries were unloaded: later stacks carry this generation or a higher one.
    Generation {
        /// The generation that begins.
        generation: u32,
        /// When, in ticks.
        key: u64,
    },
    /// A thread was met.
    Thread {
        /// Its number.
        id: ThreadId,
        /// The kernel's thread id.
        tid: u32,
        /// When it was met, in ticks.
        key: u64,
    },
    /// A thread's name; the last one counts.
    ThreadName {
        /// Which thread.
        id: ThreadId,
        /// At most 15 bytes on Linux.
        name: Cow<'a, str>,
    },
    /// A thread's role; the last one counts.
    ThreadRole {
        /// Which thread.
        id: ThreadId,
        /// Its role.
        role: Role,
    },
    /// What a thread's records added up to when it had ended or recording stopped.
    ThreadTotals {
        /// Which thread.
        id: ThreadId,
        /// Records that it published.
        records: u64,
        /// Events that could not be recorded.
        lost: u64,
    },
    /// A segment.
    Segment {
        /// Its number.
        id: SegmentId,
        /// Its name.
        name: Cow<'a, str>,
        /// Its budget in bytes; 0 is none.
        budget: u64,
    },
    /// A context.
    Context {
        /// Its number.
        id: ContextId,
        /// The context it was entered in.
        parent: ContextId,
        /// asset, level, entity, system, user, or the game's own.
        kind: Cow<'a, str>,
        /// Its name.
        name: Cow<'a, str>,
    },
    /// A game loop.
    Loop {
        /// Its number.
        id: LoopId,
        /// Its name.
        name: Cow<'a, str>,
        /// Where its frame marks come from.
        source: FrameSource,
        /// The function noticed, for [`FrameSource::Present`] and [`FrameSource::Symbol`].
        symbol: Cow<'a, str>,
    },
    /// The name of a mark or a phase.
    Name {
        /// Its number.
        id: NameId,
        /// The name.
        text: Cow<'a, str>,
    },
    /// A heap that the game announced.
    Heap {
        /// Its number.
        id: HeapId,
        /// Its name.
        name: Cow<'a, str>,
        /// Its kind.
        kind: HeapKind,
        /// The heap it takes its memory from.
        parent: HeapId,
        /// Its budget in bytes; 0 is none.
        budget: u64,
    },
    /// One instant on both clocks; a pair every second shows a step of either.
    ClockPair {
        /// In ticks.
        key: u64,
        /// CLOCK_MONOTONIC in nanoseconds.
        monotonic_nanos: u64,
    },
    /// What recording one event costs, measured when recording started.
    Calibration {
        /// Ticks for one allocation with its backtrace.
        alloc_ticks: u32,
        /// Ticks for one deallocation.
        dealloc_ticks: u32,
        /// Ticks that two clock reads with nothing between them show.
        empty_latency_ticks: u32,
    },
    /// Backtraces past the table's limit that were recorded by call site alone.
    StacksCut {
        /// How many so far.
        count: u64,
    },
    /// Releases whose end was not seen because the program ended inside them.
    InFlight {
        /// Which thread.
        id: ThreadId,
        /// The block's address.
        address: u64,
        /// When the call was entered, in ticks.
        start: u64,
    },
    /// Backtraces that were compared with a whole unwind.
    UnwindCheck {
        /// How many.
        checked: u64,
        /// How many of them were different.
        differing: u64,
    },
    /// Records that were published and that the trace could not take: their numbers are
    /// no gap of unknown size.
    Dropped {
        /// Whose.
        id: ThreadId,
        /// They are of the stream of its signal handlers.
        nested: bool,
        /// Number of the first one.
        first: u64,
        /// How many.
        records: u64,
        /// How many of them were events.
        events: u64,
    },
    /// The program gave system calls up, some that the recorder had made until then.
    Confined {
        /// Children that it forks can still be recorded.
        children: bool,
    },
    /// Contexts that were not entered because the table was full: what was done in them
    /// counts for the context around.
    ContextsCut {
        /// How many times so far.
        count: u64,
    },
    /// The trace is a clip: some frames of a longer run.
    Clip {
        /// Why it was made.
        cause: ClipCause,
        /// The loop whose frames it counts.
        id: LoopId,
        /// The last frame that had ended, as the whole run counts them, from 1.
        frame: u64,
        /// Where it begins, in ticks.
        begin: u64,
        /// Ticks that this frame took, for [`ClipCause::Budget`]; else 0.
        took: u64,
        /// Ticks that a frame may take; 0 is any.
        budget: u64,
        /// The name given by the call, or how the program ended.
        name: Cow<'a, str>,
    },
}

impl Definition<'_> {
    /// Writes the differences between neighbouring addresses to `deltas`;
    /// returns the part that was filled. Extra addresses are left out.
    pub fn stack_deltas<'d>(frames: &[u64], deltas: &'d mut [i64]) -> &'d [i64] {
        let count = frames.len().min(deltas.len());
        let mut before = 0u64;
        for (delta, frame) in deltas.iter_mut().zip(frames) {
            *delta = frame.wrapping_sub(before) as i64;
            before = *frame;
        }
        &deltas[..count]
    }

    /// The inverse of [`Definition::stack_deltas`].
    pub fn stack_frames(deltas: &[i64]) -> Vec<u64> {
        let mut frame = 0u64;
        deltas
            .iter()
            .map(|delta| {
                frame = frame.wrapping_add(*delta as u64);
                frame
            })
            .collect()
    }
}
