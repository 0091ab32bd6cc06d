//! What every model answers.

use std::any::Any;

use crate::counters::Counters;
use crate::free_sizes::FreeSizes;
use crate::lookup::{self, Lookup};

/// A block of the replay. Whoever replays gives numbers out and uses them again after
/// the block is freed, so they stay small: a model may keep an array by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

/// A segment of the engine: what memory is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(pub u16);

/// Whether a thread is worth a heap of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThreadRole {
    /// Works for the frame.
    #[default]
    Performance,
    /// Anything else.
    Low,
}

/// When, where and by whom a call is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// Nanoseconds since the trace began.
    pub nanos: u64,
    /// Number of the game frame.
    pub frame: u32,
    /// Number of the calling thread.
    pub thread: u32,
    /// The segment that the thread works in.
    pub segment: SegmentId,
    /// Number of the backtrace.
    pub site: u32,
    /// Number of the context, the scope of work that the thread is in.
    pub context: u32,
    /// How many frames end while the block that is allocated lives; [`Moment::FOREVER`]
    /// where it is never freed. 0 unless whoever replays has looked ahead.
    pub lifetime: u32,
}

impl Moment {
    /// The lifetime of a block that is never freed.
    pub const FOREVER: u32 = u32::MAX;
}

/// A request for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Bytes that the program asks for; may be 0.
    pub size: u64,
    /// Alignment in bytes, a power of two; 0 where the program asked for none.
    pub align: u64,
    /// The block is to be filled with zeros.
    pub zeroed: bool,
}

/// Where a block came to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Simulated address of its first usable byte.
    pub address: u64,
    /// Bytes that the model gave out for it, rounding included, headers not.
    pub usable: u64,
    /// Bytes that had to be copied to get there.
    pub moved: u64,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FailureCause {
    /// Enough is free in all, no free range is long enough.
    NoContiguous,
    /// Less is free than was asked for.
    Exhausted,
    /// A limit set as policy would be exceeded.
    OverBudget,
    /// It could never fit.
    TooLarge,
}

/// A request that failed; the model is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause:?}: {needed} bytes needed, {free} free, the longest free range {largest_free}")]
pub struct Failure {
    /// Why.
    pub cause: FailureCause,
    /// Bytes that the request needs, headers included.
    pub needed: u64,
    /// Bytes that are free.
    pub free: u64,
    /// The longest free range in bytes.
    pub largest_free: u64,
}

/// What a stretch of a region is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunState {
    /// A block that the program holds.
    Used(BlockId),
    /// Headers and tables.
    Meta,
    /// Held and free.
    Free,
    /// Given back by the program and not yet reusable: queued, retired, cached.
    Idle,
    /// Address space without memory.
    Reserved,
}

/// A range of simulated addresses, for maps and lookups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// A name for people: the segment's, or what the model calls it.
    pub name: String,
    /// The segment it belongs to, where it belongs to one.
    pub segment: Option<SegmentId>,
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// What lies there: lengths in bytes, in address order, adding up to `bytes`.
    pub runs: Vec<(u64, RunState)>,
}

impl Region {
    /// Makes `to` of those stretches of `range` that are `from`.
    pub(crate) fn mark(&mut self, range: std::ops::Range<u64>, from: RunState, to: RunState) {
        if range.end <= self.start || self.start + self.bytes <= range.start {
            return;
        }
        let mut at = self.start;
        let mut runs = Vec::with_capacity(self.runs.len() + 2);
        for &(bytes, state) in &self.runs {
            let end = at + bytes;
            let (first, last) = (range.start.clamp(at, end), range.end.clamp(at, end));
            if state == from && first < last {
                let parts = [(first - at, from), (last - first, to), (end - last, from)];
                runs.extend(parts.into_iter().filter(|(bytes, _)| *bytes > 0));
            } else {
                runs.push((bytes, state));
            }
            at = end;
        }
        self.runs = runs;
    }
}

/// A block that the program holds, as the model sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its number.
    pub id: BlockId,
    /// Address of its first usable byte.
    pub address: u64,
    /// Bytes given out.
    pub usable: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// Bytes of a header in front of it; 0 where the model keeps none.
    pub header: u64,
}

/// What is held on account of one live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Bytes asked for.
    pub requested: u64,
    /// Bytes held.
    pub held: u64,
}

