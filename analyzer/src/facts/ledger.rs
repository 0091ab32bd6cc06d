//! Live bytes: their sum over time with its peak, and by call stack and segment.
//!
//! What each stack held at the peak is known without a snapshot: a stack notes its
//! bytes just before it changes for the first time after a peak. One that has not
//! changed since then still holds what it held.

use super::curve::Curve;
use crate::replay::{Block, Effect, Outcome, Span, Step, StepKind};

/// What is known of one backtrace.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StackFacts {
    pub(crate) allocations: u64,
    pub(crate) reallocations: u64,
    pub(crate) failed: u64,
    pub(crate) requested_bytes: u64,
    /// Inside the allocator: acquisitions from here and releases of its blocks.
    pub(crate) ticks: u64,
    pub(crate) slowest: u64,
    pub(crate) frees: u64,
    pub(crate) foreign_frees: u64,
    pub(crate) temporary: u64,
    pub(crate) temporary_bytes: u64,
    pub(crate) live_bytes: u64,
    pub(crate) live_blocks: u64,
    /// The most bytes it ever held.
    pub(crate) own_peak: u64,
    at_peak_bytes: u64,
    at_peak_blocks: u64,
    /// The peak for which `at_peak…` were noted.
    noted: u64,
}

/// What is known of one segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SegmentFacts {
    pub(crate) allocations: u64,
    pub(crate) requested_bytes: u64,
    pub(crate) live_bytes: u64,
    pub(crate) live_blocks: u64,
    pub(crate) peak_bytes: u64,
}

/// The highest that live bytes rose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeakFacts {
    pub(crate) bytes: u64,
    pub(crate) blocks: u64,
    pub(crate) key: u64,
}

/// Keeps all sums of live bytes.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    pub(crate) stacks: Vec<StackFacts>,
    pub(crate) segments: Vec<SegmentFacts>,
    pub(crate) live_bytes: u64,
    pub(crate) live_blocks: u64,
    pub(crate) peak: PeakFacts,
    pub(crate) curve: Curve,
    /// Counts the peaks so far.
    peaks: u64,
    /// The most live bytes since [`Ledger::take_span_peak`].
    span_peak: u64,
    /// Blocks acquired from this key on and released now are temporary.
    frame_start: u64,
}

impl Ledger {
    pub(crate) fn new(stacks: usize, start: u64) -> Ledger {
        Ledger {
            stacks: vec![StackFacts::default(); stacks.max(1)],
            segments: vec![SegmentFacts::default()],
            live_bytes: 0,
            live_blocks: 0,
            peak: PeakFacts::default(),
            curve: Curve::new(start),
            peaks: 0,
            span_peak: 0,
            frame_start: u64::MAX,
        }
    }

    /// Takes over a block that was live before the first step.
    pub(crate) fn begin_with(&mut self, block: &Block) {
        self.hold(block.stack, block.segment, block.size as i64, 1);
        self.live_bytes += block.size;
        self.live_blocks += 1;
        self.peak = PeakFacts {
            bytes: self.live_bytes,
            blocks: self.live_blocks,
            key: 0,
        };
        self.peaks += 1;
    }

    /// Forgets what was counted so far, not what is live.
    pub(crate) fn begin_window(&mut self, key: u64) {
        for stack in &mut self.stacks {
            let (live_bytes, live_blocks) = (stack.live_bytes, stack.live_blocks);
            *stack = StackFacts {
                live_bytes,
                live_blocks,
                own_peak: live_bytes,
                ..StackFacts::default()
            };
        }
        for segment in &mut self.segments {
            let (live_bytes, live_blocks) = (segment.live_bytes, segment.live_blocks);
            let peak = SegmentFacts {
                peak_bytes: live_bytes,
                ..SegmentFacts::default()
            };
            *segment = SegmentFacts {
                live_bytes,
                live_blocks,
                ..peak
            };
        }
        self.peak = PeakFacts {
            bytes: self.live_bytes,
            blocks: self.live_blocks,
            key,
        };
        self.peaks = 1;
        self.span_peak = self.live_bytes;
        self.curve = Curve::new(key);
        self.curve.add(key, self.live_bytes);
    }

    /// A frame begins here: blocks from here on may turn out temporary.
    pub(crate) fn begin_frame(&mut self, key: u64) {
        self.frame_start = key;
    }

    /// The most live bytes since the last call, or now.
    pub(crate) fn take_span_peak(&mut self) -> u64 {
        std::mem::replace(&mut self.span_peak, self.live_bytes).max(self.live_bytes)
    }

    pub(crate) fn on_events(&mut self, span: Span<'_>) {
        for (step, effect) in span.ticks() {
            self.count(step, effect);
            if effect.delta != 0 || effect.outcome != Outcome::Nothing {
                self.move_bytes(step, effect);
            }
        }
    }

