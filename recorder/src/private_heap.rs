//! The memory of the recorder's own Rust code: never the program's malloc.
//!
//! Blocks come from one reserved range, by powers of two, and go back to lists without
//! locks: a fork may happen, and a signal arrive, at any instant. As the preload
//! library's own global allocator it serves what is too large for the range by
//! mappings; in a program with a [`Recorder`](crate::Recorder) the drain's thread is
//! served from the range alone, and its blocks are known again by one comparison.
#![expect(unsafe_code, reason = "a global allocator")]

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::null_mut;
use std::sync::atomic::{
    AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Address space for blocks; touched pages only cost memory.
const RANGE_BYTES: usize = 64 << 20;
/// A range that is shorter than this serves nobody.
const LEAST_RANGE: u64 = 256 << 10;
/// Classes of 16, 32, … bytes.
const SMALLEST_LOG2: u32 = 4;
const CLASSES: usize = 19;
const LARGEST: usize = 1 << (SMALLEST_LOG2 as usize + CLASSES - 1);

/// The range and what is free in it.
#[derive(Debug)]
pub struct PrivateHeap {
    range: AtomicPtr<u8>,
    /// The range's length in bytes; 0 until it is reserved.
    length: AtomicUsize,
    used: AtomicUsize,
    free: [FreeList; CLASSES],
}

/// Blocks of one class, linked through their first word. The upper 16 bits of the
/// head count changes, so that a head that went and came back is not mistaken.
#[derive(Debug)]
struct FreeList {
    head: AtomicU64,
}

const ADDRESS_BITS: u32 = 48;
const ADDRESS_MASK: u64 = (1 << ADDRESS_BITS) - 1;

impl FreeList {
    const fn new() -> FreeList {
        FreeList {
            head: AtomicU64::new(0),
        }
    }

    fn replaced(head: u64, first: u64) -> u64 {
        ((head >> ADDRESS_BITS).wrapping_add(1) << ADDRESS_BITS) | first
    }

    fn pop(&self) -> *mut u8 {
        let mut head = self.head.load(Acquire);
        loop {
            let first = (head & ADDRESS_MASK) as *mut AtomicU64;
            if first.is_null() {
                return null_mut();
            }
            // SAFETY: blocks of the range stay mapped for good. If another thread has
            // taken this one meanwhile, the word read is void and the exchange fails.
            let second = unsafe { (*first).load(Relaxed) } & ADDRESS_MASK;
            match self.head.compare_exchange_weak(
                head,
                Self::replaced(head, second),
                AcqRel,
                Acquire,
            ) {
                Ok(_) => return first.cast(),
                Err(now) => head = now,
            }
        }
    }

    /// # Safety
    /// The block is of this class and nobody's.
    unsafe fn push(&self, block: *mut u8) {
        let mut head = self.head.load(Relaxed);
        loop {
            // SAFETY: the caller's promise; blocks are aligned to 16.
            unsafe { (*block.cast::<AtomicU64>()).store(head & ADDRESS_MASK, Relaxed) };
            let new = Self::replaced(head, block.addr() as u64);
            match self.head.compare_exchange_weak(head, new, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }
}

impl Default for PrivateHeap {
    fn default() -> Self {
        PrivateHeap::new()
    }
}

impl PrivateHeap {
    /// An empty heap; its range is reserved when it is first needed.
    pub const fn new() -> PrivateHeap {
        PrivateHeap {
            range: AtomicPtr::new(null_mut()),
            length: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
            free: [const { FreeList::new() }; CLASSES],
        }
    }

    /// A block of the range for this layout; null where there is no room.
    pub(crate) fn take(&self, layout: Layout) -> *mut u8 {
        class_of(layout).map_or(null_mut(), |class| self.small(class))
    }

    /// Whether the range holds this block.
    #[inline(always)]
    pub(crate) fn owns(&self, block: *mut u8) -> bool {
        let range = self.range.load(Relaxed);
        !range.is_null() && block.addr().wrapping_sub(range.addr()) < self.length.load(Relaxed)
    }

    /// Puts a block of the range back.
    ///
    /// # Safety
    /// `take` gave it out for this layout, and nobody uses it any more.
    pub(crate) unsafe fn put_back(&self, block: *mut u8, layout: Layout) {
        if let Some(list) = class_of(layout).and_then(|class| self.free.get(class)) {
            // SAFETY: the caller's promise.
            unsafe { list.push(block) };
        }
    }

    /// The range, reserved at the first call; null where the kernel refuses, or where the
    /// program has hardly any address space. Where that is limited, the range is a sixteenth
    /// of what is left: a thread of ours that has to ask the program's allocator makes that
    /// reserve a heap of 64 MiB for it.
    fn range(&self) -> *mut u8 {
        let range = self.range.load(Acquire);
        if !range.is_null() {
            return range;
        }
        let left = crate::os::limits::address_space_left().unwrap_or(u64::MAX);
        let bytes = (left / 16).min(RANGE_BYTES as u64);
        if bytes < LEAST_RANGE {
            return null_mut();
        }
        let bytes = bytes as usize & !(OS_PAGE - 1);
        let new = map(bytes);
        if new.is_null() {
            return null_mut();
        }
        match self
            .range
            .compare_exchange(null_mut(), new, AcqRel, Acquire)
        {
            Ok(_) => {
                self.length.store(bytes, Release);
                new
            }
            Err(first) => {
                // SAFETY: mapped just above, and seen by nobody.
                unsafe { libc::munmap(new.cast(), bytes) };
                first
            }
        }
    }

    fn small(&self, class: usize) -> *mut u8 {
        let Some(list) = self.free.get(class) else {
            return null_mut();
        };
        let block = list.pop();
        if !block.is_null() {
            return block;
        }
        let range = self.range();
        // Still 0 where another thread is just about to set it: then it serves nobody yet.
        let length = self.length.load(Acquire);
        let bytes = 1 << (SMALLEST_LOG2 as usize + class);
        // A block of 2^n bytes that starts at a multiple of them is aligned to them.
        let take = |used: usize| {
            let start = used.next_multiple_of(bytes);
            (start + bytes <= length).then_some(start + bytes)
        };
        match self.used.fetch_update(Relaxed, Relaxed, take) {
            // SAFETY: [start, start + bytes) lies in the range and was taken by nobody else.
            Ok(used) if !range.is_null() => unsafe { range.add(used.next_multiple_of(bytes)) },
            _ => null_mut(),
        }
    }
}

/// The class for a layout, `None` where it needs a mapping of its own.
fn class_of(layout: Layout) -> Option<usize> {
    let bytes = layout.size().max(layout.align()).max(1 << SMALLEST_LOG2);
    (bytes <= LARGEST)
        .then(|| (bytes.next_power_of_two().trailing_zeros() - SMALLEST_LOG2) as usize)
}

/// Zeroed memory, a whole number of OS pages; null where there is none.
fn map(bytes: usize) -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping anywhere.
    let place = unsafe {
        libc::mmap(
            null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        )
    };
    if place == libc::MAP_FAILED {
        null_mut()
    } else {
        place.cast()
    }
}

/// Mappings are aligned to OS pages: a larger alignment is not served.
const OS_PAGE: usize = 4096;

fn map_layout(layout: Layout) -> *mut u8 {
    if layout.align() > OS_PAGE {
        return null_mut();
    }
    map(layout.size().max(1))
}

// SAFETY: blocks are disjoint, as long and as aligned as asked for (`class_of` takes
// the larger of both), and stay until `dealloc`; nothing here unwinds.
unsafe impl GlobalAlloc for PrivateHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = self.take(layout);
        if block.is_null() {
            map_layout(layout)
        } else {
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block was given out for this layout: from the range by its
        // class, else as a mapping.
        unsafe {
            if self.owns(block) {
                self.put_back(block, layout);
            } else {
                libc::munmap(block.cast(), layout.size().max(1));
            }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises; small blocks may be used ones, mappings are new.
        unsafe {
            let block = self.alloc(layout);
            if self.owns(block) {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that `size` makes a valid layout.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: as in `alloc` and `dealloc`; the copy fits both blocks.
        unsafe {
            if !self.owns(block) && class_of(new).is_none() {
                return remap(block, layout.size(), size);
            }
            if self.owns(block) && class_of(layout) == class_of(new) {
                return block;
            }
            let place = self.alloc(new);
            if !place.is_null() {
                std::ptr::copy_nonoverlapping(block, place, layout.size().min(size));
                self.dealloc(block, layout);
            }
            place
        }
    }
}

/// Changes the length of a mapping; null where the kernel refuses.
///
/// # Safety
/// `block` is a mapping of `from` bytes that nobody uses meanwhile.
unsafe fn remap(block: *mut u8, from: usize, to: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    let moved = unsafe { libc::mremap(block.cast(), from.max(1), to, libc::MREMAP_MAYMOVE) };
    if moved == libc::MAP_FAILED {
        null_mut()
    } else {
        moved.cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_and_are_known() {
        static HEAP: PrivateHeap = PrivateHeap::new();
        let layout = Layout::from_size_align(100, 64).unwrap();
        let first = HEAP.take(layout);
        assert!(HEAP.owns(first) && first.addr().is_multiple_of(64));
        let second = HEAP.take(layout);
        assert!(second.addr().abs_diff(first.addr()) >= 100);
        // SAFETY: just taken for this layout, used by nobody.
        unsafe { HEAP.put_back(first, layout) };
        assert_eq!(HEAP.take(layout), first);
        assert!(
            HEAP.take(Layout::from_size_align(8 << 20, 8).unwrap())
                .is_null()
        );
        assert!(!HEAP.owns((&raw const HEAP).cast_mut().cast()));
    }
}
