//! `virtual`: the virtual memory allocator of RE ENGINE as its makers describe it.
//!
//! mimalloc 2.0.3 with smaller slices and these changes: threads of low priority share one
//! heap; an empty page goes back at once; every free only appends to the release queue of
//! the block's heap, which works off at most 100 blocks with each allocation; the heap of a
//! thread that exits is tidied at the end of each frame; memory is mapped in granules of
//! 64 KiB of one physical budget, and the last 16 runs that were given back stay mapped for
//! their next use. The engine's segments are budgets: one that is exceeded is a warning.
//!
//! What was not published is ours, and marked so at each of the [`Parameters`]. There is no
//! real one to compare with: what lies under it is checked as [`mimalloc`](crate::mimalloc)
//! is, and the rest keeps its invariants ([`Virtual::audit`]).
//!
//! The slide's macros make segments of 4 MiB while its caption says 8 MiB; the caption is
//! the default. `reset_delay = 25` is on the slide as a change, but is mimalloc's default.
//!
//! A request fails only when the budget is used up after everything that is free has gone
//! back, in all heaps; addresses never run out.

mod entries;
mod lru;
mod parameters;
mod physical;
mod report;

pub use entries::{MAX_MAPPED, MAX_RUN, MISC_BITS, MappedEntry, PageEntry, table_bytes};
pub use parameters::{Heaps, Parameters};
pub use physical::{CLEAR_BYTES, LruMatch, Mapping};
pub use report::{VirtualReport, WorstFrame};

use crate::budgets::BudgetExceeded;
use crate::counters::Counters;
use crate::model::{
    Block, BlockId, Failure, FailureCause, Holding, Model, Moment, Placed, Region, Request,
    RunState, SegmentId, ThreadRole,
};
use crate::paged::{Abandon, Core, HeapFacts, HeapKind, Waste};
use crate::parameters::BadParameter;
use physical::Physical;

/// The model of the virtual memory allocator.
#[derive(Clone)]
pub struct Virtual {
    core: Core<Physical>,
    /// Abandoned heaps that the end of a frame tidies.
    tidied_a_frame: usize,
    before_frame: Mapping,
    last_frame: Mapping,
    worst_calls: WorstFrame,
    worst_zeroed: WorstFrame,
    /// Most bytes ever held.
    peak: u64,
}

impl Virtual {
    /// A model with a physical budget and addresses of its own.
    ///
    /// # Errors
    ///
    /// [`BadParameter`], where parameters do not go together.
    pub fn new(parameters: &Parameters) -> Result<Virtual, BadParameter> {
        let physical = Physical::new(parameters.physical_rules()?, parameters.base);
        let mut core = Core::new(parameters.rules()?, parameters.sharing(), physical);
        for (number, (_, budget)) in parameters.segments.iter().enumerate() {
            core.budgets.set_budget(SegmentId(number as u16), *budget);
        }
        let limit = match parameters.abandoned_gc {
            0 => usize::MAX,
            limit => limit as usize,
        };
        Ok(Virtual {
            core,
            tidied_a_frame: limit,
            before_frame: Mapping::default(),
            last_frame: Mapping::default(),
            worst_calls: WorstFrame::default(),
            worst_zeroed: WorstFrame::default(),
            peak: 0,
        })
    }

    /// System calls, hits and clearing since the start.
    pub fn mapping(&self) -> Mapping {
        self.core.source.mapping
    }

    /// The same of the frame that ended last.
    pub fn last_frame(&self) -> Mapping {
        self.last_frame
    }

    /// Bytes of slices with memory behind them, and of thread blocks.
    pub fn committed(&self) -> u64 {
        self.core.tally.committed
    }

    /// Bytes of the physical budget that are neither mapped nor kept mapped.
    pub fn free_physical(&self) -> u64 {
        self.core.source.free_bytes()
    }

    /// When segments were over their budgets, in the order in which that began.
    pub fn exceeded(&self) -> &[BudgetExceeded] {
        self.core.budgets.exceeded()
    }

    /// All heaps, by number. Linear in pages.
    pub fn heaps(&self) -> Vec<HeapFacts> {
        self.core.heap_facts()
    }

    /// The heap that a live block lies in; `None` for one with a segment of its own.
    pub fn heap_of(&self, id: BlockId) -> Option<u32> {
        self.core.heap_of_block(id)
    }

