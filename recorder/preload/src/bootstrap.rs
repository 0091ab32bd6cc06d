//! Memory for the loader's own calls while the next definitions are being looked up.
//!
//! `dlsym` may call malloc, calloc and free, and then there is nobody to ask yet.
//! Its blocks come from a static range, are recognised by their address, and are
//! never given back.
#![expect(unsafe_code, reason = "an allocator, if a small one")]

use crate::next;
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const BYTES: usize = 64 * 1024;
/// In front of each block: its size. As wide as malloc's alignment.
const HEADER: usize = 16;

#[repr(C, align(4096))]
struct Range(UnsafeCell<[u8; BYTES]>);

// SAFETY: parts of the range are handed out once each, by an atomic counter; who
// gets a part is its only user.
unsafe impl Sync for Range {}

static RANGE: Range = Range(UnsafeCell::new([0; BYTES]));
static USED: AtomicUsize = AtomicUsize::new(0);

/// Whether the block is one of ours.
#[inline(always)]
pub(crate) fn owns(block: *const u8) -> bool {
    (block.addr()).wrapping_sub(RANGE.0.get().addr()) < BYTES
}

/// A block, filled with zeros; null once the range is used up.
#[cold]
pub(crate) fn allocate(size: usize, align: usize) -> *mut u8 {
    let align = align.max(HEADER);
    if size > BYTES || !align.is_power_of_two() || align > BYTES {
        return null_mut();
    }
    let needed = HEADER + align + size;
    let from = USED.fetch_add(needed, Relaxed);
    if from.checked_add(needed).is_none_or(|end| end > BYTES) {
        return null_mut();
    }
    let start = RANGE.0.get().cast::<u8>();
    let offset = (start.addr() + from + HEADER).next_multiple_of(align) - start.addr();
    // SAFETY: [from, from + needed) is within the range and belongs to this call
    // alone; header, padding and block fit into it.
    unsafe {
        let block = start.add(offset);
        block.sub(HEADER).cast::<usize>().write(size);
        block
    }
}

/// Size of one of our blocks, as it was asked for.
///
/// # Safety
/// `allocate` returned the block.
#[cold]
pub(crate) unsafe fn size_of_block(block: *const u8) -> usize {
    // SAFETY: the header stands in front of each block.
    unsafe { block.sub(HEADER).cast::<usize>().read() }
}

/// `free` for one of our blocks: it stays.
pub(crate) fn keep(_block: *mut u8) {}

/// `realloc` for one of our blocks: it moves to the program's allocator.
///
/// # Safety
/// `allocate` returned the block.
#[cold]
pub(crate) unsafe fn move_out(block: *mut u8, size: usize) -> *mut u8 {
    if size == 0 {
        return null_mut();
    }
    // SAFETY: the copy is as long as both blocks are at least.
    unsafe {
        let new = next::MALLOC.get()(size);
        if !new.is_null() {
            let kept = size_of_block(block).min(size);
            std::ptr::copy_nonoverlapping(block, new, kept);
        }
        new
    }
}
