//! The word that every hook loads first: whether there is anything to do.
//!
//! It lies on a page of its own which the kernel empties in the child of any kind
//! of fork (MADV_WIPEONFORK), so that a child reads [`ASK`] whatever its parent
//! was doing, and touches nothing of the parent's recording before it has asked.
//!
//! Its low bits are the state of the recording; [`COUNTING`] stands beside them.

use std::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Relaxed},
};

/// Not decided in this process: before the start, and in a child after a fork.
pub(crate) const ASK: u32 = 0;
/// Do not record.
pub(crate) const OFF: u32 = 2;
/// About to record: the drain's thread exists already.
pub(crate) const STARTING: u32 = 3;
/// Record.
pub(crate) const ON: u32 = 7;
/// Count, whatever the recording does.
pub(crate) const COUNTING: u32 = 8;

/// From this value on a hook has something to do.
pub(crate) const ACTIVE: u32 = 4;

#[repr(C, align(4096))]
struct Page {
    word: AtomicU32,
    _rest: [u8; 4092],
}

static PAGE: Page = Page {
    word: AtomicU32::new(ASK),
    _rest: [0; 4092],
};

/// The word. Relaxed: what a hook needs beyond it is published by its own stores.
#[inline(always)]
pub(crate) fn word() -> u32 {
    PAGE.word.load(Relaxed)
}

/// The state of the recording alone.
#[inline(always)]
pub(crate) fn recording() -> u32 {
    word() & !COUNTING
}

/// Whether calls are counted.
#[inline(always)]
pub(crate) fn is_counting() -> bool {
    word() & COUNTING != 0
}

/// Whether the drain's thread may be at work: the odd words.
#[inline(always)]
pub(crate) fn drain_may_run() -> bool {
    word() & 1 == 1
}

/// Sets the state of the recording.
pub(crate) fn set(state: u32) {
    let changed = |word| Some(word & COUNTING | state);
    // Never refused: the closure always has an answer.
    _ = PAGE.word.fetch_update(AcqRel, Relaxed, changed);
}

/// Begins or ends the counting.
pub(crate) fn count(on: bool) {
    if on {
        PAGE.word.fetch_or(COUNTING, AcqRel);
    } else {
        PAGE.word.fetch_and(!COUNTING, AcqRel);
    }
}

/// The page, for the kernel.
pub(crate) fn page() -> (*const u8, usize) {
    ((&raw const PAGE).cast(), size_of::<Page>())
}
