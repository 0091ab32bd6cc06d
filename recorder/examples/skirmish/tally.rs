//! The inner allocator: the system's, with a count of every call.
//!
//! It stands *below* the recorder and sees what the game asked for. Each thread counts in a
//! slot of its own on cache lines of its own. Totals are of the game's threads, which say
//! that they are: a recorder that works on a thread of its own in this process is no part
//! of the truth.
#![expect(unsafe_code, reason = "an allocator cannot be written without")]

use serde::Serialize;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::{AddAssign, Sub};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Threads with a slot of their own; a later one shares, and stays exact in the total.
const SLOTS: usize = 256;

/// The system's allocator, counted.
pub struct Tally;

/// What was counted, up to an instant or between two.
#[derive(Clone, Copy, Default, Serialize)]
pub struct Counts {
    /// Calls of `alloc` that gave memory.
    pub allocations: u64,
    /// Calls of `alloc_zeroed` that gave memory.
    pub zeroed_allocations: u64,
    /// Calls of `realloc` that succeeded, moved or not.
    pub reallocations: u64,
    /// Calls of `dealloc`.
    pub deallocations: u64,
    /// Calls of any kind that gave null.
    pub failed_allocations: u64,
    /// Sum of the sizes asked for, a reallocation counting with its whole new size.
    pub requested_bytes: u64,
    /// Sum of the sizes given up, a reallocation counting with its old size.
    pub released_bytes: u64,
}

impl Counts {
    /// Allocations of both kinds: the blocks made.
    pub fn blocks_made(&self) -> u64 {
        self.allocations + self.zeroed_allocations
    }

    /// Blocks made and not yet freed.
    pub fn live_blocks(&self) -> i64 {
        self.blocks_made() as i64 - self.deallocations as i64
    }

    /// Requested bytes of those blocks.
    pub fn live_bytes(&self) -> i64 {
        self.requested_bytes as i64 - self.released_bytes as i64
    }
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            allocations: self.allocations - earlier.allocations,
            zeroed_allocations: self.zeroed_allocations - earlier.zeroed_allocations,
            reallocations: self.reallocations - earlier.reallocations,
            deallocations: self.deallocations - earlier.deallocations,
            failed_allocations: self.failed_allocations - earlier.failed_allocations,
            requested_bytes: self.requested_bytes - earlier.requested_bytes,
            released_bytes: self.released_bytes - earlier.released_bytes,
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.allocations += other.allocations;
        self.zeroed_allocations += other.zeroed_allocations;
        self.reallocations += other.reallocations;
        self.deallocations += other.deallocations;
        self.failed_allocations += other.failed_allocations;
        self.requested_bytes += other.requested_bytes;
        self.released_bytes += other.released_bytes;
    }
}

/// Says that the calling thread is the game's, with all that it did before.
pub fn join_game() {
    my_slot().of_game.store(true, Relaxed);
}

/// Everything counted so far, by all of the game's threads. Exact when the others are at
/// rest.
pub fn all_threads() -> Counts {
    let mut sum = Counts::default();
    let of_game = |slot: &&Slot| slot.of_game.load(Relaxed);
    SLOT_COUNTS
        .iter()
        .filter(of_game)
        .for_each(|slot| sum += slot.read());
    sum
}

/// Everything counted so far by the calling thread.
pub fn this_thread() -> Counts {
    my_slot().read()
}

/// Forgets the peak: it is now what is live now.
pub fn restart_peak() {
    let live = all_threads().live_bytes() as u64;
    LIVE_BYTES.store(live, Relaxed);
    PEAK_BYTES.store(live, Relaxed);
}

/// The most requested bytes that were live at once since [`restart_peak`]. Exact while
/// one thread allocates; with several, their order of counting decides ties.
pub fn peak_live_bytes() -> u64 {
    PEAK_BYTES.load(Relaxed)
}

/// Two cache lines, since processors fetch lines in pairs.
#[repr(align(128))]
struct Slot {
    of_game: AtomicBool,
    allocations: AtomicU64,
    zeroed_allocations: AtomicU64,
    reallocations: AtomicU64,
    deallocations: AtomicU64,
    failed_allocations: AtomicU64,
    requested_bytes: AtomicU64,
    released_bytes: AtomicU64,
}

