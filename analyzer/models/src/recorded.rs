//! What really happened, as a model: blocks at the addresses that were recorded.
//!
//! It places nothing. Whoever replays tells it, by [`Model::recorded`], where the next
//! block lay; blocks that lie close together are shown as a region, and ranges that the
//! program announced as its own heaps are regions whatever lies in them. What is between
//! blocks is shown as free, although a header or a block from before the recording may
//! lie there: a trace cannot tell.

use crate::counters::Counters;
use crate::model::{
    Block, BlockId, Failure, Model, Moment, Placed, Region, Request, RunState, SegmentId,
};
use crate::parameters::{BadParameter, bytes, power_of_two};

/// The parameters of [`Recorded`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Blocks further apart than this are in different regions. Bytes; default 1 MiB; ours.
    pub gap: u64,
    /// Regions begin and end at multiples of this. Bytes; default 4096, a page; ours.
    pub page: u64,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            gap: 1 << 20,
            page: 4096,
        }
    }
}

impl Parameters {
    /// Names of parameters.
    pub const NAMES: &[&str] = &["gap", "page"];

    /// Sets a parameter by name.
    ///
    /// # Errors
    ///
    /// [`BadParameter`]: the name or what the value should be.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), BadParameter> {
        match name {
            "gap" => self.gap = bytes(name, value)?,
            "page" => self.page = power_of_two(name, value)?,
            _ => return Err(BadParameter::unknown("parameter", name, Parameters::NAMES)),
        }
        Ok(())
    }
}

/// A range that the program announced as a heap of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// Its name.
    pub name: String,
    /// First address.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
    /// The segment it is for, where it is for one.
    pub segment: Option<SegmentId>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    address: u64,
    usable: u64,
    requested: u64,
    thread: u32,
    segment: SegmentId,
    live: bool,
}

const ABSENT: Entry = Entry {
    address: 0,
    usable: 0,
    requested: 0,
    thread: 0,
    segment: SegmentId(0),
    live: false,
};

/// The recorded blocks; the [module](self) says what they show.
#[derive(Clone, Debug)]
pub struct Recorded {
    parameters: Parameters,
    entries: Vec<Entry>,
    /// Where the next block lies, and how many bytes it has.
    next: Option<(u64, u64)>,
    announced: Vec<Announced>,
    mapped: u64,
    counters: Counters,
    unplaced: u64,
}

impl Recorded {
    /// Nothing is recorded yet.
    pub fn new(parameters: Parameters) -> Recorded {
        Recorded {
            parameters,
            entries: Vec::new(),
            next: None,
            announced: Vec::new(),
            mapped: 0,
            counters: Counters::default(),
            unplaced: 0,
        }
    }

    /// The program announces a heap of its own.
    pub fn announce(&mut self, heap: Announced) {
        let place = self
            .announced
            .partition_point(|other| other.start < heap.start);
        self.announced.insert(place, heap);
    }

    /// The program takes an announced heap back.
    pub fn withdraw(&mut self, start: u64) {
        self.announced.retain(|heap| heap.start != start);
    }

    /// What the process had mapped, as the trace has it; what is more than the blocks'
    /// bytes counts as held and free.
    pub fn mapped(&mut self, bytes: u64) {
        self.mapped = bytes;
        self.settle();
    }

    /// Blocks that no address was told for; they are in the counters and on no map.
    pub fn unplaced(&self) -> u64 {
        self.unplaced
    }

    fn settle(&mut self) {
        let counters = &mut self.counters;
        counters.held = self.mapped.max(counters.used);
        counters.reserved = counters.held;
        counters.free = counters.held - counters.used;
        counters.peak_held = counters.peak_held.max(counters.held);
    }

    fn enter(&mut self, at: &Moment, id: BlockId, size: u64) -> Placed {
        let (address, usable) = self.next.take().unwrap_or_else(|| {
            self.unplaced += 1;
            (0, size)
        });
        let usable = usable.max(size);
        let index = id.0 as usize;
        if index >= self.entries.len() {
            self.entries.resize(index + 1, ABSENT);
        }
        let (thread, segment) = (at.thread, at.segment);
        self.entries[index] = Entry {
            address,
            usable,
            requested: size,
            thread,
            segment,
            live: true,
        };
        self.counters.blocks += 1;
        self.counters.requested += size;
        self.counters.used += usable;
        self.settle();
        Placed {
            address,
            usable,
            moved: 0,
        }
    }

    fn leave(&mut self, id: BlockId) -> Entry {
        let entry = &mut self.entries[id.0 as usize];
        entry.live = false;
        let entry = *entry;
        self.counters.blocks -= 1;
        self.counters.requested -= entry.requested;
        self.counters.used -= entry.usable;
        self.settle();
        entry
    }

