//! Libraries whose calls of malloc go past us.
//!
//! `dlopen` with `RTLD_DEEPBIND` has a library look into its own libraries first, the C
//! library among them; `dlmopen` gives it a C library of its own. Neither can be changed
//! without changing the program, so what will not be seen is told, once.
//!
//! The loader resolves a RUNPATH by the address of its caller: nothing of ours may stand
//! between the two.
#![expect(unsafe_code, reason = "stands in front of the dynamic loader")]

use crate::aside::{NextAddress, find, looked_at, unknown};
use crate::message;
use heapreel::raw;
use std::ffi::{CStr, c_char, c_int, c_long};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static DLOPEN: NextAddress = unknown();
static DLMOPEN: NextAddress = unknown();

looked_at!(
    dlopen,
    DLOPEN,
    before_dlopen,
    "test esi, {deep}\njnz 3f",
    deep = libc::RTLD_DEEPBIND
);
looked_at!(dlmopen, DLMOPEN, before_dlmopen, "jmp 3f");

extern "C" fn before_dlopen(path: *const c_char, flags: c_int) {
    find(&DLOPEN, c"dlopen");
    if flags & libc::RTLD_DEEPBIND != 0 && flags & libc::RTLD_NOLOAD == 0 {
        tell(path, b" is loaded with RTLD_DEEPBIND");
    }
}

extern "C" fn before_dlmopen(space: c_long, path: *const c_char, flags: c_int) {
    find(&DLMOPEN, c"dlmopen");
    if space != libc::LM_ID_BASE && flags & libc::RTLD_NOLOAD == 0 {
        tell(path, b" is loaded by dlmopen");
    }
}

#[cold]
fn tell(path: *const c_char, how: &[u8]) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if path.is_null() || !raw::recording() || TOLD.swap(true, Relaxed) {
        return;
    }
    // SAFETY: a C string, by the contract of the functions above.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    message::line(&[
        path,
        how,
        b": what it allocates by itself is not seen (said once)",
    ]);
}
