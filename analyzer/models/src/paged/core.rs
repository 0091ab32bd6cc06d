//! The state, and the way of a call through it.

use super::blocks::{Blocks, Record};
use super::heap::{BlockAt, Heap, HeapState, Queued};
use super::page::{NO_BLOCK, Pages};
use super::queue::NIL;
use super::rules::{CollectScope, FreeMode, Rules};
use super::segment::Segments;
use super::segment_cache::SegmentCache;
use super::size_class::{BIN_FULL, BINS, FAST_BYTES, bin};
use crate::budgets::Budgets;
use crate::counters::{Counters, OsCalls};
use crate::model::{Block, BlockId, Moment, Placed, Request, ThreadRole};
use crate::page_source::PageSource;

/// The page source had no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfMemory;

/// Sums that are kept along the way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Bytes of live blocks.
    pub(crate) used: u64,
    /// Requested bytes of live blocks.
    pub(crate) requested: u64,
    /// Live blocks.
    pub(crate) blocks: u64,
    /// Bytes with memory behind them, thread blocks included.
    pub(crate) committed: u64,
    /// Most bytes ever in `committed`.
    pub(crate) committed_peak: u64,
    /// Bytes of thread blocks.
    pub(crate) thread_blocks: u64,
    /// Bytes of headers of segments in use.
    pub(crate) headers: u64,
    /// Bytes of address space.
    pub(crate) reserved: u64,
    /// What the statistic of 2.0.3 has drifted by: see [`Core::statistic`].
    pub(crate) drift: u64,
    pub(crate) moved: u64,
    pub(crate) zeroed: u64,
    pub(crate) locks: u64,
    pub(crate) slow: u64,
    pub(crate) foreign_frees: u64,
    pub(crate) os: OsCalls,
    /// Blocks that were worked off from release queues.
    pub(crate) steps: u64,
}

/// What is known of a thread.
#[derive(Clone, Copy, Debug)]
struct Thread {
    heap: u32,
    role: ThreadRole,
}

/// Which threads share a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Each has its own.
    None,
    /// Those of low priority share one.
    Low,
    /// All share one.
    All,
}

/// An allocator of segments, pages and blocks over a page source.
#[derive(Clone)]
pub(crate) struct Core<S> {
    pub(crate) rules: Rules,
    pub(crate) source: S,
    sharing: Sharing,
    pub(crate) pages: Pages,
    pub(crate) segments: Segments,
    pub(crate) heaps: Vec<Heap>,
    unused_heaps: Vec<u32>,
    shared_heap: u32,
    threads: Vec<Thread>,
    pub(crate) cache: SegmentCache,
    /// Segments without an owner, the last one at the end.
    pub(crate) abandoned: Vec<u32>,
    /// Those of them that were looked at and not adopted.
    pub(crate) visited: Vec<u32>,
    /// Heaps without a thread, in the order in which they were left.
    pub(crate) left_heaps: Vec<u32>,
    pub(crate) blocks: Blocks,
    pub(crate) budgets: Budgets,
    pub(crate) tally: Tally,
    /// Class of a request of so many words.
    small_bins: [u8; FAST_BYTES as usize / 8 + 1],
    nanos: u64,
    frame: u32,
}

impl<S: PageSource> Core<S> {
    pub(crate) fn new(rules: Rules, sharing: Sharing, source: S) -> Core<S> {
        let medium_max = rules.geometry.medium_max();
        Core {
            rules,
            source,
            sharing,
            pages: Pages::default(),
            segments: Segments::new(&rules.geometry),
            heaps: Vec::new(),
            unused_heaps: Vec::new(),
            shared_heap: NIL,
            threads: Vec::new(),
            cache: SegmentCache::new(rules.cache_slots),
            abandoned: Vec::new(),
            visited: Vec::new(),
            left_heaps: Vec::new(),
            blocks: Blocks::default(),
            budgets: Budgets::default(),
            tally: Tally::default(),
            small_bins: std::array::from_fn(|words| bin(words as u64 * 8, medium_max)),
            nanos: 0,
            frame: 0,
        }
    }

