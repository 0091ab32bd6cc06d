//! Programs that give system calls up (seccomp).
//!
//! From then on the recorder makes none but those that any program makes that allocates
//! and has threads: whoever wrote the filter did not know of us, and a call that it does
//! not list may kill the program. What the other calls would have told is not recorded.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static CONFINED: AtomicBool = AtomicBool::new(false);

/// Whether the program has given system calls up.
pub(crate) fn is_confined() -> bool {
    CONFINED.load(Relaxed)
}

/// It is about to. Never taken back, and inherited by children, as a filter is.
pub(crate) fn confine() {
    CONFINED.store(true, Relaxed);
}
