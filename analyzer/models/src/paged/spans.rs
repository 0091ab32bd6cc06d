//! How pages are cut from segments and come back, and where their memory comes from.

use std::ops::Range;

use super::core::{Core, OutOfMemory};
use super::queue::NIL;
use super::segment::HEADER;
use super::size_class::{BIN_FULL, good_size, span_bin};
use crate::page_source::PageSource;

/// Why there is no fresh page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPage {
    /// A segment was adopted that has a page of the wanted class with space.
    Adopted,
    /// The page source has no memory.
    OutOfMemory,
}

/// What adopting abandoned segments came to.
pub(crate) enum Reclaimed {
    /// A page of the wanted class with space is in its queue now.
    Page,
    /// A segment with a free span that is long enough.
    Span,
    /// Nothing of use.
    Nothing,
}

impl<S: PageSource> Core<S> {
    /// A page for blocks of `block_bytes`, in no queue yet.
    pub(crate) fn take_page(&mut self, heap: u32, block_bytes: u64) -> Result<u32, NoPage> {
        let slices = self.rules.geometry.page_slices(block_bytes);
        let span = loop {
            if let Some(span) = self.find_span(heap, slices) {
                break span;
            }
            match self.reclaim(heap, slices, block_bytes) {
                Reclaimed::Page => return Err(NoPage::Adopted),
                Reclaimed::Span => {}
                Reclaimed::Nothing => self.new_segment(heap).map_err(|_| NoPage::OutOfMemory)?,
            }
        };
        let (segment, first) = self.segments.of_span(span);
        self.split_span(segment, first, slices);
        if !self.commit(segment, first..first + slices) {
            self.free_span(segment, first);
            if self.segments[segment].used == 0 {
                self.free_segment(segment);
            }
            return Err(NoPage::OutOfMemory);
        }
        self.segments[segment].used += 1;
        self.purge_if_due(segment, false);
        Ok(self.make_page(segment, first, slices, block_bytes))
    }

    fn make_page(&mut self, segment: u32, first: u32, slices: u32, block_bytes: u64) -> u32 {
        let slice_bytes = self.rules.geometry.slice_bytes;
        let id = self.pages.take();
        let it = &mut self.segments[segment];
        let offset = self.rules.offset(block_bytes);
        let start = it.base + u64::from(first) * slice_bytes + offset;
        it.set_tile(first, slices, id);
        let page = &mut self.pages[id];
        page.reset(start, u64::from(slices) * slice_bytes - offset, block_bytes);
        (page.segment, page.first_slice, page.slices) = (segment, first, slices);
        id
    }

    /// The first free span of a heap with `slices` slices or more, out of its queue.
    fn find_span(&mut self, heap: u32, slices: u32) -> Option<u32> {
        for bin in span_bin(slices)..self.rules.geometry.span_bins() {
            let mut span = self.heaps[heap as usize].spans[bin].first;
            while span != NIL {
                let (segment, first) = self.segments.of_span(span);
                if self.segments[segment].tile(first).count >= slices {
                    self.unqueue_span(segment, first);
                    return Some(span);
                }
                span = self.segments.next(span);
            }
        }
        None
    }

    /// Cuts a span that is in no queue down to `slices`; the rest becomes a span.
    fn split_span(&mut self, segment: u32, first: u32, slices: u32) {
        let count = self.segments[segment].tile(first).count;
        if count > slices {
            self.put_span(segment, first + slices, count - slices);
            self.segments[segment].set_tile(first, slices, NIL);
        }
    }

    fn unqueue_span(&mut self, segment: u32, first: u32) {
        let it = &mut self.segments[segment];
        let tile = it.tile_mut(first);
        if std::mem::take(&mut tile.queued) {
            let (bin, owner) = (span_bin(tile.count), it.owner);
            let span = self.segments.span(segment, first);
            self.heaps[owner as usize].spans[bin].remove(&mut self.segments, span);
        }
    }

