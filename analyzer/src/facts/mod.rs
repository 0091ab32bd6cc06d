//! What one replay finds out, in ticks and positions: sums, frames, live bytes,
//! latencies. `analysis` turns it into values with names and units.

mod calls;
mod context_tree;
mod contexts;
mod counts;
mod curve;
mod frame_table;
mod growth;
mod heaps;
mod histogram;
mod latency;
mod ledger;
mod slow_calls;
mod timeline;
mod window;

pub(crate) use counts::Counts;

pub(crate) use calls::{Calls, CostSamples};
pub(crate) use context_tree::{ContextTree, OUTSIDE};
pub(crate) use contexts::{ContextLedger, ContextSums, Held};
pub(crate) use frame_table::{FrameFacts, FrameTable, LiveNow, LoopFacts};
pub(crate) use growth::Samples;
#[cfg(test)]
pub(crate) use heaps::Gap;
pub(crate) use heaps::{HeapBlock, HeapFacts, HeapLedger};
pub(crate) use histogram::Histogram;
pub(crate) use latency::{CLASSES, Latency, Operation};
pub(crate) use ledger::Ledger;
pub(crate) use slow_calls::SlowCalls;
pub(crate) use timeline::Timeline;
pub(crate) use window::{Bound, Window};

use crate::replay::{Block, Observer, Span, Step};
use heapreel_format::{LoopId, Rare};
use window::{Crossing, Passage};

/// How many of the slowest calls are kept.
const SLOW_CALLS: usize = 256;

/// Everything that one replay gathers.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) frames: FrameTable,
    pub(crate) ledger: Ledger,
    pub(crate) latency: Latency,
    pub(crate) slow: SlowCalls,
    pub(crate) samples: Samples,
    pub(crate) timeline: Timeline,
    pub(crate) calls: Calls,
    pub(crate) contexts: ContextLedger,
    pub(crate) heaps: HeapLedger,
    /// Where the window begins; the trace's start where none was asked for.
    pub(crate) from: u64,
    /// The last key in the window.
    pub(crate) to: u64,
    passage: Passage,
    slow_ticks: u64,
    /// Frame marks of each loop before the window.
    marks_before: std::collections::BTreeMap<LoopId, u64>,
}

/// What `Facts` must know of a trace beforehand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setting {
    pub(crate) stacks: usize,
    pub(crate) threads: usize,
    pub(crate) loops: Vec<LoopId>,
    /// The loop that the user chose as the main one.
    pub(crate) main: Option<LoopId>,
    pub(crate) start: u64,
    /// Calls slower than this are counted as slow.
    pub(crate) slow_ticks: u64,
    pub(crate) window: Window,
    pub(crate) contexts: ContextTree,
    pub(crate) heaps: HeapLedger,
}

impl Facts {
    pub(crate) fn new(setting: Setting) -> Facts {
        let start = setting.start;
        Facts {
            frames: FrameTable::new(
                setting.threads,
                setting.loops.into_iter(),
                setting.main,
                start,
            ),
            ledger: Ledger::new(setting.stacks, start),
            latency: Latency::default(),
            slow: SlowCalls::new(SLOW_CALLS, setting.slow_ticks),
            samples: Samples::new(start),
            timeline: Timeline::default(),
            calls: Calls::default(),
            contexts: ContextLedger::new(setting.contexts),
            heaps: setting.heaps,
            from: start,
            to: start,
            passage: Passage::new(setting.window, start),
            slow_ticks: setting.slow_ticks,
            marks_before: std::collections::BTreeMap::new(),
        }
    }

    /// Takes over a block that was live before the first step.
    pub(crate) fn begin_with(&mut self, block: &Block) {
        self.ledger.begin_with(block);
        self.contexts.begin_with(block);
    }

    /// Whether the window's beginning and end were met, where they were asked for.
    pub(crate) fn window_met(&self) -> (bool, bool) {
        (self.passage.begun.is_some(), self.passage.ended.is_some())
    }

    /// The number of the first frame in the window.
    pub(crate) fn first_frame(&self, id: LoopId) -> u64 {
        self.marks_before.get(&id).copied().unwrap_or(0)
    }