    /// Places a block.
    #[inline]
    pub(crate) fn allocate(
        &mut self,
        at: &Moment,
        id: BlockId,
        request: Request,
    ) -> Result<Placed, OutOfMemory> {
        self.enter(at);
        let heap = self.heap_for(at.thread);
        self.work_off(heap);
        let (block, shift) = self.place(heap, request.size, request.align)?;
        Ok(self.book(at, id, block, shift, request.size))
    }

    /// Takes a block back.
    #[inline]
    pub(crate) fn free(&mut self, at: &Moment, id: BlockId) {
        self.enter(at);
        let record = self.blocks.take(id);
        let block_bytes = self.pages[record.page].block_bytes;
        self.tally.used -= block_bytes;
        self.tally.requested -= record.requested;
        self.tally.blocks -= 1;
        self.tally.foreign_frees += u64::from(record.thread != at.thread);
        self.budgets
            .credit(record.segment, record.requested, block_bytes, at);
        self.give_back(at.thread, record.at());
    }

    /// Changes a block's size: in place if it fits and at least half of it stays in use.
    pub(crate) fn reallocate(
        &mut self,
        at: &Moment,
        id: BlockId,
        size: u64,
    ) -> Result<Placed, OutOfMemory> {
        self.enter(at);
        let heap = self.heap_for(at.thread);
        let record = *self.blocks.get(id);
        let usable = self.usable(&record);
        if (usable / 2..=usable).contains(&size) {
            return Ok(self.resize(id, size));
        }
        self.work_off(heap);
        let (block, shift) = self.place(heap, size, 0)?;
        self.free(at, id);
        // The block belongs to the segment that it was made in.
        let at = Moment {
            segment: record.segment,
            ..*at
        };
        let moved = usable.min(size);
        self.tally.moved += moved;
        Ok(Placed {
            moved,
            ..self.book(&at, id, block, shift, size)
        })
    }

    /// The largest request that could ever be placed: addresses have 47 bits.
    pub(crate) fn too_large(&self, request: &Request) -> bool {
        request.size > 1 << 46 || request.align > self.rules.align_max
    }

    /// Where a block is.
    pub(crate) fn block(&self, id: BlockId) -> Option<Block> {
        let record = self.blocks.live(id)?;
        Some(Block {
            id,
            address: self.pages[record.page].address(record.index) + u64::from(record.shift),
            usable: self.usable(record),
            requested: record.requested,
            header: 0,
        })
    }

    /// What 2.0.3 reports as committed: for each block with a segment of its own it adds
    /// the rounded size and later subtracts the one that it took.
    pub(crate) fn statistic(&self) -> u64 {
        self.tally.committed + self.tally.drift
    }

    /// The sums, with what is committed as held.
    pub(crate) fn counters(&self) -> Counters {
        let Tally {
            used,
            thread_blocks,
            headers,
            committed,
            ..
        } = self.tally;
        let meta = thread_blocks + headers;
        Counters {
            requested: self.tally.requested,
            used,
            meta,
            free: committed - used - meta,
            held: committed,
            reserved: self.tally.reserved + thread_blocks,
            peak_held: self.tally.committed_peak,
            blocks: self.tally.blocks,
            moved: self.tally.moved,
            zeroed: self.tally.zeroed,
            locks: self.tally.locks,
            slow: self.tally.slow,
            foreign_frees: self.tally.foreign_frees,
            os: self.tally.os,
        }
    }

    pub(crate) fn thread_start(&mut self, at: &Moment, role: ThreadRole) {
        self.enter(at);
        self.thread_mut(at.thread).role = role;
    }

    /// A thread is gone: what becomes of its heap is for the caller. `None` if it had none,
    /// or shared it with others.
    pub(crate) fn unbind(&mut self, at: &Moment) -> Option<u32> {
        self.enter(at);
        let thread = self.thread_mut(at.thread);
        let heap = std::mem::replace(&mut thread.heap, NIL);
        (heap != NIL && self.heaps[heap as usize].state == HeapState::Own).then_some(heap)
    }

