//! Memory straight from the kernel, never from an allocator.
#![expect(unsafe_code, reason = "system calls on address ranges")]

use super::confined::{Deed, can};
use std::ptr::NonNull;

/// Fresh zeroed memory, `None` where the kernel refuses.
pub(crate) fn reserve(bytes: usize) -> Option<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice touches nobody.
    let place = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        )
    };
    if place == libc::MAP_FAILED {
        None
    } else {
        NonNull::new(place.cast())
    }
}

/// Gives memory back that [`reserve`] gave, unless the program gave that call up.
///
/// # Safety
///
/// Nobody uses it any more.
pub(crate) unsafe fn give_back(place: NonNull<u8>, bytes: usize) {
    if !can(Deed::Begin) {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(place.as_ptr().cast(), bytes) };
}

/// Makes a child of fork see this page empty. False where the kernel cannot.
pub(crate) fn wipe_on_fork((page, bytes): (*const u8, usize)) -> bool {
    // SAFETY: advice on this program's own static page; only a child's copy is emptied.
    unsafe { libc::madvise(page.cast_mut().cast(), bytes, libc::MADV_WIPEONFORK) == 0 }
}

/// Keeps a mapping out of children of fork.
///
/// # Safety
///
/// The range must be a mapping that no child needs.
pub(crate) unsafe fn keep_from_children(place: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::madvise(place.as_ptr().cast(), bytes, libc::MADV_DONTFORK) };
}

/// Has the kernel provide the pages of a shared mapping before they are stored to,
/// so that a full file system is an answer here and never a SIGBUS later. Where the
/// kernel cannot be asked, the store decides.
///
/// # Safety
///
/// The range must lie in a live mapping.
pub(crate) unsafe fn provide(place: *mut u8, bytes: usize) -> bool {
    const MADV_POPULATE_WRITE: libc::c_int = 23;
    if !can(Deed::Provide) {
        return true;
    }
    let first = place as usize & !4095;
    let behind = (place as usize + bytes + 4095) & !4095;
    // SAFETY: the caller's promise; populating changes no content.
    let refused = unsafe {
        libc::madvise(
            first as *mut libc::c_void,
            behind - first,
            MADV_POPULATE_WRITE,
        ) != 0
    };
    // EINVAL: a kernel before Linux 5.14. The others come from a filter (seccomp).
    let unasked = [libc::EINVAL, libc::EPERM, libc::EACCES, libc::ENOSYS];
    let error = || std::io::Error::last_os_error().raw_os_error();
    !refused || error().is_some_and(|error| unasked.contains(&error))
}

/// Runs `work` and puts `errno` back as it was.
#[inline]
pub(crate) fn keeping_errno<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the C library's pointer to this thread's errno is always valid.
    let errno = unsafe { *libc::__errno_location() };
    let result = work();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    result
}

/// Runs `work` and puts the floating-point unit's exception flags and modes back as
/// they were: a program may test them.
pub(crate) fn keeping_float_state<T>(work: impl FnOnce() -> T) -> T {
    let mut before = 0u32;
    // SAFETY: stores the MXCSR register to a local.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut before, options(nostack)) };
    let result = work();
    // SAFETY: loads what was stored above.
    unsafe {
        std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const before, options(nostack, readonly))
    };
    result
}
