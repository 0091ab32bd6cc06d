//! Memory straight from the system, past any allocator.
#![expect(unsafe_code, reason = "mmap is a system call")]

use std::io;
use std::ptr::null_mut;

/// Maps `words` fresh words of zeroes, for as long as the process lives. Only those
/// touched take memory.
pub fn map_words(words: usize) -> io::Result<&'static mut [u64]> {
    let bytes = words * size_of::<u64>();
    // SAFETY: a new private mapping at a place of the kernel's choice touches nothing.
    let start = unsafe {
        libc::mmap(
            null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is page-aligned, `bytes` long, zeroed, known to nobody else, and
    // never unmapped.
    Ok(unsafe { std::slice::from_raw_parts_mut(start.cast(), words) })
}
