//! A heap of segments, each of fixed capacity, as RE ENGINE had before its virtual memory
//! allocator.
//!
//! The whole budget is taken from the operating system at the start, one request a
//! segment, and given back at the end; between, there are none. Every block has a header
//! that leads back to its source, so an address tells its block, its neighbours and the
//! suspects. The policy of fit, the header's layout and what a full segment does were
//! never published; those are ours.

mod blocks;
mod by_address;
mod classes;
mod fit;
mod history;
mod parameters;
mod segment;
mod tree;

use crate::counters::Counters;
use crate::free_sizes::FreeSizes;
use crate::lookup::{self, Actor, Lookup, Neighbour};
use crate::model::{
    Block, BlockId, Failure, FailureCause, Model, Moment, Placed, Region, Request, RunState,
    SegmentId,
};
use crate::page_source::{PageSource, Unlimited};
use crate::parameters::BadParameter;

use blocks::{Blocks, Node, State};
use fit::Fit;
use history::History;
use segment::{Overflow, Segment};
use tree::NIL;

pub use history::Past;
pub use parameters::{Coalesce, OnFull, Parameters, Policy, SegmentSpec};
pub use segment::SegmentReport;

/// Address space kept free behind a segment that may grow.
const GROWTH: u64 = 1 << 40;

/// The heap; the [module](self) says what it models.
pub struct Heap {
    parameters: Parameters,
    split_min: u64,
    /// Payloads are aligned to this by themselves.
    natural_align: u64,
    segments: Vec<Segment>,
    blocks: Blocks,
    /// By the program's block: its node.
    homes: Vec<u32>,
    history: History,
    serial: u64,
    source: Box<dyn PageSource>,
}

impl Heap {
    /// A heap at its own addresses.
    ///
    /// # Errors
    ///
    /// [`BadParameter`], where parameters contradict each other.
    pub fn new(parameters: Parameters) -> Result<Heap, BadParameter> {
        let source = Unlimited::new(parameters.base);
        Heap::on(parameters, Box::new(source))
    }

    /// A heap that takes its segments from `source`.
    ///
    /// # Errors
    ///
    /// [`BadParameter`], where parameters contradict each other or `source` has no room.
    pub fn on(
        parameters: Parameters,
        mut source: Box<dyn PageSource>,
    ) -> Result<Heap, BadParameter> {
        parameters.check()?;
        let mut blocks = Blocks::default();
        let mut segments = Vec::new();
        for (id, spec) in parameters.segments.iter().enumerate() {
            let window = match spec.on_full {
                OnFull::Grow => spec.capacity.saturating_add(GROWTH),
                _ => spec.capacity,
            };
            let base = source
                .reserve(
                    window.saturating_add(parameters.base_align),
                    parameters.base_align,
                )
                .filter(|&base| source.commit(base, spec.capacity))
                .ok_or_else(|| {
                    let bytes = spec.capacity.to_string();
                    BadParameter::value(&spec.name, &bytes, "no more than there is memory for")
                })?;
            segments.push(Segment::new(
                id as u16,
                base,
                window,
                &parameters,
                &mut blocks,
            ));
            let on_full = overflow(&parameters, &spec.on_full);
            segments.last_mut().expect("just pushed").on_full = on_full;
        }
        let natural = parameters
            .granule
            .trailing_zeros()
            .min(parameters.header.trailing_zeros());
        Ok(Heap {
            split_min: parameters.split_min(),
            natural_align: 1 << natural,
            history: History::new(parameters.history),
            parameters,
            segments,
            blocks,
            homes: Vec::new(),
            serial: 0,
            source,
        })
    }

    /// Gives the segments back to the operating system; the run is over.
    pub fn close(&mut self) {
        for segment in &mut self.segments {
            self.source.release(segment.base, segment.capacity);
            segment.counters.os.release += 1;
        }
    }

    /// What a segment did beside its counters.
    pub fn report(&self, segment: SegmentId) -> SegmentReport {
        self.segments[self.segment(segment)].report
    }

    /// The longest free range of a segment, in bytes; the largest request that could be
    /// served is a header shorter.
    pub fn largest_free(&self, segment: SegmentId) -> u64 {
        self.segments[self.segment(segment)].fit.longest()
    }

