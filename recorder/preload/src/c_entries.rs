//! The C library's allocation functions.
//!
//! Each passes its arguments to the next definition unchanged and returns what that
//! returns, errno included. Not recording, that is a load, a branch and two jumps.
#![expect(unsafe_code, reason = "exported allocation functions")]

use crate::shim::entry;
use crate::{bootstrap, callers, next};
use heapreel::raw::{self, CallSite, Entry, Wanted};
use std::ffi::c_int;
use std::ptr::null_mut;

type Block = *mut u8;

/// For each function: name, arguments, result; how many arguments; the next definition;
/// what to do with a block of [`bootstrap`]'s; and what to record around the call.
macro_rules! functions {
    ($($name:ident ($($argument:ident: $type:ty),+) $(-> $return:ty)?, $count:tt, $next:ident
        $(, ours($block:ident) $ours:expr)? => $record:expr;)*) => {
        $(
            mod $name {
                use super::*;

                /// `sp` and `fp` come from the shim.
                pub(super) unsafe extern "C-unwind" fn entered($($argument: $type,)+ sp: usize, fp: usize) $(-> $return)? {
                    $(
                        if bootstrap::owns($block) {
                            return $ours;
                        }
                    )?
                    // SAFETY: passed on as it came.
                    unsafe {
                        if raw::active() { counted($($argument,)+ sp, fp) } else { next::$next.get()($($argument),+) }
                    }
                }

                /// Apart, so that the way above needs no stack.
                #[inline(never)]
                unsafe extern "C-unwind" fn counted($($argument: $type,)+ sp: usize, fp: usize) $(-> $return)? {
                    let next = next::$next.get();
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
            entry!($name, $count, $name::entered);
        )*
    };
}

functions! {
    malloc(size: usize) -> Block, 1, MALLOC =>
        |site, inner| acquire(site, Entry::Malloc, size, 0, false, inner);
    calloc(count: usize, size: usize) -> Block, 2, CALLOC =>
        |site, inner| acquire(site, Entry::Calloc, count.saturating_mul(size), 0, true, inner);
    memalign(align: usize, size: usize) -> Block, 2, MEMALIGN =>
        |site, inner| acquire(site, Entry::Memalign, size, align, false, inner);
    aligned_alloc(align: usize, size: usize) -> Block, 2, ALIGNED_ALLOC =>
        |site, inner| acquire(site, Entry::AlignedAlloc, size, align, false, inner);
    valloc(size: usize) -> Block, 1, VALLOC =>
        |site, inner| acquire(site, Entry::Valloc, size, OS_PAGE, false, inner);
    pvalloc(size: usize) -> Block, 1, PVALLOC =>
        |site, inner| acquire(site, Entry::Pvalloc, size, OS_PAGE, false, inner);
    posix_memalign(out: *mut Block, align: usize, size: usize) -> c_int, 3, POSIX_MEMALIGN =>
        |site, inner| acquire_through(site, out, size, align, inner);

    realloc(block: Block, size: usize) -> Block, 2, REALLOC,
        // SAFETY: ours, by its address.
        ours(block) unsafe { bootstrap::move_out(block, size) } =>
        |site, inner| resize(site, Entry::Realloc, block, size, inner);
    reallocarray(block: Block, count: usize, size: usize) -> Block, 3, REALLOCARRAY,
        // SAFETY: ours, by its address.
        ours(block) unsafe { bootstrap::move_out(block, count.saturating_mul(size)) } =>
        |site, inner| resize(site, Entry::ReallocArray, block, count.saturating_mul(size), inner);

    free(block: Block), 1, FREE, ours(block) bootstrap::keep(block) =>
        |site, inner| release(site, Entry::Free, block, inner);
    cfree(block: Block), 1, CFREE, ours(block) bootstrap::keep(block) =>
        |site, inner| release(site, Entry::Free, block, inner);
    free_sized(block: Block, size: usize), 2, FREE_SIZED, ours(block) bootstrap::keep(block) =>
        |site, inner| release(site, Entry::FreeSized, block, inner);
    free_aligned_sized(block: Block, align: usize, size: usize), 3, FREE_ALIGNED_SIZED, ours(block) bootstrap::keep(block) =>
        |site, inner| release(site, Entry::FreeSized, block, inner);
}

/// Bytes that a live block of the allocator beneath holds.
#[inline(always)]
pub(crate) fn held(block: Block) -> usize {
    // SAFETY: a block that was just given out, or that the program is about to give back.
    unsafe { next::USABLE_SIZE.get()(block) }
}

/// What `valloc` and `pvalloc` align to.
const OS_PAGE: usize = 4096;

#[inline(always)]
pub(crate) fn acquire(
    site: CallSite,
    entry: Entry,
    size: usize,
    align: usize,
    zeroed: bool,
    inner: impl FnOnce() -> Block,
) -> Block {
    // SAFETY: `inner` is the next definition with the program's own arguments.
    unsafe {
        let wanted = Wanted {
            entry,
            size,
            align,
            zeroed,
        };
        raw::allocate(wanted, site, held, inner)
    }
}

/// `posix_memalign`: the block comes back through a pointer, and only if there is one.
#[inline(always)]
fn acquire_through(
    site: CallSite,
    out: *mut Block,
    size: usize,
    align: usize,
    inner: impl FnOnce() -> c_int,
) -> c_int {
    let mut result = 0;
    acquire(site, Entry::PosixMemalign, size, align, false, || {
        result = inner();
        if result != 0 {
            return null_mut();
        }
        // SAFETY: the call succeeded, so it has just written there itself.
        unsafe { *out }
    });
    result
}

/// A reallocation as the event that it is: without a block an allocation, to nothing
/// a deallocation where the allocator beneath sees it so.
#[inline(always)]
fn resize(
    site: CallSite,
    entry: Entry,
    block: Block,
    size: usize,
    inner: impl FnOnce() -> Block,
) -> Block {
    if block.is_null() {
        return acquire(site, entry, size, 0, false, inner);
    }
    if size == 0 && next::realloc_frees() {
        let mut result = null_mut();
        release(site, entry, block, || result = inner());
        return result;
    }
    // SAFETY: `inner` is the next definition, called with this block and a size that
    // does not free it.
    unsafe {
        let wanted = Wanted {
            entry,
            size,
            align: 0,
            zeroed: false,
        };
        raw::reallocate(wanted, block, site, (held, held), inner)
    }
}

#[inline(always)]
fn release(site: CallSite, entry: Entry, block: Block, inner: impl FnOnce()) {
    if block.is_null() {
        return inner();
    }
    // SAFETY: `inner` is the next definition with the program's own arguments.
    unsafe { raw::deallocate(entry, block, site, held, inner) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn malloc_usable_size(block: Block) -> usize {
    // SAFETY: passed on as it came; ours by its address.
    unsafe {
        if bootstrap::owns(block) {
            return bootstrap::size_of_block(block);
        }
        next::USABLE_SIZE.get()(block)
    }
}
