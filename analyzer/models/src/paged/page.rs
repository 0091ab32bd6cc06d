//! A page: a run of slices in use for blocks of one size.

use super::queue::{Link, Links, NIL};

/// No block.
pub(crate) const NO_BLOCK: u16 = u16::MAX;

/// Where a block that another thread frees goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Delayed {
    /// To the heap's list, so that the owner learns of it.
    #[default]
    Use,
    /// To the page's own list: the heap's has one already.
    No,
    /// To the page's own list: nobody owns the page.
    Never,
}

/// A page. Its lists go through `links`, one entry a block handed over to the page so far.
///
/// PERF: what each call touches comes first and fills one line of the processor's cache.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Page {
    links: Vec<u16>,
    /// Address of the first block.
    pub(crate) start: u64,
    pub(crate) block_bytes: u64,
    /// Blocks not in `free` and `local`, and not yet to be given out.
    pub(crate) used: u32,
    /// The heap it belongs to, or `NIL`.
    pub(crate) heap: u32,
    /// Blocks given back that wait in a release queue.
    pub(crate) queued: u32,
    /// Blocks to give out.
    pub(crate) free: u16,
    /// Blocks that came back and wait for `free` to run dry.
    pub(crate) local: u16,
    pub(crate) bin: u8,
    pub(crate) in_full: bool,
    /// Passes over retired pages that it may still stay empty for; 0: not retired.
    pub(crate) retire: u8,
    /// In the heap's list of pages that a collection could change.
    pub(crate) pending: bool,
    pub(crate) delayed: Delayed,
    /// Blocks that other threads gave back: the last of them first.
    remote: u16,
    remote_last: u16,
    remote_count: u16,
    /// Blocks given to the lists so far.
    pub(crate) capacity: u32,
    /// Blocks that fit.
    pub(crate) reserved: u32,
    pub(crate) segment: u32,
    pub(crate) first_slice: u32,
    pub(crate) slices: u32,
    pub(crate) link: Link,
}

const _: () = assert!(size_of::<Page>() == 128);

impl Page {
    /// Makes an empty page of it; the caller fills in where it lies.
    pub(crate) fn reset(&mut self, start: u64, bytes: u64, block_bytes: u64) {
        let mut links = std::mem::take(&mut self.links);
        links.clear();
        *self = Page {
            free: NO_BLOCK,
            local: NO_BLOCK,
            remote: NO_BLOCK,
            remote_last: NO_BLOCK,
            start,
            block_bytes,
            reserved: (bytes / block_bytes).max(1) as u32,
            links,
            heap: NIL,
            ..Page::default()
        };
    }

    /// Takes the next free block.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u16> {
        let block = self.free;
        if block == NO_BLOCK {
            return None;
        }
        self.free = self.links[usize::from(block)];
        self.used += 1;
        Some(block)
    }

    /// Takes back a block from the page's own heap.
    #[inline]
    pub(crate) fn push_local(&mut self, block: u16) {
        self.links[usize::from(block)] = self.local;
        self.local = block;
        self.used -= 1;
    }

    /// Takes back a block from elsewhere; it counts as used until collected.
    pub(crate) fn push_remote(&mut self, block: u16) {
        self.links[usize::from(block)] = self.remote;
        if self.remote == NO_BLOCK {
            self.remote_last = block;
        }
        self.remote = block;
        self.remote_count += 1;
    }

    /// Brings back what came in: from elsewhere to `local`, and `local` to `free` if that
    /// is empty, or in front of it if `force`.
    pub(crate) fn collect(&mut self, force: bool) {
        if self.remote != NO_BLOCK {
            self.links[usize::from(self.remote_last)] = self.local;
            self.local = self.remote;
            self.remote = NO_BLOCK;
            self.used -= u32::from(std::mem::take(&mut self.remote_count));
        }
        if self.local == NO_BLOCK {
            return;
        }
        if self.free != NO_BLOCK {
            if !force {
                return;
            }
            let last = self.walk(self.local).last().unwrap_or(self.local);
            self.links[usize::from(last)] = self.free;
        }
        self.free = self.local;
        self.local = NO_BLOCK;
    }

    /// Hands over the next blocks, in address order: 4 KiB of them, or one.
    pub(crate) fn extend(&mut self, least: u32) {
        if self.free != NO_BLOCK || self.capacity >= self.reserved {
            return;
        }
        let wanted = (EXTEND_BYTES / self.block_bytes).max(u64::from(least)) as u32;
        let end = self.reserved.min(self.capacity + wanted);
        self.free = self.capacity as u16;
        self.links
            .extend((self.capacity + 1..end).map(|next| next as u16));
        self.links.push(NO_BLOCK);
        self.capacity = end;
    }

    pub(crate) fn all_free(&self) -> bool {
        self.used == 0
    }

    /// Whether a block could be had from it.
    pub(crate) fn has_any(&self) -> bool {
        self.used < self.reserved || self.remote != NO_BLOCK
    }

    /// Blocks that other threads gave back and that nobody collected.
    pub(crate) fn remote_count(&self) -> u32 {
        u32::from(self.remote_count)
    }

    /// Address of a block.
    #[inline]
    pub(crate) fn address(&self, block: u16) -> u64 {
        self.start + u64::from(block) * self.block_bytes
    }

    /// Blocks in `free` and `local`.
    pub(crate) fn free_blocks(&self) -> impl Iterator<Item = u16> + '_ {
        self.walk(self.free).chain(self.walk(self.local))
    }

    /// Blocks that other threads gave back.
    pub(crate) fn remote_blocks(&self) -> impl Iterator<Item = u16> + '_ {
        self.walk(self.remote)
    }

    fn walk(&self, first: u16) -> impl Iterator<Item = u16> + '_ {
        let some = |block: u16| (block != NO_BLOCK).then_some(block);
        std::iter::successors(some(first), move |block| {
            some(self.links[usize::from(*block)])
        })
    }
}

/// Bytes of blocks that a page hands over at a time.
const EXTEND_BYTES: u64 = 4096;

/// All pages, by number; numbers are used again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pages {
    all: Vec<Page>,
    unused: Vec<u32>,
}

impl Pages {
    /// A number for a new page.
    pub(crate) fn take(&mut self) -> u32 {
        self.unused.pop().unwrap_or_else(|| {
            self.all.push(Page::default());
            (self.all.len() - 1) as u32
        })
    }

    /// How many numbers were ever given out.
    pub(crate) fn numbers(&self) -> usize {
        self.all.len()
    }

    /// A page is gone.
    pub(crate) fn give_back(&mut self, page: u32) {
        self.unused.push(page);
    }
}

impl std::ops::Index<u32> for Pages {
    type Output = Page;

    #[inline]
    fn index(&self, page: u32) -> &Page {
        &self.all[page as usize]
    }
}

impl std::ops::IndexMut<u32> for Pages {
    #[inline]
    fn index_mut(&mut self, page: u32) -> &mut Page {
        &mut self.all[page as usize]
    }
}

impl Links for Pages {
    fn link(&mut self, page: u32) -> &mut Link {
        &mut self[page].link
    }
}
