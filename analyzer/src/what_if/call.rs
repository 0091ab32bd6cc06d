//! One call of the game as models see it.

use heapreel_models::{BlockId, Moment, Request, SegmentId, ThreadRole};

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// A block is wanted.
    Allocate,
    /// A block is wanted, filled with zeros.
    AllocateZeroed,
    /// A block is to have another size.
    Reallocate,
    /// A block goes back.
    Free,
    /// A thread makes its first call.
    ThreadStart(ThreadRole),
    /// A thread is gone.
    ThreadExit,
    /// A frame of the main loop ends.
    FrameEnd,
    /// The program announces `size` bytes from `address` on as a heap of its own, whose
    /// number is `id`.
    HeapRange,
    /// An announced heap, whose number is `id`, is gone.
    HeapDestroyed,
    /// `size` bytes of the process's memory are resident.
    Resident,
}

/// A call with all that models ask of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Nanoseconds since recording started.
    pub nanos: u64,
    /// Where the block really lay; 0 for a free.
    pub address: u64,
    /// Requested bytes.
    pub size: u64,
    /// The game frame: the number that the other commands give it.
    pub frame: u32,
    /// The thread's position in [`Dense::threads`](crate::replay::Dense::threads).
    pub thread: u32,
    /// The backtrace's position in [`Dense::stacks`](crate::replay::Dense::stacks).
    pub site: u32,
    /// The context's position in [`Scene::contexts`](super::Scene::contexts).
    pub context: u32,
    /// The block.
    pub id: u32,
    /// Of an allocation: how many frames end while the block lives, where the pass was asked
    /// to look ahead; else 0.
    pub lifetime: u32,
    /// The trace's number of the segment.
    pub segment: u16,
    /// Requested alignment as a power of two; 0 for none.
    pub align_log2: u8,
    /// What is called.
    pub kind: CallKind,
}

impl Call {
    /// The block.
    pub fn block(&self) -> BlockId {
        BlockId(self.id)
    }

    /// When, where and by whom.
    #[inline]
    pub fn moment(&self) -> Moment {
        Moment {
            nanos: self.nanos,
            frame: self.frame,
            thread: self.thread,
            segment: SegmentId(self.segment),
            site: self.site,
            context: self.context,
            lifetime: self.lifetime,
        }
    }

    /// What an allocation asks for.
    #[inline]
    pub fn request(&self) -> Request {
        let align = match self.align_log2 {
            0 => 0,
            log2 => 1 << log2.min(63),
        };
        Request {
            size: self.size,
            align,
            zeroed: self.kind == CallKind::AllocateZeroed,
        }
    }

    /// Whether it stands for an event of the trace, or a thread's exit.
    pub fn is_event(&self) -> bool {
        matches!(
            self.kind,
            CallKind::Allocate
                | CallKind::AllocateZeroed
                | CallKind::Reallocate
                | CallKind::Free
                | CallKind::ThreadExit
        )
    }
}
