//! Measures of fragmentation, each by name, with its formula and where it comes from.
//!
//! Letters: `f_i` the lengths of the free ranges, `n` their number, `F` their sum,
//! `f_max` the longest; `U` bytes of live blocks, `R` bytes requested for them, `H` bytes
//! held from the operating system. Measures over free ranges describe one contiguous
//! region; of a model that hands out pages they describe the spans inside its segments,
//! and `ext_frag` says nothing there about what will fail.

use serde::Serialize;

use crate::counters::Counters;
use crate::model::{BlockId, Region, RunState};

/// A measure's name, formula and source, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Metric {
    /// Its name in reports.
    pub id: &'static str,
    /// How it is computed.
    pub formula: &'static str,
    /// What it says, and who defined it.
    pub meaning: &'static str,
}

const fn metric(id: &'static str, formula: &'static str, meaning: &'static str) -> Metric {
    Metric {
        id,
        formula,
        meaning,
    }
}

/// All measures.
pub const METRICS: &[Metric] = &[
    metric(
        "ext_frag",
        "1 - f_max/F",
        "share of free bytes that one block cannot use; common usage",
    ),
    metric(
        "sq_frag",
        "1 - sum f_i^2 / F^2",
        "smoother, sees every range; A. Sawicki",
    ),
    metric(
        "unusable(s)",
        "1 - sum of f_i >= s / F",
        "share of free bytes in ranges too short for s; Linux's unusable free space index",
    ),
    metric(
        "frag_index(s)",
        "1 - (1 + F/s)/n",
        "for a request s that fails: towards 0 memory lacks, towards 1 it is scattered; Linux",
    ),
    metric(
        "int_frag",
        "1 - R/U",
        "rounding inside blocks; textbook (Knuth; Wilson et al. 1995)",
    ),
    metric("overhead", "meta/U", "headers and tables"),
    metric(
        "waste",
        "1 - R/H",
        "share of held bytes that nobody asked for",
    ),
    metric(
        "jw1",
        "mean H / mean R - 1",
        "Johnstone & Wilson 1998, measure 1",
    ),
    metric(
        "jw2",
        "H/R at the largest R - 1",
        "Johnstone & Wilson 1998, measure 2",
    ),
    metric(
        "jw3",
        "H/R at the largest H - 1",
        "Johnstone & Wilson 1998, measure 3",
    ),
    metric(
        "jw4",
        "largest H / largest R - 1",
        "Johnstone & Wilson 1998, measure 4",
    ),
    metric("as_util", "mapped/reserved", "use of address space"),
    metric(
        "as_span",
        "(highest - lowest)/reserved",
        "stretch of address space that is in use",
    ),
    metric(
        "page_util",
        "live bytes of a page / its bytes",
        "histogram over pages",
    ),
    metric(
        "pinned",
        "bytes of pages less than 10 % live",
        "what few blocks keep from being given back",
    ),
    metric(
        "fifty_percent",
        "n / (live blocks / 2)",
        "about 1 in equilibrium; Knuth 1 2.5, a check only",
    ),
    metric(
        "robson_first_fit",
        "n * H_m / ln 2",
        "capacity that always suffices first fit for n bytes live, blocks of 1 to m; Robson 1971, a teaching figure",
    ),
];

fn share(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}

/// Lengths of the free ranges of some regions, in address order; free runs that touch
/// are one range.
pub fn free_runs(regions: &[Region]) -> Vec<u64> {
    let mut lengths = Vec::new();
    for region in regions {
        let mut length = 0;
        for &(bytes, state) in &region.runs {
            if state == RunState::Free {
                length += bytes;
            } else if length > 0 {
                lengths.push(std::mem::take(&mut length));
            }
        }
        lengths.extend((length > 0).then_some(length));
    }
    lengths
}

fn total(free: &[u64]) -> f64 {
    free.iter().sum::<u64>() as f64
}

/// `1 - f_max/F`; 0 where nothing is free.
pub fn ext_frag(free: &[u64]) -> f64 {
    let longest = free.iter().max().copied().unwrap_or(0);
    let all = total(free);
    if all == 0.0 {
        0.0
    } else {
        1.0 - longest as f64 / all
    }
}