    /// The remembered blocks that once held an address, newest first.
    pub fn past_owners(&self, address: u64) -> impl Iterator<Item = &Past> {
        let held = move |past: &&Past| (past.payload..past.end).contains(&address);
        self.history.newest_first().filter(held)
    }

    fn segment(&self, SegmentId(number): SegmentId) -> usize {
        let number = match &self.parameters.numbers {
            Some(places) => places.get(usize::from(number)).copied().unwrap_or(0),
            None => number,
        };
        let number = usize::from(number);
        if number < self.segments.len() {
            number
        } else {
            0
        }
    }

    /// Finds a free range in one segment and cuts a block from it.
    fn take(&mut self, segment: usize, size: u64, align: u64) -> Option<u32> {
        let need = self.parameters.need(size);
        let place = Place {
            need,
            align,
            header: self.parameters.header,
            split: self.split_min,
        };
        let plain = align <= self.natural_align;
        if !self.can_align(align) {
            return None;
        }
        let Segment { fit, base, .. } = &self.segments[segment];
        let (found, pad) = if plain {
            (fit.find(need, |_, _| true)?, 0)
        } else {
            let at_least = match fit {
                Fit::Tlsf(_) => self.with_pad(need, align)?,
                _ => need,
            };
            let found = fit.find(at_least, |start, size| place.suits(*base + start, size))?;
            (found, place.pad(base + found.0))
        };
        Some(self.carve(segment, found.2, pad, need))
    }

    /// Whether blocks can start where their payloads have that alignment: not where the
    /// header is no multiple of the granule.
    fn can_align(&self, align: u64) -> bool {
        align <= self.natural_align
            || self
                .parameters
                .header
                .is_multiple_of(self.parameters.granule)
    }

    /// Bytes in which a block can be aligned wherever they start.
    fn with_pad(&self, need: u64, align: u64) -> Option<u64> {
        if align <= self.natural_align {
            return Some(need);
        }
        let bytes = need.checked_add(align)?.checked_add(self.split_min)?;
        bytes.checked_next_multiple_of(self.parameters.granule)
    }

    /// Makes a used node of a free one: what is in front of it and behind stays free.
    fn carve(&mut self, segment: usize, mut at: u32, pad: u64, need: u64) -> u32 {
        let (segment, blocks) = (&mut self.segments[segment], &mut self.blocks);
        if pad > 0 {
            let front = at;
            at = segment.shorten(blocks, front, pad);
            segment.insert(blocks, front);
            segment.join_later(blocks, front, blocks[front].previous);
        }
        if blocks[at].size - need >= self.split_min {
            let rest = segment.shorten(blocks, at, need);
            segment.join_later(blocks, rest, blocks[rest].next);
        } else {
            segment.remove(&blocks[at]);
        }
        blocks[at].state = State::Used;
        segment.fit.placed(blocks[at].end());
        at
    }

    /// The same, after what a full segment does to find room.
    fn take_or_make_room(&mut self, segment: usize, size: u64, align: u64) -> Option<u32> {
        if let Some(at) = self.take(segment, size, align) {
            return Some(at);
        }
        if !self.segments[segment].pending.is_empty() {
            self.segments[segment].counters.slow += 1;
            self.segments[segment].sweep(&mut self.blocks);
            if let Some(at) = self.take(segment, size, align) {
                return Some(at);
            }
        }
        let need = self.parameters.need(size);
        let Segment {
            free, fit, report, ..
        } = &mut self.segments[segment];
        report.failures += 1;
        let long_enough = || {
            free.ranges[need.ilog2() as usize..]
                .iter()
                .any(|&count| count > 0)
        };
        if matches!(fit, Fit::Tlsf(_)) && long_enough() && fit.longest() >= need {
            report.class_misses += 1;
        }
        if self.segments[segment].on_full != Overflow::Grow {
            return None;
        }
        self.grow(segment, self.with_pad(need, align)?)?;
        self.take(segment, size, align)
    }

