//! A heap of the game's own: one range, taken at the start, and first fit within it.
//!
//! Blocks lie one after the other, each behind a header of four words that leads to both
//! of its neighbours and back to who allocated it:
//!
//! ```text
//! | words in all, used bit | words of the block before | requested bytes | site | payload …
//! ```
//!
//! The whole range is one slice of words, so a mistake here is a panic and no damage.

use crate::mapping;
use serde::Serialize;
use std::io;

/// Words of a header.
const HEADER: usize = 4;
/// Words a free block must have left over to be split off: a header and 16 bytes.
const SMALLEST: usize = HEADER + 2;
/// Set in a header's first word while the block is used.
const USED: u64 = 1 << 63;

/// A heap over one range of memory.
pub struct FirstFit {
    words: &'static mut [u64],
    stats: HeapStats,
}

/// A block handed out: the index of its header. Whoever has it may free it, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(usize);

/// What a heap can say about itself at any time.
#[derive(Clone, Copy, Default, Serialize)]
pub struct HeapStats {
    /// Blocks handed out so far.
    pub allocations: u64,
    /// Blocks given back so far.
    pub deallocations: u64,
    /// Requests that found no free run long enough.
    pub failed_allocations: u64,
    /// Requested bytes of the blocks handed out now.
    pub used_bytes: u64,
    /// The same with headers and rounding.
    pub held_bytes: u64,
    /// The highest that `held_bytes` was.
    pub high_water_bytes: u64,
}

/// The free part of a heap at one instant; headers of free runs count as free.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize)]
pub struct FreeSpace {
    /// All of it.
    pub bytes: u64,
    /// Its longest run.
    pub largest_run_bytes: u64,
    /// How many runs it is in.
    pub runs: u64,
}

/// A block as a walk over the heap finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundBlock {
    /// Where its payload begins.
    pub address: usize,
    /// The bytes asked for.
    pub requested_bytes: u64,
    /// The number its owner gave.
    pub site: u64,
}

impl FirstFit {
    /// Takes a range of `bytes`, a multiple of 16 and at least 64, from the system.
    pub fn over_new_mapping(bytes: usize) -> io::Result<Self> {
        let words = mapping::map_words(bytes / size_of::<u64>())?;
        let mut heap = Self {
            words,
            stats: HeapStats::default(),
        };
        heap.write_header(0, heap.words.len(), 0);
        Ok(heap)
    }

    /// The range's first address.
    pub fn start(&self) -> usize {
        self.words.as_ptr().addr()
    }

    /// The range's length.
    pub fn capacity_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// Takes the first free run that is long enough; none if there is none.
    pub fn allocate(&mut self, bytes: usize, site: u64) -> Option<Handle> {
        let need = HEADER + bytes.div_ceil(16).max(1) * 2;
        let Some(at) = self.first_fit(need) else {
            self.stats.failed_allocations += 1;
            return None;
        };
        self.split(at, need);
        let words = self.length(at);
        self.words[at] = words as u64 | USED;
        self.words[at + 2] = bytes as u64;
        self.words[at + 3] = site;
        self.count_allocation(bytes as u64, words);
        Some(Handle(at))
    }

    /// Gives a block back and joins it with free neighbours.
    pub fn free(&mut self, Handle(at): Handle) {
        debug_assert!(self.is_used(at), "freed twice");
        let words = self.length(at);
        self.stats.deallocations += 1;
        self.stats.used_bytes -= self.words[at + 2];
        self.stats.held_bytes -= bytes_of(words);
        self.words[at] = words as u64;
        self.join_with_next(at);
        if at > 0 {
            let before = at - self.words[at + 1] as usize;
            if !self.is_used(before) {
                self.join_with_next(before);
            }
        }
    }

    /// Where a block's payload begins.
    pub fn address(&self, Handle(at): Handle) -> usize {
        self.start() + (at + HEADER) * size_of::<u64>()
    }

    /// Writes into a block's payload, as its owner would.
    pub fn fill(&mut self, Handle(at): Handle, value: u64) {
        let end = at + self.length(at);
        self.words[at + HEADER..end]
            .iter_mut()
            .step_by(512)
            .for_each(|word| *word = value);
    }

    /// What was counted so far.
    pub fn stats(&self) -> HeapStats {
        self.stats
    }

    /// What is free now.
    pub fn free_space(&self) -> FreeSpace {
        let mut space = FreeSpace::default();
        for at in self.headers().filter(|&at| !self.is_used(at)) {
            let run = bytes_of(self.length(at));
            space.bytes += run;
            space.largest_run_bytes = space.largest_run_bytes.max(run);
            space.runs += 1;
        }
        space
    }

    /// Blocks handed out now, in address order.
    pub fn blocks(&self) -> impl Iterator<Item = FoundBlock> {
        let used = self.headers().filter(|&at| self.is_used(at));
        used.map(|at| FoundBlock {
            address: self.address(Handle(at)),
            requested_bytes: self.words[at + 2],
            site: self.words[at + 3],
        })
    }

