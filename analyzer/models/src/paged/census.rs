//! Counts everything: where held memory goes that is not in blocks, and whether the books
//! are right.

use std::collections::HashMap;
use std::ops::Range;

use serde::Serialize;

use super::blocks::Record;
use super::core::Core;
use super::heap::HeapState;
use super::page::Page;
use super::queue::NIL;
use super::segment::{HEADER, Segment, Slice};
use crate::model::Holding;
use crate::page_source::PageSource;

/// Held bytes that are in no block, by cause; with `used` they add up to what is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Waste {
    /// Headers of segments in use.
    pub headers: u64,
    /// Ends and beginnings of pages, and blocks that were never handed out.
    pub page_tails: u64,
    /// Free blocks in pages with used ones.
    pub free_blocks: u64,
    /// Free spans that still have memory, and cached segments.
    pub free_spans: u64,
    /// Blocks that were given back and not yet taken back by their heap.
    pub queued: u64,
    /// Pages without a used block that are kept for a while.
    pub retired: u64,
    /// What exited threads left, but for live blocks.
    pub abandoned: u64,
    /// Slices without memory in granules that have some.
    pub granules: u64,
    /// Memory that is kept mapped for its next use.
    pub cached: u64,
    /// The system's blocks for threads.
    pub thread_blocks: u64,
    /// Tables.
    pub tables: u64,
}

impl Waste {
    /// All causes together.
    pub fn total(&self) -> u64 {
        let Waste {
            headers,
            page_tails,
            free_blocks,
            free_spans,
            queued,
            retired,
            abandoned,
            granules,
            cached,
            thread_blocks,
            tables,
        } = self;
        [
            headers,
            page_tails,
            free_blocks,
            free_spans,
            queued,
            retired,
            abandoned,
            granules,
            cached,
            thread_blocks,
            tables,
        ]
        .into_iter()
        .sum()
    }
}

impl<S: PageSource> Core<S> {
    /// Where committed memory goes.
    pub(crate) fn waste(&self) -> Waste {
        let mut waste = Waste {
            thread_blocks: self.tally.thread_blocks,
            ..Waste::default()
        };
        for (_, segment) in self.segments.live() {
            if segment.huge {
                self.add_huge(&mut waste, segment);
            } else if segment.cached {
                waste.free_spans += self.bytes(segment.commit.count());
            } else {
                self.add_segment(&mut waste, segment);
            }
        }
        waste
    }

    /// Each live block's share of its page: what is committed for the page, by its live
    /// blocks.
    pub(crate) fn holdings(&self) -> Vec<Holding> {
        let mut live = vec![0_u64; self.pages.numbers()];
        for (_, record) in self.blocks.iter() {
            live[record.page as usize] += 1;
        }
        let pages: HashMap<u32, u64> = self.held_pages().collect();
        let holding = |(_, record): (_, &Record)| Holding {
            requested: record.requested,
            held: pages.get(&record.page).unwrap_or(&0) / live[record.page as usize],
        };
        self.blocks.iter().map(holding).collect()
    }

    /// Each page in use with the bytes that are committed for it; a huge one with its
    /// segment's.
    fn held_pages(&self) -> impl Iterator<Item = (u32, u64)> {
        self.segments.live().flat_map(|(_, segment)| {
            let huge = segment.huge.then_some((segment.huge_page, segment.bytes));
            let tiles = (!segment.cached).then(|| segment.tiles());
            let pages = tiles.into_iter().flatten();
            let pages = pages.filter(|(_, tile)| tile.page != NIL && tile.page != HEADER);
            let committed = |(slices, tile): (Range<u32>, Slice)| {
                (tile.page, self.bytes(segment.commit.count_in(slices)))
            };
            huge.into_iter().chain(pages.map(committed))
        })
    }

    fn bytes(&self, slices: u32) -> u64 {
        u64::from(slices) * self.rules.geometry.slice_bytes
    }

    fn add_huge(&self, waste: &mut Waste, segment: &Segment) {
        let header = self.bytes(self.rules.geometry.header_slices());
        waste.headers += header;
        waste.page_tails += segment.bytes - header - self.pages[segment.huge_page].block_bytes;
    }

    fn add_segment(&self, waste: &mut Waste, segment: &Segment) {
        let left = self.is_left(segment);
        for (slices, tile) in segment.tiles() {
            let bytes = self.bytes(segment.commit.count_in(slices));
            match tile.page {
                HEADER if left => waste.abandoned += bytes,
                HEADER => waste.headers += bytes,
                NIL if left => waste.abandoned += bytes,
                NIL => waste.free_spans += bytes,
                page => add_page(waste, &self.pages[page], bytes, left),
            }
        }
    }

    /// Whether nobody's heap has the segment.
    pub(crate) fn is_left(&self, segment: &Segment) -> bool {
        match self.heaps.get(segment.owner as usize) {
            None => true,
            Some(heap) => matches!(heap.state, HeapState::Abandoned(_)),
        }
    }

    /// Compares the books with what is there, piece by piece.
    pub(crate) fn audit(&self) -> Result<(), String> {
        self.audit_segments()?;
        self.audit_pages()?;
        self.audit_sums()
    }

