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

/// Writes one varint at `at` and gives the place behind it. What does not fit is not
/// written and moves nothing.
///
/// PERF: how long a varint is has no pattern that a branch predictor could learn, so the
/// bytes of all but great values are spread and stored at once, four at a time.
#[inline(always)]
pub(crate) fn write(room: &mut [u8], at: usize, value: u64) -> usize {
    const SPREAD_BITS: u32 = 28;
    if value >> SPREAD_BITS == 0
        && let Some(place) = room.get_mut(at..at + 4)
    {
        let value = value as u32;
        let halves = value & 0x3fff | (value & 0x0fff_c000) << 2;
        let bytes = halves & 0x007f_007f | (halves & 0x3f80_3f80) << 1;
        let bits = u32::BITS - (value | 1).leading_zeros();
        // A seventh, rounded up: right for 1 to 28 bits.
        let length = (bits * 9 + 64) >> 6;
        let more = 0x8080_8080 & !(u32::MAX << (8 * (length - 1)));
        place.copy_from_slice(&(bytes | more).to_le_bytes());
        return at + length as usize;
    }
    write_bytes(room, at, value)
}

#[cold]
#[inline(never)]
fn write_bytes(room: &mut [u8], mut at: usize, mut value: u64) -> usize {
    let begin = at;
    loop {
        let Some(place) = room.get_mut(at) else {
            return begin;
        };
        at += 1;
        if value < 0x80 {
            *place = value as u8;
            return at;
        }
        *place = value as u8 | 0x80;
        value >>= 7;
    }
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
        fn writes_what_postcard_writes(value: u64, bits in 0u32..64) {
            for value in [value >> bits, 1 << bits, (1 << bits) - 1] {
                let bytes = postcard::to_allocvec(&value).unwrap();
                let mut room = [0xaa; 16];
                let end = write(&mut room, 2, value);
                prop_assert_eq!(&room[2..end], &bytes[..]);
                let mut tight = vec![0; bytes.len()];
                prop_assert_eq!(write(&mut tight, 0, value), bytes.len());
                prop_assert_eq!(&tight, &bytes);
                prop_assert_eq!(write(&mut tight[1..], 0, value), 0);
            }
        }

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
