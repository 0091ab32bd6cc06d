//! A heap: the pages of one thread, or of several that share it.

use std::collections::VecDeque;

use super::queue::Queue;
use super::size_class::BINS;

/// Most span queues that any geometry has.
const SPAN_BINS: usize = 64;

/// A block by its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockAt {
    pub(crate) page: u32,
    pub(crate) index: u16,
}

/// A block that was given back and waits for its heap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    pub(crate) block: BlockAt,
    /// The frame in which it was given back.
    pub(crate) frame: u32,
}

/// A heap; numbers are used again.
#[derive(Clone, Debug)]
pub(crate) struct Heap {
    /// Pages by class of their blocks, and those without a free one.
    pub(crate) queues: [Queue; BINS],
    /// Free spans by class of their length.
    pub(crate) spans: [Queue; SPAN_BINS],
    /// Classes that may have a retired page in front.
    pub(crate) retired: (u8, u8),
    /// Blocks that other threads gave back, the last of them at the end.
    pub(crate) delayed: Vec<BlockAt>,
    /// Blocks that anybody gave back, the first of them in front.
    pub(crate) release: VecDeque<Queued>,
    /// Most blocks that ever waited in `release`.
    pub(crate) release_peak: usize,
    /// Bytes of the blocks in `release`.
    pub(crate) release_bytes: u64,
    /// Pages that a collection could change.
    pub(crate) pending: Vec<u32>,
    /// Pages in all.
    pub(crate) pages: u32,
    /// Segments taken so far.
    pub(crate) segments: u32,
    /// Bytes of the thread's block that were taken for it.
    pub(crate) thread_block: u64,
    pub(crate) state: HeapState,
}

/// Who a heap belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeapState {
    /// Nobody: its number is free.
    Unused,
    /// One thread.
    Own,
    /// All threads that share it.
    Shared,
    /// Its thread exited in this frame.
    Abandoned(u32),
}

impl Heap {
    pub(crate) fn new(state: HeapState, thread_block: u64) -> Heap {
        Heap {
            queues: [Queue::default(); BINS],
            spans: [Queue::default(); SPAN_BINS],
            retired: NONE_RETIRED,
            delayed: Vec::new(),
            release: VecDeque::new(),
            release_peak: 0,
            release_bytes: 0,
            pending: Vec::new(),
            pages: 0,
            segments: 0,
            thread_block,
            state,
        }
    }
}

/// The range of classes with retired pages when there are none.
pub(crate) const NONE_RETIRED: (u8, u8) = (super::size_class::BIN_FULL, 0);
