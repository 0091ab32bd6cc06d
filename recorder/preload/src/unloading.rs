//! Libraries that go.
//!
//! New libraries are found when they allocate.
#![expect(unsafe_code, reason = "stands in front of dlclose")]

use crate::next::Next;
use heapreel::raw;
use std::ffi::{c_int, c_void};

static NEXT: Next<unsafe extern "C-unwind" fn(*mut c_void) -> c_int> = {
    unsafe extern "C-unwind" fn first(handle: *mut c_void) -> c_int {
        NEXT.find(c"dlclose", Some(keep as *mut c_void));
        // SAFETY: the same function's next definition.
        unsafe { NEXT.get()(handle) }
    }
    /// Without a dlclose there is nothing to close.
    unsafe extern "C-unwind" fn keep(_handle: *mut c_void) -> c_int {
        -1
    }
    Next::new(first as *mut c_void)
};

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dlclose(handle: *mut c_void) -> c_int {
    if !raw::recording() {
        // SAFETY: passed on as it came.
        return unsafe { NEXT.get()(handle) };
    }
    let before = unloaded();
    // SAFETY: passed on as it came.
    let result = unsafe { NEXT.get()(handle) };
    // What was known of addresses is void once a library has gone: not earlier, since
    // its destructors still allocate, and would be known again. Until now the loader's
    // lock kept other libraries from the place. Most calls only drop a reference.
    if unloaded() != before {
        raw::modules_changed();
    }
    result
}

/// How many libraries the loader has unloaded so far.
fn unloaded() -> u64 {
    unsafe extern "C" fn first(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        count: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader's description, and the number that was passed below.
        unsafe { *count.cast::<u64>() = (*info).dlpi_subs };
        1
    }
    let mut count = 0u64;
    // SAFETY: `first` gets this number and nothing else; it ends the walk.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut count).cast()) };
    count
}
