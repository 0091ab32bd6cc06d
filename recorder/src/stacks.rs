//! Interns backtraces: the same return addresses from the same entry point are
//! defined once and known by a number, see [`interning`](crate::interning).

pub(crate) use crate::interning::Found;
use crate::interning::{Cache, Table};

/// Places in the table of all threads: 16 MiB, touched as it fills.
const MOST_PLACES: usize = 1 << 20;
const LEAST_PLACES: usize = 1 << 12;
/// A block of definitions holds up to about a hundred backtraces, but most are longer.
const PLACES_A_BLOCK: usize = 32;
/// Sets in a thread's cache: 64 KiB, touched as it fills, for the 8,192 backtraces of a
/// whole game.
const SETS: usize = 1024;

/// A thread's own cache.
pub(crate) type StackCache = Cache<SETS>;

static TABLE: Table = Table::new();

/// Makes the table for so many blocks of definitions; false where the kernel refuses.
pub(crate) fn set_up(blocks: usize) -> bool {
    let wanted = (blocks * PLACES_A_BLOCK).next_power_of_two();
    TABLE.set_up(wanted.clamp(LEAST_PLACES, MOST_PLACES))
}

/// Forgets all numbers: a new recording begins in a forked child.
pub(crate) fn forget() {
    TABLE.forget();
}

/// Looks a hash up, and takes a place for it where it is new.
pub(crate) fn find(hash: u64) -> Found {
    TABLE.find(hash)
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
