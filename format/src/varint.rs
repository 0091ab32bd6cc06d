//! Variable-length integers, the same bytes as postcard writes for `u64`.
//!
//! Seven bits a byte, least significant group first, the top bit set on all but
//! the last byte; at most ten bytes. Source: postcard's wire format, "varint(u64)".

/// The longest encoding of a `u64`.
pub(crate) const MAX_VARINT_BYTES: usize = 10;

/// Maps signed to unsigned so that small magnitudes stay small: 0, -1, 1, -2 … → 0, 1, 2, 3 …
#[inline(always)]
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
#[inline(always)]
pub(crate) fn unzigzag(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}

/// Reads one varint at `*at` and moves `*at` behind it; `None` where the bytes
/// end first or the value does not fit 64 bits.
#[inline(always)]
pub(crate) fn read(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let first = *bytes.get(*at)?;
    *at += 1;
    if first < 0x80 {
        return Some(u64::from(first));
    }
    read_rest(bytes, at, u64::from(first & 0x7f))
}

#[inline]
fn read_rest(bytes: &[u8], at: &mut usize, mut value: u64) -> Option<u64> {
    let mut shift = 7;
    loop {
        let byte = *bytes.get(*at)?;
        *at += 1;
        if shift == 63 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn reads_what_postcard_writes(value: u64) {
            let bytes = postcard::to_allocvec(&value).unwrap();
            let mut at = 0;
            prop_assert_eq!(read(&bytes, &mut at), Some(value));
            prop_assert_eq!(at, bytes.len());
        }

        #[test]
        fn zigzag_is_its_own_inverse(value: i64) {
            prop_assert_eq!(unzigzag(zigzag(value)), value);
        }

        #[test]
        fn cut_short_is_none(value in 128u64..) {
            let bytes = postcard::to_allocvec(&value).unwrap();
            let mut at = 0;
            prop_assert_eq!(read(&bytes[..bytes.len() - 1], &mut at), None);
        }
    }

    #[test]
    fn too_long_is_none() {
        let mut at = 0;
        assert_eq!(read(&[0xff; 11], &mut at), None);
    }
}
