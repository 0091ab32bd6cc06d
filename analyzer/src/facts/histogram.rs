//! Log2 histograms of latencies.
//!
//! Values below 32 have a bucket each; above, every power of two is cut into 16
//! buckets. A percentile read from it is the upper end of its bucket, at most 1/16
//! (6.25 %) above the true value, never below it.

/// Buckets of one power of two, as a power of two.
const SUB_BITS: u32 = 4;
const SUBS: usize = 1 << SUB_BITS;
/// The last power of two that is told apart; larger values share its last bucket.
const BUCKETS: usize = SUBS * (64 - SUB_BITS as usize + 1);

/// Counts by size, with exact sum and maximum.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    pub(crate) sum: u64,
    pub(crate) max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            counts: vec![0; BUCKETS],
            sum: 0,
            max: 0,
        }
    }
}

impl Histogram {
    #[inline(always)]
    pub(crate) fn add(&mut self, value: u64) {
        self.counts[bucket_of(value)] += 1;
        self.sum = self.sum.wrapping_add(value);
        self.max = self.max.max(value);
    }

    /// How many values.
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(crate) fn mean(&self) -> f64 {
        self.sum as f64 / self.count().max(1) as f64
    }

    /// The value that the share `q` of all values does not exceed.
    pub(crate) fn quantile(&self, q: f64) -> u64 {
        let wanted = ((self.count() as f64 * q).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper_end(bucket).min(self.max);
            }
        }
        self.max
    }

    /// Counts by power of two: (first value, count), without empty ends.
    pub(crate) fn powers(&self) -> Vec<(u64, u64)> {
        let mut powers = vec![0u64; 65];
        for (bucket, count) in self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
        {
            powers[power_of(lower_end(bucket))] += count;
        }
        let used = |count: &u64| *count > 0;
        let first = powers.iter().position(used).unwrap_or(0);
        let behind = powers.iter().rposition(used).map_or(0, |last| last + 1);
        let value = |power: usize| if power == 0 { 0 } else { 1u64 << (power - 1) };
        (first..behind)
            .map(|power| (value(power), powers[power]))
            .collect()
    }
}

/// 0 for 0, else 1 + the exponent.
fn power_of(value: u64) -> usize {
    (64 - value.leading_zeros()) as usize
}

#[inline(always)]
fn bucket_of(value: u64) -> usize {
    if value < 2 * SUBS as u64 {
        return value as usize;
    }
    let exponent = 63 - value.leading_zeros();
    let sub = (value >> (exponent - SUB_BITS)) as usize & (SUBS - 1);
    (exponent - SUB_BITS + 1) as usize * SUBS + sub
}

fn lower_end(bucket: usize) -> u64 {
    if bucket < 2 * SUBS {
        return bucket as u64;
    }
    let exponent = (bucket / SUBS) as u32 + SUB_BITS - 1;
    (SUBS as u64 + (bucket % SUBS) as u64) << (exponent - SUB_BITS)
}

fn upper_end(bucket: usize) -> u64 {
    if bucket + 1 >= BUCKETS {
        u64::MAX
    } else {
        lower_end(bucket + 1) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket(value: u64) {
            let bucket = bucket_of(value);
            prop_assert!(lower_end(bucket) <= value && value <= upper_end(bucket));
            prop_assert!((upper_end(bucket) - lower_end(bucket)) as f64 <= lower_end(bucket) as f64 / 16.0);
        }

        #[test]
        fn quantiles_err_upwards_by_a_sixteenth(mut values in proptest::collection::vec(0u64..1 << 40, 1..500), q in 0.0..1.0f64) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|value| histogram.add(*value));
            values.sort_unstable();
            let rank = ((values.len() as f64 * q).ceil() as usize).max(1) - 1;
            let told = histogram.quantile(q);
            prop_assert!(told >= values[rank] && told as f64 <= values[rank] as f64 * (1.0 + 1.0 / 16.0));
            prop_assert_eq!(histogram.powers().iter().map(|p| p.1).sum::<u64>(), values.len() as u64);
        }
    }

    #[test]
    fn the_ends_fit() {
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert_eq!((bucket_of(0), bucket_of(31), bucket_of(32)), (0, 31, 32));
    }

    #[test]
    fn powers_of_two_are_told_by_their_first_value() {
        let mut histogram = Histogram::default();
        [0, 1, 5, 7, 8]
            .iter()
            .for_each(|value| histogram.add(*value));
        assert_eq!(histogram.powers(), [(0, 1), (1, 1), (2, 0), (4, 2), (8, 1)]);
    }
}
