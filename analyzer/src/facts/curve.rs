//! Live bytes over time in a bounded number of points.
//!
//! Time is cut into buckets of equal width; each keeps its least, its greatest and its
//! last value with their instants. When the buckets run out their width doubles. So the
//! curve's extremes are exact however coarse it is.

/// Buckets at most; each gives up to three points.
const MAX_BUCKETS: usize = 1364;
/// Width of a bucket at the beginning, in ticks.
const FIRST_WIDTH: u64 = 1 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bucket {
    /// Which stretch of time, in widths since the start.
    number: u64,
    least: (u64, u64),
    greatest: (u64, u64),
    last: (u64, u64),
}

/// The curve while it grows.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    start: u64,
    width_log2: u32,
    /// Only stretches in which something changed.
    done: Vec<Bucket>,
    open: Option<Bucket>,
    /// First key behind the open bucket.
    end: u64,
}

impl Curve {
    pub(crate) fn new(start: u64) -> Curve {
        Curve {
            start,
            width_log2: FIRST_WIDTH.ilog2(),
            done: Vec::new(),
            open: None,
            end: 0,
        }
    }

    /// The value from this key on.
    #[inline(always)]
    pub(crate) fn add(&mut self, key: u64, value: u64) {
        match &mut self.open {
            Some(open) if key < self.end => {
                open.last = (key, value);
                if value < open.least.1 {
                    open.least = (key, value);
                }
                if value > open.greatest.1 {
                    open.greatest = (key, value);
                }
            }
            _ => self.begin_bucket(key, value),
        }
    }

    #[cold]
    fn begin_bucket(&mut self, key: u64, value: u64) {
        self.done.extend(self.open.take());
        if self.done.len() >= MAX_BUCKETS {
            self.halve();
        }
        let number = key.saturating_sub(self.start) >> self.width_log2;
        let last = key.saturating_sub(self.start) | ((1 << self.width_log2) - 1);
        self.end = self.start.saturating_add(last).saturating_add(1);
        let first = (key, value);
        self.open = Some(Bucket {
            number,
            least: first,
            greatest: first,
            last: first,
        });
    }

    /// Doubles the width until half of the buckets are enough.
    fn halve(&mut self) {
        while self.done.len() > MAX_BUCKETS / 2 && self.width_log2 < 62 {
            self.width_log2 += 1;
            self.done.iter_mut().for_each(|bucket| bucket.number /= 2);
            self.done.dedup_by(|later, earlier| {
                let same = later.number == earlier.number;
                if same {
                    earlier.absorb(later);
                }
                same
            });
        }
    }

    /// Points in order of time: (key, value).
    pub(crate) fn points(&self) -> Vec<(u64, u64)> {
        let mut points = Vec::with_capacity(self.done.len() * 3 + 3);
        for bucket in self.done.iter().chain(&self.open) {
            let mut three = [bucket.least, bucket.greatest, bucket.last];
            three.sort_by_key(|point| point.0);
            points.extend(three);
        }
        points.dedup();
        points
    }
}

impl Bucket {
    fn absorb(&mut self, later: &Bucket) {
        self.last = later.last;
        if later.least.1 < self.least.1 {
            self.least = later.least;
        }
        if later.greatest.1 > self.greatest.1 {
            self.greatest = later.greatest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn extremes_are_exact_and_points_few(steps in proptest::collection::vec((0u64..5_000, 0u64..1_000), 1..20_000)) {
            let mut curve = Curve::new(100);
            let mut key = 100;
            let mut values = Vec::new();
            for (gap, value) in steps {
                key += gap;
                curve.add(key, value);
                values.push((key, value));
            }
            let points = curve.points();
            prop_assert!(points.len() <= 3 * MAX_BUCKETS + 3);
            prop_assert!(points.is_sorted_by_key(|point| point.0));
            prop_assert!(values.len() > 500 || points.iter().all(|point| values.contains(point)));
            let value = |p: &(u64, u64)| p.1;
            prop_assert_eq!(points.iter().map(value).max(), values.iter().map(value).max());
            prop_assert_eq!(points.iter().map(value).min(), values.iter().map(value).min());
        }
    }

    #[test]
    fn a_long_silence_costs_nothing() {
        let mut curve = Curve::new(0);
        curve.add(5, 1);
        curve.add(u64::MAX - 1, 2);
        curve.add(u64::MAX, 3);
        assert_eq!(curve.points(), [(5, 1), (u64::MAX - 1, 2), (u64::MAX, 3)]);
    }
}
