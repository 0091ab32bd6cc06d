//! The map: what lies where.

use std::ops::Range;

use super::core::Core;
use super::page::Page;
use super::queue::NIL;
use super::segment::{HEADER, Segment};
use crate::model::{BlockId, Region, RunState};
use crate::page_source::PageSource;

impl<S: PageSource> Core<S> {
    /// All segments, in address order.
    pub(crate) fn regions(&self) -> Vec<Region> {
        let owners = self.owners();
        let mut regions: Vec<Region> = self
            .segments
            .live()
            .map(|(_, segment)| self.region(segment, &owners))
            .collect();
        regions.sort_by_key(|region| region.start);
        regions
    }

    /// Live blocks by page and place in the page.
    fn owners(&self) -> Vec<(u32, u16, BlockId)> {
        let mut owners: Vec<_> = self
            .blocks
            .iter()
            .map(|(id, record)| (record.page, record.index, id))
            .collect();
        owners.sort_unstable();
        owners
    }

    fn region(&self, segment: &Segment, owners: &[(u32, u16, BlockId)]) -> Region {
        let mut runs = Runs(Vec::new());
        let slice_bytes = self.rules.geometry.slice_bytes;
        if segment.huge {
            let header = u64::from(self.rules.geometry.header_slices()) * slice_bytes;
            runs.push(header, RunState::Meta);
            let page = segment.huge_page;
            let range = segment.base + header..segment.base + segment.bytes;
            runs.push_page(&self.pages[page], blocks_of(owners, page), range);
        } else if segment.cached {
            push_span(
                &mut runs,
                segment,
                0..self.rules.geometry.slices(),
                slice_bytes,
                RunState::Idle,
            );
        } else {
            for (slices, tile) in segment.tiles() {
                let bytes = slices.len() as u64 * slice_bytes;
                match tile.page {
                    HEADER => runs.push(bytes, RunState::Meta),
                    NIL => push_span(&mut runs, segment, slices, slice_bytes, RunState::Free),
                    page => {
                        let start = segment.base + u64::from(slices.start) * slice_bytes;
                        let range = start..start + bytes;
                        runs.push_page(&self.pages[page], blocks_of(owners, page), range);
                    }
                }
            }
        }
        Region {
            name: self.region_name(segment).to_owned(),
            segment: None,
            start: segment.base,
            bytes: segment.bytes,
            runs: runs.0,
        }
    }

    fn region_name(&self, segment: &Segment) -> &'static str {
        match segment {
            Segment { huge: true, .. } => "huge segment",
            Segment { cached: true, .. } => "cached segment",
            _ if self.is_left(segment) => "abandoned segment",
            _ => "segment",
        }
    }
}

/// Those of a page, in the order of their places.
fn blocks_of(owners: &[(u32, u16, BlockId)], page: u32) -> &[(u32, u16, BlockId)] {
    let from = owners.partition_point(|owner| owner.0 < page);
    let to = owners.partition_point(|owner| owner.0 <= page);
    &owners[from..to]
}

fn push_span(
    runs: &mut Runs,
    segment: &Segment,
    slices: Range<u32>,
    slice_bytes: u64,
    held: RunState,
) {
    for slice in slices {
        let state = if segment.commit.contains(slice) {
            held
        } else {
            RunState::Reserved
        };
        runs.push(slice_bytes, state);
    }
}

/// Runs in a row; equal neighbours are one run, but for blocks.
struct Runs(Vec<(u64, RunState)>);

impl Runs {
    fn push(&mut self, bytes: u64, state: RunState) {
        if bytes == 0 {
            return;
        }
        match self.0.last_mut() {
            Some((length, last)) if *last == state && !matches!(state, RunState::Used(_)) => {
                *length += bytes;
            }
            _ => self.0.push((bytes, state)),
        }
    }

    /// A page: what lies before the first block and after the last is free.
    fn push_page(&mut self, page: &Page, live: &[(u32, u16, BlockId)], range: Range<u64>) {
        self.push(page.start - range.start, RunState::Free);
        let mut free = vec![false; page.capacity as usize];
        page.free_blocks()
            .for_each(|block| free[usize::from(block)] = true);
        let mut live = live.iter().peekable();
        for block in 0..page.capacity as u16 {
            let state = match live.next_if(|(_, index, _)| *index == block) {
                Some((_, _, id)) => RunState::Used(*id),
                None if free[usize::from(block)] && page.retire == 0 => RunState::Free,
                None => RunState::Idle,
            };
            self.push(page.block_bytes, state);
        }
        let end = page.start + u64::from(page.capacity) * page.block_bytes;
        self.push(range.end - end, RunState::Free);
    }
}
