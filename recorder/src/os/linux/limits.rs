//! The limits that the program was given by setrlimit(2).
#![expect(unsafe_code, reason = "system calls")]

/// Bytes that a file may have; `None` for any number.
pub(crate) fn file_size() -> Option<u64> {
    soft(libc::RLIMIT_FSIZE)
}

/// Bytes of address space that are left to this process; `None` where it is not limited.
pub(crate) fn address_space_left() -> Option<u64> {
    let limit = soft(libc::RLIMIT_AS)?;
    Some(limit.saturating_sub(address_space()))
}

fn soft(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: writes to a local.
    unsafe { libc::getrlimit(resource, &raw mut limit) };
    (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Address space in use: the first number of /proc/self/statm, in pages (proc(5)). All of
/// it where that cannot be read.
fn address_space() -> u64 {
    let mut text = [0u8; 32];
    // SAFETY: reads at most so many bytes into a local, by a descriptor of this call's own.
    let length = unsafe {
        let file = libc::open(
            c"/proc/self/statm".as_ptr(),
            libc::O_RDONLY | libc::O_CLOEXEC,
        );
        if file < 0 {
            return u64::MAX;
        }
        let length = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        length
    };
    let digits = text.iter().take(length.max(0) as usize);
    let digits = digits.take_while(|byte| byte.is_ascii_digit());
    let pages = digits.fold(0u64, |n, byte| n.wrapping_mul(10) + u64::from(byte - b'0'));
    pages.saturating_mul(4096)
}
