//! Libraries that go.
//!
//! `dlopen` is not ours: the loader resolves a RUNPATH by the address of its caller,
//! so a wrapper would break plug-ins. New libraries are found when they allocate.
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
    if !raw::active() {
        // SAFETY: passed on as it came.
        return unsafe { NEXT.get()(handle) };
    }
    // What is known of addresses goes before the library does. What another thread
    // learns of it while it goes is forgotten after.
    raw::modules_changed();
    // SAFETY: passed on as it came.
    let result = unsafe { NEXT.get()(handle) };
    raw::modules_changed();
    result
}