    /// Makes the last free range of a segment at least so long.
    fn grow(&mut self, segment: usize, need: u64) -> Option<()> {
        let (segment, blocks) = (&mut self.segments[segment], &mut self.blocks);
        let last = blocks[segment.last];
        let there = if last.state == State::Free {
            last.size
        } else {
            0
        };
        // TLSF finds a range for certain only a class above the request's own.
        let class = match segment.fit {
            Fit::Tlsf(_) => need >> self.parameters.tlsf_sl_log2,
            _ => 0,
        };
        let lacking = need.checked_add(class)? - there.min(need);
        let bytes = lacking.checked_next_multiple_of(self.parameters.base_align)?;
        let grown = segment
            .capacity
            .checked_add(bytes)
            .filter(|&grown| grown <= segment.window)?;
        self.source
            .commit(segment.base + segment.capacity, bytes)
            .then_some(())?;
        let mut node = Node::free(segment.id.0, segment.capacity, bytes);
        node.previous = segment.last;
        let at = blocks.push(node);
        blocks[segment.last].next = at;
        segment.last = at;
        segment.capacity = grown;
        segment.report.grown += bytes;
        segment.counters.slow += 1;
        segment.hold(bytes);
        let at = segment.join(blocks, at);
        segment.insert(blocks, at);
        Some(())
    }

    /// Places a block in a segment, or where that one overflows to.
    fn place(&mut self, asked: usize, size: u64, align: u64) -> Result<u32, Failure> {
        let mut segment = asked;
        for _ in 0..self.segments.len() {
            if let Some(at) = self.take_or_make_room(segment, size, align) {
                if segment != asked {
                    let report = &mut self.segments[asked].report;
                    report.overflowed += 1;
                    report.overflowed_bytes += self.blocks[at].size;
                }
                return Ok(at);
            }
            match self.segments[segment].on_full {
                Overflow::To(other) if usize::from(other) != asked => segment = usize::from(other),
                _ => break,
            }
        }
        Err(self.failure(asked, size, align))
    }

    fn failure(&self, segment: usize, size: u64, align: u64) -> Failure {
        let needed = self.parameters.need(size);
        let segment = &self.segments[segment];
        let free = segment.counters.free;
        let whole = segment.capacity - self.blocks[segment.first].start;
        let cause = if needed > whole || !self.can_align(align) {
            FailureCause::TooLarge
        } else if free < needed {
            FailureCause::Exhausted
        } else {
            FailureCause::NoContiguous
        };
        Failure {
            cause,
            needed,
            free,
            largest_free: segment.fit.longest(),
        }
    }

    /// Writes a block's header and books.
    fn enter(&mut self, at: u32, moment: &Moment, id: BlockId, size: u64, align: u64) -> Placed {
        let header = self.parameters.header;
        let node = &mut self.blocks[at];
        node.owner = id.0;
        node.align = align.max(1).ilog2() as u8;
        let node = *node;
        let usable = node.size - header;
        let entry = self.blocks.header_mut(at);
        entry.slack = u32::try_from(usable - size).unwrap_or(u32::MAX);
        (entry.site, entry.thread, entry.frame) = (moment.site, moment.thread, moment.frame);
        let segment = &mut self.segments[usize::from(node.segment)];
        segment.counters.requested += size;
        segment.counters.used += usable;
        segment.counters.meta += header;
        segment.counters.blocks += 1;
        let index = id.0 as usize;
        if index >= self.homes.len() {
            self.homes.resize(index + 1, NIL);
        }
        self.homes[index] = at;
        Placed {
            address: segment.base + node.start + header,
            usable,
            moved: 0,
        }
    }

    /// Takes a block off the books and makes its node free.
    fn leave(&mut self, at: u32, moment: &Moment) {
        let header = self.parameters.header;
        let (node, entry) = (self.blocks[at], self.blocks.header(at));
        let segment = &mut self.segments[usize::from(node.segment)];
        let requested = node.size - header - u64::from(entry.slack);
        segment.counters.requested -= requested;
        segment.counters.used -= node.size - header;
        segment.counters.meta -= header;
        segment.counters.blocks -= 1;
        let start = segment.base + node.start;
        self.history.add(Past {
            payload: start + header,
            end: start + node.size,
            requested,
            serial: entry.serial,
            allocated: entry.allocated(),
            freed: Actor {
                site: moment.site,
                thread: moment.thread,
                frame: moment.frame,
            },
        });
        self.release(at);
    }

    /// Reads what [`Heap::leave`] reads of a block, of its neighbours and of the index.
    fn touch(&self, at: u32) -> u64 {
        let node = &self.blocks[at];
        let mut seen = self.blocks.header(at).serial;
        for beside in [node.previous, node.next] {
            if self.blocks.is_free(beside) {
                let free = &self.blocks[beside];
                seen ^= self.segments[usize::from(free.segment)]
                    .fit
                    .touch(free.owner);
            }
        }
        seen
    }

