//! How a heap finds a page with a free block, and lets go of one without a used block.

use super::core::{Core, OutOfMemory};
use super::heap::NONE_RETIRED;
use super::page::{Delayed, NO_BLOCK};
use super::queue::NIL;
use super::rules::CollectScope;
use super::size_class::{BIN_FULL, BIN_LARGE, class_bytes, good_size};
use super::spans::NoPage;
use crate::page_source::PageSource;

impl<S: PageSource> Core<S> {
    /// A page of a class with a free block: the first of its queue, another one, or fresh.
    pub(crate) fn page_with_space(&mut self, heap: u32, bin: u8) -> Result<u32, OutOfMemory> {
        let first = self.heaps[heap as usize].queues[usize::from(bin)].first;
        if first != NIL {
            let page = &mut self.pages[first];
            page.collect(false);
            if page.free != NO_BLOCK {
                page.retire = 0;
                return Ok(first);
            }
        }
        let found = match self.search(heap, bin) {
            // A page of the class may have come into the queue on the way.
            Err(_) => self.search(heap, bin).map_err(|_| OutOfMemory)?,
            Ok(page) => page,
        };
        Ok(found)
    }

    fn search(&mut self, heap: u32, bin: u8) -> Result<u32, NoPage> {
        if let Some(page) = self.scan(heap, bin) {
            return Ok(page);
        }
        self.collect_retired(heap, false);
        if self.rules.collect_scope == CollectScope::Heap {
            self.collect_pending(heap);
            if let Some(page) = self.scan(heap, bin) {
                return Ok(page);
            }
        }
        self.fresh_page(heap, bin, class_bytes(bin))
    }

    /// Goes through a size queue; pages without a free block go to the full queue.
    fn scan(&mut self, heap: u32, bin: u8) -> Option<u32> {
        let mut next = self.heaps[heap as usize].queues[usize::from(bin)].first;
        while next != NIL {
            let id = next;
            let page = &mut self.pages[id];
            next = page.link.next;
            page.collect(false);
            if page.free == NO_BLOCK {
                page.extend(self.rules.extend_least);
            }
            if page.free != NO_BLOCK {
                page.retire = 0;
                return Some(id);
            }
            self.fill(id);
        }
        None
    }

    /// A page with one block, for a request above the medium limit.
    pub(crate) fn large_page(&mut self, heap: u32, size: u64) -> Result<u32, OutOfMemory> {
        let block_bytes = good_size(size);
        if block_bytes > self.rules.geometry.large_max() {
            return self.huge_page(block_bytes);
        }
        self.fresh_page(heap, BIN_LARGE, block_bytes)
            .map_err(|_| OutOfMemory)
    }

    /// A page fresh from a segment, at the front of its queue.
    fn fresh_page(&mut self, heap: u32, bin: u8, block_bytes: u64) -> Result<u32, NoPage> {
        let id = self.take_page(heap, block_bytes)?;
        let page = &mut self.pages[id];
        page.bin = bin;
        page.heap = heap;
        page.extend(self.rules.extend_least);
        self.push_page(heap, id);
        Ok(id)
    }

    /// A page becomes the first of its class.
    pub(crate) fn push_page(&mut self, heap: u32, page: u32) {
        let bin = self.pages[page].bin;
        let heap = &mut self.heaps[heap as usize];
        heap.queues[usize::from(bin)].push_front(&mut self.pages, page);
        heap.pages += 1;
    }

    /// A page leaves its heap.
    pub(crate) fn unqueue_page(&mut self, page: u32) {
        let (bin, heap) = (self.queue_of(page), self.pages[page].heap);
        let heap = &mut self.heaps[heap as usize];
        heap.queues[usize::from(bin)].remove(&mut self.pages, page);
        heap.pages -= 1;
        let page = &mut self.pages[page];
        (page.heap, page.in_full, page.pending) = (NIL, false, false);
    }

    fn queue_of(&self, page: u32) -> u8 {
        let page = &self.pages[page];
        if page.in_full { BIN_FULL } else { page.bin }
    }

    /// To the end of the full queue.
    fn fill(&mut self, page: u32) {
        self.requeue(page, true);
        self.pages[page].collect(false);
    }

