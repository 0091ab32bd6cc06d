//! How long the free ranges are.

use serde::Serialize;

use crate::model::Region;

/// Classes of a [`FreeSizes`]: lengths from 2^k to below 2^(k+1).
pub const CLASSES: usize = 64;

/// Free ranges by length in powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeSizes {
    /// Free ranges of `2^k` to below `2^(k+1)` bytes.
    pub ranges: [u32; CLASSES],
    /// Their bytes.
    pub bytes: [u64; CLASSES],
}

impl Default for FreeSizes {
    fn default() -> FreeSizes {
        FreeSizes {
            ranges: [0; CLASSES],
            bytes: [0; CLASSES],
        }
    }
}

/// One class of a [`FreeSizes`], for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FreeClass {
    /// Lengths from here,
    pub from: u64,
    /// to here, the end excluded; 0 where that is 2^64.
    pub to: u64,
    /// How many ranges.
    pub ranges: u32,
    /// Their bytes.
    pub bytes: u64,
}

impl FreeSizes {
    /// Those of some regions.
    pub fn of(regions: &[Region]) -> FreeSizes {
        let mut sizes = FreeSizes::default();
        for length in crate::metrics::free_runs(regions) {
            sizes.add(length);
        }
        sizes
    }

    /// A range becomes free.
    pub fn add(&mut self, length: u64) {
        let class = class(length);
        self.ranges[class] += 1;
        self.bytes[class] += length;
    }

    /// A free range is taken.
    pub fn remove(&mut self, length: u64) {
        let class = class(length);
        self.ranges[class] -= 1;
        self.bytes[class] -= length;
    }

    /// All of both.
    pub fn merge(&mut self, other: &FreeSizes) {
        for class in 0..CLASSES {
            self.ranges[class] += other.ranges[class];
            self.bytes[class] += other.bytes[class];
        }
    }

    /// Free ranges.
    pub fn count(&self) -> u64 {
        self.ranges.iter().map(|&count| u64::from(count)).sum()
    }

    /// Free bytes.
    pub fn total(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// The classes that hold any, ascending.
    pub fn classes(&self) -> Vec<FreeClass> {
        (0..CLASSES)
            .filter(|&k| self.ranges[k] > 0)
            .map(|k| self.class(k))
            .collect()
    }

    fn class(&self, k: usize) -> FreeClass {
        FreeClass {
            from: 1 << k,
            to: 1_u64.checked_shl(k as u32 + 1).unwrap_or(0),
            ranges: self.ranges[k],
            bytes: self.bytes[k],
        }
    }
}

fn class(length: u64) -> usize {
    length.max(1).ilog2() as usize
}
