//! The word that every hook loads first: whether to record.
//!
//! It lies on a page of its own which the kernel empties in the child of any kind
//! of fork (MADV_WIPEONFORK), so that a child reads [`ASK`] whatever its parent
//! was doing, and touches nothing of the parent's recording before it has asked.

use std::sync::atomic::{AtomicU32, Ordering};

/// Not decided in this process: before the start, and in a child after a fork.
pub(crate) const ASK: u32 = 0;
/// Record.
pub(crate) const ON: u32 = 1;
/// Do not record.
pub(crate) const OFF: u32 = 2;

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
    PAGE.word.load(Ordering::Relaxed)
}

/// About to record: the drain's thread exists already.
pub(crate) const STARTING: u32 = 3;

/// Whether the drain's thread may be at work: the odd words.
#[inline(always)]
pub(crate) fn drain_may_run() -> bool {
    word() & 1 == 1
}

/// Sets the word.
pub(crate) fn set(word: u32) {
    PAGE.word.store(word, Ordering::Release);
}

/// The page, for the kernel.
pub(crate) fn page() -> (*const u8, usize) {
    ((&raw const PAGE).cast(), size_of::<Page>())
}