    /// From the full queue to the end of its size queue.
    pub(crate) fn unfill(&mut self, page: u32) {
        self.requeue(page, false);
    }

    fn requeue(&mut self, page: u32, full: bool) {
        let from = usize::from(self.queue_of(page));
        self.pages[page].in_full = full;
        let to = usize::from(self.queue_of(page));
        let heap = &mut self.heaps[self.pages[page].heap as usize];
        heap.queues[from].remove(&mut self.pages, page);
        heap.queues[to].push_back(&mut self.pages, page);
    }

    /// A page has no used block any more: the only one of its class may stay a while.
    pub(crate) fn retire(&mut self, id: u32) {
        let page = &self.pages[id];
        let cycles = self.retire_cycles(page.block_bytes);
        if cycles != 0 && !page.in_full {
            let bin = page.bin;
            let heap = &mut self.heaps[page.heap as usize];
            if heap.queues[usize::from(bin)].is_only(id) {
                heap.retired = (heap.retired.0.min(bin), heap.retired.1.max(bin));
                self.pages[id].retire = cycles;
                return;
            }
        }
        self.free_page(id);
    }

    fn retire_cycles(&self, block_bytes: u64) -> u8 {
        let geometry = &self.rules.geometry;
        match block_bytes {
            bytes if bytes <= geometry.small_max() => self.rules.retire_small,
            bytes if bytes <= geometry.medium_max() => self.rules.retire_medium,
            _ => 0,
        }
    }

    /// One pass over retired pages: those whose time is up are freed, or all if `force`.
    pub(crate) fn collect_retired(&mut self, heap: u32, force: bool) {
        let (low, high) = std::mem::replace(&mut self.heaps[heap as usize].retired, NONE_RETIRED);
        for bin in low..=high {
            let first = self.heaps[heap as usize].queues[usize::from(bin)].first;
            if first == NIL || self.pages[first].retire == 0 {
                continue;
            }
            let page = &mut self.pages[first];
            if !page.all_free() {
                page.retire = 0;
                continue;
            }
            page.retire -= 1;
            if force || page.retire == 0 {
                self.free_page(first);
            } else {
                let heap = &mut self.heaps[heap as usize];
                heap.retired = (heap.retired.0.min(bin), heap.retired.1.max(bin));
            }
        }
    }

    /// Collects every page of a heap that it would change: those that are pending.
    pub(crate) fn collect_pending(&mut self, heap: u32) {
        let mut pending = std::mem::take(&mut self.heaps[heap as usize].pending);
        for &id in &pending {
            let page = &mut self.pages[id];
            if page.heap != heap || !std::mem::take(&mut page.pending) {
                continue;
            }
            page.collect(false);
            if page.all_free() && page.retire == 0 {
                self.retire(id);
            } else if page.in_full && page.free != NO_BLOCK {
                self.unfill(id);
            }
        }
        pending.clear();
        let again = &mut self.heaps[heap as usize].pending;
        if again.is_empty() {
            *again = pending;
        }
    }

    /// What is done before a heap gives up: everything that is free goes back.
    pub(crate) fn collect(&mut self, heap: u32) {
        self.drain_delayed(heap);
        self.collect_retired(heap, true);
        self.visit_pages(heap, |core, page| {
            core.pages[page].collect(true);
            if core.pages[page].all_free() {
                core.free_page(page);
            }
        });
    }

    /// Does something with each page of a heap, class by class, the full ones at the end.
    pub(crate) fn visit_pages(&mut self, heap: u32, mut each: impl FnMut(&mut Core<S>, u32)) {
        for bin in Self::bins() {
            let mut next = self.heaps[heap as usize].queues[bin].first;
            while next != NIL {
                let page = next;
                next = self.pages[page].link.next;
                each(self, page);
            }
        }
    }

    /// A page goes back to its segment.
    pub(crate) fn free_page(&mut self, page: u32) {
        self.unqueue_page(page);
        self.release_page(page);
    }

    /// Marks all pages of a heap so that no block of theirs goes to its list again.
    pub(crate) fn never_delay(&mut self, heap: u32) {
        self.visit_pages(heap, |core, page| core.pages[page].delayed = Delayed::Never);
    }
}