/// Calls that are best looked at together for [`Model::expect`]: enough to wait for at
/// once, few enough that what was read is still in the cache when it is needed.
pub const FORESIGHT: usize = 16;

/// An allocator's rules as a state machine.
///
/// Whoever replays keeps the books that are alike for all (which ids are live, what failed):
/// a model is only asked to free or resize what it placed and still holds.
///
/// A model that tells more than this trait asks for is found by its type: a `&dyn Model` is
/// a `&dyn Any`, too.
pub trait Model: Any + Send {
    /// Places a block.
    ///
    /// # Errors
    ///
    /// [`Failure`], which leaves the model as it was.
    fn allocate(&mut self, at: &Moment, id: BlockId, request: Request) -> Result<Placed, Failure>;

    /// Changes a block's size; it may move.
    ///
    /// # Errors
    ///
    /// [`Failure`]; the block stays as it was.
    fn reallocate(&mut self, at: &Moment, id: BlockId, size: u64) -> Result<Placed, Failure>;

    /// Takes a block back; `at.thread` may be another one than allocated it.
    fn free(&mut self, at: &Moment, id: BlockId);

    /// Some of these blocks are freed or resized next: a hint that changes nothing. A
    /// number that stands for no block may be among them.
    ///
    /// PERF: a replay knows what comes. A model that now reads what it will read then has
    /// the processor wait for all of it at once instead of for one after the other. Where
    /// others use the cache too that is a third more events a second for `heap`; where
    /// nobody does, nearly nothing, and TLSF loses a tenth (docs/performance.md).
    fn expect(&self, _ids: &[BlockId]) {}

    /// A thread makes its first call.
    fn thread_start(&mut self, _at: &Moment, _role: ThreadRole) {}

    /// A thread is gone. A later call under its number is a new thread's.
    fn thread_exit(&mut self, _at: &Moment) {}

    /// A game frame ends.
    fn frame_end(&mut self, _at: &Moment) {}

    /// Where a block is that was placed and not freed.
    fn block(&self, id: BlockId) -> Option<Block>;

    /// The sums over all segments, now.
    fn counters(&self) -> Counters;

    /// The same by segment, where memory can be told apart by segment.
    fn by_segment(&self) -> Vec<(SegmentId, Counters)> {
        Vec::new()
    }

    /// All address ranges and what they hold, in address order.
    fn regions(&self) -> Vec<Region>;

    /// What is held now: [`Counters::held`], asked for after every event.
    fn held(&self) -> u64 {
        self.counters().held
    }

    /// How long the free ranges are that a request from `segment` could be served from.
    fn free_sizes(&self, _segment: SegmentId) -> FreeSizes {
        FreeSizes::of(&self.regions())
    }

    /// What is held on account of each live block, in no particular order: its own bytes
    /// and its header, or its share of a page that is held for blocks like it. What would be
    /// held without any one block (free ranges, tables) is not among it. Linear in
    /// everything.
    fn holdings(&self) -> Vec<Holding> {
        let regions = self.regions();
        let runs = regions.iter().flat_map(|region| &region.runs);
        let block = |(_, state): &(u64, RunState)| match state {
            RunState::Used(id) => self.block(*id),
            _ => None,
        };
        let holding = |block: Block| Holding {
            requested: block.requested,
            held: block.usable + block.header,
        };
        runs.filter_map(block).map(holding).collect()
    }

    /// What lies at an address and beside it, and who may have written there.
    fn lookup(&self, address: u64) -> Lookup {
        lookup::in_regions(&self.regions(), address)
    }

    /// Where the next block that is placed or moved really lay, and how long it really
    /// was; only `recorded` listens.
    fn recorded(&mut self, _address: u64, _usable: u64) {}

    /// An address in the form in which it is compared with the real allocator's, which the
    /// system puts where it likes: for segments, the address modulo the segment size.
    fn comparable(&self, address: u64) -> u64 {
        address
    }

    /// The figures that the real allocator tells of itself, as it tells them; none where
    /// there is no real one.
    fn real_figures(&self) -> Vec<u64> {
        Vec::new()
    }

    /// A copy to go on from later.
    fn checkpoint(&self) -> Box<dyn Model>;
}