    /// Blocks in a heap's release queue, the first to be worked off first: page and place
    /// in it, as numbers that mean nothing else.
    pub fn release_queue(&self, heap: u32) -> Vec<(u32, u16)> {
        let queue = self.core.heaps.get(heap as usize).map(|heap| &heap.release);
        let queued = queue.into_iter().flatten();
        queued
            .map(|queued| (queued.block.page, queued.block.index))
            .collect()
    }

    /// Where held memory goes that is in no block. Linear in pages and segments.
    pub fn waste(&self) -> Waste {
        let physical = &self.core.source;
        let in_granules = self.core.tally.committed - self.core.tally.thread_blocks;
        Waste {
            granules: physical.mapped_bytes() - in_granules,
            cached: physical.cached_bytes(),
            tables: physical.table_bytes(),
            ..self.core.waste()
        }
    }

    /// Everything at once. Linear in live blocks.
    pub fn report(&self) -> VirtualReport {
        let Counters {
            requested,
            used,
            held,
            ..
        } = self.counters();
        let physical = &self.core.source;
        let heaps = self.heaps();
        let abandoned = || heaps.iter().filter(|heap| heap.kind == HeapKind::Abandoned);
        VirtualReport {
            requested,
            used,
            committed: self.committed(),
            mapped: physical.mapped_bytes(),
            cached: physical.cached_bytes(),
            free_physical: physical.free_bytes(),
            physical_budget: physical.budget_bytes(),
            held,
            waste: share_lost(requested, held),
            waste_in_blocks: share_lost(used, held),
            waste_by_cause: self.waste(),
            mapping: self.mapping(),
            lru_hit_rate: self.mapping().hit_rate(),
            worst_calls: self.worst_calls,
            worst_zeroed: self.worst_zeroed,
            gc_steps: self.core.tally.steps,
            abandoned_heaps: abandoned().count() as u64,
            abandoned_bytes: abandoned().map(|heap| heap.committed).sum(),
            abandoned_frames: abandoned()
                .map(|heap| heap.abandoned_frames)
                .max()
                .unwrap_or(0),
            heaps,
            tlb_pages: [12, 16, 21].map(|shift| self.core.covering_pages(1 << shift)),
            exceeded: self.exceeded().to_vec(),
        }
    }

    /// Compares all sums with what is there, piece by piece. Linear in everything.
    ///
    /// # Errors
    ///
    /// What is not as it should be.
    pub fn audit(&self) -> Result<(), String> {
        self.core.audit()?;
        self.audit_granules()?;
        self.core.source.audit()?;
        let (parts, held) = (self.waste().total() + self.core.tally.used, self.held());
        match parts == held {
            true => Ok(()),
            false => Err(format!("{held} bytes held, {parts} accounted for")),
        }
    }

    /// Each granule counts the slices in it that have memory.
    fn audit_granules(&self) -> Result<(), String> {
        let physical = &self.core.source;
        let mut expected = vec![0; physical.live_units().len()];
        for (address, bytes) in self.core.committed_ranges() {
            for unit in 0..bytes / physical.unit_bytes() {
                expected[physical.granule_of(address + unit * physical.unit_bytes())] += 1;
            }
        }
        match expected == physical.live_units() {
            true => Ok(()),
            false => Err("granules miscount their slices".to_owned()),
        }
    }

    fn try_harder(
        &mut self,
        request: Request,
        mut attempt: impl FnMut(&mut Core<Physical>) -> Option<Placed>,
    ) -> Result<Placed, Failure> {
        if let Some(placed) = attempt(&mut self.core) {
            return Ok(placed);
        }
        self.core.tidy_everything();
        attempt(&mut self.core).ok_or_else(|| {
            let physical = &mut self.core.source;
            physical.empty_lru();
            let free = physical.free_bytes();
            let needed = free + physical.short_by;
            let cause = match request.size > physical.budget_bytes() {
                true => FailureCause::TooLarge,
                false => FailureCause::Exhausted,
            };
            Failure {
                cause,
                needed,
                free,
                largest_free: free,
            }
        })
    }

    fn enter(&mut self, at: &Moment, request: Request) -> Result<(), Failure> {
        self.core.tally.locks += u64::from(self.core.shares(at.thread));
        if !self.core.too_large(&request) {
            return Ok(());
        }
        let free = self.free_physical();
        let (cause, needed) = (FailureCause::TooLarge, request.size);
        Err(Failure {
            cause,
            needed,
            free,
            largest_free: free,
        })
    }