    /// Makes a node free and joins it with its neighbours, now or later.
    fn release(&mut self, at: u32) {
        let blocks = &mut self.blocks;
        let segment = &mut self.segments[usize::from(blocks[at].segment)];
        match self.parameters.coalesce {
            Coalesce::Immediate => {
                let at = segment.join(blocks, at);
                segment.insert(blocks, at);
            }
            Coalesce::Deferred(most) => {
                segment.insert(blocks, at);
                segment.pending.push(at);
                if segment.pending.len() >= most as usize {
                    segment.counters.slow += 1;
                    segment.sweep(blocks);
                }
            }
        }
    }

    /// Changes a node's size where it is; false where there is no room behind it.
    fn resize(&mut self, at: u32, need: u64) -> bool {
        let (node, blocks) = (self.blocks[at], &mut self.blocks);
        let segment = &mut self.segments[usize::from(node.segment)];
        if need > node.size {
            if !blocks.is_free(node.next) || blocks[node.next].size < need - node.size {
                return false;
            }
            segment.remove(&blocks[node.next]);
            segment.absorb_next(blocks, at);
        }
        if blocks[at].size - need >= self.split_min {
            let rest = segment.split(blocks, at, need);
            self.release(rest);
        }
        true
    }

    /// Completes what a lookup says of a block from the headers and the history.
    fn describe(&self, block: &mut Neighbour, address: u64) {
        let Some(id) = block.id else {
            let held = |past: &&Past| past.payload < block.end && block.start < past.end;
            let here = self.past_owners(address).find(held);
            if let Some(past) = here.or_else(|| self.history.newest_first().find(held)) {
                (block.allocated, block.freed) = (Some(past.allocated), Some(past.freed));
                (block.requested, block.serial) = (past.requested, past.serial);
            }
            return;
        };
        let entry = self.blocks.header(self.homes[id as usize]);
        block.requested = block.end - block.payload - u64::from(entry.slack);
        block.serial = entry.serial;
        block.allocated = Some(entry.allocated());
    }

    fn region(&self, segment: &Segment) -> Region {
        let header = self.parameters.header;
        let mut runs = Vec::new();
        let control = self.blocks[segment.first].start;
        runs.extend((control > 0).then_some((control, RunState::Meta)));
        for (_, node) in self.blocks.from(segment.first) {
            if node.state == State::Free {
                runs.push((node.size, RunState::Free));
                continue;
            }
            runs.extend((header > 0).then_some((header, RunState::Meta)));
            runs.push((node.size - header, RunState::Used(BlockId(node.owner))));
        }
        Region {
            name: segment.name.clone(),
            segment: Some(segment.id),
            start: segment.base,
            bytes: segment.capacity,
            runs,
        }
    }

    fn home(&self, id: BlockId) -> Option<u32> {
        self.homes
            .get(id.0 as usize)
            .copied()
            .filter(|&at| at != NIL)
    }
}

impl Model for Heap {
    fn allocate(&mut self, at: &Moment, id: BlockId, request: Request) -> Result<Placed, Failure> {
        let segment = self.segment(at.segment);
        let node = self.place(segment, request.size, request.align)?;
        self.serial += 1;
        self.blocks.header_mut(node).serial = self.serial;
        if request.zeroed {
            let owner = usize::from(self.blocks[node].segment);
            self.segments[owner].counters.zeroed += request.size;
        }
        Ok(self.enter(node, at, id, request.size, request.align))
    }

    fn reallocate(&mut self, at: &Moment, id: BlockId, size: u64) -> Result<Placed, Failure> {
        let home = self.homes[id.0 as usize];
        let header = self.parameters.header;
        let (old, entry) = (self.blocks[home], *self.blocks.header(home));
        let align = 1 << old.align;
        let requested = old.size - header - u64::from(entry.slack);
        if self.resize(home, self.parameters.need(size)) {
            let counters = &mut self.segments[usize::from(old.segment)].counters;
            counters.requested -= requested;
            counters.used -= old.size - header;
            counters.meta -= header;
            counters.blocks -= 1;
            return Ok(self.enter(home, at, id, size, align));
        }
        let node = self.place(usize::from(old.segment), size, align)?;
        self.blocks.header_mut(node).serial = entry.serial;
        self.leave(home, at);
        let moved = requested.min(size);
        let counters = &mut self.segments[usize::from(self.blocks[node].segment)].counters;
        counters.moved += moved;
        counters.slow += 1;
        let placed = self.enter(node, at, id, size, align);
        Ok(Placed { moved, ..placed })
    }

