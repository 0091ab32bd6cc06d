//! C++'s operator new and delete, in all their forms.
//!
//! The functions beneath are the program's C++ runtime's. They are looked up at start
//! where the program has one, else when a plug-in that brings one first calls.
#![expect(unsafe_code, reason = "exported allocation functions")]

use crate::c_entries::{acquire, held};
use crate::next::{self, Next};
use crate::shim::entry;
use crate::{callers, cxx_runtime, message};
use heapreel::raw::{self, CallSite, Entry};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

type Block = *mut u8;

/// Whether calls of the operators count, or those of the malloc beneath them do: so
/// where the program or a library of its own replaces an operator, because that may
/// do anything with malloc's block before it hands one out.
static COUNT: AtomicBool = AtomicBool::new(false);

macro_rules! operators {
    ($($name:ident, $symbol:literal, ($($argument:ident),+) $(-> $return:ty)?, $count:tt, $missing:expr, $record:expr;)*) => {
        $(
            #[allow(non_snake_case, reason = "the compilers' own names")]
            mod $name {
                use super::*;

                pub(super) type Function = unsafe extern "C-unwind" fn($($argument: usize),+) $(-> $return)?;
                pub(super) static NEXT: Next<Function> = Next::new(first as *mut c_void);

                unsafe extern "C-unwind" fn first($($argument: usize),+) $(-> $return)? {
                    find_late();
                    if NEXT.address() != first as *const () as usize {
                        // SAFETY: the caller's promises are those of the function itself.
                        return unsafe { NEXT.get()($($argument),+) };
                    }
                    $missing
                }

                /// `sp` and `fp` come from the shim.
                pub(super) unsafe extern "C-unwind" fn entered($($argument: usize,)+ sp: usize, fp: usize) $(-> $return)? {
                    // SAFETY: passed on as it came.
                    unsafe {
                        if raw::active() { counted($($argument,)+ sp, fp) } else { NEXT.get()($($argument),+) }
                    }
                }

                /// Apart, so that the way above needs no stack.
                #[inline(never)]
                unsafe extern "C-unwind" fn counted($($argument: usize,)+ sp: usize, fp: usize) $(-> $return)? {
                    let next = NEXT.get();
                    // SAFETY: the call that the shim was entered by has not returned.
                    let site = unsafe { CallSite::at_entry(sp, fp) };
                    if callers::are_inner(site.return_address()) {
                        // SAFETY: passed on as it came.
                        return unsafe { next($($argument),+) };
                    }
                    // SAFETY: passed on as it came.
                    ($record)(site, || unsafe { next($($argument),+) })
                }
            }
            entry!($name, $count, $name::entered, where COUNT, else $name::NEXT);
        )*

        /// Takes all operators of the runtime that `handle` stands for.
        fn find_all(handle: *mut c_void) {
            $( $name::NEXT.set(next::lookup(handle, $symbol)); )*
            callers::learn_operators([$( $name::NEXT.address() ),*].into_iter());
        }
    };
}

/// `operator new`: the block that `inner` gives.
macro_rules! new {
    ($entry:ident, $size:ident) => {
        new!($entry, $size, 0)
    };
    ($entry:ident, $size:ident, $align:expr) => {
        |site, inner| acquire(site, Entry::$entry, $size, $align, false, inner)
    };
}

/// `operator delete` of a block, which may be null.
macro_rules! delete {
    ($entry:ident, $block:ident) => {
        |site, inner| release(site, Entry::$entry, $block, inner)
    };
}