    #[inline]
    fn see_peak(&mut self) {
        let held = self.held();
        if held > self.peak {
            self.peak = held;
        }
    }
}

/// `1 - part / whole`; 0 where there is nothing.
fn share_lost(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        whole => 1.0 - part as f64 / whole as f64,
    }
}

impl Model for Virtual {
    fn allocate(&mut self, at: &Moment, id: BlockId, request: Request) -> Result<Placed, Failure> {
        self.enter(at, request)?;
        let placed = self.try_harder(request, |core| core.allocate(at, id, request).ok());
        self.see_peak();
        placed
    }

    fn reallocate(&mut self, at: &Moment, id: BlockId, size: u64) -> Result<Placed, Failure> {
        let request = Request {
            size,
            align: 0,
            zeroed: false,
        };
        self.enter(at, request)?;
        let placed = self.try_harder(request, |core| core.reallocate(at, id, size).ok());
        self.see_peak();
        placed
    }

    fn free(&mut self, at: &Moment, id: BlockId) {
        self.core.tally.locks += u64::from(self.core.shares(at.thread));
        self.core.free(at, id);
    }

    fn thread_start(&mut self, at: &Moment, role: ThreadRole) {
        self.core.thread_start(at, role);
    }

    fn thread_exit(&mut self, at: &Moment) {
        match self.core.rules.abandon {
            Abandon::Segments => self.core.leave_segments(at),
            Abandon::Heaps => self.core.leave_heap(at),
        }
    }

    fn frame_end(&mut self, at: &Moment) {
        self.core.frame_end(at);
        self.core.tidy_left_heaps(self.tidied_a_frame);
        let now = self.mapping();
        self.last_frame = now.since(&self.before_frame);
        self.before_frame = now;
        self.worst_calls
            .see(at.frame, self.last_frame.maps + self.last_frame.unmaps);
        self.worst_zeroed.see(at.frame, self.last_frame.zeroed);
    }

    fn block(&self, id: BlockId) -> Option<Block> {
        self.core.block(id)
    }

    /// Held are granules that are mapped, in use or not, thread blocks, and the table of
    /// granules.
    fn counters(&self) -> Counters {
        let (physical, mapping) = (&self.core.source, self.mapping());
        let below = self.core.counters();
        let mut counters = Counters {
            meta: below.meta + physical.table_bytes(),
            held: self.held(),
            peak_held: self.peak.max(self.held()),
            zeroed: mapping.zeroed,
            ..below
        };
        counters.free = counters.held - counters.used - counters.meta;
        counters.os.commit = mapping.maps;
        counters.os.decommit = mapping.unmaps;
        counters
    }

    fn held(&self) -> u64 {
        let physical = &self.core.source;
        let mapped = physical.mapped_bytes() + physical.cached_bytes();
        mapped + self.core.tally.thread_blocks + physical.table_bytes()
    }

    fn by_segment(&self) -> Vec<(SegmentId, Counters)> {
        self.core.budgets.by_segment()
    }

    fn holdings(&self) -> Vec<Holding> {
        self.core.holdings()
    }

    /// All segments, and between them what is still mapped of segments that are gone.
    fn regions(&self) -> Vec<Region> {
        let mut regions = self.core.regions();
        let segments: Vec<_> = regions
            .iter()
            .map(|region| region.start..region.start + region.bytes)
            .collect();
        for cached in self.core.source.cached_ranges() {
            for region in &mut regions {
                region.mark(cached.clone(), RunState::Reserved, RunState::Idle);
            }
            let mut start = cached.start;
            for segment in &segments {
                if segment.end > start && segment.start < cached.end {
                    regions.extend(kept_mapped(start..segment.start));
                    start = segment.end;
                }
            }
            regions.extend(kept_mapped(start..cached.end));
        }
        regions.sort_by_key(|region| region.start);
        regions
    }

    fn comparable(&self, address: u64) -> u64 {
        address % self.core.rules.geometry.segment_bytes
    }

    fn checkpoint(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}

/// A run that is still mapped, outside of all segments.
fn kept_mapped(range: std::ops::Range<u64>) -> Option<Region> {
    let bytes = range
        .end
        .checked_sub(range.start)
        .filter(|bytes| *bytes > 0)?;
    Some(Region {
        name: "kept mapped".to_owned(),
        segment: None,
        start: range.start,
        bytes,
        runs: vec![(bytes, RunState::Idle)],
    })
}
