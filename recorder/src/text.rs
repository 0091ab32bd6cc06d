//! Text on the stack: for names that are put together at a call, without the allocator.
#![expect(unsafe_code, reason = "bytes that are not set before they are written")]

use std::fmt;
use std::mem::MaybeUninit;

/// The first part of `text` of at most so many bytes that ends with a whole character.
pub(crate) fn cut(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// Text of at most `N` bytes; what does not fit is left out.
pub(crate) struct Text<const N: usize> {
    bytes: [MaybeUninit<u8>; N],
    length: usize,
    /// Something was left out: nothing may follow it.
    is_cut: bool,
}

impl<const N: usize> Text<N> {
    /// No text.
    #[inline]
    pub(crate) fn new() -> Text<N> {
        Text {
            bytes: [MaybeUninit::uninit(); N],
            length: 0,
            is_cut: false,
        }
    }

    /// Adds `text`, or as much of it as fits.
    #[inline]
    pub(crate) fn push(&mut self, text: &str) {
        if self.is_cut {
            return;
        }
        let part = cut(text, N - self.length);
        self.is_cut = part.len() < text.len();
        let free = self.bytes.iter_mut().skip(self.length);
        for (place, byte) in free.zip(part.bytes()) {
            place.write(byte);
        }
        self.length += part.len();
    }

    /// The text.
    #[inline]
    pub(crate) fn as_str(&self) -> &str {
        // SAFETY: `push` alone raises the length, by the bytes of whole characters that it
        // has written.
        unsafe {
            let bytes = std::slice::from_raw_parts(self.bytes.as_ptr().cast(), self.length);
            std::str::from_utf8_unchecked(bytes)
        }
    }
}

impl<const N: usize> fmt::Write for Text<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text);
        // Who formats need not go on.
        if self.is_cut { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    #[test]
    fn text_is_cut_between_characters() {
        let mut text = Text::<8>::new();
        text.push("fünf");
        assert_eq!(text.as_str(), "fünf");
        // Seven bytes and then two of which one would fit.
        assert!(write!(text, "xxüy").is_err());
        assert_eq!(text.as_str(), "fünfxx");
        text.push("z");
        assert_eq!(text.as_str(), "fünfxx");
        assert_eq!(cut("häuser", 2), "h");
        assert_eq!(cut("häuser", 3), "hä");
        assert_eq!(cut("häuser", 100), "häuser");
    }
}
