//! Call sites whose live bytes rise steadily, told apart from caches that level off.

use super::clock::Times;
use super::sites::Sites;
use super::values::Growth;
use crate::facts::Facts;
use std::collections::BTreeMap;

/// The share of the samples at the beginning that is left out: start-up grows.
pub const WARM_UP_SHARE: f64 = 0.25;
/// With fewer samples behind the warm-up nothing is called growth.
pub const MIN_SAMPLES: usize = 8;
/// Live bytes must rise, not merely stay, in this share of the intervals …
pub const RISING_SHARE: f64 = 0.6;
/// … fall in at most this share …
pub const FALLING_SHARE: f64 = 0.1;
/// … gain this share of the whole gain in the second half: a cache levels off …
pub const LATE_SHARE: f64 = 0.3;
/// … and by this much in all.
pub const MIN_BYTES: u64 = 64 << 10;
/// Or by this share of the peak, where that is more.
pub const MIN_PEAK_SHARE: f64 = 0.01;

/// All growing sites, the fastest first.
pub(crate) fn growing(facts: &Facts, sites: &Sites, times: &Times) -> Vec<Growth> {
    let keys: Vec<u64> = facts.samples.instants.iter().map(|(key, _)| *key).collect();
    let skip = (keys.len() as f64 * WARM_UP_SHARE).ceil() as usize;
    if keys.len() < skip + MIN_SAMPLES {
        return Vec::new();
    }
    let least = MIN_BYTES.max((facts.ledger.peak.bytes as f64 * MIN_PEAK_SHARE) as u64);
    let rows = curves(facts, sites, keys.len())
        .into_iter()
        .filter_map(|(site, curve)| {
            let mut growth = judge(&curve[skip..], least)?;
            let seconds = times.nanos(keys[keys.len() - 1] - keys[skip]) as f64 / 1e9;
            growth.site = site;
            growth.name = sites.name(site);
            growth.bytes_per_second =
                (growth.to_bytes - growth.from_bytes) as f64 / seconds.max(1e-9);
            Some(growth)
        });
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.to_bytes - row.from_bytes), row.site));
    rows
}

/// Live bytes by site over the samples.
fn curves(facts: &Facts, sites: &Sites, samples: usize) -> BTreeMap<u32, Vec<u64>> {
    let mut curves: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for (at, (_, bytes)) in facts.samples.instants.iter().enumerate() {
        for (stack, bytes) in bytes.iter().enumerate().filter(|(_, bytes)| **bytes > 0) {
            let curve = curves
                .entry(sites.of_any(stack as u32))
                .or_insert_with(|| vec![0; samples]);
            curve[at] = curve[at].saturating_add(*bytes);
        }
    }
    curves
}

/// The growth of a curve, if it is one.
fn judge(curve: &[u64], least: u64) -> Option<Growth> {
    let (from, to) = (*curve.first()?, *curve.last()?);
    let gain = to.checked_sub(from).filter(|gain| *gain >= least)?;
    let intervals = (curve.len() - 1) as f64;
    let rising = curve.windows(2).filter(|pair| pair[1] > pair[0]).count() as f64 / intervals;
    let falling = curve.windows(2).filter(|pair| pair[1] < pair[0]).count() as f64 / intervals;
    let late = to.saturating_sub(curve[curve.len() / 2]) as f64 / gain as f64;
    let steady = rising >= RISING_SHARE && falling <= FALLING_SHARE && late >= LATE_SHARE;
    steady.then_some(Growth {
        site: 0,
        name: String::new(),
        from_bytes: from,
        to_bytes: to,
        bytes_per_second: 0.0,
        rising_share: rising,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rise_is_growth() {
        let curve: Vec<u64> = (0..20).map(|n| n * 10_000).collect();
        let growth = judge(&curve, 65_536).unwrap();
        assert_eq!((growth.from_bytes, growth.to_bytes), (0, 190_000));
    }

    #[test]
    fn a_cache_that_levels_off_is_none() {
        let curve: Vec<u64> = (0..20).map(|n: u64| n.min(8) * 30_000).collect();
        assert!(judge(&curve, 65_536).is_none());
        let curve: Vec<u64> = (0..20).map(|n| 300_000 - 300_000 / (1 + n * n)).collect();
        assert!(judge(&curve, 65_536).is_none());
    }

    #[test]
    fn a_saw_tooth_and_a_trickle_are_none() {
        let teeth: Vec<u64> = (0..20).map(|n| n % 4 * 100_000 + n * 4_000).collect();
        assert!(judge(&teeth, 65_536).is_none());
        let trickle: Vec<u64> = (0..20).map(|n| n * 100).collect();
        assert!(judge(&trickle, 65_536).is_none());
        assert!(judge(&[], 0).is_none());
    }
}
