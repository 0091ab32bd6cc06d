//! Plain statistics over frames.

use super::values::{Bursts, Distribution};

impl Distribution {
    /// Of the values of frames: (number, value).
    pub(crate) fn of(values: impl Iterator<Item = (u64, u64)>) -> Distribution {
        let mut values: Vec<(u64, u64)> = values.map(|(frame, value)| (value, frame)).collect();
        if values.is_empty() {
            return Distribution::default();
        }
        values.sort_unstable_by_key(|(value, frame)| (*value, std::cmp::Reverse(*frame)));
        let sum: f64 = values.iter().map(|(value, _)| *value as f64).sum();
        let (max, max_frame) = values[values.len() - 1];
        let at = |q: f64| values[rank(values.len(), q)].0;
        Distribution {
            mean: sum / values.len() as f64,
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            max,
            max_frame,
        }
    }
}

/// Nearest rank, from 0.
fn rank(count: usize, q: f64) -> usize {
    ((count as f64 * q).ceil() as usize).clamp(1, count) - 1
}

/// The median of a list; 0 for an empty one.
pub(crate) fn median(mut values: Vec<u64>) -> u64 {
    if values.is_empty() {
        return 0;
    }
    values.sort_unstable();
    values[rank(values.len(), 0.5)]
}

impl Bursts {
    /// Of the counts of all frames.
    pub(crate) fn of(counts: &[u64]) -> Bursts {
        let total: f64 = counts.iter().map(|count| *count as f64).sum();
        if counts.is_empty() || total == 0.0 {
            return Bursts {
                frames_without: counts.len() as u64,
                ..Bursts::default()
            };
        }
        let mean = total / counts.len() as f64;
        let variance = counts
            .iter()
            .map(|count| (*count as f64 - mean).powi(2))
            .sum::<f64>()
            / counts.len() as f64;
        let mut sorted = counts.to_vec();
        sorted.sort_unstable();
        let top: u64 = sorted.iter().rev().take(counts.len().div_ceil(100)).sum();
        let most = sorted[sorted.len() - 1];
        Bursts {
            fano_factor: variance / mean,
            share_of_top_percent: top as f64 / total,
            max_over_median: match sorted[rank(sorted.len(), 0.5)] {
                0 => None,
                median => Some(most as f64 / median as f64),
            },
            frames_without: counts.iter().filter(|count| **count == 0).count() as u64,
        }
    }
}

/// Spearman's rank correlation; equal values share their mean rank. `None` for fewer
/// than three pairs, or where either side never varies.
pub(crate) fn rank_correlation(a: &[u64], b: &[u64]) -> Option<f64> {
    if a.len() != b.len() || a.len() < 3 {
        return None;
    }
    let (a, b) = (ranks(a), ranks(b));
    let mean = (a.len() as f64 + 1.0) / 2.0;
    let covariance: f64 = a.iter().zip(&b).map(|(x, y)| (x - mean) * (y - mean)).sum();
    let spread = |ranks: &[f64]| ranks.iter().map(|rank| (rank - mean).powi(2)).sum::<f64>();
    let product = spread(&a) * spread(&b);
    (product > 0.0).then(|| covariance / product.sqrt())
}

/// Ranks from 1; equal values share the mean of theirs.
fn ranks(values: &[u64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by_key(|at| values[*at]);
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    for equals in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let shared = from as f64 + (equals.len() as f64 + 1.0) / 2.0;
        equals.iter().for_each(|at| ranks[*at] = shared);
        from += equals.len();
    }
    ranks
}

/// Of the `share` of positions with the greatest `a`, the part that is also among
/// those with the greatest `b`. Equal values at the border count by their place.
pub(crate) fn common_share(a: &[u64], b: &[u64], share: f64) -> Option<f64> {
    let count = (a.len() as f64 * share).floor() as usize;
    if count == 0 || a.len() != b.len() {
        return None;
    }
    let top = |values: &[u64]| {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by_key(|at| (std::cmp::Reverse(values[*at]), *at));
        order.truncate(count);
        order.sort_unstable();
        order
    };
    let (a, b) = (top(a), top(b));
    let common = a.iter().filter(|at| b.binary_search(at).is_ok()).count();
    Some(common as f64 / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_take_the_nearest_rank() {
        let d = Distribution::of((1..=100).map(|n| (n + 1000, n)));
        assert_eq!(
            (d.p50, d.p95, d.p99, d.max, d.max_frame),
            (50, 95, 99, 100, 1100)
        );
        assert_eq!(d.mean, 50.5);
        assert_eq!(Distribution::of([(7, 3)].into_iter()).p99, 3);
        // Of several greatest the first frame is named.
        assert_eq!(Distribution::of([(4, 9), (5, 9)].into_iter()).max_frame, 4);
    }

    #[test]
    fn correlation_is_by_rank() {
        let up: Vec<u64> = (0..50).collect();
        let squares: Vec<u64> = up.iter().map(|n| n * n).collect();
        let down: Vec<u64> = up.iter().rev().copied().collect();
        assert_eq!(rank_correlation(&up, &squares), Some(1.0));
        assert_eq!(rank_correlation(&up, &down), Some(-1.0));
        assert_eq!(rank_correlation(&up, &[5; 50]), None);
        assert_eq!(rank_correlation(&[1, 2], &[1, 2]), None);
        // scipy.stats.spearmanr([1, 2, 2, 3], [4, 1, 3, 2])
        let tied = rank_correlation(&[1, 2, 2, 3], &[4, 1, 3, 2]).unwrap();
        assert!((tied + 0.632_455_5).abs() < 1e-6, "{tied}");
    }

    #[test]
    fn peaks_in_common() {
        let calls: Vec<u64> = (0..100).collect();
        assert_eq!(common_share(&calls, &calls, 0.05), Some(1.0));
        let times: Vec<u64> = calls
            .iter()
            .map(|n| if *n < 95 { 100 + n } else { 0 })
            .collect();
        assert_eq!(common_share(&calls, &times, 0.05), Some(0.0));
        assert_eq!(common_share(&calls[..10], &times[..10], 0.05), None);
    }

    #[test]
    fn even_frees_are_no_burst() {
        let even = Bursts::of(&[5; 200]);
        assert_eq!((even.fano_factor, even.share_of_top_percent), (0.0, 0.01));
        assert_eq!(even.max_over_median, Some(1.0));
        let mut counts = vec![0; 200];
        counts[7] = 1000;
        let burst = Bursts::of(&counts);
        assert_eq!(
            (burst.share_of_top_percent, burst.frames_without),
            (1.0, 199)
        );
        assert!(burst.fano_factor > 900.0);
        assert_eq!(burst.max_over_median, None);
        let mut counts = vec![4; 200];
        counts[7] = 90;
        assert_eq!(Bursts::of(&counts).max_over_median, Some(22.5));
    }
}
