//! Smallest and largest value of any stretch of a series, in logarithmic time.

use std::ops::Range;

/// Extremes of a stretch of a series, and where they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extremes {
    /// Smallest value.
    pub min: f64,
    /// Index of the first value that is smallest.
    pub min_at: usize,
    /// Largest value.
    pub max: f64,
    /// Index of the first value that is largest.
    pub max_at: usize,
}

impl Extremes {
    fn of(value: f64, index: usize) -> Self {
        Self {
            min: value,
            min_at: index,
            max: value,
            max_at: index,
        }
    }

    /// `self` lies before `later` in the series, so it wins ties.
    fn with(self, later: Self) -> Self {
        let (min, min_at) = if later.min < self.min {
            (later.min, later.min_at)
        } else {
            (self.min, self.min_at)
        };
        let (max, max_at) = if later.max > self.max {
            (later.max, later.max_at)
        } else {
            (self.max, self.max_at)
        };
        Self {
            min,
            min_at,
            max,
            max_at,
        }
    }
}

/// A series with its extremes, level upon level: each entry stands for
/// [`FAN`] entries of the level below.
///
/// Built once per series, off the UI thread; a picture then asks once per pixel
/// column, whatever the length of the series. The wide fan keeps what a query
/// reads together, and the levels at an eighth of the series' own size.
#[derive(Clone, Debug, Default)]
pub struct RangeTree {
    values: Vec<f64>,
    levels: Vec<Vec<Extremes>>,
}

/// Entries of a level that one entry of the next stands for.
const FAN: usize = 32;

impl RangeTree {
    /// The tree of a series without values.
    pub const EMPTY: Self = Self {
        values: Vec::new(),
        levels: Vec::new(),
    };

    /// Builds the tree of a series.
    pub fn new(values: impl IntoIterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.into_iter().collect();
        let mut tree = Self {
            values,
            levels: Vec::new(),
        };
        let mut length = tree.values.len();
        while length > FAN {
            let below = tree.levels.len();
            let groups = (0..length).step_by(FAN);
            let level: Vec<_> = groups
                .filter_map(|from| tree.scan(below, from..(from + FAN).min(length)))
                .collect();
            length = level.len();
            tree.levels.push(level);
        }
        tree
    }

    /// Length of the series.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// The series has no values.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Extremes of the values `from..to`; `None` where that holds no value.
    pub fn extremes(&self, from: usize, to: usize) -> Option<Extremes> {
        self.query(0, from..to.min(self.len()))
    }

    /// Extremes of entries of a level; level 0 is the series itself.
    fn query(&self, level: usize, range: Range<usize>) -> Option<Extremes> {
        let whole = range.start.div_ceil(FAN)..range.end / FAN;
        if whole.is_empty() || level == self.levels.len() {
            return self.scan(level, range);
        }
        let before = self.scan(level, range.start..whole.start * FAN);
        let after = self.scan(level, whole.end * FAN..range.end);
        let middle = self.query(level + 1, whole);
        [before, middle, after]
            .into_iter()
            .flatten()
            .reduce(Extremes::with)
    }

    fn scan(&self, level: usize, range: Range<usize>) -> Option<Extremes> {
        let first = range.start;
        match level.checked_sub(1) {
            None => self
                .values
                .get(range)?
                .iter()
                .enumerate()
                .map(|(index, &value)| Extremes::of(value, first + index))
                .reduce(Extremes::with),
            Some(below) => self.levels[below]
                .get(range)?
                .iter()
                .copied()
                .reduce(Extremes::with),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(values: &[f64], from: usize, to: usize) -> Option<Extremes> {
        (from..to.min(values.len()))
            .map(|index| Extremes::of(values[index], index))
            .reduce(Extremes::with)
    }

    #[test]
    fn every_stretch_equals_a_plain_search() {
        for length in [0, 1, 31, 32, 33, 64, 1023, 1024, 1025, 3000] {
            let values: Vec<f64> = (0..length).map(|i| ((i * 37) % 101) as f64).collect();
            let tree = RangeTree::new(values.iter().copied());
            let step = length / 40 + 1;
            for from in (0..=length).step_by(step) {
                for to in (0..=length + 2).step_by(step) {
                    assert_eq!(
                        tree.extremes(from, to),
                        plain(&values, from, to),
                        "{from}..{to} of {length}"
                    );
                }
            }
        }
    }

    #[test]
    fn an_empty_series_has_no_extremes() {
        assert_eq!(RangeTree::default().extremes(0, 5), None);
        assert_eq!(RangeTree::new([]).extremes(0, 5), None);
        assert!(RangeTree::new([]).is_empty());
    }
}