    fn audit_segments(&self) -> Result<(), String> {
        for (id, segment) in self
            .segments
            .live()
            .filter(|(_, it)| !it.huge && !it.cached)
        {
            let (mut end, mut free_before, mut pages) = (0, false, 0);
            for (slices, tile) in segment.tiles() {
                let free = tile.page == NIL;
                check(!(free && free_before), || {
                    format!("two free spans in segment {id}")
                })?;
                check(tile.queued == (free && segment.owner != NIL), || {
                    format!(
                        "the span at {} of segment {id} is not where it belongs",
                        slices.start
                    )
                })?;
                if !free {
                    let with = segment.commit.count_in(slices.clone());
                    check(with == slices.len() as u32, || {
                        format!("slices {slices:?} of segment {id} are in use without memory")
                    })?;
                    pages += u32::from(tile.page != HEADER);
                }
                (end, free_before) = (slices.end, free);
            }
            check(end == self.rules.geometry.slices(), || {
                format!("segment {id} is not tiled")
            })?;
            check(pages == segment.used, || {
                format!("segment {id} miscounts its pages")
            })?;
            for slice in 0..self.rules.geometry.slices() {
                check(
                    !segment.purge.contains(slice) || segment.commit.contains(slice),
                    || format!("slice {slice} of segment {id} is to lose memory it has not"),
                )?;
            }
        }
        Ok(())
    }

    fn audit_pages(&self) -> Result<(), String> {
        let mut live = vec![0; self.pages.numbers()];
        for (_, record) in self.blocks.iter() {
            live[record.page as usize] += 1;
        }
        let mut used = 0;
        for (id, page) in self.live_pages() {
            let free = page.free_blocks().count() as u32;
            check(
                page.used + free == page.capacity && page.capacity <= page.reserved,
                || {
                    format!(
                        "page {id}: {} used + {free} free, {} of {} handed out",
                        page.used, page.capacity, page.reserved
                    )
                },
            )?;
            let away = page.queued + page.remote_count();
            check(
                page.remote_blocks().count() as u32 == page.remote_count(),
                || format!("page {id} miscounts what came from elsewhere"),
            )?;
            check(page.used == live[id as usize] + away, || {
                format!(
                    "page {id}: {} used, {} live, {away} waiting",
                    page.used, live[id as usize]
                )
            })?;
            used += u64::from(page.used - away);
        }
        check(used == self.tally.blocks, || {
            format!("{used} live blocks in pages")
        })
    }

    fn audit_sums(&self) -> Result<(), String> {
        let waiting: usize = self
            .heaps
            .iter()
            .map(|it| it.release.len() + it.delayed.len())
            .sum();
        let queued: u64 = self
            .live_pages()
            .map(|(_, page)| u64::from(page.queued))
            .sum();
        check(waiting as u64 == queued, || {
            format!("{waiting} blocks wait, pages say {queued}")
        })?;
        let (parts, held) = (self.waste().total() + self.tally.used, self.tally.committed);
        check(parts == held, || {
            format!("{held} bytes committed, {parts} accounted for")
        })?;
        check(self.tally.used >= self.tally.requested, || {
            "more requested than used".to_owned()
        })
    }

    /// Addresses and lengths of all runs of slices with memory.
    pub(crate) fn committed_ranges(&self) -> Vec<(u64, u64)> {
        let slices = self.rules.geometry.slices();
        let mut ranges = Vec::new();
        for (_, segment) in self.segments.live() {
            if segment.huge {
                ranges.push((segment.base, segment.bytes));
                continue;
            }
            let mut from = 0;
            while let Some(run) = segment.commit.next_run(from..slices, true) {
                let start = segment.base + self.bytes(run.start);
                ranges.push((start, self.bytes(run.len() as u32)));
                from = run.end;
            }
        }
        ranges
    }

    /// All pages in use, in the order of their segments.
    pub(crate) fn live_pages(&self) -> impl Iterator<Item = (u32, &Page)> {
        self.segments.live().flat_map(|(_, segment)| {
            let huge = segment.huge.then_some(segment.huge_page);
            let shared = (!segment.cached)
                .then(|| segment.tiles().map(|(_, tile)| tile.page))
                .into_iter()
                .flatten()
                .filter(|page| *page != NIL && *page != HEADER);
            huge.into_iter()
                .chain(shared)
                .map(|page| (page, &self.pages[page]))
        })
    }
}

fn add_page(waste: &mut Waste, page: &Page, bytes: u64, left: bool) {
    let waiting = page.queued + page.remote_count();
    let live = u64::from(page.used - waiting) * page.block_bytes;
    if left {
        waste.abandoned += bytes - live;
    } else if page.retire > 0 && page.used == 0 {
        waste.retired += bytes;
    } else {
        waste.queued += u64::from(waiting) * page.block_bytes;
        waste.free_blocks += u64::from(page.capacity - page.used) * page.block_bytes;
        waste.page_tails += bytes - u64::from(page.capacity) * page.block_bytes;
    }
}

fn check(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}