/// `1 - sum f_i^2 / F^2`; 0 where nothing is free.
pub fn sq_frag(free: &[u64]) -> f64 {
    let squares: f64 = free.iter().map(|&length| (length as f64).powi(2)).sum();
    let all = total(free);
    if all == 0.0 {
        0.0
    } else {
        1.0 - squares / (all * all)
    }
}

/// `1 - sum of f_i >= size / F`; 0 where nothing is free.
pub fn unusable(free: &[u64], size: u64) -> f64 {
    let usable: u64 = free.iter().filter(|&&length| length >= size).sum();
    let all = total(free);
    if all == 0.0 {
        0.0
    } else {
        1.0 - usable as f64 / all
    }
}

/// `1 - (1 + F/size)/n` for a request that fails; `None` where a range is long enough.
/// 0 where nothing is free.
pub fn frag_index(free: &[u64], size: u64) -> Option<f64> {
    if free.iter().any(|&length| length >= size) {
        return None;
    }
    let ranges = free.len() as f64;
    Some(if free.is_empty() {
        0.0
    } else {
        1.0 - (1.0 + total(free) / size as f64) / ranges
    })
}

/// `1 - R/U`; 0 where no block is live.
pub fn int_frag(counters: &Counters) -> f64 {
    share(
        (counters.used - counters.requested) as f64,
        counters.used as f64,
    )
}

/// `meta/U`; 0 where no block is live.
pub fn overhead(counters: &Counters) -> f64 {
    share(counters.meta as f64, counters.used as f64)
}

/// `1 - R/H`; 0 where nothing is held.
pub fn waste(counters: &Counters) -> f64 {
    share(
        counters.held.saturating_sub(counters.requested) as f64,
        counters.held as f64,
    )
}

/// `mapped/reserved`; 0 where nothing is reserved.
pub fn as_util(counters: &Counters) -> f64 {
    share(counters.held as f64, counters.reserved as f64)
}

/// From the lowest to the highest live byte, over what is reserved.
pub fn as_span(regions: &[Region], reserved: u64) -> f64 {
    let mut used = regions
        .iter()
        .flat_map(used_ranges)
        .map(|(start, bytes, _)| (start, start + bytes));
    let Some(first) = used.next() else { return 0.0 };
    let (low, high) = used.fold(first, |(low, high), (start, end)| {
        (low.min(start), high.max(end))
    });
    share((high - low) as f64, reserved as f64)
}

/// Free ranges over half the live blocks; 0 where no block is live.
pub fn fifty_percent(ranges: u64, blocks: u64) -> f64 {
    share(ranges as f64, blocks as f64 / 2.0)
}

/// `n * H_m / ln 2`, in units of the smallest block: a capacity that always suffices
/// first fit where at most `live` is live at once and `largest` is the longest block, all
/// in the same unit. One or two orders above what games need.
pub fn robson_first_fit(live: u64, largest: u64) -> f64 {
    live as f64 * harmonic(largest) / std::f64::consts::LN_2
}

fn harmonic(terms: u64) -> f64 {
    const EULER: f64 = 0.577_215_664_901_532_9;
    if terms <= 1000 {
        return (1..=terms).map(|k| 1.0 / k as f64).sum();
    }
    let m = terms as f64;
    m.ln() + EULER + 0.5 / m - 1.0 / (12.0 * m * m)
}

/// Held over requested, through a run: the four measures of Johnstone & Wilson.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct JohnstoneWilson {
    events: u64,
    held_sum: u128,
    requested_sum: u128,
    /// (held, requested) at the event with the most requested.
    most_requested: (u64, u64),
    /// (held, requested) at the event with the most held.
    most_held: (u64, u64),
}

impl JohnstoneWilson {
    /// Takes note of the state after an event. Means are over events.
    pub fn sample(&mut self, held: u64, requested: u64) {
        self.events += 1;
        self.held_sum += u128::from(held);
        self.requested_sum += u128::from(requested);
        if requested > self.most_requested.1 {
            self.most_requested = (held, requested);
        }
        if held > self.most_held.0 {
            self.most_held = (held, requested);
        }
    }

