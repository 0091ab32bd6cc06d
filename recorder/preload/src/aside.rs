//! Functions that are looked at and jumped on from.
//!
//! What takes any number of arguments cannot be called on, and what asks for its caller's
//! address must not be. So the exported function is a few instructions that call aside in
//! the few cases that concern us, and then jump with every argument in its place.
#![expect(unsafe_code, reason = "the next definition of a function, by address")]

use crate::next::lookup;
use std::ffi::{CStr, c_long, c_void};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// Defines the exported function `$name`, which jumps to `$next`. Before that it calls
/// `$aside` with its first four arguments where `$look` jumps to the label 3, and where the
/// next definition is not known yet: `$aside` has to [`find`] it.
macro_rules! looked_at {
    ($name:ident, $next:path, $aside:path, $look:literal $(, $value:ident = $constant:expr)*) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "cmp qword ptr [rip + {next}], 0",
                "je 3f",
                $look,
                "2: jmp qword ptr [rip + {next}]",
                "3:",
                "push rdi\n.cfi_adjust_cfa_offset 8",
                "push rsi\n.cfi_adjust_cfa_offset 8",
                "push rdx\n.cfi_adjust_cfa_offset 8",
                "push rcx\n.cfi_adjust_cfa_offset 8",
                "push r8\n.cfi_adjust_cfa_offset 8",
                "push r9\n.cfi_adjust_cfa_offset 8",
                "push rax\n.cfi_adjust_cfa_offset 8", // how many arguments are floating-point numbers
                "call {aside}",
                "pop rax\n.cfi_adjust_cfa_offset -8",
                "pop r9\n.cfi_adjust_cfa_offset -8",
                "pop r8\n.cfi_adjust_cfa_offset -8",
                "pop rcx\n.cfi_adjust_cfa_offset -8",
                "pop rdx\n.cfi_adjust_cfa_offset -8",
                "pop rsi\n.cfi_adjust_cfa_offset -8",
                "pop rdi\n.cfi_adjust_cfa_offset -8",
                "jmp 2b",
                ".cfi_endproc",
                next = sym $next,
                aside = sym $aside,
                $($value = const $constant,)*
            )
        }
    };
}

pub(crate) use looked_at;

/// Where to jump on to: null until it was looked up.
pub(crate) type NextAddress = AtomicPtr<c_void>;

/// Not looked up yet.
pub(crate) const fn unknown() -> NextAddress {
    AtomicPtr::new(std::ptr::null_mut())
}

/// Looks the next definition up, once.
pub(crate) fn find(next: &NextAddress, name: &CStr) {
    unsafe extern "C" fn missing() -> c_long {
        // SAFETY: this thread's errno.
        unsafe { *libc::__errno_location() = libc::ENOSYS };
        -1
    }
    if next.load(Relaxed).is_null() {
        let found = lookup(libc::RTLD_NEXT, name);
        let otherwise = missing as *mut c_void;
        next.store(if found.is_null() { otherwise } else { found }, Relaxed);
    }
}

/// The same for `dlsym`, which cannot be asked for itself.
pub(crate) fn find_dlsym(next: &NextAddress) {
    unsafe extern "C" fn missing() -> *mut c_void {
        std::ptr::null_mut()
    }
    if next.load(Relaxed).is_null() {
        // Of libdl first, later of the C library itself.
        // SAFETY: names that end in 0.
        let found =
            unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), c"GLIBC_2.2.5".as_ptr()) };
        let otherwise = missing as *mut c_void;
        next.store(if found.is_null() { otherwise } else { found }, Relaxed);
    }
}
