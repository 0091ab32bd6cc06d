//! Rare records: what stands in a thread's stream beside events.

use crate::definition::{ContextId, HeapId, LoopId, NameId, SegmentId, StackId, ThreadId};
use serde::{Deserialize, Serialize};

/// A call that changes the process's address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OsCall {
    /// `mmap`
    Map,
    /// `munmap`
    Unmap,
    /// `mremap`
    Remap,
    /// `brk`, `sbrk`
    Break,
    /// `madvise`
    Advise,
}

/// One rare record; its time stands in the stream before it.
///
/// The order of variants and fields is the wire format: append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rare {
    /// A game frame of this loop ended, and the next one began.
    FrameMark {
        /// Which loop.
        id: LoopId,
    },
    /// A stretch such as loading began, in which long frames are no spikes.
    PhaseBegin {
        /// Its name.
        name: NameId,
    },
    /// That stretch ended.
    PhaseEnd {
        /// Its name.
        name: NameId,
    },
    /// A named instant.
    Mark {
        /// Its name.
        name: NameId,
    },
    /// Bounds of the cause of the slow call just before this record: what the
    /// thread met since its last look, an interval that contains the call.
    SlowCall {
        /// Page faults served without input or output.
        minor_faults: u32,
        /// Page faults that waited for input or output.
        major_faults: u32,
        /// The thread gave up the processor by itself: it waited.
        voluntary_switches: u32,
        /// The thread was made to give up the processor.
        involuntary_switches: u32,
        /// Length of the interval, in ticks.
        interval_ticks: u64,
    },
    /// What recording cost this thread since its last such record.
    Cost {
        /// Records written.
        records: u32,
        /// Ticks spent, estimated from calibration and samples.
        ticks: u64,
    },
    /// The address space changed.
    Os {
        /// By which call.
        call: OsCall,
        /// Where.
        address: u64,
        /// How many bytes.
        length: u64,
        /// Where it went; 0 unless it moved.
        new_address: u64,
        /// The new length; 0 unless it changed.
        new_length: u64,
        /// It was the allocator's own call, made inside an allocation.
        by_allocator: bool,
        /// A file lies behind it.
        file_backed: bool,
    },
    /// What the process held of physical memory, in bytes.
    Resident {
        /// Anonymous memory.
        anonymous: u64,
        /// Pages of files.
        file_backed: u64,
        /// Shared memory.
        shared: u64,
        /// Page faults so far without input or output.
        minor_faults: u64,
        /// Page faults so far with it.
        major_faults: u64,
    },
    /// An announced heap took a range of addresses.
    HeapRange {
        /// Which heap.
        heap: HeapId,
        /// First address.
        address: u64,
        /// Length in bytes.
        length: u64,
    },
    /// An announced heap handed out a block.
    HeapAlloc {
        /// Which heap.
        heap: HeapId,
        /// The block.
        address: u64,
        /// Requested size in bytes.
        size: u64,
        /// From where.
        stack: StackId,
    },
    /// An announced heap changed a block.
    HeapRealloc {
        /// Which heap.
        heap: HeapId,
        /// The block as it was.
        old_address: u64,
        /// The block as it is.
        address: u64,
        /// Requested size in bytes.
        size: u64,
        /// From where.
        stack: StackId,
    },
    /// A block went back to an announced heap.
    HeapFree {
        /// Which heap.
        heap: HeapId,
        /// The block.
        address: u64,
    },
    /// An announced heap was emptied at once.
    HeapReset {
        /// Which heap.
        heap: HeapId,
    },
    /// An announced heap is gone.
    HeapDestroy {
        /// Which heap.
        heap: HeapId,
    },
    /// The total limit that the user set was reached by the request just before.
    LimitReached {
        /// The limit in bytes.
        limit: u64,
        /// Live bytes had the request been served.
        would_be: u64,
    },
    /// A guarded block was found damaged.
    Damaged {
        /// The block.
        address: u64,
        /// First damaged address.
        first: u64,
        /// How many bytes differ.
        length: u32,
    },
    /// Events of this thread that could not be recorded before this point.
    Lost {
        /// How many.
        count: u64,
    },
    /// Recording was switched on or off by the game.
    Recording {
        /// On, or off.
        on: bool,
    },
    /// The thread is gone: it makes no call after this.
    ThreadExit,
}

/// A block that was live when a trace began in the middle of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveBlock {
    /// Where.
    pub address: u64,
    /// Requested size in bytes.
    pub size: u64,
    /// When it was allocated, in ticks.
    pub key: u64,
    /// From where.
    pub stack: StackId,
    /// By whom.
    pub thread: ThreadId,
    /// For what.
    pub context: ContextId,
    /// In which segment.
    pub segment: SegmentId,
}