    pub(crate) fn frame_end(&mut self, at: &Moment) {
        self.enter(at);
    }

    /// A heap has no pages any more and is nobody's.
    pub(crate) fn remove_heap(&mut self, heap: u32) {
        let gone = &mut self.heaps[heap as usize];
        let thread_block = gone.thread_block;
        gone.state = HeapState::Unused;
        self.unused_heaps.push(heap);
        self.tally.thread_blocks -= thread_block;
        self.tally.committed -= thread_block;
        self.tally.os.release += u64::from(thread_block != 0);
    }

    /// Milliseconds since the trace began.
    pub(crate) fn now(&self) -> u64 {
        self.nanos / 1_000_000
    }

    /// Number of the frame that the last call came in.
    pub(crate) fn frame(&self) -> u32 {
        self.frame
    }

    /// Threads that have a heap.
    pub(crate) fn running_threads(&self) -> usize {
        self.threads
            .iter()
            .filter(|thread| thread.heap != NIL)
            .count()
    }

    /// Whether a thread's calls go to the heap that is shared.
    pub(crate) fn shares(&self, thread: u32) -> bool {
        let role = self
            .threads
            .get(thread as usize)
            .map_or_else(ThreadRole::default, |it| it.role);
        match self.sharing {
            Sharing::None => false,
            Sharing::Low => role == ThreadRole::Low,
            Sharing::All => true,
        }
    }

    #[inline]
    fn enter(&mut self, at: &Moment) {
        self.nanos = at.nanos;
        self.frame = at.frame;
    }

    fn thread_mut(&mut self, thread: u32) -> &mut Thread {
        let index = thread as usize;
        if index >= self.threads.len() {
            let unknown = Thread {
                heap: NIL,
                role: ThreadRole::default(),
            };
            self.threads.resize(index + 1, unknown);
        }
        &mut self.threads[index]
    }

    /// The heap of a thread, made if it has none.
    #[inline]
    fn heap_for(&mut self, thread: u32) -> u32 {
        match self.threads.get(thread as usize) {
            Some(known) if known.heap != NIL => known.heap,
            _ => self.bind(thread),
        }
    }

    #[cold]
    fn bind(&mut self, thread: u32) -> u32 {
        let shares = self.shares(thread);
        let heap = match shares {
            true if self.shared_heap != NIL => self.shared_heap,
            true => self.new_heap(HeapState::Shared, thread),
            false => self.new_heap(HeapState::Own, thread),
        };
        if shares {
            self.shared_heap = heap;
        }
        self.thread_mut(thread).heap = heap;
        heap
    }

    fn new_heap(&mut self, state: HeapState, thread: u32) -> u32 {
        let main = self.rules.main_thread == Some(thread);
        let thread_block = if main { 0 } else { self.rules.thread_block };
        self.tally.thread_blocks += thread_block;
        self.tally.os.reserve += u64::from(thread_block != 0);
        self.committed(thread_block);
        let heap = Heap::new(state, thread_block);
        match self.unused_heaps.pop() {
            Some(number) => {
                self.heaps[number as usize] = heap;
                number
            }
            None => {
                self.heaps.push(heap);
                (self.heaps.len() - 1) as u32
            }
        }
    }

    /// So many more bytes have memory behind them.
    pub(crate) fn committed(&mut self, bytes: u64) {
        self.tally.committed += bytes;
        self.tally.committed_peak = self.tally.committed_peak.max(self.tally.committed);
    }

    /// A free block for a request, and how far inside it the aligned address is.
    #[inline]
    fn place(&mut self, heap: u32, size: u64, align: u64) -> Result<(BlockAt, u32), OutOfMemory> {
        if align <= 8 {
            return Ok((self.place_plain(heap, size)?, 0));
        }
        self.place_aligned(heap, size, align)
    }

