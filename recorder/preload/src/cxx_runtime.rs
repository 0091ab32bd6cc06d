//! Which library implements C++'s operators.
#![expect(unsafe_code, reason = "asks the dynamic loader")]

use crate::callers::{self, object_of};
use crate::next;
use std::ffi::{CStr, CString, c_int, c_void};

/// A runtime that a plug-in brought along without showing its symbols to all. The
/// handle is kept: from now on we call into it.
pub(crate) fn loaded() -> Option<*mut c_void> {
    const USUAL: [&CStr; 3] = [c"libstdc++.so.6", c"libc++.so.1", c"libc++abi.so.1"];
    let of_any_name = loaded_objects();
    USUAL
        .into_iter()
        .chain(of_any_name.iter().map(CString::as_c_str))
        .find_map(with_operators)
}

fn with_operators(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: RTLD_NOLOAD runs no code; a handle that is not kept is closed again.
    unsafe {
        let handle = libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if handle.is_null() {
            libc::dlerror();
            return None;
        }
        let found = next::lookup(handle, c"_Znwm");
        if !found.is_null() && !callers::is_own(found.addr()) {
            return Some(handle);
        }
        libc::dlclose(handle);
        None
    }
}

/// Paths of what is loaded, without the program itself, which has no name here.
fn loaded_objects() -> Vec<CString> {
    unsafe extern "C" fn each(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        names: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader's description, and the vector that was passed below.
        unsafe {
            let name = CStr::from_ptr((*info).dlpi_name);
            if !name.is_empty() {
                (*names.cast::<Vec<CString>>()).push(name.to_owned());
            }
        }
        0
    }
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: `each` gets this vector and nothing else.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut names).cast()) };
    names
}

/// Whether the operators are a runtime's own, known to hand out malloc's blocks as
/// they are or not to call malloc at all: then an operator's call is the event. It is
/// not where the program binds any of the replaceable ones to its own.
pub(crate) fn is_plain(operator_new: usize) -> bool {
    let replaced = [
        c"_Znwm",
        c"_ZdlPv",
        c"_ZnwmSt11align_val_t",
        c"_ZdlPvSt11align_val_t",
    ]
    .into_iter()
    .any(|name| callers::bound_elsewhere(name).is_some());
    !replaced
        && object_of(operator_new)
            .is_some_and(|object| is_runtime(object.file_name()) || is_allocator(object.base))
}

fn is_runtime(file_name: &[u8]) -> bool {
    [&b"libstdc++.so"[..], b"libc++.so", b"libc++abi.so"]
        .iter()
        .any(|name| file_name.starts_with(name))
}

/// Whether the object is the one that malloc comes from: such a library (jemalloc,
/// mimalloc, tcmalloc) serves its operators without a detour.
fn is_allocator(base: usize) -> bool {
    object_of(next::MALLOC.address()).is_some_and(|object| object.base == base)
}
