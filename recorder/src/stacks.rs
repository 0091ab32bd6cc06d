//! Interns backtraces: the same return addresses from the same entry point are
//! defined once and known by a number.
//!
//! A thread asks its own cache first, which touches no line that others write.
//! Behind it stands one table for all threads: open addressing, a 64-bit hash and a
//! number per place, never waited for. Two threads that meet the same new backtrace
//! at once may define it twice; equal definitions mean the same, whatever their
//! numbers. Two backtraces with one hash would be taken for one: below 1 in 10^9
//! for 100,000 backtraces.
#![expect(unsafe_code, reason = "a table in memory straight from the kernel")]

use crate::os::memory;
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Places in the table of all threads; 16 MiB, touched as it fills.
const PLACES: usize = 1 << 20;
/// Places tried before the table counts as full.
const PROBES: usize = 64;
/// Places in a thread's cache: 256 KiB, touched as it fills, for the backtraces of a whole game.
const CACHED: usize = 16384;

#[repr(C)]
struct PlaceInTable {
    hash: AtomicU64,
    id: AtomicU32,
    reserved: u32,
}

static TABLE: AtomicPtr<PlaceInTable> = AtomicPtr::new(std::ptr::null_mut());

/// Makes the table; false where the kernel refuses.
pub(crate) fn set_up() -> bool {
    if TABLE.load(Acquire).is_null() {
        let Some(place) = memory::reserve(PLACES * size_of::<PlaceInTable>()) else {
            return false;
        };
        TABLE.store(place.as_ptr().cast(), Release);
    }
    true
}

/// Forgets all numbers: a new recording begins in a forked child.
pub(crate) fn forget() {
    TABLE.store(std::ptr::null_mut(), Release);
}

/// A hash of everything that tells two backtraces apart; never 0.
#[inline(always)]
pub(crate) fn hash(frames: &[u64], entry: u8, align_log2: u8, generation: u32) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut hash = u64::from(generation) << 16 | u64::from(align_log2) << 8 | u64::from(entry);
    for frame in frames {
        hash = (hash.rotate_left(23) ^ frame).wrapping_mul(FACTOR);
    }
    // Addresses differ in few low bits: fold the well-mixed high half down.
    (hash ^ hash >> 29).wrapping_mul(FACTOR) | 1
}

/// What the table knows of a hash.
pub(crate) enum Found {
    /// Its number.
    Known(u32),
    /// Nothing: whoever defines it stores the number here.
    New(Vacancy),
    /// Nothing, and no room either.
    Full,
}

/// A place in the table whose number is still to come.
pub(crate) struct Vacancy(Option<NonNull<PlaceInTable>>);

impl Vacancy {
    /// Makes the number known to all threads; call it when the definition is published.
    pub(crate) fn fill(self, id: u32) {
        if let Some(place) = self.0 {
            // SAFETY: places lie in the table, which is never unmapped.
            unsafe { place.as_ref() }.id.store(id, Release);
        }
    }
}

/// Looks a hash up, and takes a place for it where it is new.
pub(crate) fn find(hash: u64) -> Found {
    let Some(table) = NonNull::new(TABLE.load(Acquire)) else {
        return Found::Full;
    };
    for probe in 0..PROBES {
        let index = ((hash >> 44) as usize + probe) & (PLACES - 1);
        // SAFETY: the index is below PLACES, the length of the table.
        let place = unsafe { table.add(index) };
        // SAFETY: as above; a place is all atomics, and zeroed memory is a valid one.
        let entry = unsafe { place.as_ref() };
        let seen = entry.hash.load(Acquire);
        if seen == hash {
            // Taken but not filled: its definer is interrupted or gone. Not waited for.
            return match entry.id.load(Acquire) {
                0 => Found::New(Vacancy(None)),
                id => Found::Known(id),
            };
        }
        if seen == 0
            && entry
                .hash
                .compare_exchange(0, hash, AcqRel, Relaxed)
                .is_ok()
        {
            return Found::New(Vacancy(Some(place)));
        }
        if entry.hash.load(Relaxed) == hash {
            return Found::New(Vacancy(None));
        }
    }
    Found::Full
}

/// A thread's own cache of numbers, direct mapped.
pub(crate) struct StackCache {
    places: [(u64, u32); CACHED],
}

impl StackCache {
    /// The number of a hash, if this thread met it lately.
    #[inline(always)]
    pub(crate) fn get(&self, hash: u64) -> Option<u32> {
        let (known, id) = self.places[(hash as usize >> 2) & (CACHED - 1)];
        if known == hash { Some(id) } else { None }
    }

    /// Remembers a number.
    pub(crate) fn put(&mut self, hash: u64, id: u32) {
        self.places[(hash as usize >> 2) & (CACHED - 1)] = (hash, id);
    }
}