    fn first_fit(&self, need: usize) -> Option<usize> {
        self.headers()
            .find(|&at| !self.is_used(at) && self.length(at) >= need)
    }

    /// Every header from the range's first to its last.
    fn headers(&self) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(0), |&at| self.next(at))
    }

    fn next(&self, at: usize) -> Option<usize> {
        let next = at + self.length(at);
        (next < self.words.len()).then_some(next)
    }

    fn length(&self, at: usize) -> usize {
        (self.words[at] & !USED) as usize
    }

    fn is_used(&self, at: usize) -> bool {
        self.words[at] & USED != 0
    }

    /// Leaves `need` words at `at` and makes a free block of the rest, if it is worth one.
    fn split(&mut self, at: usize, need: usize) {
        let words = self.length(at);
        if words - need < SMALLEST {
            return;
        }
        self.words[at] = need as u64;
        self.write_header(at + need, words - need, need);
        self.tell_next(at + need);
    }

    fn join_with_next(&mut self, at: usize) {
        if let Some(next) = self.next(at).filter(|&next| !self.is_used(next)) {
            self.words[at] = (self.length(at) + self.length(next)) as u64;
        }
        self.tell_next(at);
    }

    /// Writes into the following header how long the block at `at` is now.
    fn tell_next(&mut self, at: usize) {
        if let Some(next) = self.next(at) {
            self.words[next + 1] = self.length(at) as u64;
        }
    }

    fn write_header(&mut self, at: usize, words: usize, words_before: usize) {
        self.words[at..at + HEADER].copy_from_slice(&[words as u64, words_before as u64, 0, 0]);
    }

    fn count_allocation(&mut self, bytes: u64, words: usize) {
        let stats = &mut self.stats;
        stats.allocations += 1;
        stats.used_bytes += bytes;
        stats.held_bytes += bytes_of(words);
        stats.high_water_bytes = stats.high_water_bytes.max(stats.held_bytes);
    }
}

fn bytes_of(words: usize) -> u64 {
    (words * size_of::<u64>()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn heap(bytes: usize) -> FirstFit {
        FirstFit::over_new_mapping(bytes).expect("memory")
    }

    fn all_free(bytes: u64) -> FreeSpace {
        FreeSpace {
            bytes,
            largest_run_bytes: bytes,
            runs: 1,
        }
    }

    #[test]
    fn the_first_hole_that_fits_is_taken() {
        let mut heap = heap(4096);
        let [a, b, c] = [100, 200, 300].map(|size| heap.allocate(size, 0).expect("room"));
        heap.free(a);
        // 100 bytes are rounded up to 112.
        assert_eq!(heap.allocate(112, 0), Some(a));
        heap.free(b);
        // 208 bytes serve 16, the next header of 32, and 160.
        assert_eq!(heap.allocate(16, 0), Some(b));
        let rest = heap.allocate(150, 0).expect("room");
        assert_eq!(heap.address(rest), heap.address(b) + 16 + 32);
        let behind = heap.allocate(150, 0).expect("room");
        assert_eq!(heap.address(behind), heap.address(c) + 304 + 32);
    }

    #[test]
    fn what_is_scattered_does_not_fit_though_it_would_suffice() {
        let mut heap = heap(1 << 16);
        let blocks: Vec<Handle> = std::iter::from_fn(|| heap.allocate(992, 0)).collect();
        assert_eq!(blocks.len(), 64);
        blocks.iter().step_by(2).for_each(|&block| heap.free(block));
        let space = heap.free_space();
        assert_eq!(
            (space.bytes, space.largest_run_bytes, space.runs),
            (32 << 10, 1024, 32)
        );
        assert_eq!(heap.allocate(2000, 0), None);
        assert_eq!(heap.stats().failed_allocations, 2);
    }

    #[test]
    fn blocks_never_overlap_and_all_comes_back() {
        const CAPACITY: usize = 1 << 20;
        let mut heap = heap(CAPACITY);
        let mut random = Random::new(9);
        let mut live: Vec<(Handle, usize)> = Vec::new();
        for step in 0..5000 {
            if !live.is_empty() && random.one_in(2) {
                let (handle, _) = live.swap_remove(random.size(0..live.len()));
                heap.free(handle);
            } else if let Some(handle) = heap.allocate(step % 5000 + 1, step as u64) {
                live.push((handle, step % 5000 + 1));
            }
            let mut end = heap.start();
            for block in heap.blocks() {
                assert!(block.address >= end + HEADER * 8 && block.address % 16 == 0);
                end = block.address + block.requested_bytes as usize;
            }
            assert!(end <= heap.start() + CAPACITY);
            let held = heap.stats().held_bytes;
            assert_eq!(held + heap.free_space().bytes, CAPACITY as u64);
            assert_eq!(heap.blocks().count(), live.len());
        }
        live.drain(..).for_each(|(handle, _)| heap.free(handle));
        assert_eq!(heap.free_space(), all_free(CAPACITY as u64));
        assert_eq!(heap.stats().used_bytes, 0);
    }
}
