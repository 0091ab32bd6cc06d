//! Size classes in two levels, and which of them hold a free range.

/// Splits lengths into powers of two, and each of these into `2^sub` equal classes;
/// below `2^(sub + unit)` each multiple of `2^unit` is a class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Classes {
    sub: u32,
    unit: u32,
}

impl Classes {
    pub(super) fn new(sub: u32, granule: u64) -> Classes {
        Classes {
            sub,
            unit: granule.ilog2(),
        }
    }

    pub(super) fn count(self) -> usize {
        64 << self.sub
    }

    /// The class that holds ranges of this length.
    pub(super) fn of(self, length: u64) -> usize {
        let exact = self.sub + self.unit;
        if length >> exact == 0 {
            return (length >> self.unit) as usize;
        }
        let power = length.ilog2();
        let within = (length >> (power - self.sub)) as usize & ((1 << self.sub) - 1);
        (((power - exact + 1) as usize) << self.sub) | within
    }

    /// The first class of which every range has this length.
    pub(super) fn at_least(self, length: u64) -> usize {
        let exact = self.sub + self.unit;
        let step = if length >> exact == 0 {
            self.unit
        } else {
            length.ilog2() - self.sub
        };
        self.of(length.saturating_add((1 << step) - 1))
    }
}

/// The classes that hold something.
#[derive(Clone, Debug)]
pub(super) struct Occupied {
    words: Vec<u64>,
    summary: u64,
}

impl Occupied {
    pub(super) fn new(classes: usize) -> Occupied {
        Occupied {
            words: vec![0; classes.div_ceil(64)],
            summary: 0,
        }
    }

    pub(super) fn set(&mut self, class: usize) {
        self.words[class / 64] |= 1 << (class % 64);
        self.summary |= 1 << (class / 64);
    }

    pub(super) fn clear(&mut self, class: usize) {
        self.words[class / 64] &= !(1 << (class % 64));
        if self.words[class / 64] == 0 {
            self.summary &= !(1 << (class / 64));
        }
    }

    /// The first that is occupied, from `class` on.
    pub(super) fn from(&self, class: usize) -> Option<usize> {
        let word = class / 64;
        let here = *self.words.get(word)? & (u64::MAX << (class % 64));
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        let above = self.summary & u64::MAX.checked_shl(word as u32 + 1).unwrap_or(0);
        let word = (above != 0).then(|| above.trailing_zeros() as usize)?;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }

    /// The last that is occupied.
    pub(super) fn last(&self) -> Option<usize> {
        let word = self.summary.checked_ilog2()? as usize;
        Some(word * 64 + self.words[word].ilog2() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_the_two_level_scheme() {
        let classes = Classes::new(5, 8);
        assert_eq!([classes.of(8), classes.of(24), classes.of(255)], [1, 3, 31]);
        // 256..264 is the first class of the first power of two, 264 the second.
        assert_eq!(
            [classes.of(256), classes.of(263), classes.of(264)],
            [32, 32, 33]
        );
        assert_eq!(
            [classes.of(511), classes.of(512), classes.of(1023)],
            [63, 64, 95]
        );
        assert_eq!(classes.at_least(520), classes.of(528));
        assert_eq!(classes.at_least(512), classes.of(512));
        assert!(classes.of(u64::MAX) < classes.count());
    }

    #[test]
    fn the_next_occupied_class_is_found_across_words() {
        let mut occupied = Occupied::new(2048);
        for class in [3, 200, 2047] {
            occupied.set(class);
        }
        assert_eq!(occupied.from(0), Some(3));
        assert_eq!(occupied.from(4), Some(200));
        assert_eq!(occupied.from(201), Some(2047));
        assert_eq!(occupied.last(), Some(2047));
        occupied.clear(2047);
        assert_eq!(occupied.from(201), None);
        assert_eq!(occupied.last(), Some(200));
    }
}
