//! One action of the merged sequence.

use super::names::Dense;
use heapreel_format::{Entry, Event, EventKind};

/// What a step does to the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StepKind {
    /// A block is handed out.
    Alloc,
    /// A block is handed out, filled with zeros.
    AllocZeroed,
    /// A block goes back.
    Release,
    /// A call that gives a block back had begun when the program ended.
    ReleaseInFlight,
    /// A reallocation begins: the block leaves its old address, and is *moving*.
    MoveOut,
    /// A reallocation that will not move its block begins.
    ResizeBegin,
    /// A reallocation ends: the block has its new size, and perhaps a new address.
    ReallocEnd,
    /// A request for a new block failed.
    FailedAlloc,
    /// A reallocation failed; the block lives on as it was.
    FailedRealloc,
    /// A rare record; `address` is its index in the batch.
    Rare,
    /// A block is dropped because another one was put at its address: a fault of order.
    Evict,
    /// A context begins anew: an instance more.
    Entered,
}

impl StepKind {
    /// Releases come before acquisitions of the same instant.
    #[inline]
    pub fn frees_an_address(self) -> bool {
        matches!(
            self,
            StepKind::Release | StepKind::ReleaseInFlight | StepKind::MoveOut
        )
    }

    /// The step in which its call is counted: each event has exactly one such step.
    #[inline]
    pub fn counts(self) -> bool {
        !matches!(
            self,
            StepKind::MoveOut
                | StepKind::ResizeBegin
                | StepKind::ReleaseInFlight
                | StepKind::Rare
                | StepKind::Evict
                | StepKind::Entered
        )
    }
}

/// One action in key order: an event, half a reallocation, or a rare record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The instant that orders it, in ticks.
    pub key: u64,
    /// The address acquired or released; a failed reallocation's block.
    pub address: u64,
    /// A reallocation's old address.
    pub old_address: u64,
    /// Requested size in bytes; 0 for a release.
    pub size: u64,
    /// Ticks that the inner call took.
    pub latency: u64,
    /// The backtrace's position in [`Dense::stacks`]; 0 for none.
    pub stack: u32,
    /// The thread's position in [`Dense::threads`].
    pub thread: u32,
    /// Number of the context.
    pub context: u32,
    /// Ticks that recording it cost, where that was sampled.
    pub cost: u32,
    /// The stream it stands in: a reallocation's two halves share one.
    pub stream: u32,
    /// Number of the segment.
    pub segment: u16,
    /// What it does.
    pub kind: StepKind,
    /// A release's entry point.
    pub entry: Entry,
}

const _: () = assert!(size_of::<Step>() == 64, "a step fills one cache line");

impl Step {
    /// A step with nothing but its time and kind.
    pub fn blank(key: u64, kind: StepKind) -> Step {
        Step {
            key,
            address: 0,
            old_address: 0,
            size: 0,
            latency: 0,
            stack: 0,
            thread: 0,
            context: 0,
            cost: 0,
            stream: 0,
            segment: 0,
            kind,
            entry: Entry::Unknown,
        }
    }

    /// Hands the steps of one event to `take`, in order.
    #[inline(always)]
    pub fn of_event(event: &Event, place: StreamPlace, dense: &Dense, mut take: impl FnMut(Step)) {
        let kind = match event.kind {
            EventKind::Alloc => StepKind::Alloc,
            EventKind::AllocZeroed => StepKind::AllocZeroed,
            EventKind::Dealloc => StepKind::Release,
            EventKind::Realloc => StepKind::ReallocEnd,
            EventKind::FailedAlloc => StepKind::FailedAlloc,
            EventKind::FailedRealloc => StepKind::FailedRealloc,
        };
        let step = Step {
            key: event.key(),
            address: event.address,
            old_address: event.old_address,
            size: event.size,
            latency: event.latency(),
            stack: dense.stack(event.stack),
            thread: place.thread,
            context: event.context.0,
            cost: event.cost,
            stream: place.stream,
            segment: event.segment.0,
            kind,
            entry: event.entry,
        };
        if kind == StepKind::ReallocEnd {
            take(step.realloc_begin(event.start));
        }
        take(step);
    }

    /// The first half of the reallocation that this step ends.
    fn realloc_begin(&self, start: u64) -> Step {
        let stays = self.address == self.old_address;
        Step {
            key: start,
            address: self.old_address,
            kind: if stays {
                StepKind::ResizeBegin
            } else {
                StepKind::MoveOut
            },
            latency: 0,
            cost: 0,
            ..*self
        }
    }
}

/// Whose records are being decoded.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamPlace {
    /// Position of the thread.
    pub thread: u32,
    /// Number of the stream.
    pub stream: u32,
}
