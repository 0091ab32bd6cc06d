//! Events as the reader gives them: one allocation, reallocation or deallocation.

use crate::definition::{ContextId, SegmentId, StackId, ThreadId};
use serde::{Deserialize, Serialize};

/// What happened to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum EventKind {
    /// A block was handed out.
    Alloc = 1,
    /// A block was handed out, filled with zeros.
    AllocZeroed = 2,
    /// A block changed its size, and perhaps its address.
    Realloc = 3,
    /// A block was given back.
    Dealloc = 4,
    /// A request that the allocator could not serve; no block came of it.
    FailedAlloc = 5,
    /// A reallocation that the allocator could not serve; the old block lives on.
    FailedRealloc = 6,
}

/// The function through which the program asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum Entry {
    /// Not known.
    Unknown = 0,
    /// `malloc`
    Malloc = 1,
    /// `calloc`
    Calloc = 2,
    /// `realloc`
    Realloc = 3,
    /// `reallocarray`
    ReallocArray = 4,
    /// `memalign`
    Memalign = 5,
    /// `aligned_alloc`
    AlignedAlloc = 6,
    /// `posix_memalign`
    PosixMemalign = 7,
    /// `valloc`
    Valloc = 8,
    /// `pvalloc`
    Pvalloc = 9,
    /// `free`
    Free = 10,
    /// `free_sized`, `free_aligned_sized`
    FreeSized = 11,
    /// `operator new`
    New = 12,
    /// `operator new[]`
    NewArray = 13,
    /// `operator new` with an alignment
    NewAligned = 14,
    /// `operator new[]` with an alignment
    NewArrayAligned = 15,
    /// `operator delete`
    Delete = 16,
    /// `operator delete[]`
    DeleteArray = 17,
    /// `operator delete` with an alignment
    DeleteAligned = 18,
    /// `operator delete[]` with an alignment
    DeleteArrayAligned = 19,
    /// Rust's `GlobalAlloc::alloc`
    RustAlloc = 20,
    /// Rust's `GlobalAlloc::alloc_zeroed`
    RustAllocZeroed = 21,
    /// Rust's `GlobalAlloc::realloc`
    RustRealloc = 22,
    /// Rust's `GlobalAlloc::dealloc`
    RustDealloc = 23,
}

impl Entry {
    const ALL: [Entry; 24] = [
        Entry::Unknown,
        Entry::Malloc,
        Entry::Calloc,
        Entry::Realloc,
        Entry::ReallocArray,
        Entry::Memalign,
        Entry::AlignedAlloc,
        Entry::PosixMemalign,
        Entry::Valloc,
        Entry::Pvalloc,
        Entry::Free,
        Entry::FreeSized,
        Entry::New,
        Entry::NewArray,
        Entry::NewAligned,
        Entry::NewArrayAligned,
        Entry::Delete,
        Entry::DeleteArray,
        Entry::DeleteAligned,
        Entry::DeleteArrayAligned,
        Entry::RustAlloc,
        Entry::RustAllocZeroed,
        Entry::RustRealloc,
        Entry::RustDealloc,
    ];

    /// The entry with this number, [`Entry::Unknown`] for a number not assigned.
    #[inline]
    pub fn from_number(number: u8) -> Entry {
        Entry::ALL
            .get(usize::from(number))
            .copied()
            .unwrap_or(Entry::Unknown)
    }

    /// The function's name as the program's author writes it.
    pub fn name(self) -> &'static str {
        match self {
            Entry::Unknown => "unknown",
            Entry::Malloc => "malloc",
            Entry::Calloc => "calloc",
            Entry::Realloc => "realloc",
            Entry::ReallocArray => "reallocarray",
            Entry::Memalign => "memalign",
            Entry::AlignedAlloc => "aligned_alloc",
            Entry::PosixMemalign => "posix_memalign",
            Entry::Valloc => "valloc",
            Entry::Pvalloc => "pvalloc",
            Entry::Free => "free",
            Entry::FreeSized => "free_sized",
            Entry::New => "operator new",
            Entry::NewArray => "operator new[]",
            Entry::NewAligned => "operator new (aligned)",
            Entry::NewArrayAligned => "operator new[] (aligned)",
            Entry::Delete => "operator delete",
            Entry::DeleteArray => "operator delete[]",
            Entry::DeleteAligned => "operator delete (aligned)",
            Entry::DeleteArrayAligned => "operator delete[] (aligned)",
            Entry::RustAlloc => "Rust alloc",
            Entry::RustAllocZeroed => "Rust alloc_zeroed",
            Entry::RustRealloc => "Rust realloc",
            Entry::RustDealloc => "Rust dealloc",
        }
    }
}

/// One event, decoded: 72 bytes, so that passes over millions stay cheap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Ticks when the inner call was entered; where latency was off, the key.
    pub start: u64,
    /// Ticks when the inner call had returned; where latency was off, the key.
    pub end: u64,
    /// The block's address; after a reallocation its new one; 0 for a failed allocation.
    pub address: u64,
    /// A reallocation's old address; else 0.
    pub old_address: u64,
    /// Requested size in bytes; 0 for a deallocation.
    pub size: u64,
    /// Usable size in bytes where it was recorded, else 0.
    pub usable: u64,
    /// Ticks that recording this event cost, where it was sampled, else 0.
    pub cost: u32,
    /// The backtrace and entry point; [`StackId::NONE`] where none was taken.
    pub stack: StackId,
    /// The thread that made the call.
    pub thread: ThreadId,
    /// The context that was entered, [`ContextId::NONE`] outside any.
    pub context: ContextId,
    /// The segment that was current.
    pub segment: SegmentId,
    /// What happened.
    pub kind: EventKind,
    /// A deallocation's entry point; for others it belongs to the backtrace.
    pub entry: Entry,
}

const _: () = assert!(size_of::<Event>() == 72);

impl Event {
    /// An event of this kind and time with nothing else set.
    #[inline(always)]
    pub const fn blank(start: u64, end: u64, kind: EventKind) -> Event {
        Event {
            start,
            end,
            address: 0,
            old_address: 0,
            size: 0,
            usable: 0,
            cost: 0,
            stack: StackId::NONE,
            thread: ThreadId(0),
            context: ContextId::NONE,
            segment: SegmentId(0),
            kind,
            entry: Entry::Unknown,
        }
    }

    /// The instant that orders this event: a release's start, an acquisition's end.
    ///
    /// A reallocation releases at [`start`](Event::start) and acquires at the key.
    #[inline]
    pub fn key(&self) -> u64 {
        if self.kind == EventKind::Dealloc {
            self.start
        } else {
            self.end
        }
    }

    /// Ticks that the inner call took; 0 where latency was off.
    #[inline]
    pub fn latency(&self) -> u64 {
        self.end - self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_know_their_numbers() {
        for (number, entry) in Entry::ALL.iter().enumerate() {
            assert_eq!(*entry as usize, number);
            assert_eq!(Entry::from_number(number as u8), *entry);
        }
        assert_eq!(Entry::from_number(200), Entry::Unknown);
    }
}