    /// The most bytes that were ever requested at once.
    pub fn peak_requested(&self) -> u64 {
        self.most_requested.1
    }

    /// The most bytes that were ever held at once, after an event.
    pub fn peak_held(&self) -> u64 {
        self.most_held.0
    }

    /// Measures 1 to 4, each less 1; 0 where nothing was requested.
    pub fn measures(&self) -> [f64; 4] {
        let ratio = |(held, requested): (u64, u64)| excess(held as f64, requested as f64);
        [
            excess(self.held_sum as f64, self.requested_sum as f64),
            ratio(self.most_requested),
            ratio(self.most_held),
            ratio((self.most_held.0, self.most_requested.1)),
        ]
    }
}

fn excess(held: f64, requested: f64) -> f64 {
    if requested == 0.0 {
        0.0
    } else {
        held / requested - 1.0
    }
}

/// Pages by how full they are: `[k]` counts those of `k/10` to below `(k+1)/10` live
/// bytes, `[10]` the full ones. The last page of a region may be shorter.
pub fn page_util(regions: &[Region], page: u64) -> [u64; 11] {
    let mut tenths = [0; 11];
    for cell in pages(regions, page) {
        tenths[(cell.live * 10 / cell.bytes) as usize] += 1;
    }
    tenths
}

/// A page that few live bytes keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedPage {
    /// First address.
    pub start: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Live bytes in it.
    pub live: u64,
    /// The blocks that lie in it, in part or whole, in address order.
    pub blocks: Vec<BlockId>,
}

/// Pages with some, but less than `percent` hundredths live bytes, in address order.
pub fn pinned(regions: &[Region], page: u64, percent: u64) -> Vec<PinnedPage> {
    let few = |cell: &PinnedPage| cell.live > 0 && cell.live * 100 < cell.bytes * percent;
    pages(regions, page).into_iter().filter(few).collect()
}

fn pages(regions: &[Region], page: u64) -> Vec<PinnedPage> {
    regions
        .iter()
        .flat_map(|region| pages_of(region, page.max(1)))
        .collect()
}

fn pages_of(region: &Region, page: u64) -> Vec<PinnedPage> {
    let empty = |index| {
        let start = region.start + index * page;
        let bytes = page.min(region.start + region.bytes - start);
        PinnedPage {
            start,
            bytes,
            live: 0,
            blocks: Vec::new(),
        }
    };
    let mut pages: Vec<_> = (0..region.bytes.div_ceil(page)).map(empty).collect();
    for (start, bytes, id) in used_ranges(region).filter(|&(_, bytes, _)| bytes > 0) {
        let (from, to) = (start - region.start, start - region.start + bytes);
        for index in from / page..=(to - 1) / page {
            let cell = &mut pages[index as usize];
            cell.live += to.min((index + 1) * page) - from.max(index * page);
            cell.blocks.push(id);
        }
    }
    pages
}

/// (first address, bytes, block) of what the program holds of a region.
fn used_ranges(region: &Region) -> impl Iterator<Item = (u64, u64, BlockId)> {
    let mut at = region.start;
    region.runs.iter().filter_map(move |&(bytes, state)| {
        let start = at;
        at += bytes;
        match state {
            RunState::Used(id) => Some((start, bytes, id)),
            _ => None,
        }
    })
}

/// The measures of one moment, over one region or several.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fragmentation {
    /// Free bytes.
    pub free: u64,
    /// The longest free range.
    pub largest_free: u64,
    /// Free ranges.
    pub free_ranges: u64,
    /// `1 - f_max/F`.
    pub ext_frag: f64,
    /// `1 - sum f_i^2 / F^2`.
    pub sq_frag: f64,
    /// `1 - R/U`.
    pub int_frag: f64,
    /// `meta/U`.
    pub overhead: f64,
    /// `1 - R/H`.
    pub waste: f64,
    /// `mapped/reserved`.
    pub as_util: f64,
    /// `(highest - lowest)/reserved`.
    pub as_span: f64,
    /// Free ranges over half the live blocks.
    pub fifty_percent: f64,
}

