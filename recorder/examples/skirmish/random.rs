//! The game's dice: small, fixed, and the same on every machine.

use std::ops::Range;

/// SplitMix64 (Steele, Lea and Flood, 2014): a counter, well stirred.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    /// Dice that always fall the same way for the same `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Dice of their own for one subsystem, so that one rolling more often does not
    /// change what another one rolls.
    pub fn fork(&self, stream: u64) -> Self {
        let mut fork = Self(self.0 ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03));
        fork.next();
        fork
    }

    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number of `range`, which must not be empty; all are about equally likely.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        let span = u128::from(range.end - range.start);
        range.start + ((u128::from(self.next()) * span) >> 64) as u64
    }

    /// The same for sizes and counts.
    pub fn size(&mut self, range: Range<usize>) -> usize {
        self.within(range.start as u64..range.end as u64) as usize
    }

    /// True once in `times` on average.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.within(0..times) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        let mut random = Random::new(1234567);
        assert_eq!(random.next(), 6457827717110365317);
        assert_eq!(random.next(), 3203168211198807973);
    }

    #[test]
    fn numbers_stay_within_and_reach_both_ends() {
        let mut random = Random::new(1);
        let mut seen = [0; 10];
        for _ in 0..1000 {
            seen[random.size(0..10)] += 1;
        }
        assert!(seen.iter().all(|&count| count > 50), "{seen:?}");
    }
}