    fn free(&mut self, at: &Moment, id: BlockId) {
        let home = std::mem::replace(&mut self.homes[id.0 as usize], NIL);
        if self.blocks.header(home).thread != at.thread {
            let segment = self.blocks[home].segment;
            let counters = &mut self.segments[usize::from(segment)].counters;
            counters.foreign_frees += 1;
            counters.locks += 1;
        }
        self.leave(home, at);
    }

    fn expect(&self, ids: &[BlockId]) {
        let homes = ids.iter().filter_map(|id| self.home(*id));
        std::hint::black_box(homes.fold(0, |seen, home| seen ^ self.touch(home)));
    }

    fn block(&self, id: BlockId) -> Option<Block> {
        let home = self.home(id)?;
        let (node, entry) = (&self.blocks[home], self.blocks.header(home));
        let header = self.parameters.header;
        let usable = node.size - header;
        let address = self.segments[usize::from(node.segment)].base + node.start + header;
        Some(Block {
            id,
            address,
            usable,
            requested: usable - u64::from(entry.slack),
            header,
        })
    }

    fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for segment in &self.segments {
            sum.add(&segment.counters);
        }
        sum
    }

    fn by_segment(&self) -> Vec<(SegmentId, Counters)> {
        self.segments
            .iter()
            .map(|segment| (segment.id, segment.counters))
            .collect()
    }

    fn regions(&self) -> Vec<Region> {
        self.segments
            .iter()
            .map(|segment| self.region(segment))
            .collect()
    }

    fn held(&self) -> u64 {
        self.segments
            .iter()
            .map(|segment| segment.counters.held)
            .sum()
    }

    fn free_sizes(&self, segment: SegmentId) -> FreeSizes {
        self.segments[self.segment(segment)].free
    }

    /// Linear in the blocks of the address's segment: blocks have no index by address,
    /// only their headers.
    fn lookup(&self, address: u64) -> Lookup {
        let distance = |segment: &&Segment| {
            let last = segment.base + segment.capacity - 1;
            segment
                .base
                .saturating_sub(address)
                .max(address.saturating_sub(last))
        };
        let nearest = self
            .segments
            .iter()
            .min_by_key(distance)
            .map(|near| self.region(near));
        lookup::in_regions_with(nearest.as_slice(), address, |block| {
            self.describe(block, address)
        })
    }

    fn checkpoint(&self) -> Box<dyn Model> {
        Box::new(Heap {
            parameters: self.parameters.clone(),
            split_min: self.split_min,
            natural_align: self.natural_align,
            segments: self.segments.clone(),
            blocks: self.blocks.clone(),
            homes: self.homes.clone(),
            history: self.history.clone(),
            serial: self.serial,
            source: self.source.checkpoint(),
        })
    }
}

/// What an aligned block needs of a free range.
struct Place {
    need: u64,
    align: u64,
    header: u64,
    split: u64,
}

impl Place {
    /// Bytes to leave free in front: none, or enough for a block of its own.
    fn pad(&self, start: u64) -> u64 {
        let payload = start + self.header;
        let pad = payload.next_multiple_of(self.align) - payload;
        if pad == 0 || pad >= self.split {
            return pad;
        }
        (payload + self.split).next_multiple_of(self.align) - payload
    }

    fn suits(&self, start: u64, size: u64) -> bool {
        self.pad(start)
            .checked_add(self.need)
            .is_some_and(|bytes| bytes <= size)
    }
}

fn overflow(parameters: &Parameters, on_full: &OnFull) -> Overflow {
    let number = |name: &String| {
        parameters
            .segments
            .iter()
            .position(|known| known.name == *name)
    };
    match on_full {
        OnFull::Fail => Overflow::Fail,
        OnFull::Grow => Overflow::Grow,
        OnFull::Overflow(name) => number(name).map_or(Overflow::Fail, |at| Overflow::To(at as u16)),
    }
}
