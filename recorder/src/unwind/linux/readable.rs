//! Asks the kernel whether memory can be read, without a fault if it cannot.

#![expect(unsafe_code, reason = "one system call and the thread pointer")]

use core::arch::asm;

/// Bytes of a memory page, the unit in which memory is mapped on x86-64.
pub(super) const PAGE: u64 = 4096;

/// Whether the page that holds `address` can be read now.
///
/// `rt_sigprocmask` copies the new mask in before it looks at what to do with
/// it, and refuses the unknown `how`: EINVAL means the eight bytes were read,
/// EFAULT that they could not be. Nothing is changed, no descriptor is needed
/// and sandboxes allow the call. `errno` stays as it is, for libc is not asked.
#[cold]
pub(crate) fn is_readable(address: u64) -> bool {
    const RT_SIGPROCMASK: i64 = 14;
    const EINVAL: i64 = 22;
    let page = address & !(PAGE - 1);
    let result: i64;
    // SAFETY: `how` = -1 is none of the three known values, so that the kernel
    // changes no mask; it checks the address itself. The call clobbers rcx and
    // r11, writes no memory of ours and does not touch the red zone.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") RT_SIGPROCMASK => result,
            in("rdi") -1_i64,
            in("rsi") page,
            in("rdx") 0_u64,
            in("r10") 8_u64,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack, readonly),
        );
    }
    result == -EINVAL
}

/// The address of this thread's control block. A thread library that uses `fs`
/// for it (all on Linux x86-64) puts it above the stack it made.
pub(super) fn thread_pointer() -> u64 {
    let pointer;
    // SAFETY: the ABI (psABI for x86-64, section 3.4.2, and the TLS supplement)
    // has the thread control block begin with its own address.
    unsafe {
        asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags));
    }
    pointer
}

/// Whether this thread is its process's first, by the kernel's word.
pub(super) fn is_main_thread() -> bool {
    const GETPID: u64 = 39;
    const GETTID: u64 = 186;
    // SAFETY: both calls take nothing and only return a number.
    unsafe { bare_call(GETPID) == bare_call(GETTID) }
}

/// # Safety
/// The call must take no arguments and touch no memory of the process.
unsafe fn bare_call(number: u64) -> u64 {
    let result;
    // SAFETY: by the caller's promise there is nothing but the result.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack, nomem),
        );
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readable_pages_are_told_from_others() {
        let local = 0_u64;
        assert!(is_readable(&raw const local as u64));
        assert!(!is_readable(0));
        assert!(!is_readable(PAGE));
        assert!(!is_readable(u64::MAX));
        assert!(!is_readable(1 << 50));
    }

    #[test]
    fn a_guard_page_is_not_readable() {
        // SAFETY: a fresh private mapping without access, unmapped below.
        let page = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                PAGE as usize,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(page, libc::MAP_FAILED);
        assert!(!is_readable(page as u64));
        // SAFETY: `page` is the mapping made above, used by nobody else.
        unsafe { libc::munmap(page, PAGE as usize) };
    }
}
