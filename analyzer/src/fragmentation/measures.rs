//! The measures of a moment by name and formula, and the pages that few blocks keep.

use super::groups::Names;
use super::picture::used;
use super::witness::Books;
use heapreel_models::metrics::{self, METRICS};
use heapreel_models::{Counters, Region};
use serde::Serialize;
use std::collections::BTreeMap;

/// A measure and its value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// Its name.
    pub id: &'static str,
    /// How it is computed.
    pub formula: &'static str,
    /// What it says, and who defined it.
    pub meaning: &'static str,
    /// The size `s` in bytes that it is for, where it is for one.
    pub size: Option<u64>,
    /// Its value: a share or a ratio; bytes for `pinned` and `robson_first_fit`. `None`
    /// where it is not defined: `frag_index` of a request that would not fail.
    pub value: Option<f64>,
}

/// Pages are so long at least: 64 KiB.
const PAGE: u64 = 64 << 10;
/// No more pages than about this are looked at.
const PAGES: u64 = 1 << 20;
/// A page of which less is live counts as pinned.
const PINNED_PERCENT: u64 = 10;
/// Call sites that are listed.
const PINNING_SITES: usize = 5;

/// Pages that few live bytes keep, and how full all are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pinned {
    /// Bytes of a page.
    pub page: u64,
    /// Pages of which less than 10 % is live, and more than nothing.
    pub pages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Live bytes in them.
    pub live: u64,
    /// Who keeps the most of them.
    pub sites: Vec<PinningSite>,
    /// Pages by how full they are: `[k]` counts those from `k` tenths, `[10]` the full ones.
    pub page_util: [u64; 11],
}

/// A function whose blocks keep pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PinningSite {
    /// The function to blame.
    pub site: String,
    /// Pages with a block of its.
    pub pages: u64,
    /// Bytes of those pages.
    pub bytes: u64,
}

/// All measures of the list in the models' crate, in its order, but the histogram.
pub fn measures(
    regions: &[Region],
    counters: &Counters,
    through_the_run: &metrics::JohnstoneWilson,
    request: u64,
) -> Vec<Measure> {
    let free = metrics::free_runs(regions);
    let [jw1, jw2, jw3, jw4] = through_the_run.measures();
    let value = |id: &str| {
        Some(match id {
            "ext_frag" => metrics::ext_frag(&free),
            "sq_frag" => metrics::sq_frag(&free),
            "unusable(s)" => metrics::unusable(&free, request),
            "frag_index(s)" => return metrics::frag_index(&free, request),
            "int_frag" => metrics::int_frag(counters),
            "overhead" => metrics::overhead(counters),
            "waste" => metrics::waste(counters),
            "jw1" => jw1,
            "jw2" => jw2,
            "jw3" => jw3,
            "jw4" => jw4,
            "as_util" => metrics::as_util(counters),
            "as_span" => metrics::as_span(regions, counters.reserved),
            "pinned" => pinned_pages(regions)
                .iter()
                .map(|page| page.bytes as f64)
                .sum(),
            "fifty_percent" => metrics::fifty_percent(free.len() as u64, counters.blocks),
            "robson_first_fit" => robson(regions),
            _ => return None,
        })
    };
    let measure = |metric: &metrics::Metric| Measure {
        id: metric.id,
        formula: metric.formula,
        meaning: metric.meaning,
        size: metric.id.ends_with("(s)").then_some(request),
        value: value(metric.id),
    };
    let listed = METRICS.iter().filter(|metric| metric.id != "page_util");
    listed.map(measure).collect()
}

/// In bytes: the formula counts in units of the smallest block.
fn robson(regions: &[Region]) -> f64 {
    let sizes = || used(regions).map(|(_, bytes)| bytes.max(1));
    let Some((smallest, largest)) = sizes().min().zip(sizes().max()) else {
        return 0.0;
    };
    let live = sizes().sum::<u64>().div_ceil(smallest);
    metrics::robson_first_fit(live, largest.div_ceil(smallest)) * smallest as f64
}

/// Pages that few live bytes keep.
pub fn pinned(regions: &[Region], books: &Books, names: &mut dyn Names) -> Pinned {
    let pages = pinned_pages(regions);
    let mut sites: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for page in &pages {
        let owners = page.blocks.iter().filter_map(|id| books.owner(id.0));
        let mut here: Vec<u32> = owners.map(|owner| owner.allocated.site).collect();
        here.sort_unstable();
        here.dedup();
        for site in here {
            let sum = sites.entry(site).or_default();
            *sum = (sum.0 + 1, sum.1 + page.bytes);
        }
    }
    let mut sites: Vec<_> = sites.into_iter().collect();
    sites.sort_by_key(|(_, (_, bytes))| std::cmp::Reverse(*bytes));
    sites.truncate(PINNING_SITES);
    Pinned {
        page: page(regions),
        pages: pages.len() as u64,
        bytes: pages.iter().map(|page| page.bytes).sum(),
        live: pages.iter().map(|page| page.live).sum(),
        sites: sites
            .into_iter()
            .map(|(site, (pages, bytes))| PinningSite {
                site: names.site(site),
                pages,
                bytes,
            })
            .collect(),
        page_util: metrics::page_util(regions, page(regions)),
    }
}

fn pinned_pages(regions: &[Region]) -> Vec<metrics::PinnedPage> {
    metrics::pinned(regions, page(regions), PINNED_PERCENT)
}

fn page(regions: &[Region]) -> u64 {
    let bytes: u64 = regions.iter().map(|region| region.bytes).sum();
    (bytes / PAGES).next_power_of_two().max(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragmentation::fixtures::{SLIDE_17, slide};

    #[test]
    fn blocks_of_one_size_need_what_is_live_over_the_logarithm() {
        // Six blocks of 4 MiB, m = 1: 24 MiB / ln 2.
        let bytes = robson(&[slide(SLIDE_17)]);
        assert!((bytes * std::f64::consts::LN_2 - f64::from(24 << 20)).abs() < 1.0);
        assert_eq!(robson(&[]), 0.0);
    }

    #[test]
    fn all_listed_measures_have_a_value() {
        let regions = [slide(SLIDE_17)];
        let run = metrics::JohnstoneWilson::default();
        let told = measures(&regions, &Counters::default(), &run, 24 << 20);
        assert_eq!(told.len(), METRICS.len() - 1);
        let none: Vec<_> = told.iter().filter(|it| it.value.is_none()).collect();
        assert!(none.is_empty(), "{none:?}");
    }
}
