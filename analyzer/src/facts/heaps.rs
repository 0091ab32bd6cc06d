//! Heaps that the game announced: their ranges, their blocks, and what it did with them.

use crate::replay::Step;
use heapreel_format::{HeapId, Rare, StackId};
use std::collections::BTreeMap;

/// A live block of an announced heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeapBlock {
    /// Requested size in bytes.
    pub(crate) size: u64,
    pub(crate) stack: StackId,
    /// The thread's position among the trace's.
    pub(crate) thread: u32,
    /// When it was handed out or last changed.
    pub(crate) key: u64,
}

/// What one backtrace did with a heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeapCalls {
    /// Blocks handed out or changed.
    pub(crate) calls: u64,
    pub(crate) requested_bytes: u64,
    pub(crate) live_bytes: u64,
    pub(crate) live_blocks: u64,
}

/// What was said that cannot be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeapMisuse {
    /// Blocks given back or changed that it did not have.
    pub(crate) unknown_blocks: u64,
    /// Blocks handed out where one was live.
    pub(crate) given_twice: u64,
    /// Blocks outside of its ranges, where it has some.
    pub(crate) outside: u64,
    /// What was said of it after its end.
    pub(crate) after_end: u64,
}

/// How many frames lay between two resets: how often, and the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) count: u64,
    /// Frames of the main loop that had ended at the reset before it.
    pub(crate) first_after: u64,
}

/// One heap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeapFacts {
    pub(crate) budget: u64,
    pub(crate) allocations: u64,
    pub(crate) reallocations: u64,
    pub(crate) frees: u64,
    pub(crate) resets: u64,
    pub(crate) requested_bytes: u64,
    pub(crate) live_bytes: u64,
    pub(crate) peak_bytes: u64,
    pub(crate) peak_key: u64,
    /// When its blocks first took more than its budget, and how much.
    pub(crate) over: Option<(u64, u64)>,
    /// When it ended, with how many bytes and blocks.
    pub(crate) destroyed: Option<(u64, u64, u64)>,
    pub(crate) misuse: HeapMisuse,
    /// By first address.
    pub(crate) blocks: BTreeMap<u64, HeapBlock>,
    /// Length by first address.
    pub(crate) ranges: BTreeMap<u64, u64>,
    pub(crate) calls: BTreeMap<StackId, HeapCalls>,
    /// By frames from one reset to the next, of those before which something was allocated.
    pub(crate) gaps: BTreeMap<u64, Gap>,
    /// Frames that had ended at the last reset.
    pub(crate) last_reset: Option<u64>,
    /// Blocks were handed out since.
    pub(crate) used_since_reset: bool,
}

/// All heaps; costs nothing where a trace has none.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeapLedger {
    pub(crate) heaps: BTreeMap<HeapId, HeapFacts>,
    /// Frames of the main loop that have ended.
    pub(crate) frames: u64,
}

impl HeapLedger {
    /// Heaps with their budgets in bytes.
    pub(crate) fn new(budgets: impl Iterator<Item = (HeapId, u64)>) -> HeapLedger {
        let heap = |(id, budget)| {
            let facts = HeapFacts {
                budget,
                ..HeapFacts::default()
            };
            (id, facts)
        };
        HeapLedger {
            heaps: budgets.map(heap).collect(),
            frames: 0,
        }
    }

    /// A frame of the main loop has ended.
    pub(crate) fn on_frame(&mut self) {
        self.frames += 1;
    }

    /// Forgets what was counted so far, not what is live.
    pub(crate) fn begin_window(&mut self, key: u64) {
        self.heaps
            .values_mut()
            .for_each(|heap| heap.begin_window(key));
    }

    pub(crate) fn on_rare(&mut self, step: &Step, rare: &Rare) {
        let (Rare::HeapRange { heap, .. }
        | Rare::HeapAlloc { heap, .. }
        | Rare::HeapRealloc { heap, .. }
        | Rare::HeapFree { heap, .. }
        | Rare::HeapReset { heap }
        | Rare::HeapDestroy { heap }) = rare
        else {
            return;
        };
        // Its definition may be damaged.
        let facts = self.heaps.entry(*heap).or_default();
        facts.on_rare(step, rare, self.frames);
    }
}

impl HeapFacts {
    fn begin_window(&mut self, key: u64) {
        for calls in self.calls.values_mut() {
            (calls.calls, calls.requested_bytes) = (0, 0);
        }
        *self = HeapFacts {
            budget: self.budget,
            live_bytes: self.live_bytes,
            peak_bytes: self.live_bytes,
            peak_key: key,
            destroyed: self.destroyed,
            blocks: std::mem::take(&mut self.blocks),
            ranges: std::mem::take(&mut self.ranges),
            calls: std::mem::take(&mut self.calls),
            last_reset: self.last_reset,
            used_since_reset: self.used_since_reset,
            ..HeapFacts::default()
        };
    }