    /// (first address, end, block) of what lies somewhere, by address.
    fn placed(&self) -> Vec<(u64, u64, BlockId)> {
        let live = self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.live);
        let placed = live.filter(|(_, entry)| entry.address != 0);
        let mut placed: Vec<_> = placed
            .map(|(id, entry)| {
                (
                    entry.address,
                    entry.address + entry.usable,
                    BlockId(id as u32),
                )
            })
            .collect();
        placed.sort_unstable();
        placed
    }

    /// How many of some blocks, one at least, lie close together, and where they end.
    fn cluster(&self, blocks: &[(u64, u64, BlockId)], ceiling: u64) -> (usize, u64) {
        let mut end = blocks[0].1;
        let far = |&(from, to, _): &(u64, u64, BlockId)| {
            // What lies on one page is in one region, however small the gap may be.
            let page_end = end
                .checked_next_multiple_of(self.parameters.page)
                .unwrap_or(end);
            let near = from.saturating_sub(end) <= self.parameters.gap || from < page_end;
            let near = near && from < ceiling;
            if near {
                end = end.max(to);
            }
            !near
        };
        let count = blocks
            .iter()
            .skip(1)
            .position(far)
            .map_or(blocks.len(), |more| more + 1);
        (count, end)
    }

    /// The segment of all of some blocks, where it is one.
    fn common_segment(&self, blocks: &[(u64, u64, BlockId)]) -> Option<SegmentId> {
        let mut segments = blocks
            .iter()
            .map(|block| self.entries[block.2.0 as usize].segment);
        let first = segments.next()?;
        segments.all(|segment| segment == first).then_some(first)
    }
}

/// A range from `start` to `end` with blocks in it; where blocks overlap, which a trace
/// should never show, the first is whole.
fn region(start: u64, end: u64, blocks: &[(u64, u64, BlockId)]) -> Region {
    let mut runs = Vec::new();
    let mut at = start;
    for &(from, to, id) in blocks {
        let (from, to) = (from.max(at), to.min(end));
        if from > at && from < to {
            runs.push((from - at, RunState::Free));
        }
        if from < to {
            runs.push((to - from, RunState::Used(id)));
            at = to;
        }
    }
    if at < end {
        runs.push((end - at, RunState::Free));
    }
    Region {
        name: format!("{start:#x}"),
        segment: None,
        start,
        bytes: end - start,
        runs,
    }
}

impl Model for Recorded {
    fn allocate(&mut self, at: &Moment, id: BlockId, request: Request) -> Result<Placed, Failure> {
        if request.zeroed {
            self.counters.zeroed += request.size;
        }
        Ok(self.enter(at, id, request.size))
    }

    fn reallocate(&mut self, at: &Moment, id: BlockId, size: u64) -> Result<Placed, Failure> {
        let old = self.leave(id);
        let placed = self.enter(at, id, size);
        let moved = if placed.address == old.address {
            0
        } else {
            old.requested.min(size)
        };
        self.counters.moved += moved;
        Ok(Placed { moved, ..placed })
    }

    fn free(&mut self, at: &Moment, id: BlockId) {
        let entry = self.leave(id);
        self.counters.foreign_frees += u64::from(entry.thread != at.thread);
    }

    fn block(&self, id: BlockId) -> Option<Block> {
        let entry = self.entries.get(id.0 as usize).filter(|entry| entry.live)?;
        let Entry {
            address,
            usable,
            requested,
            ..
        } = *entry;
        Some(Block {
            id,
            address,
            usable,
            requested,
            header: 0,
        })
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn held(&self) -> u64 {
        self.counters.held
    }

    fn regions(&self) -> Vec<Region> {
        let blocks = self.placed();
        let mut rest = &blocks[..];
        let mut heaps = self.announced.iter().peekable();
        let mut regions: Vec<Region> = Vec::new();
        let page = self.parameters.page;
        loop {
            let next = rest.first().map(|block| block.0);
            let heap = heaps.next_if(|heap| next.is_none_or(|at| heap.start <= at));
            let floor = regions.last().map_or(0, |last| last.start + last.bytes);
            if let Some(heap) = heap {
                // Heaps inside others are shown by their parent.
                let (start, end) = (heap.start.max(floor), heap.start + heap.bytes);
                if start < end {
                    let inside = rest.partition_point(|block| block.0 < end);
                    let (those, behind) = rest.split_at(inside);
                    rest = behind;
                    let (name, segment) = (heap.name.clone(), heap.segment);
                    regions.push(Region {
                        name,
                        segment,
                        ..region(start, end, those)
                    });
                }
                continue;
            }
            if rest.is_empty() {
                return regions;
            }
            let ceiling = heaps.peek().map_or(u64::MAX, |heap| heap.start);
            let (count, end) = self.cluster(rest, ceiling);
            let (those, behind) = rest.split_at(count);
            rest = behind;
            let start = (those[0].0 / page * page).max(floor);
            let end = end
                .checked_next_multiple_of(page)
                .unwrap_or(end)
                .min(ceiling);
            let segment = self.common_segment(those);
            regions.push(Region {
                segment,
                ..region(start, end.max(start), those)
            });
        }
    }

    fn recorded(&mut self, address: u64, usable: u64) {
        self.next = Some((address, usable));
    }

    fn checkpoint(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