operators! {
    _Znwm, c"_Znwm", (size) -> Block, 1, without_runtime(size, 0), new!(New, size);
    _Znam, c"_Znam", (size) -> Block, 1, without_runtime(size, 0), new!(NewArray, size);
    _ZnwmRKSt9nothrow_t, c"_ZnwmRKSt9nothrow_t", (size, tag) -> Block, 2,
        { _ = tag; plain(size, 0) }, new!(New, size);
    _ZnamRKSt9nothrow_t, c"_ZnamRKSt9nothrow_t", (size, tag) -> Block, 2,
        { _ = tag; plain(size, 0) }, new!(NewArray, size);
    _ZnwmSt11align_val_t, c"_ZnwmSt11align_val_t", (size, align) -> Block, 2,
        without_runtime(size, align), new!(NewAligned, size, align);
    _ZnamSt11align_val_t, c"_ZnamSt11align_val_t", (size, align) -> Block, 2,
        without_runtime(size, align), new!(NewArrayAligned, size, align);
    _ZnwmSt11align_val_tRKSt9nothrow_t, c"_ZnwmSt11align_val_tRKSt9nothrow_t", (size, align, tag) -> Block, 3,
        { _ = tag; plain(size, align) }, new!(NewAligned, size, align);
    _ZnamSt11align_val_tRKSt9nothrow_t, c"_ZnamSt11align_val_tRKSt9nothrow_t", (size, align, tag) -> Block, 3,
        { _ = tag; plain(size, align) }, new!(NewArrayAligned, size, align);

    _ZdlPv, c"_ZdlPv", (block), 1, give_back(block), delete!(Delete, block);
    _ZdaPv, c"_ZdaPv", (block), 1, give_back(block), delete!(DeleteArray, block);
    _ZdlPvm, c"_ZdlPvm", (block, size), 2, { _ = size; give_back(block) }, delete!(Delete, block);
    _ZdaPvm, c"_ZdaPvm", (block, size), 2, { _ = size; give_back(block) }, delete!(DeleteArray, block);
    _ZdlPvRKSt9nothrow_t, c"_ZdlPvRKSt9nothrow_t", (block, tag), 2,
        { _ = tag; give_back(block) }, delete!(Delete, block);
    _ZdaPvRKSt9nothrow_t, c"_ZdaPvRKSt9nothrow_t", (block, tag), 2,
        { _ = tag; give_back(block) }, delete!(DeleteArray, block);
    _ZdlPvSt11align_val_t, c"_ZdlPvSt11align_val_t", (block, align), 2,
        { _ = align; give_back(block) }, delete!(DeleteAligned, block);
    _ZdaPvSt11align_val_t, c"_ZdaPvSt11align_val_t", (block, align), 2,
        { _ = align; give_back(block) }, delete!(DeleteArrayAligned, block);
    _ZdlPvmSt11align_val_t, c"_ZdlPvmSt11align_val_t", (block, size, align), 3,
        { _ = (size, align); give_back(block) }, delete!(DeleteAligned, block);
    _ZdaPvmSt11align_val_t, c"_ZdaPvmSt11align_val_t", (block, size, align), 3,
        { _ = (size, align); give_back(block) }, delete!(DeleteArrayAligned, block);
    _ZdlPvSt11align_val_tRKSt9nothrow_t, c"_ZdlPvSt11align_val_tRKSt9nothrow_t", (block, align, tag), 3,
        { _ = (align, tag); give_back(block) }, delete!(DeleteAligned, block);
    _ZdaPvSt11align_val_tRKSt9nothrow_t, c"_ZdaPvSt11align_val_tRKSt9nothrow_t", (block, align, tag), 3,
        { _ = (align, tag); give_back(block) }, delete!(DeleteArrayAligned, block);
}

#[inline(always)]
fn release(site: CallSite, entry: Entry, block: usize, inner: impl FnOnce()) {
    if block == 0 {
        return inner();
    }
    // SAFETY: `inner` is the next operator delete, to be called with this block.
    unsafe { raw::deallocate(entry, block as Block, site, held, inner) }
}

/// Looks the operators up at start; nothing happens in a program without C++.
pub(crate) fn find() {
    let runtime = next::beside_the_heap(|| next::lookup(libc::RTLD_NEXT, c"_Znwm"));
    if !runtime.is_null() {
        take(libc::RTLD_NEXT);
    }
}

/// Looks them up when one is called that was not there at start.
#[cold]
fn find_late() {
    if let Some(handle) = cxx_runtime::loaded() {
        take(handle);
    }
}

fn take(handle: *mut c_void) {
    find_all(handle);
    COUNT.store(cxx_runtime::is_plain(_Znwm::NEXT.address()), Relaxed);
}

/// `operator new` where there is no runtime to throw bad_alloc.
#[cold]
fn without_runtime(size: usize, align: usize) -> Block {
    let block = plain(size, align);
    if block.is_null() {
        message::line(&[b"no memory, and no C++ library that could throw bad_alloc"]);
        // SAFETY: ends the process, as an exception nobody can throw would.
        unsafe { libc::abort() };
    }
    block
}

#[cold]
fn plain(size: usize, align: usize) -> Block {
    let size = size.max(1);
    // SAFETY: malloc and aligned_alloc take any size.
    unsafe {
        if align == 0 {
            next::MALLOC.get()(size)
        } else {
            next::MEMALIGN.get()(align, size)
        }
    }
}

#[cold]
fn give_back(block: usize) {
    // SAFETY: where there is no runtime, our operator new took the block from malloc.
    unsafe { next::FREE.get()(block as Block) }
}