impl Fragmentation {
    /// Computes them from a model's regions and counters.
    pub fn of(regions: &[Region], counters: &Counters) -> Fragmentation {
        let free = free_runs(regions);
        Fragmentation {
            free: free.iter().sum(),
            largest_free: free.iter().max().copied().unwrap_or(0),
            free_ranges: free.len() as u64,
            ext_frag: ext_frag(&free),
            sq_frag: sq_frag(&free),
            int_frag: int_frag(counters),
            overhead: overhead(counters),
            waste: waste(counters),
            as_util: as_util(counters),
            as_span: as_span(regions, counters.reserved),
            fifty_percent: fifty_percent(free.len() as u64, counters.blocks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SegmentId;

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-12
    }

    fn region(runs: Vec<(u64, RunState)>) -> Region {
        let bytes = runs.iter().map(|run| run.0).sum();
        Region {
            name: "Default".into(),
            segment: Some(SegmentId(0)),
            start: 0x1_0000,
            bytes,
            runs,
        }
    }

    #[test]
    fn free_range_measures_by_hand() {
        // F = 40, f_max = 16, squares 256 + 64 + 64 + 16 * 4 = 448.
        let free = [16, 8, 4, 4, 4, 4];
        assert!(close(ext_frag(&free), 0.6));
        assert!(close(sq_frag(&free), 1.0 - (256.0 + 64.0 + 64.0) / 1600.0));
        assert!(close(unusable(&free, 8), 1.0 - 24.0 / 40.0));
        // Request 24: 1 - (1 + 40/24)/6.
        assert!(close(
            frag_index(&free, 24).unwrap(),
            1.0 - (1.0 + 40.0 / 24.0) / 6.0
        ));
        assert_eq!(frag_index(&free, 16), None);
        for empty in [
            ext_frag(&[]),
            sq_frag(&[]),
            unusable(&[], 1),
            frag_index(&[], 1).unwrap(),
        ] {
            assert!(close(empty, 0.0));
        }
    }

    #[test]
    fn free_runs_that_touch_are_one_range() {
        let runs = vec![
            (8, RunState::Free),
            (8, RunState::Free),
            (16, RunState::Used(BlockId(0))),
            (4, RunState::Free),
        ];
        assert_eq!(free_runs(&[region(runs)]), [16, 4]);
    }

    #[test]
    fn johnstone_and_wilson_by_hand() {
        let mut run = JohnstoneWilson::default();
        for (held, requested) in [(100, 50), (200, 100), (300, 80)] {
            run.sample(held, requested);
        }
        let [mean, at_requested, at_held, peaks] = run.measures();
        assert!(close(mean, 600.0 / 230.0 - 1.0));
        assert!(close(at_requested, 1.0));
        assert!(close(at_held, 300.0 / 80.0 - 1.0));
        assert!(close(peaks, 2.0));
    }

    #[test]
    fn robson_is_the_harmonic_sum() {
        // 10 units live in blocks of 1 to 4: 10 * (1 + 1/2 + 1/3 + 1/4) / ln 2.
        assert!(close(
            robson_first_fit(10, 4),
            10.0 * (25.0 / 12.0) / std::f64::consts::LN_2
        ));
        let exact: f64 = (1..=5000).map(|k| 1.0 / f64::from(k)).sum();
        assert!((harmonic(5000) - exact).abs() < 1e-9);
    }

    #[test]
    fn pages_and_what_pins_them() {
        let used = |id| RunState::Used(BlockId(id));
        // Pages of 100: [5 live], [empty], [50 live, last 50 of block 2].
        let runs = vec![
            (5, used(1)),
            (195, RunState::Free),
            (50, used(2)),
            (50, RunState::Free),
        ];
        let regions = [region(runs)];
        let mut expected = [0; 11];
        (expected[0], expected[5]) = (2, 1);
        assert_eq!(page_util(&regions, 100), expected);
        let pinned = pinned(&regions, 100, 10);
        assert_eq!(pinned.len(), 1);
        assert_eq!(
            (pinned[0].live, pinned[0].blocks.as_slice()),
            (5, &[BlockId(1)][..])
        );
        assert!(close(as_span(&regions, 500), 0.5));
    }
}