impl Slot {
    const fn new() -> Self {
        Self {
            of_game: AtomicBool::new(false),
            allocations: AtomicU64::new(0),
            zeroed_allocations: AtomicU64::new(0),
            reallocations: AtomicU64::new(0),
            deallocations: AtomicU64::new(0),
            failed_allocations: AtomicU64::new(0),
            requested_bytes: AtomicU64::new(0),
            released_bytes: AtomicU64::new(0),
        }
    }

    /// Live bytes grow by `growth`, or shrink where it has wrapped.
    fn count_live(&self, growth: u64) {
        if self.of_game.load(Relaxed) {
            let live = LIVE_BYTES.fetch_add(growth, Relaxed).wrapping_add(growth);
            PEAK_BYTES.fetch_max(live, Relaxed);
        }
    }

    fn read(&self) -> Counts {
        Counts {
            allocations: self.allocations.load(Relaxed),
            zeroed_allocations: self.zeroed_allocations.load(Relaxed),
            reallocations: self.reallocations.load(Relaxed),
            deallocations: self.deallocations.load(Relaxed),
            failed_allocations: self.failed_allocations.load(Relaxed),
            requested_bytes: self.requested_bytes.load(Relaxed),
            released_bytes: self.released_bytes.load(Relaxed),
        }
    }
}

static SLOT_COUNTS: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];
static NEXT_SLOT: AtomicUsize = AtomicUsize::new(0);
static LIVE_BYTES: AtomicU64 = AtomicU64::new(0);
static PEAK_BYTES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Without a destructor, so it works from a thread's first call to its last.
    static MY_SLOT: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn my_slot() -> &'static Slot {
    let number = MY_SLOT.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT_SLOT.fetch_add(1, Relaxed));
        }
        mine.get()
    });
    &SLOT_COUNTS[number % SLOTS]
}

/// After a call that should give `size` bytes in place of `old` ones (0 for none).
fn count_acquired(
    counter: impl Fn(&Slot) -> &AtomicU64,
    block: *mut u8,
    size: usize,
    old: usize,
) -> *mut u8 {
    let slot = my_slot();
    if block.is_null() {
        slot.failed_allocations.fetch_add(1, Relaxed);
        return block;
    }
    counter(slot).fetch_add(1, Relaxed);
    slot.requested_bytes.fetch_add(size as u64, Relaxed);
    if old != 0 {
        slot.released_bytes.fetch_add(old as u64, Relaxed);
    }
    // Wraps for a block that shrinks, and back.
    slot.count_live((size as u64).wrapping_sub(old as u64));
    block
}

// SAFETY: every call goes to `System` with the caller's own arguments, and counting
// neither allocates nor panics.
unsafe impl GlobalAlloc for Tally {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps `GlobalAlloc`'s contract, here and below.
        let block = unsafe { System.alloc(layout) };
        count_acquired(|slot| &slot.allocations, block, layout.size(), 0)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        let block = unsafe { System.alloc_zeroed(layout) };
        count_acquired(|slot| &slot.zeroed_allocations, block, layout.size(), 0)
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as in `alloc`.
        let moved = unsafe { System.realloc(block, layout, new_size) };
        count_acquired(|slot| &slot.reallocations, moved, new_size, layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let size = layout.size() as u64;
        let slot = my_slot();
        slot.deallocations.fetch_add(1, Relaxed);
        slot.released_bytes.fetch_add(size, Relaxed);
        slot.count_live(size.wrapping_neg());
        // SAFETY: as in `alloc`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_of_this_thread_is_counted() {
        let before = this_thread();
        let mut bytes = Vec::<u8>::with_capacity(100);
        bytes.reserve_exact(300);
        let zeroes = vec![0u8; 50];
        drop(bytes);
        let counts = this_thread() - before;
        assert_eq!((counts.allocations, counts.zeroed_allocations), (1, 1));
        assert_eq!((counts.reallocations, counts.deallocations), (1, 1));
        assert_eq!((counts.requested_bytes, counts.released_bytes), (450, 400));
        assert_eq!((counts.live_blocks(), counts.live_bytes()), (1, 50));
        drop(zeroes);
    }
}
