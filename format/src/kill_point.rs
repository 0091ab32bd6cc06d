//! Places in the hand-over of records at which a test has the process killed.
//!
//! A process is killed by SIGKILL when it reaches the place that `HEAPREEL_KILL_POINT`
//! names for the n-th time: `NAME` or `NAME:n`. Each place is one load and a branch, and
//! all of them are reached once a buffer or once a pass, never once an event.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

macro_rules! kill_points {
    ($($(#[doc = $meaning:literal])* $point:ident $name:literal $side:ident;)*) => {
        /// A place at which a process can be killed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum KillPoint {
            $($(#[doc = $meaning])* $point,)*
        }

        impl KillPoint {
            /// All of them.
            pub const ALL: &[KillPoint] = &[$(KillPoint::$point),*];

            /// As `HEAPREEL_KILL_POINT` has it.
            pub fn name(self) -> &'static str {
                match self {
                    $(KillPoint::$point => $name,)*
                }
            }

            /// Which side of the spill reaches it.
            pub fn side(self) -> Side {
                match self {
                    $(KillPoint::$point => Side::$side,)*
                }
            }
        }
    };
}

/// Who reaches a [`KillPoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A thread of the program that is recorded.
    Program,
    /// Whoever drains: `heapreel record`, or the program itself.
    Drain,
}

kill_points! {
    /// A thread leaves a full buffer: nothing was stored.
    BufferLeaving "buffer-leaving" Program;
    /// The buffer's last key is stored, its state not.
    BufferLastKey "buffer-last-key" Program;
    /// The buffer is the drain's.
    BufferLeft "buffer-left" Program;
    /// An empty buffer is claimed; its header is the former owner's.
    BufferClaimed "buffer-claimed" Program;
    /// The new owner's thread is stored, the number of the first record not.
    BufferThread "buffer-thread" Program;
    /// The number is stored, what the first record is relative to not.
    BufferNumber "buffer-number" Program;
    /// The header is the new owner's; there is no record.
    BufferReady "buffer-ready" Program;
    /// A definition is written and not committed.
    DefinitionWritten "definition-written" Program;
    /// The definition is committed; nobody knows its number.
    DefinitionCommitted "definition-committed" Program;
    /// A new thread has its slot, and nothing in it.
    SlotClaimed "slot-claimed" Program;
    /// A new thread is defined and about to record.
    ThreadDefined "thread-defined" Program;
    /// A dead thread's buffers are to be handed over.
    DeadThreadFound "dead-thread-found" Program;
    /// They are; its slot is not given back.
    DeadThreadBuffersLeft "dead-thread-buffers-left" Program;
    /// Its slot is.
    DeadThreadSlotFree "dead-thread-slot-free" Program;
    /// The drain knows what there is to take, and has taken nothing.
    DrainLooked "drain-looked" Drain;
    /// A buffer's records are copied.
    DrainCopied "drain-copied" Drain;
    /// Chunks are about to be appended to the trace.
    DrainAppending "drain-appending" Drain;
    /// Half of them is.
    DrainHalfAppended "drain-half-appended" Drain;
    /// All of them are; no buffer is given back.
    DrainAppended "drain-appended" Drain;
    /// A buffer is empty, and still the drain's.
    DrainEmptied "drain-emptied" Drain;
    /// The buffer is free.
    DrainFreed "drain-freed" Drain;
    /// The program has ended; the end is not written.
    DrainEnding "drain-ending" Drain;
    /// The trace is whole; the spill is still there.
    DrainEnded "drain-ended" Drain;
}

/// The place that is armed, plus one, and how often it is still passed.
static ARMED: AtomicU32 = AtomicU32::new(0);
static LEFT: AtomicU32 = AtomicU32::new(0);
static KILL: OnceLock<fn()> = OnceLock::new();

/// Arms the place that the environment names; `kill` sends SIGKILL to this process. Not
/// to be called where the environment may be changed by another thread.
pub fn arm_from_environment(kill: fn()) {
    let Ok(text) = std::env::var("HEAPREEL_KILL_POINT") else {
        return;
    };
    let (name, times) = text.split_once(':').unwrap_or((&text, "1"));
    let found = KillPoint::ALL.iter().find(|point| point.name() == name);
    if let (Some(point), Ok(times)) = (found, times.parse::<u32>()) {
        _ = KILL.set(kill);
        LEFT.store(times.max(1), Relaxed);
        ARMED.store(*point as u32 + 1, Relaxed);
    }
}

/// The calling thread reaches a place.
#[inline(always)]
pub fn reach(point: KillPoint) {
    if ARMED.load(Relaxed) == point as u32 + 1 {
        count_down();
    }
}

/// Whether a place is armed: for work that is cut in two only for its sake.
pub(crate) fn is_armed(point: KillPoint) -> bool {
    ARMED.load(Relaxed) == point as u32 + 1
}

#[cold]
#[inline(never)]
fn count_down() {
    if LEFT.fetch_sub(1, Relaxed) == 1
        && let Some(kill) = KILL.get()
    {
        kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_all_different() {
        let names: std::collections::HashSet<_> =
            KillPoint::ALL.iter().map(|point| point.name()).collect();
        assert_eq!(names.len(), KillPoint::ALL.len());
    }

    #[test]
    fn what_is_not_armed_does_nothing() {
        KillPoint::ALL.iter().for_each(|point| reach(*point));
    }
}
