//! Calls a closure through foreign code.

use std::ffi::c_void;

/// Foreign code that calls its first argument with its second.
pub(super) type Caller = unsafe extern "C" fn(extern "C" fn(*mut c_void), *mut c_void);

/// Calls `then` through `caller`.
pub(super) fn through(caller: Caller, mut then: &mut dyn FnMut()) {
    let data = (&raw mut then).cast();
    // SAFETY: `caller` does nothing but call `enter` with `data`, which points
    // to `then` and is used by nobody else until that returns.
    unsafe { caller(enter, data) };
}

extern "C" fn enter(data: *mut c_void) {
    // SAFETY: `data` is the pointer made in `through`, whose frame is active.
    let then = unsafe { &mut *data.cast::<&mut dyn FnMut()>() };
    then();
}