    fn on_rare(&mut self, step: &Step, rare: &Rare, frames: u64) {
        if self.destroyed.is_some() {
            self.misuse.after_end += 1;
            return;
        }
        match *rare {
            Rare::HeapRange {
                address, length, ..
            } => _ = self.ranges.insert(address, length),
            Rare::HeapAlloc {
                address,
                size,
                stack,
                ..
            } => {
                self.allocations += 1;
                self.add(step, address, size, stack);
            }
            Rare::HeapRealloc {
                old_address,
                address,
                size,
                stack,
                ..
            } => {
                self.reallocations += 1;
                self.remove(old_address);
                self.add(step, address, size, stack);
            }
            Rare::HeapFree { address, .. } => {
                self.frees += 1;
                self.remove(address);
            }
            Rare::HeapReset { .. } => self.reset(frames),
            Rare::HeapDestroy { .. } => {
                self.destroyed = Some((step.key, self.live_bytes, self.blocks.len() as u64));
                self.ranges.clear();
                self.forget_blocks();
            }
            _ => {}
        }
    }

    fn add(&mut self, step: &Step, address: u64, size: u64, stack: StackId) {
        self.used_since_reset = true;
        if !self.ranges.is_empty() && self.range_of(address).is_none() {
            self.misuse.outside += 1;
        }
        let block = HeapBlock {
            size,
            stack,
            thread: step.thread,
            key: step.key,
        };
        if let Some(lost) = self.blocks.insert(address, block) {
            self.misuse.given_twice += 1;
            self.no_longer_live(&lost);
        }
        let calls = self.calls.entry(stack).or_default();
        calls.calls += 1;
        calls.requested_bytes = calls.requested_bytes.saturating_add(size);
        calls.live_blocks += 1;
        calls.live_bytes = calls.live_bytes.saturating_add(size);
        self.requested_bytes = self.requested_bytes.saturating_add(size);
        self.live_bytes = self.live_bytes.saturating_add(size);
        if self.live_bytes > self.peak_bytes {
            (self.peak_bytes, self.peak_key) = (self.live_bytes, step.key);
        }
        if self.budget > 0 && self.live_bytes > self.budget && self.over.is_none() {
            self.over = Some((step.key, self.live_bytes));
        }
    }

    fn remove(&mut self, address: u64) {
        match self.blocks.remove(&address) {
            Some(block) => self.no_longer_live(&block),
            None => self.misuse.unknown_blocks += 1,
        }
    }

    fn no_longer_live(&mut self, block: &HeapBlock) {
        self.live_bytes = self.live_bytes.saturating_sub(block.size);
        let calls = self.calls.entry(block.stack).or_default();
        calls.live_blocks = calls.live_blocks.saturating_sub(1);
        calls.live_bytes = calls.live_bytes.saturating_sub(block.size);
    }

    fn reset(&mut self, frames: u64) {
        self.resets += 1;
        if let Some(last) = self.last_reset
            && self.used_since_reset
        {
            let gap = self.gaps.entry(frames - last).or_insert(Gap {
                count: 0,
                first_after: last,
            });
            gap.count += 1;
        }
        (self.last_reset, self.used_since_reset) = (Some(frames), false);
        self.forget_blocks();
    }

    fn forget_blocks(&mut self) {
        self.blocks.clear();
        self.live_bytes = 0;
        for calls in self.calls.values_mut() {
            (calls.live_bytes, calls.live_blocks) = (0, 0);
        }
    }

    /// The range that holds this address: where it begins, and its length.
    pub(crate) fn range_of(&self, address: u64) -> Option<(u64, u64)> {
        let (start, length) = self.ranges.range(..=address).next_back()?;
        (address - start < *length).then_some((*start, *length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::StepKind;

    fn heap() -> HeapId {
        HeapId(1)
    }

    fn alloc(address: u64, size: u64) -> Rare {
        Rare::HeapAlloc {
            heap: heap(),
            address,
            size,
            stack: StackId::NONE,
        }
    }

    fn played(rares: &[Rare]) -> HeapFacts {
        let mut ledger = HeapLedger::new([(heap(), 100)].into_iter());
        for (key, rare) in (1..).zip(rares) {
            ledger.on_rare(&Step::blank(key, StepKind::Rare), rare);
        }
        ledger.heaps.remove(&heap()).expect("the heap")
    }

    #[test]
    fn the_peak_and_the_first_time_over_budget_are_known() {
        let free = Rare::HeapFree {
            heap: heap(),
            address: 16,
        };
        let facts = played(&[alloc(16, 60), alloc(32, 50), free, alloc(16, 10)]);
        assert_eq!((facts.peak_bytes, facts.peak_key), (110, 2));
        assert_eq!((facts.live_bytes, facts.over), (60, Some((2, 110))));
    }

    #[test]
    fn a_block_given_twice_is_live_once() {
        let facts = played(&[alloc(16, 60), alloc(16, 30)]);
        assert_eq!((facts.live_bytes, facts.blocks.len()), (30, 1));
        assert_eq!(facts.misuse.given_twice, 1);
    }

    #[test]
    fn after_a_window_began_what_is_live_is_the_peak() {
        let mut facts = played(&[alloc(16, 60), alloc(32, 20)]);
        facts.begin_window(9);
        assert_eq!((facts.allocations, facts.peak_bytes), (0, 80));
        assert_eq!(facts.calls[&StackId::NONE].live_blocks, 2);
    }
}
