//! One line for the person at the terminal, without memory of anybody's.
#![expect(unsafe_code, reason = "a system call")]

const MAX_PARTS: usize = 12;

/// Writes `heapreel: `, the parts, and a line's end to standard error at once.
pub(crate) fn line(parts: &[&[u8]]) {
    if !heapreel::raw::can_say_in_parts() {
        return;
    }
    let mut pieces = [libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    }; MAX_PARTS + 2];
    let texts = std::iter::once(&b"heapreel: "[..])
        .chain(parts.iter().copied().take(MAX_PARTS))
        .chain(std::iter::once(&b"\n"[..]));
    let mut count = 0;
    for (piece, text) in pieces.iter_mut().zip(texts) {
        *piece = libc::iovec {
            iov_base: text.as_ptr().cast_mut().cast(),
            iov_len: text.len(),
        };
        count += 1;
    }
    // SAFETY: the pieces are live for the call. A failure has nobody to be told to.
    unsafe { libc::writev(2, pieces.as_ptr(), count) };
}