    /// A span becomes free as it is: its memory is to go, and it is first in its queue.
    fn put_span(&mut self, segment: u32, first: u32, count: u32) {
        self.schedule_purge(segment, first..first + count);
        let it = &mut self.segments[segment];
        it.set_tile(first, count, NIL);
        if it.owner == NIL {
            return;
        }
        it.tile_mut(first).queued = true;
        let owner = it.owner as usize;
        let span = self.segments.span(segment, first);
        self.heaps[owner].spans[span_bin(count)].push_front(&mut self.segments, span);
    }

    /// A tile becomes free, together with free spans beside it. Gives back where it begins.
    pub(crate) fn free_span(&mut self, segment: u32, first: u32) -> u32 {
        let slices = self.rules.geometry.slices();
        let (mut start, mut count) = (first, self.segments[segment].tile(first).count);
        let after = first + count;
        if after < slices && self.segments[segment].tile(after).page == NIL {
            self.unqueue_span(segment, after);
            count += self.segments[segment].tile(after).count;
        }
        let before = self.segments[segment].tile_before(first);
        if self.segments[segment].tile(before).page == NIL {
            self.unqueue_span(segment, before);
            count += first - before;
            start = before;
        }
        self.put_span(segment, start, count);
        start
    }

    /// A page that is in no queue goes back to its segment, and the segment perhaps too.
    pub(crate) fn release_page(&mut self, page: u32) {
        let segment = self.pages[page].segment;
        self.clear_page(page);
        let it = &self.segments[segment];
        if it.used == 0 {
            self.free_segment(segment);
        } else if it.used == it.abandoned {
            self.abandon_segment(segment);
        }
    }

    /// A page's slices become free. Gives back where the span begins.
    pub(crate) fn clear_page(&mut self, page: u32) -> u32 {
        let (segment, first) = (self.pages[page].segment, self.pages[page].first_slice);
        self.pages.give_back(page);
        self.segments[segment].used -= 1;
        self.free_span(segment, first)
    }

    /// A segment for a heap: one from the cache, or address space.
    fn new_segment(&mut self, heap: u32) -> Result<(), OutOfMemory> {
        let geometry = self.rules.geometry;
        let segment = match self.cache.pop() {
            Some(cached) => cached,
            None => self.reserve_segment(heap)?,
        };
        let header = geometry.header_slices();
        if !self.commit(segment, 0..header) {
            self.drop_segment(segment);
            return Err(OutOfMemory);
        }
        let it = &mut self.segments[segment];
        (it.owner, it.used, it.abandoned, it.visits, it.cached) = (heap, 0, 0, 0, false);
        it.set_tile(0, header, HEADER);
        self.tally.headers += u64::from(header) * geometry.slice_bytes;
        self.heaps[heap as usize].segments += 1;
        self.put_span(segment, header, geometry.slices() - header);
        Ok(())
    }

    fn reserve_segment(&mut self, heap: u32) -> Result<u32, OutOfMemory> {
        let geometry = self.rules.geometry;
        let bytes = geometry.segment_bytes;
        let base = self.source.reserve(bytes, bytes).ok_or(OutOfMemory)?;
        self.tally.os.reserve += 1;
        self.tally.reserved += bytes;
        let segment = self.segments.take();
        self.segments[segment].reset(base, bytes, &geometry, false);
        if self.commits_eagerly(heap) && !self.commit(segment, 0..geometry.slices()) {
            self.drop_segment(segment);
            return Err(OutOfMemory);
        }
        Ok(segment)
    }

    fn commits_eagerly(&self, heap: u32) -> bool {
        let rules = &self.rules;
        let young = self.heaps[heap as usize].segments < rules.eager_commit_delay;
        let delayed = young && !rules.overcommit && self.running_threads() > 2;
        rules.eager_commit && !delayed
    }

