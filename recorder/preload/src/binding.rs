//! Whether the program's own calls come to us at all.
#![expect(
    unsafe_code,
    reason = "asks the C library for its version and the program's headers"
)]

use crate::callers::{self, Object, object_of};
use crate::{message, next};
use std::ffi::CStr;

/// Whether `malloc`, `free`, `calloc` and `realloc` are ours for the program. If not,
/// one line names who provides them: half of the calls would make no sense.
pub(crate) fn is_ours() -> bool {
    let other = [c"malloc", c"free", c"calloc", c"realloc"]
        .into_iter()
        .find_map(|name| Some((name, object_of(callers::bound_elsewhere(name)?))));
    let Some((function, provider)) = other else {
        return true;
    };
    let (cause, advice): (&[u8], &[u8]) = if provider.as_ref().is_some_and(is_library) {
        (
            b", which is loaded before this library and hides it, so nothing is recorded",
            b"; name libheapreel_preload.so first in LD_PRELOAD",
        )
    } else {
        (
            b", which a preloaded library cannot see, so nothing is recorded",
            b"; build the program with the C library's malloc, or use the heapreel crate",
        )
    };
    let path = path_of(provider.as_ref());
    message::line(&[&path, b": has its own ", function.to_bytes(), cause, advice]);
    false
}

/// Whether an object is not the program itself, whose headers the kernel points to.
fn is_library(object: &Object) -> bool {
    // SAFETY: takes a number, gives a number.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) } as usize;
    object_of(headers).is_some_and(|program| program.base != object.base)
}

fn path_of(provider: Option<&Object>) -> Vec<u8> {
    match provider {
        Some(object) if is_library(object) => object.path.to_bytes().to_vec(),
        _ => path_of_program(),
    }
}

/// The program's file: what it was called by may be a link, as `/proc/self/exe` is.
fn path_of_program() -> Vec<u8> {
    std::fs::read_link("/proc/self/exe").map_or_else(
        |_| b"the program".to_vec(),
        |path| path.into_os_string().into_encoded_bytes(),
    )
}

/// The name of the allocator beneath us, as it goes into the trace.
pub(crate) fn allocator_name() -> String {
    let Some(object) = object_of(next::MALLOC.address()) else {
        return String::new();
    };
    if object.base == callers::c_library() {
        // SAFETY: a static text.
        let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
        return format!("glibc {}", version.to_string_lossy());
    }
    String::from_utf8_lossy(object.file_name()).into_owned()
}
