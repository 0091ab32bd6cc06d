//! The global allocator of a Rust game.
#![expect(unsafe_code, reason = "implements GlobalAlloc")]

use crate::backtrace::CallSite;
use crate::hooks::Wanted;
use crate::private_heap::PrivateHeap;
use crate::{hooks, switch, thread};
use heapreel_format::Entry;
use std::alloc::{GlobalAlloc, Layout, System};

/// A global allocator that records what goes through it to the allocator inside.
///
/// Until a recording is started each call costs one load and a predictable branch.
///
/// ```no_run
/// use std::alloc::System;
///
/// #[global_allocator]
/// static ALLOC: heapreel::Recorder<System> = heapreel::Recorder::system();
/// # fn main() {}
/// ```
#[derive(Debug, Default)]
pub struct Recorder<A> {
    inner: A,
}

impl Recorder<System> {
    /// Records what goes through to the system's allocator.
    pub const fn system() -> Self {
        Recorder { inner: System }
    }
}

impl<A: GlobalAlloc> Recorder<A> {
    /// Records what goes through to `inner`.
    pub const fn new(inner: A) -> Self {
        Recorder { inner }
    }

    /// The allocator inside.
    pub const fn inner(&self) -> &A {
        &self.inner
    }
}

/// Memory for the drain's thread: the recorder takes nothing from the program's allocator.
static OWN: PrivateHeap = PrivateHeap::new();

/// Null unless the calling thread is the recorder's own.
#[inline(always)]
fn own_block(layout: Layout) -> *mut u8 {
    if switch::drain_may_run() && thread::is_ignored() {
        OWN.take(layout)
    } else {
        std::ptr::null_mut()
    }
}

/// What malloc aligns to anyway, and so counts as no request (System V ABI).
const ORDINARY_ALIGN: usize = 16;

#[inline(always)]
fn wanted(entry: Entry, size: usize, layout: Layout) -> Wanted {
    Wanted {
        entry,
        size,
        align: if layout.align() > ORDINARY_ALIGN {
            layout.align()
        } else {
            0
        },
        zeroed: false,
    }
}

// SAFETY: every call is passed on to `inner` exactly once with its arguments
// unchanged, and `inner`'s result is returned; recording beside it touches no block.
// The hooks never unwind: nothing on their path can panic.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Recorder<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let own = own_block(layout);
        if !own.is_null() {
            return own;
        }
        // SAFETY: the caller's promises are `inner`'s.
        let call = || unsafe { self.inner.alloc(layout) };
        // SAFETY: `call` is the allocator's own call for this request.
        unsafe {
            hooks::allocate(
                wanted(Entry::RustAlloc, layout.size(), layout),
                CallSite::UNKNOWN,
                |_| layout.size(),
                call,
            )
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let own = own_block(layout);
        if !own.is_null() {
            // SAFETY: the block was just taken for this layout.
            unsafe { own.write_bytes(0, layout.size()) };
            return own;
        }
        // SAFETY: the caller's promises are `inner`'s.
        let call = || unsafe { self.inner.alloc_zeroed(layout) };
        // SAFETY: as in `alloc`.
        unsafe {
            hooks::allocate(
                Wanted {
                    zeroed: true,
                    ..wanted(Entry::RustAllocZeroed, layout.size(), layout)
                },
                CallSite::UNKNOWN,
                |_| layout.size(),
                call,
            )
        }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        if OWN.owns(address) {
            // SAFETY: `own_block` gave it out for this layout; the caller is done with it.
            return unsafe { OWN.put_back(address, layout) };
        }
        // SAFETY: the caller's promises are `inner`'s.
        let call = || unsafe { self.inner.dealloc(address, layout) };
        // SAFETY: `call` gives this very block back.
        unsafe {
            hooks::deallocate(
                Entry::RustDealloc,
                address,
                CallSite::UNKNOWN,
                |_| layout.size(),
                call,
            )
        }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if OWN.owns(address) {
            // SAFETY: the caller promises that `size` makes a valid layout; the copy fits
            // both blocks, and the old one is put back as in `dealloc`.
            return unsafe {
                let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
                if !new.is_null() {
                    std::ptr::copy_nonoverlapping(address, new, layout.size().min(size));
                    OWN.put_back(address, layout);
                }
                new
            };
        }
        // SAFETY: the caller's promises are `inner`'s.
        let call = || unsafe { self.inner.realloc(address, layout, size) };
        // SAFETY: `call` changes this very block; Rust never reallocates to nothing.
        unsafe {
            hooks::reallocate(
                wanted(Entry::RustRealloc, size, layout),
                address,
                CallSite::UNKNOWN,
                (|_| layout.size(), |_| size),
                call,
            )
        }
    }
}
