//! Live bytes: their sum over time with its peak, and by call stack and segment.
//!
//! What each stack held at the peak is known without a snapshot: a stack notes its
//! bytes just before it changes for the first time after a peak. One that has not
//! changed since then still holds what it held.

use super::curve::Curve;
use crate::replay::{Block, Effect, Outcome, Span, Step, StepKind};

/// What is known of one backtrace.
///
/// PERF: what every event touches fills the first cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct StackFacts {
    pub(crate) allocations: u64,
    pub(crate) frees: u64,
    pub(crate) requested_bytes: u64,
    /// Inside the allocator: acquisitions from here and releases of its blocks.
    pub(crate) ticks: u64,
    pub(crate) slowest: u64,
    pub(crate) live_bytes: u64,
    pub(crate) live_blocks: u64,
    /// The peak for which `at_peak…` were noted.
    noted: u64,
    at_peak_bytes: u64,
    at_peak_blocks: u64,
    pub(crate) reallocations: u64,
    pub(crate) failed: u64,
    pub(crate) foreign_frees: u64,
    pub(crate) temporary: u64,
    pub(crate) temporary_bytes: u64,
}

const _: () = assert!(size_of::<StackFacts>() == 128);

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
        self.hold(block.stack, block.size as i64, 1);
        self.hold_in_segment(block.segment, block.size as i64, 1);
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
            match effect.outcome {
                Outcome::Acquired | Outcome::Released => self.acquired_or_released(step, effect),
                _ => self.other(step, effect),
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

    /// Nearly all steps.
    ///
    /// PERF: which of the two it is, nobody can predict; so both are the same code.
    #[inline(always)]
    fn acquired_or_released(&mut self, step: &Step, effect: &Effect) {
        let block = &effect.block;
        let released = effect.outcome == Outcome::Released;
        let counts = released & (step.kind == StepKind::Release);
        let (stack, segment) = if released {
            (block.stack, block.segment)
        } else {
            (step.stack, step.segment)
        };
        let asked_for = if released { 0 } else { step.size };
        let blocks = if released { -1 } else { 1 };
        let facts = self.hold(stack, effect.delta, blocks);
        facts.allocations += u64::from(!released);
        facts.frees += u64::from(counts);
        facts.requested_bytes = facts.requested_bytes.wrapping_add(asked_for);
        facts.ticks = facts.ticks.wrapping_add(step.latency);
        facts.slowest = facts.slowest.max(if released { 0 } else { step.latency });
        let of_segment = self.hold_in_segment(segment, effect.delta, blocks);
        of_segment.allocations += u64::from(!released);
        of_segment.requested_bytes = of_segment.requested_bytes.wrapping_add(asked_for);
        self.live_blocks = self.live_blocks.wrapping_add_signed(blocks);
        self.changed(step.key, effect.delta);
        let temporary = counts & (block.key >= self.frame_start);
        let foreign = counts & (block.thread != step.thread);
        if temporary | foreign {
            let facts = self.stack(stack);
            facts.temporary += u64::from(temporary);
            facts.temporary_bytes += if temporary { block.size } else { 0 };
            facts.foreign_frees += u64::from(foreign);
        }
    }

    /// Reallocations, failed requests, releases of unknown blocks.
    fn other(&mut self, step: &Step, effect: &Effect) {
        let old = &effect.block;
        match effect.outcome {
            Outcome::Moving => {
                self.hold(old.stack, effect.delta, 0);
                self.hold_in_segment(old.segment, effect.delta, 0);
            }
            Outcome::Resized => {
                self.hold(old.stack, (old.size as i64).wrapping_neg(), -1);
                self.hold_in_segment(old.segment, (old.size as i64).wrapping_neg(), -1);
                self.reallocated(step);
            }
            Outcome::ResizedUnknown => {
                self.reallocated(step);
                self.live_blocks += 1;
            }
            Outcome::Nothing
                if matches!(step.kind, StepKind::FailedAlloc | StepKind::FailedRealloc) =>
            {
                let facts = self.stack(step.stack);
                facts.failed += 1;
                facts.ticks = facts.ticks.wrapping_add(step.latency);
                return;
            }
            _ => return,
        }
        self.changed(step.key, effect.delta);
    }

    /// A block has its new size: it belongs to whoever asked for that.
    fn reallocated(&mut self, step: &Step) {
        let facts = self.hold(step.stack, step.size as i64, 1);
        facts.reallocations += 1;
        facts.requested_bytes = facts.requested_bytes.wrapping_add(step.size);
        facts.ticks = facts.ticks.wrapping_add(step.latency);
        facts.slowest = facts.slowest.max(step.latency);
        let segment = self.hold_in_segment(step.segment, step.size as i64, 1);
        segment.requested_bytes = segment.requested_bytes.wrapping_add(step.size);
    }

    /// Live bytes changed by `delta`.
    #[inline(always)]
    fn changed(&mut self, key: u64, delta: i64) {
        self.live_bytes = self.live_bytes.wrapping_add_signed(delta);
        self.curve.add(key, self.live_bytes);
        self.span_peak = self.span_peak.max(self.live_bytes);
        if self.live_bytes > self.peak.bytes {
            self.peak = PeakFacts {
                bytes: self.live_bytes,
                blocks: self.live_blocks,
                key,
            };
            self.peaks += 1;
        }
    }

    /// Adds to what a stack holds.
    #[inline(always)]
    fn hold(&mut self, stack: u32, bytes: i64, blocks: i64) -> &mut StackFacts {
        let peaks = self.peaks;
        let facts = self.stack(stack);
        if facts.noted != peaks {
            facts.noted = peaks;
            facts.at_peak_bytes = facts.live_bytes;
            facts.at_peak_blocks = facts.live_blocks;
        }
        facts.live_bytes = facts.live_bytes.wrapping_add_signed(bytes);
        facts.live_blocks = facts.live_blocks.wrapping_add_signed(blocks);
        facts
    }

    /// Adds to what a segment holds.
    #[inline(always)]
    fn hold_in_segment(&mut self, segment: u16, bytes: i64, blocks: i64) -> &mut SegmentFacts {
        let facts = self.segment(segment);
        facts.live_bytes = facts.live_bytes.wrapping_add_signed(bytes);
        facts.live_blocks = facts.live_blocks.wrapping_add_signed(blocks);
        facts.peak_bytes = facts.peak_bytes.max(facts.live_bytes);
        facts
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
