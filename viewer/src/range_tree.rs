//! Smallest and largest value of any stretch of a series, in logarithmic time.

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

/// A series' extremes, level upon level: each level halves the one below.
///
/// Built once per series, off the UI thread; a picture then asks once per pixel
/// column, whatever the length of the series.
#[derive(Clone, Debug, Default)]
pub struct RangeTree {
    levels: Vec<Vec<Extremes>>,
}

impl RangeTree {
    /// The tree of a series without values.
    pub const EMPTY: Self = Self { levels: Vec::new() };

    /// Builds the tree of a series.
    pub fn new(values: impl IntoIterator<Item = f64>) -> Self {
        let mut level: Vec<_> = values
            .into_iter()
            .enumerate()
            .map(|(index, value)| Extremes::of(value, index))
            .collect();
        let mut levels = Vec::new();
        while level.len() > 1 {
            let upper = level.chunks(2).map(join).collect();
            levels.push(std::mem::replace(&mut level, upper));
        }
        levels.push(level);
        Self { levels }
    }

    /// Length of the series.
    pub fn len(&self) -> usize {
        self.levels.first().map_or(0, Vec::len)
    }

    /// The series has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at an index of the series.
    pub fn value(&self, index: usize) -> Option<f64> {
        Some(self.levels.first()?.get(index)?.max)
    }

    /// Extremes of the values `from..to`; `None` where that holds no value.
    pub fn extremes(&self, from: usize, to: usize) -> Option<Extremes> {
        let (mut from, mut to) = (from, to.min(self.len()));
        let mut left: Option<Extremes> = None;
        let mut right: Option<Extremes> = None;
        for level in &self.levels {
            if from >= to {
                break;
            }
            if !from.is_multiple_of(2) {
                left = Some(left.map_or(level[from], |sum| sum.with(level[from])));
                from += 1;
            }
            if !to.is_multiple_of(2) && to > from {
                to -= 1;
                right = Some(right.map_or(level[to], |sum| level[to].with(sum)));
            }
            from /= 2;
            to /= 2;
        }
        match (left, right) {
            (Some(left), Some(right)) => Some(left.with(right)),
            (one, other) => one.or(other),
        }
    }
}

fn join(pair: &[Extremes]) -> Extremes {
    match pair {
        [left, right] => left.with(*right),
        [one, ..] => *one,
        [] => unreachable!("chunks are never empty"),
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
        for length in 0..40 {
            let values: Vec<f64> = (0..length).map(|i| ((i * 37) % 11) as f64).collect();
            let tree = RangeTree::new(values.iter().copied());
            for from in 0..=length {
                for to in 0..=length + 2 {
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
