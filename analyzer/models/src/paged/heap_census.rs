//! What each heap has.

use std::collections::BTreeSet;

use serde::Serialize;

use super::core::Core;
use super::heap::HeapState;
use super::queue::NIL;
use crate::page_source::PageSource;

/// Who a heap belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HeapKind {
    /// One thread.
    Own,
    /// Several threads that share it.
    Shared,
    /// A thread that is gone.
    Abandoned,
}

/// A heap, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HeapFacts {
    /// Its number; used again when the heap is gone.
    pub heap: u32,
    /// Who it belongs to.
    pub kind: HeapKind,
    /// Pages in use.
    pub pages: u32,
    /// Bytes of blocks that the program holds.
    pub used: u64,
    /// Bytes of its segments with memory behind them.
    pub committed: u64,
    /// Blocks that wait in its release queue.
    pub queued: u64,
    /// The most that ever waited.
    pub queued_peak: u64,
    /// Bytes of those that wait.
    pub queued_bytes: u64,
    /// Frames since the oldest of them was given back.
    pub oldest_frames: u32,
    /// Frames since its thread exited; 0 for heaps in use.
    pub abandoned_frames: u32,
}

impl<S: PageSource> Core<S> {
    /// All heaps, by number.
    pub(crate) fn heap_facts(&self) -> Vec<HeapFacts> {
        let mut facts: Vec<Option<HeapFacts>> = (0..self.heaps.len() as u32)
            .map(|heap| self.one_heap(heap))
            .collect();
        for (_, segment) in self.segments.live() {
            if let Some(Some(heap)) = facts.get_mut(segment.owner as usize) {
                heap.committed +=
                    u64::from(segment.commit.count()) * self.rules.geometry.slice_bytes;
            }
        }
        for (_, page) in self.live_pages() {
            if let Some(Some(heap)) = facts.get_mut(page.heap as usize) {
                let live = page.used - page.queued - page.remote_count();
                heap.used += u64::from(live) * page.block_bytes;
            }
        }
        facts.into_iter().flatten().collect()
    }

    fn one_heap(&self, number: u32) -> Option<HeapFacts> {
        let heap = &self.heaps[number as usize];
        let now = self.frame();
        let (kind, abandoned_frames) = match heap.state {
            HeapState::Unused => return None,
            HeapState::Own => (HeapKind::Own, 0),
            HeapState::Shared => (HeapKind::Shared, 0),
            HeapState::Abandoned(since) => (HeapKind::Abandoned, now.saturating_sub(since)),
        };
        let oldest = heap.release.front().map_or(now, |queued| queued.frame);
        Some(HeapFacts {
            heap: number,
            kind,
            pages: heap.pages,
            used: 0,
            committed: heap.thread_block,
            queued: heap.release.len() as u64,
            queued_peak: heap.release_peak as u64,
            queued_bytes: heap.release_bytes,
            oldest_frames: now.saturating_sub(oldest),
            abandoned_frames,
        })
    }

    /// The heap that a block lies in; `None` for one with a segment of its own.
    pub(crate) fn heap_of_block(&self, id: crate::model::BlockId) -> Option<u32> {
        let heap = self.pages[self.blocks.live(id)?.page].heap;
        (heap != NIL).then_some(heap)
    }

    /// How many pages of `bytes` bytes, a power of two, hold a part of a live block.
    pub(crate) fn covering_pages(&self, bytes: u64) -> u64 {
        let mut pages = BTreeSet::new();
        for (_, record) in self.blocks.iter() {
            let page = &self.pages[record.page];
            let start = page.address(record.index);
            pages.extend(start / bytes..=(start + page.block_bytes - 1) / bytes);
        }
        pages.len() as u64
    }
}
