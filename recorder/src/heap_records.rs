//! What becomes a record of a heap that the game announced.

use crate::backtrace::{CallSite, Request};
use crate::os::clock;
use crate::text::cut;
use crate::thread;
use heapreel_format::{Definition, Entry, HeapId, HeapKind, Rare, StackId};
use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Longest name in bytes; longer ones are cut.
const MAX_NAME_BYTES: usize = 512;

/// Numbers of heaps are never used again within a recording: a destroyed heap and a later
/// one of the same name are two.
static NEXT: AtomicU32 = AtomicU32::new(1);

/// What a game says of one of its heaps. Addresses and sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub enum HeapDeed {
    /// It holds this memory from now on.
    Range {
        /// First address.
        address: u64,
        /// How much.
        length: u64,
    },
    /// It has handed out a block.
    Alloc {
        /// Where.
        address: u64,
        /// Requested size.
        size: u64,
    },
    /// It has changed a block.
    Realloc {
        /// Where it was.
        old_address: u64,
        /// Where it is.
        address: u64,
        /// Requested size.
        size: u64,
    },
    /// It is about to take a block back.
    Free {
        /// Which.
        address: u64,
    },
    /// It is about to take all blocks back at once.
    Reset,
    /// It is about to give up its memory.
    Destroy,
}

/// A new recording knows no heaps.
pub(crate) fn forget() {
    NEXT.store(1, Relaxed);
}

/// Defines a heap, and gives it a number.
pub(crate) fn create(name: &str, kind: HeapKind, parent: HeapId, budget: u64) -> HeapId {
    let id = HeapId(NEXT.fetch_add(1, Relaxed));
    thread::define(&Definition::Heap {
        id,
        name: Cow::Borrowed(cut(name, MAX_NAME_BYTES)),
        kind,
        parent,
        budget,
    });
    id
}

/// Publishes what the caller's caller has said of a heap.
///
/// A block's backtrace begins at the function that called the one which calls this, so that
/// one must not be inlined.
#[inline(never)]
pub(crate) fn publish(heap: HeapId, deed: HeapDeed) {
    thread::with_mine(|state, level| {
        let stack = match deed {
            HeapDeed::Alloc { .. } | HeapDeed::Realloc { .. } => {
                let request = Request::new(Entry::Unknown, 0);
                let sought = state.seek_backtrace(level, request, CallSite::UNKNOWN);
                state.stack_id(level, &sought)
            }
            _ => StackId::NONE,
        };
        state.publish_rare(level, clock::end(), &record(heap, deed, stack));
    });
}

fn record(heap: HeapId, deed: HeapDeed, stack: StackId) -> Rare {
    match deed {
        HeapDeed::Range { address, length } => Rare::HeapRange {
            heap,
            address,
            length,
        },
        HeapDeed::Alloc { address, size } => Rare::HeapAlloc {
            heap,
            address,
            size,
            stack,
        },
        HeapDeed::Realloc {
            old_address,
            address,
            size,
        } => Rare::HeapRealloc {
            heap,
            old_address,
            address,
            size,
            stack,
        },
        HeapDeed::Free { address } => Rare::HeapFree { heap, address },
        HeapDeed::Reset => Rare::HeapReset { heap },
        HeapDeed::Destroy => Rare::HeapDestroy { heap },
    }
}
