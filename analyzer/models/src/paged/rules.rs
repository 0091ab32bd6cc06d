//! What allocators of this kind differ in.

use super::Geometry;

/// How blocks come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeMode {
    /// To the page at once by the page's own thread, through lists by any other.
    Direct,
    /// Always through the owning heap's release queue, which each of its allocations works
    /// off by at most so many blocks.
    ReleaseQueue {
        /// Most blocks an allocation works off.
        steps: u32,
    },
}

/// Which pages are looked through for returned blocks before a fresh page is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectScope {
    /// Those that the search came past.
    Visited,
    /// All of the heap's, full ones too.
    Heap,
}

/// What is left behind by a thread that exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abandon {
    /// Its segments, for other heaps to adopt.
    Segments,
    /// Its heap, until a tick finds it empty.
    Heaps,
}

/// The rules that the core goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How segments are cut up.
    pub geometry: Geometry,
    /// Put memory behind a whole segment when it is reserved.
    pub eager_commit: bool,
    /// So many of a thread's first segments are exempt from `eager_commit` where the system
    /// does not overcommit and more than two threads run.
    pub eager_commit_delay: u32,
    /// Whether the operating system overcommits.
    pub overcommit: bool,
    /// Memory of free spans and cached segments is given back at all.
    pub allow_decommit: bool,
    /// Milliseconds that a free span keeps its memory; 0: none.
    pub reset_delay: u64,
    /// Milliseconds that a cached segment keeps its memory; 0: none.
    pub segment_decommit_delay: u64,
    /// Free segments that are kept for all threads.
    pub cache_slots: u32,
    /// Passes that an empty page for small blocks is kept for; 0: freed at once.
    pub retire_small: u8,
    /// Passes that an empty page for medium blocks is kept for; 0: freed at once.
    pub retire_medium: u8,
    /// Which pages are collected before a fresh one is taken.
    pub collect_scope: CollectScope,
    /// How blocks come back.
    pub free_mode: FreeMode,
    /// What an exiting thread leaves behind.
    pub abandon: Abandon,
    /// Bytes that a thread's own block takes from the system.
    pub thread_block: u64,
    /// The thread that has its block in the program itself, if any has.
    pub main_thread: Option<u32>,
    /// Bytes before the first block of a page, for blocks of 8 to 1024 bytes.
    pub page_offset: u64,
    /// Fewest blocks that a page hands over at a time.
    pub extend_least: u32,
    /// Abandoned segments that are looked at before a fresh one is taken.
    pub reclaim_tries: u32,
    /// An abandoned segment is adopted after so many looks in any case.
    pub reclaim_visits: u32,
    /// Largest alignment in bytes.
    pub align_max: u64,
}

impl Rules {
    /// mimalloc 2.0.3 with its options at their defaults on Linux, x86-64.
    pub const STOCK: Rules = Rules {
        geometry: Geometry::STOCK,
        eager_commit: true,
        eager_commit_delay: 1,
        overcommit: true,
        allow_decommit: true,
        reset_delay: 25,
        segment_decommit_delay: 500,
        cache_slots: 1024,
        retire_small: 9,
        retire_medium: 3,
        collect_scope: CollectScope::Visited,
        free_mode: FreeMode::Direct,
        abandon: Abandon::Segments,
        thread_block: 8 << 10,
        main_thread: None,
        page_offset: 128,
        extend_least: 1,
        reclaim_tries: 8,
        reclaim_visits: 3,
        align_max: 1 << 20,
    };

    /// Bytes before the first block of a page for blocks of `block_bytes`.
    pub(crate) fn offset(&self, block_bytes: u64) -> u64 {
        match block_bytes {
            8..=1024 => self.page_offset,
            _ => 0,
        }
    }
}
