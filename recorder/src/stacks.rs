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
    AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Places in the table of all threads: 16 MiB, touched as it fills.
const MOST_PLACES: usize = 1 << 20;
const LEAST_PLACES: usize = 1 << 12;
/// A block of definitions holds up to about a hundred backtraces, but most are longer.
const PLACES_A_BLOCK: usize = 32;
/// Places tried before the table counts as full.
const PROBES: usize = 64;
/// Sets in a thread's cache: 64 KiB, touched as it fills, for the 8,192 backtraces of a
/// whole game.
const SETS: usize = 1024;

#[repr(C)]
struct PlaceInTable {
    hash: AtomicU64,
    id: AtomicU32,
    reserved: u32,
}

static TABLE: AtomicPtr<PlaceInTable> = AtomicPtr::new(std::ptr::null_mut());
/// Its length, a power of two; set before the table is.
static PLACES: AtomicUsize = AtomicUsize::new(0);

/// Makes the table for so many blocks of definitions; false where the kernel refuses.
pub(crate) fn set_up(blocks: usize) -> bool {
    if TABLE.load(Acquire).is_null() {
        let wanted = (blocks * PLACES_A_BLOCK).next_power_of_two();
        let places = wanted.clamp(LEAST_PLACES, MOST_PLACES);
        let Some(place) = memory::reserve(places * size_of::<PlaceInTable>()) else {
            return false;
        };
        PLACES.store(places, Relaxed);
        TABLE.store(place.as_ptr().cast(), Release);
    }
    true
}

/// Forgets all numbers: a new recording begins in a forked child.
pub(crate) fn forget() {
    TABLE.store(std::ptr::null_mut(), Release);
}

/// A hash of everything that tells two backtraces apart, `frames` being one of their
/// return addresses; never 0.
#[inline(always)]
pub(crate) fn hash(frames: u64, entry: u8, align_log2: u8, generation: u32) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let request = u64::from(generation) << 16 | u64::from(align_log2) << 8 | u64::from(entry);
    let hash = (frames.rotate_left(23) ^ request).wrapping_mul(FACTOR);
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
    let mask = PLACES.load(Relaxed).wrapping_sub(1);
    for probe in 0..PROBES {
        let index = ((hash >> 44) as usize + probe) & mask;
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

/// A thread's own cache of numbers: sets of one cache line each. All zeros are empty.
///
/// A place holds 40 bits of the hash and a number of 24 bits; with the set's number 50
/// bits tell backtraces apart. One that was never met is taken for one of the eight in
/// its set with a probability of 2^-37: below 1 in 10^6 for 100,000 backtraces.
#[repr(C, align(64))]
pub(crate) struct StackCache {
    sets: [[u64; IN_A_SET]; SETS],
    /// Where the next one goes in a full set.
    turn: u8,
}

const IN_A_SET: usize = 8;
const ID_BITS: u32 = 24;

impl StackCache {
    /// The number of a hash, if this thread met it lately.
    #[inline(always)]
    pub(crate) fn get(&self, hash: u64) -> Option<u32> {
        let set = &self.sets[set_of(hash)];
        let mut found = 0;
        // PERF: no branch for each place, so that the eight compare as vectors.
        for place in set {
            let same = (place ^ hash) >> ID_BITS == 0;
            found |= if same { *place } else { 0 };
        }
        let id = found as u32 & ((1 << ID_BITS) - 1);
        if id == 0 { None } else { Some(id) }
    }

    /// Has the memory for a hash brought nearer, without waiting for it.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let set = &raw const self.sets[set_of(hash)];
        // SAFETY: a hint; any address may be given.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(set.cast()) };
    }

    /// Remembers a number; not one that is too great.
    pub(crate) fn put(&mut self, hash: u64, id: u32) {
        if id >> ID_BITS != 0 {
            return;
        }
        let set = &mut self.sets[set_of(hash)];
        let kept = hash >> ID_BITS << ID_BITS | u64::from(id);
        let same = |place: &&mut u64| (**place ^ hash) >> ID_BITS == 0 || **place == 0;
        if let Some(place) = set.iter_mut().find(same) {
            *place = kept;
        } else {
            self.turn = (self.turn + 1) % IN_A_SET as u8;
            set[self.turn as usize % IN_A_SET] = kept;
        }
    }
}

/// By bits that no place holds.
#[inline(always)]
fn set_of(hash: u64) -> usize {
    (hash >> 2) as usize % SETS
}
