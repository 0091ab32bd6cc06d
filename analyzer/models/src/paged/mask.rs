//! One bit a slice.

use std::ops::Range;

/// A set of slices of one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SliceMask {
    words: Vec<u64>,
    count: u32,
}

impl SliceMask {
    /// Makes the set empty, for a segment of `slices` slices.
    pub(crate) fn reset(&mut self, slices: u32) {
        self.words.clear();
        self.words.resize(slices.div_ceil(64) as usize, 0);
        self.count = 0;
    }

    /// Slices in the set.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn contains(&self, slice: u32) -> bool {
        self.words[slice as usize / 64] >> (slice % 64) & 1 == 1
    }

    /// Slices of `range` in the set.
    pub(crate) fn count_in(&self, range: Range<u32>) -> u32 {
        parts(range)
            .map(|(word, bits)| (self.words[word] & bits).count_ones())
            .sum()
    }

    /// Takes `range` in; gives back how many were new.
    pub(crate) fn insert(&mut self, range: Range<u32>) -> u32 {
        let mut new = 0;
        for (word, bits) in parts(range) {
            new += (bits & !self.words[word]).count_ones();
            self.words[word] |= bits;
        }
        self.count += new;
        new
    }

    /// Takes `range` out; gives back how many were there.
    pub(crate) fn remove(&mut self, range: Range<u32>) -> u32 {
        let mut gone = 0;
        for (word, bits) in parts(range) {
            gone += (bits & self.words[word]).count_ones();
            self.words[word] &= !bits;
        }
        self.count -= gone;
        gone
    }

    /// Takes in the slices of `range` that `other` has.
    pub(crate) fn insert_common(&mut self, other: &SliceMask, range: Range<u32>) {
        for (word, bits) in parts(range) {
            let bits = bits & other.words[word];
            self.count += (bits & !self.words[word]).count_ones();
            self.words[word] |= bits;
        }
    }

    /// The first unbroken run of slices that are in the set (`inside`) or are not, from
    /// `range.start` on.
    pub(crate) fn next_run(&self, range: Range<u32>, inside: bool) -> Option<Range<u32>> {
        let start = self.find(range.clone(), inside)?;
        let end = self.find(start..range.end, !inside).unwrap_or(range.end);
        Some(start..end)
    }

    fn find(&self, range: Range<u32>, inside: bool) -> Option<u32> {
        parts(range).find_map(|(word, bits)| {
            let word_bits = if inside {
                self.words[word]
            } else {
                !self.words[word]
            };
            let found = word_bits & bits;
            (found != 0).then(|| word as u32 * 64 + found.trailing_zeros())
        })
    }
}

/// The words that `range` touches, with the bits it has in each.
fn parts(range: Range<u32>) -> impl Iterator<Item = (usize, u64)> {
    let words = range.start / 64..range.end.div_ceil(64);
    words.filter_map(move |word| {
        let from = range.start.max(word * 64) - word * 64;
        let to = range.end.min(word * 64 + 64).saturating_sub(word * 64);
        (from < to).then(|| (word as usize, (u64::MAX >> (64 - (to - from))) << from))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_across_words() {
        let mut mask = SliceMask::default();
        mask.reset(200);
        assert_eq!(mask.insert(60..130), 70);
        assert_eq!(mask.insert(0..64), 60);
        assert_eq!(mask.count(), 130);
        assert_eq!(mask.remove(63..65), 2);
        assert_eq!(mask.count_in(0..200), 128);
        assert_eq!(mask.next_run(0..200, true), Some(0..63));
        assert_eq!(mask.next_run(0..200, false), Some(63..65));
        assert_eq!(mask.next_run(70..200, false), Some(130..200));
        assert_eq!(mask.next_run(65..130, false), None);
    }
}
