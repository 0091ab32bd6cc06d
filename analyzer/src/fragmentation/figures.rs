//! The figures of some regions: what of them is used and free, and how scattered.

use heapreel_models::metrics::{ext_frag, free_runs, sq_frag};
use heapreel_models::{Region, RunState, SegmentId};
use serde::Serialize;

/// Bytes of some regions by use. `bytes` is the sum of the first five others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// All of them.
    pub bytes: u64,
    /// Payload of blocks that the program holds, rounding included.
    pub used: u64,
    /// Headers and tables.
    pub meta: u64,
    /// Given back, and not yet reusable.
    pub idle: u64,
    /// Free.
    pub free: u64,
    /// Address space without memory.
    pub reserved: u64,
    /// Blocks that the program holds.
    pub blocks: u64,
    /// Free ranges.
    pub free_ranges: u64,
    /// The longest free range.
    pub largest_free: u64,
    /// The largest request that the longest free range can serve: it, less a header.
    pub avail: u64,
    /// `1 - f_max/F`.
    pub ext_frag: f64,
    /// `1 - sum f_i^2 / F^2`.
    pub sq_frag: f64,
}

impl Figures {
    /// Those of some regions; a block has a header of so many bytes.
    pub fn of<'a>(regions: impl Iterator<Item = &'a Region>, header: u64) -> Figures {
        let mut figures = Figures::default();
        let mut free = Vec::new();
        for region in regions {
            figures.bytes += region.bytes;
            region.runs.iter().for_each(|run| figures.add(*run));
            free.extend(free_runs(std::slice::from_ref(region)));
        }
        figures.free_ranges = free.len() as u64;
        figures.largest_free = free.iter().copied().max().unwrap_or(0);
        figures.avail = figures.largest_free.saturating_sub(header);
        figures.ext_frag = ext_frag(&free);
        figures.sq_frag = sq_frag(&free);
        figures
    }

    fn add(&mut self, (bytes, state): (u64, RunState)) {
        *match state {
            RunState::Used(_) => &mut self.used,
            RunState::Meta => &mut self.meta,
            RunState::Idle => &mut self.idle,
            RunState::Free => &mut self.free,
            RunState::Reserved => &mut self.reserved,
        } += bytes;
        self.blocks += u64::from(matches!(state, RunState::Used(_)));
    }

    /// Whether the program holds or held anything here.
    pub fn in_use(&self) -> bool {
        self.used + self.idle > 0 || self.blocks > 0
    }
}

/// Regions that belong to a segment, as one each, by the segment's number. `names` are
/// the segments' by their numbers; where one is missing, the first region's stands for it.
pub fn by_segment(
    regions: &[Region],
    header: u64,
    names: &[String],
) -> Vec<(u16, String, Figures)> {
    let mut numbers: Vec<u16> = regions
        .iter()
        .filter_map(|region| region.segment)
        .map(|SegmentId(number)| number)
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    let of = |number| {
        let of_it = move |region: &&Region| region.segment == Some(SegmentId(number));
        let known = names
            .get(usize::from(number))
            .filter(|name| !name.is_empty());
        let name = known.or_else(|| regions.iter().find(of_it).map(|region| &region.name));
        let figures = Figures::of(regions.iter().filter(of_it), header);
        (number, name.cloned().unwrap_or_default(), figures)
    };
    numbers.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragmentation::fixtures::{SLIDE_17, SLIDE_20, slide};

    const MB: u64 = 1 << 20;

    #[test]
    fn the_two_slides_have_their_numbers() {
        for (units, avail, ext_frag) in [(SLIDE_17, 16, 0.6), (SLIDE_20, 20, 0.5)] {
            let figures = Figures::of([slide(units)].iter(), 0);
            let told = (figures.used / MB, figures.free / MB, figures.avail / MB);
            assert_eq!((figures.bytes, told), (64 * MB, (24, 40, avail)));
            assert!((figures.ext_frag - ext_frag).abs() < 1e-12);
        }
    }

    #[test]
    fn a_header_is_not_available() {
        let figures = Figures::of([slide(SLIDE_17)].iter(), 32);
        assert_eq!(figures.avail, 16 * MB - 32);
    }
}
