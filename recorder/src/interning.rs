//! Numbers for things that are told apart by a 64-bit hash: backtraces, contexts.
//!
//! A thread asks its own [`Cache`] first, which touches no line that others write.
//! Behind it stands one [`Table`] for all threads: open addressing, a hash and a number
//! per place, never waited for. Two threads that meet the same new thing at once may
//! define it twice; equal definitions mean the same, whatever their numbers. Two things
//! with one hash would be taken for one: below 1 in 10^9 for 100,000 of them.
#![expect(unsafe_code, reason = "a table in memory straight from the kernel")]

use crate::os::memory;
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Places tried before the table counts as full.
const PROBES: usize = 64;
/// The hash's high bits that find a place: no table is longer than two to them.
const PLACE_BITS: u32 = 20;

#[repr(C)]
struct PlaceInTable {
    hash: AtomicU64,
    id: AtomicU32,
    reserved: u32,
}

/// A table of all threads, to be set up before it is used.
pub(crate) struct Table {
    places: AtomicPtr<PlaceInTable>,
    /// How many there are, a power of two; set before the pointer is.
    length: AtomicUsize,
}

impl Table {
    /// One that holds nothing and has no room.
    pub(crate) const fn new() -> Table {
        Table {
            places: AtomicPtr::new(std::ptr::null_mut()),
            length: AtomicUsize::new(0),
        }
    }

    /// Makes room, where there is none yet, for so many places, a power of two and the
    /// same at each call; false where the kernel refuses.
    pub(crate) fn set_up(&self, places: usize) -> bool {
        if !self.places.load(Acquire).is_null() {
            return true;
        }
        let places = places.min(1 << PLACE_BITS);
        let Some(memory) = memory::reserve(places * size_of::<PlaceInTable>()) else {
            return false;
        };
        self.length.store(places, Relaxed);
        // Who comes second leaves his own untouched: it costs address space and no memory.
        _ = self.places.compare_exchange(
            std::ptr::null_mut(),
            memory.as_ptr().cast(),
            AcqRel,
            Relaxed,
        );
        true
    }

    /// Forgets all numbers: a new recording begins in a forked child.
    pub(crate) fn forget(&self) {
        self.places.store(std::ptr::null_mut(), Release);
    }

    /// Looks a hash up, which is not 0, and takes a place for it where it is new.
    pub(crate) fn find(&self, hash: u64) -> Found {
        let Some(table) = NonNull::new(self.places.load(Acquire)) else {
            return Found::Full;
        };
        let mask = self.length.load(Relaxed).wrapping_sub(1);
        for probe in 0..PROBES {
            let index = ((hash >> (64 - PLACE_BITS)) as usize + probe) & mask;
            // SAFETY: the index is below the length of the table.
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

/// A thread's own cache of numbers: sets of one cache line each, a power of two of them.
/// All zeros are empty.
///
/// A place holds 40 bits of the hash and a number of 24 bits; with a number of ten bits
/// for the set 50 bits tell things apart. One that was never met is taken for one of the
/// eight in its set with a probability of 2^-37: below 1 in 10^6 for 100,000 of them.
#[repr(C, align(64))]
pub(crate) struct Cache<const SETS: usize> {
    sets: [[u64; IN_A_SET]; SETS],
    /// Where the next one goes in a full set.
    turn: u8,
}

const IN_A_SET: usize = 8;
const ID_BITS: u32 = 24;
/// The greatest number that a cache holds.
pub(crate) const MAX_CACHED: u32 = (1 << ID_BITS) - 1;

impl<const SETS: usize> Cache<SETS> {
    /// The number of a hash, if this thread met it lately.
    #[inline(always)]
    pub(crate) fn get(&self, hash: u64) -> Option<u32> {
        let set = &self.sets[Self::set_of(hash)];
        let mut found = 0;
        // PERF: no branch for each place, so that the eight compare as vectors.
        for place in set {
            let same = (place ^ hash) >> ID_BITS == 0;
            found |= if same { *place } else { 0 };
        }
        let id = found as u32 & MAX_CACHED;
        if id == 0 { None } else { Some(id) }
    }

    /// Has the memory for a hash brought nearer, without waiting for it.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let set = &raw const self.sets[Self::set_of(hash)];
        // SAFETY: a hint; any address may be given.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(set.cast()) };
    }

    /// Remembers a number; not one that is too great.
    pub(crate) fn put(&mut self, hash: u64, id: u32) {
        if id > MAX_CACHED {
            return;
        }
        let set = &mut self.sets[Self::set_of(hash)];
        let kept = hash >> ID_BITS << ID_BITS | u64::from(id);
        let same = |place: &&mut u64| (**place ^ hash) >> ID_BITS == 0 || **place == 0;
        if let Some(place) = set.iter_mut().find(same) {
            *place = kept;
        } else {
            self.turn = (self.turn + 1) % IN_A_SET as u8;
            set[self.turn as usize % IN_A_SET] = kept;
        }
    }

    /// By bits that no place holds.
    #[inline(always)]
    fn set_of(hash: u64) -> usize {
        (hash >> 2) as usize % SETS
    }
}
