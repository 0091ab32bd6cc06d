//! Which segment each live block was allocated in, without touching the block: a byte for
//! each eight bytes of address space, of which only those are ever touched that stand for
//! the beginning of a block.
//!
//! ```text
//! address, 47 bits:  │ 20 bits: which table │ 24 bits: which byte in it │ 3 bits │
//! ```
//!
//! Only whoever holds a block stores to its byte, between the allocator's giving the block
//! out and its taking it back; the allocator's own synchronisation orders the rest.
#![expect(unsafe_code, reason = "tables by address, straight from the kernel")]

use crate::os::memory;
use std::sync::atomic::{
    AtomicPtr, AtomicU8,
    Ordering::{AcqRel, Acquire, Relaxed},
};

const ADDRESS_BITS: u32 = 47;
const GRANULE_BITS: u32 = 3;
const TABLE_BITS: u32 = 24;
const TABLES: usize = 1 << (ADDRESS_BITS - TABLE_BITS - GRANULE_BITS);

type Table = [AtomicU8; 1 << TABLE_BITS];
type Root = [AtomicPtr<Table>; TABLES];

static ROOT: AtomicPtr<Root> = AtomicPtr::new(std::ptr::null_mut());

/// Reserves the first table, 8 MiB of addresses; false where the kernel gives none.
pub(super) fn set_up() -> bool {
    let root = one_of(&ROOT);
    root.is_some()
}

/// Notes that the block was allocated in this segment.
#[inline(always)]
pub(super) fn put(address: usize, segment: u8) {
    if let Some(byte) = byte_of(address) {
        byte.store(segment + 1, Relaxed);
    }
}

/// Forgets the block, and tells its segment; `None` if it was allocated while nobody counted.
#[inline(always)]
pub(super) fn take(address: usize) -> Option<u8> {
    let byte = byte_of(address)?;
    let segment = byte.load(Relaxed).checked_sub(1)?;
    byte.store(0, Relaxed);
    Some(segment)
}

#[inline(always)]
fn byte_of(address: usize) -> Option<&'static AtomicU8> {
    // SAFETY: null, or a table that `one_of` has left for good; zeroed memory is a valid one.
    let root = unsafe { ROOT.load(Acquire).as_ref()? };
    let table = root.get(address >> (TABLE_BITS + GRANULE_BITS))?;
    let known = table.load(Acquire);
    // SAFETY: as above.
    let table = match unsafe { known.as_ref() } {
        Some(table) => table,
        None => one_of(table)?,
    };
    table.get(address >> GRANULE_BITS & ((1 << TABLE_BITS) - 1))
}

/// What `place` points to, reserved now if it is nothing yet.
#[cold]
#[inline(never)]
fn one_of<T>(place: &AtomicPtr<T>) -> Option<&'static T> {
    let known = place.load(Acquire);
    // SAFETY: null, or what was put here below.
    if let Some(known) = unsafe { known.as_ref() } {
        return Some(known);
    }
    memory::keeping_errno(|| {
        let fresh = memory::reserve(size_of::<T>())?;
        let exchanged =
            place.compare_exchange(std::ptr::null_mut(), fresh.as_ptr().cast(), AcqRel, Acquire);
        // SAFETY: page-aligned zeroed memory of this size, valid for tables of atomics and
        // never given back; where another thread was first, ours has no other user.
        unsafe {
            match exchanged {
                Ok(_) => Some(fresh.cast::<T>().as_ref()),
                Err(first) => {
                    memory::give_back(fresh, size_of::<T>());
                    first.as_ref()
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_taken_once() {
        assert!(set_up());
        let address = 0x7123_4567_8910;
        assert_eq!(take(address), None);
        put(address, 5);
        put(address + 8, 6);
        assert_eq!(take(address), Some(5));
        assert_eq!(take(address), None);
        assert_eq!(take(address + 8), Some(6));
    }

    #[test]
    fn addresses_beyond_the_tables_are_unknown() {
        assert!(set_up());
        put(1 << ADDRESS_BITS, 1);
        assert_eq!(take(1 << ADDRESS_BITS), None);
        assert_eq!(take(usize::MAX), None);
    }
}