    #[inline]
    fn place_plain(&mut self, heap: u32, size: u64) -> Result<BlockAt, OutOfMemory> {
        if size <= FAST_BYTES {
            let bin = self.small_bins[size.div_ceil(8) as usize];
            let page = self.heaps[heap as usize].queues[usize::from(bin)].first;
            if page != NIL
                && let Some(index) = self.pages[page].pop()
            {
                self.note_dry(page);
                return Ok(BlockAt { page, index });
            }
        }
        self.place_slowly(heap, size)
    }

    fn place_aligned(
        &mut self,
        heap: u32,
        size: u64,
        align: u64,
    ) -> Result<(BlockAt, u32), OutOfMemory> {
        if self.next_is_aligned(heap, size, align) {
            return Ok((self.place_plain(heap, size)?, 0));
        }
        if align <= size && size <= self.rules.page_offset && size.is_multiple_of(align) {
            return Ok((self.place_plain(heap, size)?, 0));
        }
        let block = self.place_plain(heap, size + align - 1)?;
        let address = self.pages[block.page].address(block.index);
        Ok((block, (address.next_multiple_of(align) - address) as u32))
    }

    /// Whether the block that would be given out next happens to be aligned.
    fn next_is_aligned(&self, heap: u32, size: u64, align: u64) -> bool {
        if size > FAST_BYTES {
            return false;
        }
        let bin = self.small_bins[size.div_ceil(8) as usize];
        let first = self.heaps[heap as usize].queues[usize::from(bin)].first;
        if first == NIL {
            return false;
        }
        let page = &self.pages[first];
        page.free != NO_BLOCK && page.address(page.free).is_multiple_of(align)
    }

    /// Off the fast path: the heap's lists are worked off, then a page is looked for.
    #[cold]
    fn place_slowly(&mut self, heap: u32, size: u64) -> Result<BlockAt, OutOfMemory> {
        self.tally.slow += 1;
        self.drain_delayed(heap);
        let page = self.find_page(heap, size).or_else(|_| {
            self.collect(heap);
            self.find_page(heap, size)
        })?;
        let index = self.pages[page].pop().ok_or(OutOfMemory)?;
        self.note_dry(page);
        Ok(BlockAt { page, index })
    }

    fn find_page(&mut self, heap: u32, size: u64) -> Result<u32, OutOfMemory> {
        let geometry = &self.rules.geometry;
        if size > geometry.medium_max() {
            return self.large_page(heap, size);
        }
        let bin = bin(size, geometry.medium_max());
        self.page_with_space(heap, bin)
    }

    /// A page ran out of free blocks while others of it have come back.
    #[inline]
    fn note_dry(&mut self, page: u32) {
        let it = &self.pages[page];
        if it.free == NO_BLOCK && it.local != NO_BLOCK {
            self.note_pending(page);
        }
    }

    /// Notes that a collection of the whole heap would change `page`.
    fn note_pending(&mut self, page: u32) {
        let it = &mut self.pages[page];
        if self.rules.collect_scope == CollectScope::Heap && !it.pending && it.heap != NIL {
            it.pending = true;
            self.heaps[it.heap as usize].pending.push(page);
        }
    }

    /// A block that nobody holds any more goes where the rules send it.
    #[inline]
    fn give_back(&mut self, thread: u32, block: BlockAt) {
        let page = &mut self.pages[block.page];
        if page.bin == BIN_FULL {
            // A block with a segment of its own has no owner; a thread that gives such a
            // block back counts as one that uses the allocator.
            self.heap_for(thread);
            self.free_huge(block.page);
            return;
        }
        if matches!(self.rules.free_mode, FreeMode::ReleaseQueue { .. }) && page.heap != NIL {
            page.queued += 1;
            let heap = &mut self.heaps[page.heap as usize];
            heap.release.push_back(Queued {
                block,
                frame: self.frame,
            });
            heap.release_bytes += page.block_bytes;
            heap.release_peak = heap.release_peak.max(heap.release.len());
            return;
        }
        let own = self
            .threads
            .get(thread as usize)
            .map_or(NIL, |known| known.heap);
        if own != NIL && own == page.heap {
            self.free_local(block);
        } else {
            self.free_remote(block);
        }
    }

