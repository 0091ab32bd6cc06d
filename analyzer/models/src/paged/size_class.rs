//! Size classes of blocks and of spans, and how large requests are rounded.
//!
//! Blocks are classed by their length in words of 8 bytes. Up to 8 words a class is an even
//! number of words (and one word by itself); above, each power of two is cut into four, so
//! that neighbours differ by a ratio of 1.25, 1.20, 1.17 and 1.14.

/// Bytes of a word.
const WORD: u64 = 8;

/// The class of blocks that have a page, or a segment, of their own.
pub(crate) const BIN_LARGE: u8 = 73;

/// The queue of pages without a free block.
pub(crate) const BIN_FULL: u8 = 74;

/// How many page queues a heap has.
pub(crate) const BINS: usize = 75;

/// The largest request that is served from the first page of its class without asking.
pub(crate) const FAST_BYTES: u64 = 1024;

/// The class of a request of `bytes`, where blocks up to `medium_max` bytes share pages.
pub(crate) fn bin(bytes: u64, medium_max: u64) -> u8 {
    let words = bytes.div_ceil(WORD);
    match words {
        0 | 1 => 1,
        2..=8 => words.next_multiple_of(2) as u8,
        _ if words > medium_max / WORD => BIN_LARGE,
        _ => {
            let below = words - 1;
            let top = below.ilog2();
            (4 * top + ((below >> (top - 2)) & 3) as u32 - 3) as u8
        }
    }
}

/// Block size in bytes of a class below [`BIN_LARGE`].
pub(crate) fn class_bytes(bin: u8) -> u64 {
    let words = match u64::from(bin) {
        0 | 1 => 1,
        bin @ 2..=8 => bin,
        bin => {
            let x = bin + 3;
            ((4 | (x & 3)) + 1) << ((x >> 2) - 2)
        }
    };
    words * WORD
}

/// The queue for free spans of `slices` slices.
pub(crate) fn span_bin(slices: u32) -> usize {
    if slices <= 1 {
        return slices as usize;
    }
    let below = slices - 1;
    let top = below.ilog2();
    if top <= 2 {
        return slices as usize;
    }
    (((top << 2) | ((below >> (top - 2)) & 3)) - 4) as usize
}

/// What a request above the medium limit is rounded up to.
pub(crate) fn good_size(bytes: u64) -> u64 {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    let step = match bytes {
        _ if bytes < 512 * KIB => 4 * KIB,
        _ if bytes < 2 * MIB => 64 * KIB,
        _ if bytes < 8 * MIB => 256 * KIB,
        _ if bytes < 32 * MIB => MIB,
        _ => 4 * MIB,
    };
    bytes.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_holds_what_is_sent_to_it_and_wastes_no_more_than_a_fifth() {
        let medium_max = 128 << 10;
        for bytes in 1..=medium_max {
            let class = class_bytes(bin(bytes, medium_max));
            assert!(class >= bytes, "{bytes} bytes in a class of {class}");
            if bytes > 64 {
                assert!((class - bytes) * 5 < class + 5 * WORD, "{bytes} in {class}");
            }
        }
    }

    #[test]
    fn a_class_is_its_own_class() {
        for k in [1, 2, 4, 6].into_iter().chain(8..=52) {
            assert_eq!(bin(class_bytes(k), 128 << 10), k);
        }
        assert_eq!(bin((128 << 10) + 1, 128 << 10), BIN_LARGE);
    }

    #[test]
    fn spans_are_binned_like_blocks_without_the_even_ones() {
        assert_eq!(
            [1, 2, 7, 8, 9, 10, 11, 254, 509, 1024].map(span_bin),
            [1, 2, 7, 8, 8, 8, 9, 27, 31, 35]
        );
    }

    #[test]
    fn good_sizes_step_up() {
        let mib = 1 << 20;
        assert_eq!(good_size(131_073), 135_168);
        assert_eq!(good_size(512 << 10), 512 << 10);
        assert_eq!(good_size((512 << 10) + 1), 576 << 10);
        assert_eq!(good_size(2 * mib + 1), 2 * mib + (256 << 10));
        assert_eq!(good_size(8 * mib + 1), 9 * mib);
        assert_eq!(good_size(32 * mib + 1), 36 * mib);
    }
}
