//! Which memory above a stack pointer may be read.
//!
//! *A thread's own stack* reaches up to its control block, or for the first
//! thread to what the kernel put above its frames. It stays mapped as long as
//! the thread lives, so what was once found readable is remembered.
//!
//! *Any other stack* (coroutines, alternate signal stacks) may be unmapped and
//! mapped anew at any time, so nothing is remembered about it: a walk asks the
//! kernel again for each page it enters.
//!
//! Asking the kernel page by page needs neither `/proc` nor a descriptor.

use core::sync::atomic::{AtomicU64, Ordering};

use super::readable::{PAGE, is_main_thread, is_readable, thread_pointer};

/// What is known about one thread's own stack. Kept in the thread's state by
/// the caller, and not to be used by a signal handler that interrupts a walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackBounds {
    /// Lowest address known to be mapped.
    pub low: u64,
    /// The end of the stack. Zero when nothing is known yet.
    pub high: u64,
    /// No address below this one belongs to the stack.
    floor: u64,
}

/// How far one walk may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::unwind) struct Reach {
    /// All memory from the stack pointer up to here is mapped.
    pub limit: u64,
    /// Whether the kernel may be asked for more.
    pub can_grow: bool,
}

/// The most that is asked for page by page at once: 16 MiB, two default stacks.
const SPAN: u64 = 16 << 20;

/// An address in the first thread's stack above all its frames; zero if unknown.
static MAIN_TOP: AtomicU64 = AtomicU64::new(0);

impl StackBounds {
    /// Nothing known.
    pub const EMPTY: Self = Self {
        low: 0,
        high: 0,
        floor: 0,
    };

    /// Whether `sp` lies in the part known to be mapped.
    #[inline(always)]
    pub(in crate::unwind) fn holds(&self, sp: u64) -> bool {
        sp.wrapping_sub(self.low) < self.high.wrapping_sub(self.low)
    }
}

/// The first thread's control block; zero if unknown.
static MAIN_THREAD: AtomicU64 = AtomicU64::new(0);

/// Notes where the first thread's stack ends: the kernel lays sixteen random
/// bytes above the first frame. And who is the first thread, where it is this one; in
/// a forked child that may be another one of its parent's, which keeps the stack it had.
pub(super) fn find_main_top() {
    let top = super::object::auxiliary(libc::AT_RANDOM) & !7;
    MAIN_TOP.store(top, Ordering::Relaxed);
    if MAIN_THREAD.load(Ordering::Relaxed) == 0 && is_main_thread() {
        MAIN_THREAD.store(thread_pointer(), Ordering::Relaxed);
    }
}

/// Whether this thread runs on the stack that the kernel made, coroutines apart.
fn has_main_stack() -> bool {
    match MAIN_THREAD.load(Ordering::Relaxed) {
        0 => is_main_thread(),
        first => first == thread_pointer(),
    }
}

/// How far memory is mapped above `sp`; none if `sp` itself is not.
#[inline(always)]
pub(in crate::unwind) fn locate(sp: u64, bounds: &mut StackBounds) -> Option<Reach> {
    if bounds.holds(sp) {
        return Some(Reach {
            limit: bounds.high,
            can_grow: false,
        });
    }
    search(sp, bounds)
}

#[cold]
#[inline(never)]
fn search(sp: u64, bounds: &mut StackBounds) -> Option<Reach> {
    if bounds.high == 0 {
        begin(bounds);
    }
    if extend_down(sp, bounds) {
        return Some(Reach {
            limit: bounds.high,
            can_grow: false,
        });
    }
    let page = sp & !(PAGE - 1);
    is_readable(page).then_some(Reach {
        limit: page.saturating_add(PAGE),
        can_grow: true,
    })
}

fn begin(bounds: &mut StackBounds) {
    let top = if has_main_stack() {
        MAIN_TOP.load(Ordering::Relaxed)
    } else {
        thread_pointer()
    };
    *bounds = StackBounds {
        low: top,
        high: top,
        floor: bounds.floor,
    };
}

/// Tries to find that the stack reaches from its known part down to `sp`: that
/// is so when every page between is mapped, for below a stack there is a guard. The
/// kernel's own stack has nothing else within 128 MiB below its top (mmap_base).
fn extend_down(sp: u64, bounds: &mut StackBounds) -> bool {
    if sp >= bounds.low || sp < bounds.floor || bounds.low - sp > SPAN {
        return false;
    }
    let first = sp & !(PAGE - 1);
    let top = MAIN_TOP.load(Ordering::Relaxed);
    if bounds.high == top && top - sp <= SPAN {
        bounds.low = first;
        return true;
    }
    let mut page = first;
    while page < bounds.low {
        if !is_readable(page) {
            bounds.floor = page + PAGE;
            return false;
        }
        page += PAGE;
    }
    bounds.low = first;
    true
}

impl Reach {
    /// Makes memory up to `end` count as mapped, if it is.
    #[cold]
    #[inline(never)]
    pub(in crate::unwind) fn grow(&mut self, end: u64) -> bool {
        if !self.can_grow || end.wrapping_sub(self.limit) > SPAN {
            return end <= self.limit;
        }
        while self.limit < end {
            if !is_readable(self.limit) {
                return false;
            }
            self.limit += PAGE;
        }
        true
    }
}