    #[inline]
    pub(crate) fn free_local(&mut self, block: BlockAt) {
        let page = &mut self.pages[block.page];
        let dry = page.free == NO_BLOCK;
        page.push_local(block.index);
        if page.used == 0 {
            self.retire(block.page);
        } else if page.in_full {
            self.unfill(block.page);
        }
        if dry {
            self.note_pending(block.page);
        }
    }

    fn free_remote(&mut self, block: BlockAt) {
        use super::page::Delayed;
        let page = &mut self.pages[block.page];
        if page.delayed == Delayed::Use && page.heap != NIL {
            page.delayed = Delayed::No;
            page.queued += 1;
            self.heaps[page.heap as usize].delayed.push(block);
        } else {
            page.push_remote(block.index);
            self.note_pending(block.page);
        }
    }

    /// Works off what other threads gave back, the last first.
    pub(crate) fn drain_delayed(&mut self, heap: u32) {
        use super::page::Delayed;
        let mut delayed = std::mem::take(&mut self.heaps[heap as usize].delayed);
        while let Some(block) = delayed.pop() {
            let page = &mut self.pages[block.page];
            if page.delayed != Delayed::Never {
                page.delayed = Delayed::Use;
            }
            page.queued -= 1;
            page.collect(false);
            self.free_local(block);
        }
        self.heaps[heap as usize].delayed = delayed;
    }

    /// Works off the start of a heap's release queue, as far as one allocation does.
    #[inline]
    fn work_off(&mut self, heap: u32) {
        if let FreeMode::ReleaseQueue { steps } = self.rules.free_mode
            && !self.heaps[heap as usize].release.is_empty()
        {
            self.work_off_steps(heap, steps);
        }
    }

    /// Works off at most `steps` blocks of a release queue, the first first.
    pub(crate) fn work_off_steps(&mut self, heap: u32, steps: u32) {
        for _ in 0..steps {
            let Some(Queued { block, .. }) = self.heaps[heap as usize].release.pop_front() else {
                return;
            };
            let page = &mut self.pages[block.page];
            page.queued -= 1;
            self.heaps[heap as usize].release_bytes -= page.block_bytes;
            self.tally.steps += 1;
            self.free_local(block);
        }
    }

    /// Enters a block into the books.
    #[inline]
    fn book(&mut self, at: &Moment, id: BlockId, block: BlockAt, shift: u32, size: u64) -> Placed {
        let page = &self.pages[block.page];
        let (address, block_bytes) = (page.address(block.index), page.block_bytes);
        self.blocks.put(
            id,
            Record {
                page: block.page,
                index: block.index,
                segment: at.segment,
                thread: at.thread,
                shift,
                requested: size,
            },
        );
        self.tally.used += block_bytes;
        self.tally.requested += size;
        self.tally.blocks += 1;
        self.budgets.charge(at.segment, size, block_bytes, at);
        Placed {
            address: address + u64::from(shift),
            usable: block_bytes - u64::from(shift),
            moved: 0,
        }
    }

    fn resize(&mut self, id: BlockId, size: u64) -> Placed {
        let record = self.blocks.get_mut(id);
        let before = std::mem::replace(&mut record.requested, size);
        let record = *record;
        self.tally.requested = self.tally.requested - before + size;
        self.budgets.resize(record.segment, before, size);
        Placed {
            address: self.pages[record.page].address(record.index) + u64::from(record.shift),
            usable: self.usable(&record),
            moved: 0,
        }
    }

    fn usable(&self, record: &Record) -> u64 {
        self.pages[record.page].block_bytes - u64::from(record.shift)
    }

    /// All page queues of a heap.
    pub(crate) fn bins() -> std::ops::Range<usize> {
        0..BINS
    }
}