    /// A page in a segment of its own, with memory throughout.
    pub(crate) fn huge_page(&mut self, block_bytes: u64) -> Result<u32, OutOfMemory> {
        let geometry = self.rules.geometry;
        let header = geometry.header_slices();
        let header_bytes = u64::from(header) * geometry.slice_bytes;
        let bytes = (block_bytes + header_bytes).next_multiple_of(geometry.slice_bytes);
        let base = self
            .source
            .reserve(bytes, geometry.segment_bytes)
            .ok_or(OutOfMemory)?;
        if !self.source.commit(base, bytes) {
            self.source.release(base, bytes);
            return Err(OutOfMemory);
        }
        self.tally.os.reserve += 1;
        self.tally.os.commit += 1;
        self.tally.reserved += bytes;
        self.tally.headers += header_bytes;
        self.tally.drift += good_size(bytes) - bytes;
        self.committed(bytes);
        let (segment, id) = (self.segments.take(), self.pages.take());
        let it = &mut self.segments[segment];
        it.reset(base, bytes, &geometry, true);
        (it.used, it.huge_page) = (1, id);
        let page = &mut self.pages[id];
        page.reset(base + header_bytes, bytes - header_bytes, block_bytes);
        (page.segment, page.bin) = (segment, BIN_FULL);
        page.extend(1);
        Ok(id)
    }

    /// A page with a segment of its own goes back at once.
    #[cold]
    pub(crate) fn free_huge(&mut self, page: u32) {
        let segment = self.pages[page].segment;
        self.pages.give_back(page);
        let geometry = &self.rules.geometry;
        let header_bytes = u64::from(geometry.header_slices()) * geometry.slice_bytes;
        self.tally.headers -= header_bytes;
        let (base, bytes) = (self.segments[segment].base, self.segments[segment].bytes);
        if bytes == geometry.segment_bytes {
            // It is as long as any other, and can be used again as one.
            let it = &mut self.segments[segment];
            it.reset(base, bytes, geometry, false);
            it.commit.insert(0..geometry.slices());
            self.keep_or_drop(segment);
            return;
        }
        self.tally.committed -= bytes;
        self.tally.reserved -= bytes;
        self.tally.os.release += 1;
        self.source.decommit(base, bytes);
        self.source.release(base, bytes);
        self.segments.give_back(segment);
    }

    /// A segment without a page goes to the cache, or back.
    pub(crate) fn free_segment(&mut self, segment: u32) {
        self.unqueue_spans(segment);
        self.segments[segment].owner = NIL;
        let geometry = &self.rules.geometry;
        self.tally.headers -= u64::from(geometry.header_slices()) * geometry.slice_bytes;
        self.keep_or_drop(segment);
    }

    /// Takes all free spans of a segment out of their queues.
    pub(crate) fn unqueue_spans(&mut self, segment: u32) {
        let mut first = 0;
        while first < self.rules.geometry.slices() {
            self.unqueue_span(segment, first);
            first += self.segments[segment].tile(first).count;
        }
    }

    fn keep_or_drop(&mut self, segment: u32) {
        let now = self.now();
        if self.rules.allow_decommit && self.rules.cache_slots > 0 {
            let due: Vec<u32> = self.cache.expired(now).collect();
            for cached in due {
                self.decommit_all(cached);
            }
        }
        let delay = self.rules.segment_decommit_delay;
        let goes = self.rules.allow_decommit && !self.segments[segment].commit.is_empty();
        let expire = if goes && delay > 0 { now + delay } else { 0 };
        if !self.cache.push(segment, expire) {
            self.drop_segment(segment);
            return;
        }
        self.segments[segment].cached = true;
        if goes && delay == 0 {
            self.decommit_all(segment);
        }
    }

    /// Takes the memory from a whole segment.
    fn decommit_all(&mut self, segment: u32) {
        let slices = self.rules.geometry.slices();
        self.decommit(segment, 0..slices);
        self.segments[segment].purge.reset(slices);
    }

