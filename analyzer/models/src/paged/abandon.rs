//! What threads leave behind, and who takes it over.

use super::core::Core;
use super::heap::HeapState;
use super::page::Delayed;
use super::queue::NIL;
use super::rules::FreeMode;
use super::segment::HEADER;
use super::spans::Reclaimed;
use crate::model::Moment;
use crate::page_source::PageSource;

impl<S: PageSource> Core<S> {
    /// A thread exits and leaves its segments to others: what is free goes back first.
    pub(crate) fn leave_segments(&mut self, at: &Moment) {
        let Some(heap) = self.unbind(at) else { return };
        self.never_delay(heap);
        self.drain_delayed(heap);
        self.work_off_steps(heap, u32::MAX);
        self.collect_retired(heap, true);
        self.visit_pages(heap, |core, page| {
            core.pages[page].collect(true);
            if core.pages[page].all_free() {
                core.free_page(page);
            } else {
                core.abandon_page(page);
            }
        });
        self.remove_heap(heap);
    }

    /// A thread exits and leaves its heap: what is free goes back, and the heap too if that
    /// is all.
    pub(crate) fn leave_heap(&mut self, at: &Moment) {
        let Some(heap) = self.unbind(at) else { return };
        self.heaps[heap as usize].state = HeapState::Abandoned(at.frame);
        if !self.tidy_heap(heap) {
            self.left_heaps.push(heap);
        }
    }

    /// Frees all that is free, in every heap and segment: before a request fails.
    pub(crate) fn tidy_everything(&mut self) {
        self.tidy_left_heaps(usize::MAX);
        for heap in 0..self.heaps.len() as u32 {
            if self.heaps[heap as usize].state != HeapState::Unused {
                self.work_off_steps(heap, u32::MAX);
                self.collect(heap);
            }
        }
        self.drop_cache();
        for segment in 0..self.segments.numbers() {
            let it = &self.segments[segment];
            if it.live && !it.huge {
                self.purge_if_due(segment, true);
            }
        }
    }

    /// Tidies the first `limit` of the heaps that were left; those that stay go to the end.
    pub(crate) fn tidy_left_heaps(&mut self, limit: usize) {
        let rest = self.left_heaps.split_off(limit.min(self.left_heaps.len()));
        let now = std::mem::replace(&mut self.left_heaps, rest);
        for heap in now {
            if !self.tidy_heap(heap) {
                self.left_heaps.push(heap);
            }
        }
    }

    /// Frees what is free in a heap without a thread; true if the heap is gone.
    fn tidy_heap(&mut self, heap: u32) -> bool {
        self.work_off_steps(heap, u32::MAX);
        if self.rules.free_mode == FreeMode::Direct || self.heaps[heap as usize].retired.1 != 0 {
            self.collect(heap);
        }
        let gone = self.heaps[heap as usize].pages == 0;
        if gone {
            self.remove_heap(heap);
        }
        gone
    }

    /// A page's thread is gone; the segment follows when all its pages have.
    fn abandon_page(&mut self, page: u32) {
        self.unqueue_page(page);
        let segment = self.pages[page].segment;
        let it = &mut self.segments[segment];
        it.abandoned += 1;
        if it.abandoned == it.used {
            self.abandon_segment(segment);
        }
    }

    /// A segment leaves its heap and waits for another one.
    pub(crate) fn abandon_segment(&mut self, segment: u32) {
        self.unqueue_spans(segment);
        self.purge_if_due(segment, false);
        let it = &mut self.segments[segment];
        (it.owner, it.visits) = (NIL, 1);
        self.abandoned.push(segment);
    }

    /// Looks at abandoned segments until one is of use for a page of `slices` slices.
    pub(crate) fn reclaim(&mut self, heap: u32, slices: u32, block_bytes: u64) -> Reclaimed {
        for _ in 0..self.rules.reclaim_tries {
            let Some(segment) = self.next_abandoned() else {
                break;
            };
            let has_page = self.tidy_segment(segment, slices, block_bytes);
            let it = &mut self.segments[segment];
            it.visits += 1;
            if it.used == 0 {
                self.free_segment(segment);
            } else if has_page {
                return match self.adopt(segment, heap, block_bytes) {
                    true => Reclaimed::Page,
                    false => Reclaimed::Span,
                };
            } else if it.visits > self.rules.reclaim_visits {
                self.adopt(segment, heap, 0);
            } else {
                self.purge_if_due(segment, true);
                self.visited.push(segment);
            }
        }
        Reclaimed::Nothing
    }

    fn next_abandoned(&mut self) -> Option<u32> {
        if self.abandoned.is_empty() {
            std::mem::swap(&mut self.abandoned, &mut self.visited);
        }
        self.abandoned.pop()
    }

    /// Frees the pages of an abandoned segment that became empty. Whether it has a free span
    /// of `slices` slices, or a page for blocks of `block_bytes` with space.
    fn tidy_segment(&mut self, segment: u32, slices: u32, block_bytes: u64) -> bool {
        let mut has_page = false;
        let mut first = 0;
        while first < self.rules.geometry.slices() {
            let tile = self.segments[segment].tile(first);
            match tile.page {
                HEADER => {}
                NIL => has_page |= tile.count >= slices,
                page => {
                    self.pages[page].collect(false);
                    if self.pages[page].all_free() {
                        self.segments[segment].abandoned -= 1;
                        first = self.clear_page(page);
                        has_page |= self.segments[segment].tile(first).count >= slices;
                    } else {
                        let it = &self.pages[page];
                        has_page |= it.block_bytes == block_bytes && it.has_any();
                    }
                }
            }
            first += self.segments[segment].tile(first).count;
        }
        has_page
    }

    /// A heap takes over a segment with all its pages. Whether one of them is for blocks of
    /// `block_bytes` and has space.
    fn adopt(&mut self, segment: u32, heap: u32, block_bytes: u64) -> bool {
        let it = &mut self.segments[segment];
        (it.owner, it.visits, it.abandoned) = (heap, 0, 0);
        let mut has_page = false;
        let mut first = 0;
        while first < self.rules.geometry.slices() {
            match self.segments[segment].tile(first).page {
                HEADER => {}
                NIL => first = self.free_span(segment, first),
                page => {
                    let it = &mut self.pages[page];
                    (it.heap, it.delayed) = (heap, Delayed::Use);
                    it.collect(false);
                    has_page |= it.block_bytes == block_bytes && it.has_any();
                    self.push_page(heap, page);
                }
            }
            first += self.segments[segment].tile(first).count;
        }
        has_page
    }
}