    /// What a stack held at the peak: bytes and blocks.
    pub(crate) fn at_peak(&self, stack: usize) -> (u64, u64) {
        let facts = &self.stacks[stack];
        if facts.noted == self.peaks {
            (facts.at_peak_bytes, facts.at_peak_blocks)
        } else {
            (facts.live_bytes, facts.live_blocks)
        }
    }

    #[inline(always)]
    fn count(&mut self, step: &Step, effect: &Effect) {
        match step.kind {
            StepKind::Alloc | StepKind::AllocZeroed => {
                let facts = self.stack(step.stack);
                facts.allocations += 1;
                facts.requested_bytes += step.size;
                facts.ticks += step.latency;
                facts.slowest = facts.slowest.max(step.latency);
                let segment = self.segment(step.segment);
                segment.allocations += 1;
                segment.requested_bytes += step.size;
            }
            StepKind::Release => self.count_release(step, effect),
            StepKind::ReallocEnd => {
                let facts = self.stack(step.stack);
                facts.reallocations += 1;
                facts.requested_bytes += step.size;
                facts.ticks += step.latency;
                facts.slowest = facts.slowest.max(step.latency);
                self.segment(step.segment).requested_bytes += step.size;
            }
            StepKind::FailedAlloc | StepKind::FailedRealloc => {
                let facts = self.stack(step.stack);
                facts.failed += 1;
                facts.ticks += step.latency;
            }
            _ => {}
        }
    }

    #[inline(always)]
    fn count_release(&mut self, step: &Step, effect: &Effect) {
        if effect.outcome != Outcome::Released {
            return;
        }
        let block = &effect.block;
        let temporary = block.key >= self.frame_start;
        let foreign = block.thread != step.thread;
        let facts = self.stack(block.stack);
        facts.frees += 1;
        facts.ticks += step.latency;
        facts.foreign_frees += u64::from(foreign);
        facts.temporary += u64::from(temporary);
        facts.temporary_bytes += if temporary { block.size } else { 0 };
    }

    #[inline(always)]
    fn move_bytes(&mut self, step: &Step, effect: &Effect) {
        let (old, new) = (&effect.block, step.size as i64);
        match effect.outcome {
            Outcome::Acquired | Outcome::ResizedUnknown => {
                self.hold(step.stack, step.segment, new, 1);
                self.live_blocks += 1;
            }
            Outcome::Released => {
                self.hold(old.stack, old.segment, effect.delta, -1);
                self.live_blocks = self.live_blocks.saturating_sub(1);
            }
            Outcome::Moving => self.hold(old.stack, old.segment, effect.delta, 0),
            Outcome::Resized => {
                self.hold(old.stack, old.segment, -(old.size as i64), -1);
                self.hold(step.stack, step.segment, new, 1);
            }
            Outcome::UnknownRelease | Outcome::Nothing => return,
        }
        self.live_bytes = self.live_bytes.saturating_add_signed(effect.delta);
        self.curve.add(step.key, self.live_bytes);
        if self.live_bytes > self.span_peak {
            self.span_peak = self.live_bytes;
            if self.live_bytes > self.peak.bytes {
                self.peak = PeakFacts {
                    bytes: self.live_bytes,
                    blocks: self.live_blocks,
                    key: step.key,
                };
                self.peaks += 1;
            }
        }
    }

    /// Adds to what a stack and a segment hold.
    #[inline(always)]
    fn hold(&mut self, stack: u32, segment: u16, bytes: i64, blocks: i64) {
        let peaks = self.peaks;
        let facts = self.stack(stack);
        if facts.noted != peaks {
            facts.noted = peaks;
            facts.at_peak_bytes = facts.live_bytes;
            facts.at_peak_blocks = facts.live_blocks;
        }
        facts.live_bytes = facts.live_bytes.saturating_add_signed(bytes);
        facts.live_blocks = facts.live_blocks.saturating_add_signed(blocks);
        facts.own_peak = facts.own_peak.max(facts.live_bytes);
        self.hold_in_segment(segment, bytes, blocks);
    }

    #[inline(always)]
    fn hold_in_segment(&mut self, segment: u16, bytes: i64, blocks: i64) {
        let facts = self.segment(segment);
        facts.live_bytes = facts.live_bytes.saturating_add_signed(bytes);
        facts.live_blocks = facts.live_blocks.saturating_add_signed(blocks);
        facts.peak_bytes = facts.peak_bytes.max(facts.live_bytes);
    }

    #[inline(always)]
    fn stack(&mut self, stack: u32) -> &mut StackFacts {
        // Positions come from Dense: 0 always exists, and is right for any other.
        let at = if (stack as usize) < self.stacks.len() {
            stack as usize
        } else {
            0
        };
        &mut self.stacks[at]
    }

    #[inline(always)]
    fn segment(&mut self, segment: u16) -> &mut SegmentFacts {
        let at = usize::from(segment);
        if at >= self.segments.len() {
            self.segments.resize(at + 1, SegmentFacts::default());
        }
        &mut self.segments[at]
    }
}