    /// Gives a segment's memory and addresses back.
    fn drop_segment(&mut self, segment: u32) {
        let calls = self.tally.os.decommit;
        self.decommit_all(segment);
        // One request takes both.
        self.tally.os.decommit = calls;
        self.tally.os.release += 1;
        let (base, bytes) = (self.segments[segment].base, self.segments[segment].bytes);
        self.tally.reserved -= bytes;
        self.source.release(base, bytes);
        self.segments.give_back(segment);
    }

    /// Empties the cache.
    pub(crate) fn drop_cache(&mut self) {
        while let Some(segment) = self.cache.pop() {
            self.segments[segment].cached = false;
            self.drop_segment(segment);
        }
    }

    /// Puts memory behind slices; false if there is none, and then nothing has changed.
    fn commit(&mut self, segment: u32, slices: Range<u32>) -> bool {
        let now = self.now();
        let slice_bytes = self.rules.geometry.slice_bytes;
        if self.segments[segment].commit.count_in(slices.clone()) < slices.len() as u32 {
            let it = &self.segments[segment];
            let mut from = slices.start;
            while let Some(run) = it.commit.next_run(from..slices.end, false) {
                let (address, bytes) = extent(it.base, &run, slice_bytes);
                if !self.source.commit(address, bytes) {
                    self.uncommit(segment, slices.start..run.start);
                    return false;
                }
                from = run.end;
            }
            let new = self.segments[segment].commit.insert(slices.clone());
            self.tally.os.commit += 1;
            self.committed(u64::from(new) * slice_bytes);
        }
        let it = &mut self.segments[segment];
        if !it.purge.is_empty() && it.purge.remove(slices) > 0 {
            it.purge_at = now + self.rules.reset_delay;
        }
        true
    }

    /// Takes back what [`Core::commit`] got for slices that it has not entered.
    fn uncommit(&mut self, segment: u32, slices: Range<u32>) {
        let slice_bytes = self.rules.geometry.slice_bytes;
        let it = &self.segments[segment];
        let mut from = slices.start;
        while let Some(run) = it.commit.next_run(from..slices.end, false) {
            let (address, bytes) = extent(it.base, &run, slice_bytes);
            self.source.decommit(address, bytes);
            from = run.end;
        }
    }

    /// Takes the memory from those of some slices that have any.
    fn decommit(&mut self, segment: u32, slices: Range<u32>) {
        let slice_bytes = self.rules.geometry.slice_bytes;
        let it = &mut self.segments[segment];
        let mut from = slices.start;
        while let Some(run) = it.commit.next_run(from..slices.end, true) {
            let (address, bytes) = extent(it.base, &run, slice_bytes);
            self.source.decommit(address, bytes);
            from = run.end;
        }
        let gone = it.commit.remove(slices.clone());
        it.purge.remove(slices);
        self.tally.committed -= u64::from(gone) * slice_bytes;
        self.tally.os.decommit += u64::from(gone > 0);
    }

    /// The memory of a free span is to go. Each span that becomes free puts the time off.
    fn schedule_purge(&mut self, segment: u32, slices: Range<u32>) {
        if !self.rules.allow_decommit {
            return;
        }
        if self.rules.reset_delay == 0 {
            self.decommit(segment, slices);
            return;
        }
        let purge_at = self.now() + self.rules.reset_delay;
        let it = &mut self.segments[segment];
        it.purge.insert_common(&it.commit, slices);
        it.purge_at = purge_at;
    }

    /// Takes the memory that is to go, if it is time or `force`.
    pub(crate) fn purge_if_due(&mut self, segment: u32, force: bool) {
        let now = self.now();
        let slices = self.rules.geometry.slices();
        let it = &self.segments[segment];
        if it.purge.is_empty() || !(force || now >= it.purge_at) {
            return;
        }
        while let Some(run) = self.segments[segment].purge.next_run(0..slices, true) {
            self.decommit(segment, run);
        }
    }
}

/// Address and length in bytes of a run of slices.
fn extent(base: u64, run: &Range<u32>, slice_bytes: u64) -> (u64, u64) {
    (
        base + u64::from(run.start) * slice_bytes,
        run.len() as u64 * slice_bytes,
    )
}