    /// Closes what is open; nothing may be played after this.
    pub(crate) fn finish(&mut self) {
        let live = self.live();
        self.frames.finish(self.to, live);
    }

    fn live(&self) -> LiveNow {
        LiveNow {
            bytes: self.ledger.live_bytes,
            blocks: self.ledger.live_blocks,
        }
    }

    fn take(&mut self, span: Span<'_>) {
        let (Some(first), Some(last)) = (span.steps.first(), span.steps.last()) else {
            return;
        };
        if self.samples.due(first.key) {
            let live = self.ledger.stacks.iter().map(|stack| stack.live_bytes);
            self.samples.take(first.key, live);
        }
        self.to = self.to.max(last.key);
        self.ledger.on_events(span);
        let peak = self.ledger.take_span_peak();
        self.frames.on_events(span, peak);
        self.latency.on_events(span);
        self.slow.on_events(span);
        self.calls.on_events(span);
        self.contexts.on_events(span);
    }

    /// Forgets all that was before the window, except what is live.
    fn begin_window(&mut self, key: u64) {
        for (id, facts) in &self.frames.loops {
            self.marks_before.insert(*id, facts.marks);
        }
        self.frames.begin_window(key);
        self.ledger.begin_window(key);
        self.contexts.begin_window();
        self.heaps.begin_window(key);
        self.latency = Latency::default();
        self.slow = SlowCalls::new(SLOW_CALLS, self.slow_ticks);
        self.samples = Samples::new(key);
        self.calls = Calls::default();
        (self.from, self.to) = (key, key);
    }

    fn crossed(&mut self, crossing: Crossing, key: u64) {
        match crossing {
            Crossing::None => {}
            Crossing::Begins => self.begin_window(key),
            Crossing::Ends => self.to = self.to.max(key),
        }
    }

    fn on_frame_mark(&mut self, id: LoopId, step: &Step) {
        let live = self.live();
        let is_main = self.frames.on_mark(id, step, live);
        if !is_main {
            return;
        }
        self.ledger.begin_frame(step.key);
        self.heaps.on_frame();
        let marks = self.frames.loops.get(&id).map_or(0, |facts| facts.marks);
        let number = (self.first_frame(id) + marks).saturating_sub(1);
        let crossing = self.passage.on_frame(step.key, number);
        self.crossed(crossing, step.key);
        if crossing == Crossing::Begins {
            // The window's first frame begins with this mark, which stands in it.
            self.marks_before.insert(id, number);
            self.frames.on_mark(id, step, live);
        }
    }
}

impl Observer for Facts {
    fn on_events(&mut self, mut span: Span<'_>) {
        while let Some(key) = self.passage.next_key() {
            let before = span.steps.partition_point(|step| step.key < key);
            let (head, tail) = span.split_at(before);
            self.take(head);
            if tail.steps.is_empty() {
                return;
            }
            let crossing = self.passage.cross(key);
            self.crossed(crossing, key);
            span = tail;
        }
        if !self.done() {
            self.take(span);
        }
    }

    fn on_rare(&mut self, step: &Step, rare: &Rare) {
        if self.passage.next_key().is_some_and(|key| step.key >= key) {
            let crossing = self.passage.cross(step.key);
            self.crossed(crossing, step.key);
            if self.done() {
                return;
            }
        }
        self.to = self.to.max(step.key);
        match *rare {
            Rare::FrameMark { id } => self.on_frame_mark(id, step),
            Rare::PhaseBegin { name } => {
                self.frames.on_phase_begin();
                self.timeline.on_phase_begin(step.key, step.thread, name);
            }
            Rare::PhaseEnd { name } => {
                if self.timeline.on_phase_end(step.key, step.thread, name) {
                    self.frames.on_phase_end();
                }
            }
            Rare::Mark { name } => {
                self.timeline.on_mark(step.key, name);
                let crossing = self.passage.on_mark(step.key, name);
                self.crossed(crossing, step.key);
            }
            _ => {
                self.calls.on_rare(rare);
                self.slow.on_rare(step, rare);
                self.heaps.on_rare(step, rare);
            }
        }
    }

    fn done(&self) -> bool {
        self.passage.ended.is_some()
    }
}
