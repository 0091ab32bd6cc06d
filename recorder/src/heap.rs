//! Heaps of the game's own above the allocator: arenas, pools, memory of the graphics
//! processor.

use crate::told;
use crate::told::HeapDeed;

pub use heapreel_format::HeapKind;

/// A heap of the game's own, announced so that its blocks are known one by one and not as
/// the one great block that the allocator gave it.
///
/// Say what it does where it does it: a block behind its being handed out and before its
/// being taken back, so that no other thread can be given it in between. While nothing is
/// recorded each call costs a load and a branch; a heap that was announced then stays
/// unknown.
///
/// ```
/// use heapreel::{Heap, HeapKind};
///
/// struct FrameArena { memory: Vec<u8>, used: usize, heap: Heap }
///
/// impl FrameArena {
///     fn new(bytes: usize) -> FrameArena {
///         let memory = vec![0; bytes];
///         let heap = Heap::named("frame arena")
///             .kind(HeapKind::Arena)
///             .budget(bytes as u64)
///             .announce();
///         heap.range(memory.as_ptr() as u64, bytes as u64);
///         FrameArena { memory, used: 0, heap }
///     }
///
///     fn allocate(&mut self, bytes: usize) -> Option<*mut u8> {
///         let block = self.memory.get_mut(self.used..self.used + bytes)?.as_mut_ptr();
///         self.used += bytes;
///         self.heap.allocated(block as u64, bytes as u64);
///         Some(block)
///     }
///
///     fn reset(&mut self) {
///         self.heap.reset();
///         self.used = 0;
///     }
/// }
///
/// let mut arena = FrameArena::new(64 << 10);
/// arena.allocate(100).unwrap();
/// arena.reset();
/// ```
#[derive(Debug)]
pub struct Heap {
    /// As the recorder told it; 0 is none.
    number: u64,
}

/// What a heap is to be announced as; see [`Heap::named`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a heap is announced by `announce`"]
pub struct HeapAnnouncement<'a> {
    name: &'a str,
    kind: HeapKind,
    parent: u64,
    budget: u64,
}

impl HeapAnnouncement<'_> {
    /// What kind of heap; [`HeapKind::General`] where nothing is said.
    pub fn kind(mut self, kind: HeapKind) -> Self {
        self.kind = kind;
        self
    }

    /// The heap that it takes its memory from. Its blocks are then within a block of the
    /// parent's, and counted once.
    pub fn parent(mut self, parent: &Heap) -> Self {
        self.parent = parent.number;
        self
    }

    /// The most that its blocks should ever take together, in bytes.
    pub fn budget(mut self, bytes: u64) -> Self {
        self.budget = bytes;
        self
    }

    /// Announces it.
    pub fn announce(self) -> Heap {
        let number = if told::recording() {
            told::create_heap(self.name, self.kind, self.parent, self.budget)
        } else {
            0
        };
        Heap { number }
    }
}

impl Heap {
    /// A heap of this name, to be described further and then announced. Of the name the
    /// first 512 bytes count.
    pub fn named(name: &str) -> HeapAnnouncement<'_> {
        HeapAnnouncement {
            name,
            kind: HeapKind::General,
            parent: 0,
            budget: 0,
        }
    }

    /// It holds `bytes` at `address` from now on; a heap may hold several ranges. Addresses
    /// in a range are known to be the heap's even where it has no block.
    #[inline(never)]
    pub fn range(&self, address: u64, bytes: u64) {
        self.tell(HeapDeed::Range {
            address,
            length: bytes,
        });
    }

    /// It has handed out a block, of which `bytes` were asked for.
    #[inline(never)]
    pub fn allocated(&self, address: u64, bytes: u64) {
        self.tell(HeapDeed::Alloc {
            address,
            size: bytes,
        });
    }

    /// It has made a block as large as `bytes`, at the same address or another.
    #[inline(never)]
    pub fn reallocated(&self, old_address: u64, address: u64, bytes: u64) {
        self.tell(HeapDeed::Realloc {
            old_address,
            address,
            size: bytes,
        });
    }

    /// It is about to take the block back.
    #[inline(never)]
    pub fn freed(&self, address: u64) {
        self.tell(HeapDeed::Free { address });
    }

    /// It is about to take all of its blocks back at once.
    #[inline(never)]
    pub fn reset(&self) {
        self.tell(HeapDeed::Reset);
    }

    /// It is about to give up its memory: blocks that it still has are left over.
    #[inline(never)]
    pub fn destroyed(self) {
        self.tell(HeapDeed::Destroy);
    }

    #[inline(always)]
    fn tell(&self, deed: HeapDeed) {
        if self.number != 0 && told::recording() {
            told::heap(self.number, deed);
        }
    }
}
