//! Game frames of all loops: what happened between one mark and the next.
//!
//! Sums are kept once, for the whole trace and for each thread; a frame is the
//! difference between its two marks. So several loops cost no more than one.

use super::counts::{Counts, Tally};
use crate::replay::{Outcome, Span, Step, StepKind};
use heapreel_format::LoopId;
use std::collections::BTreeMap;

/// The slowest call of a stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlowestCall {
    pub(crate) ticks: u64,
    pub(crate) key: u64,
    pub(crate) size: u64,
    pub(crate) stack: u32,
    pub(crate) thread: u32,
    pub(crate) context: u32,
    pub(crate) kind: Option<StepKind>,
}

/// What happened between two marks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FrameFacts {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// By all threads.
    pub(crate) all: Counts,
    /// By the loop's own thread.
    pub(crate) own: Counts,
    pub(crate) slowest: SlowestCall,
    /// Blocks allocated and given back within it.
    pub(crate) temporary: u64,
    pub(crate) live_bytes: u64,
    pub(crate) live_blocks: u64,
    pub(crate) peak_bytes: u64,
    pub(crate) in_phase: bool,
    /// The loop's own thread: the one that set the mark at its start.
    pub(crate) thread: u32,
}

/// One game loop.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoopFacts {
    /// From the trace's start to the first mark.
    pub(crate) before: FrameFacts,
    /// Between marks.
    pub(crate) frames: Vec<FrameFacts>,
    /// From the last mark to the trace's end.
    pub(crate) after: FrameFacts,
    pub(crate) marks: u64,
    open: Open,
}

/// The stretch that is not yet closed.
#[derive(Clone, Debug, Default)]
struct Open {
    start: u64,
    all: Counts,
    /// The thread that set the mark at the start; none before the first mark.
    thread: Option<u32>,
    /// That thread's sums there.
    own: Counts,
    slowest: SlowestCall,
    temporary: u64,
    peak_bytes: u64,
    in_phase: bool,
}

/// What live bytes have come to where a mark stands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LiveNow {
    pub(crate) bytes: u64,
    pub(crate) blocks: u64,
}

/// All loops, and the sums that they are differences of.
#[derive(Clone, Debug)]
pub(crate) struct FrameTable {
    pub(crate) all: Tally,
    pub(crate) threads: Vec<Tally>,
    pub(crate) loops: BTreeMap<LoopId, LoopFacts>,
    /// The loop whose frames decide what is temporary.
    pub(crate) primary: LoopId,
    /// The user chose it.
    chosen: bool,
    phases_open: u32,
    /// Of the whole trace up to the last mark, for loops that have not begun.
    start_up: Open,
}

impl FrameTable {
    /// A table for loops with these numbers; others are added as their marks appear.
    ///
    /// `main` is the loop that decides what is temporary, where the user said so.
    pub(crate) fn new(
        threads: usize,
        loops: impl Iterator<Item = LoopId>,
        main: Option<LoopId>,
        first_key: u64,
    ) -> FrameTable {
        let mut table = FrameTable {
            all: Tally::default(),
            threads: vec![Tally::default(); threads.max(1)],
            loops: loops.map(|id| (id, LoopFacts::default())).collect(),
            primary: main.unwrap_or_default(),
            chosen: main.is_some(),
            phases_open: 0,
            start_up: Open::default(),
        };
        table.begin_window(first_key);
        table
    }

    /// Forgets all frames and sums; the stretch before the first mark begins here.
    pub(crate) fn begin_window(&mut self, key: u64) {
        self.all = Tally::default();
        self.threads.fill(Tally::default());
        self.start_up = Open {
            start: key,
            in_phase: self.phases_open > 0,
            ..Open::default()
        };
        for facts in self.loops.values_mut() {
            *facts = LoopFacts {
                open: self.start_up.clone(),
                ..LoopFacts::default()
            };
        }
    }

    pub(crate) fn on_events(&mut self, span: Span<'_>, span_peak: u64) {
        let slowest = self.count(span);
        self.count_temporary(span);
        for open in self
            .loops
            .values_mut()
            .map(|facts| &mut facts.open)
            .chain([&mut self.start_up])
        {
            open.peak_bytes = open.peak_bytes.max(span_peak);
            if let Some(step) = slowest.filter(|step| step.latency > open.slowest.ticks) {
                open.slowest = SlowestCall::of(step);
            }
        }
    }

    /// Adds up; gives the slowest call.
    fn count<'a>(&mut self, span: Span<'a>) -> Option<&'a Step> {
        let mut highest = 0;
        let mut slowest = 0;
        for (at, (step, effect)) in span.ticks().enumerate() {
            self.all.add(step, effect);
            if let Some(thread) = self.threads.get_mut(step.thread as usize) {
                thread.add(step, effect);
            }
            if step.latency > highest {
                highest = step.latency;
                slowest = at;
            }
        }
        span.steps.get(slowest)
    }

    fn count_temporary(&mut self, span: Span<'_>) {
        let begun = self.loops.values_mut().filter(|facts| facts.marks > 0);
        for open in begun.map(|facts| &mut facts.open) {
            let dead = span.ticks().map(|(step, effect)| {
                let released =
                    step.kind == StepKind::Release && effect.outcome == Outcome::Released;
                u64::from(released & (effect.block.key >= open.start))
            });
            open.temporary += dead.sum::<u64>();
        }
    }

    /// A frame of a loop ends here; true where it is the loop that decides what is temporary.
    pub(crate) fn on_mark(&mut self, id: LoopId, step: &Step, live: LiveNow) -> bool {
        let mut facts = self.loops.remove(&id).unwrap_or_else(|| LoopFacts {
            open: self.start_up.clone(),
            ..LoopFacts::default()
        });
        let frame = self.close(&facts.open, step.key, step.thread, live);
        if facts.marks == 0 {
            facts.before = frame;
        } else {
            facts.frames.push(frame);
        }
        facts.marks += 1;
        facts.open = self.open(step, live);
        self.loops.insert(id, facts);
        self.choose_primary();
        id == self.primary
    }

    /// Of the loops with marks the one with the lowest number, where the user chose none.
    fn choose_primary(&mut self) {
        let mut marked = self.loops.iter().filter(|(_, facts)| facts.marks > 0);
        if let (false, Some((id, _))) = (self.chosen, marked.next()) {
            self.primary = *id;
        }
    }

    pub(crate) fn on_phase_begin(&mut self) {
        self.phases_open += 1;
        self.loops
            .values_mut()
            .for_each(|facts| facts.open.in_phase = true);
        self.start_up.in_phase = true;
    }

    pub(crate) fn on_phase_end(&mut self) {
        self.phases_open = self.phases_open.saturating_sub(1);
    }

    /// Closes what is open at the trace's end.
    pub(crate) fn finish(&mut self, key: u64, live: LiveNow) {
        let mut loops = std::mem::take(&mut self.loops);
        for facts in loops.values_mut() {
            let thread = facts
                .frames
                .last()
                .map_or(facts.before.thread, |frame| frame.thread);
            let rest = self.close(&facts.open, key, thread, live);
            if facts.marks == 0 {
                facts.before = rest;
            } else {
                facts.after = rest;
            }
        }
        self.loops = loops;
    }

    fn open(&self, step: &Step, live: LiveNow) -> Open {
        Open {
            start: step.key,
            all: self.all.counts(),
            thread: Some(step.thread),
            own: self.of_thread(step.thread),
            slowest: SlowestCall::default(),
            temporary: 0,
            peak_bytes: live.bytes,
            in_phase: self.phases_open > 0,
        }
    }

    fn of_thread(&self, thread: u32) -> Counts {
        self.threads
            .get(thread as usize)
            .map_or_else(Counts::default, Tally::counts)
    }

    /// The stretch before the first mark belongs to whoever sets that mark.
    fn close(&self, open: &Open, key: u64, marked_by: u32, live: LiveNow) -> FrameFacts {
        let thread = open.thread.unwrap_or(marked_by);
        let own = self.of_thread(thread).since(&open.own);
        FrameFacts {
            start: open.start,
            end: key.max(open.start),
            all: self.all.counts().since(&open.all),
            own,
            slowest: open.slowest,
            temporary: open.temporary,
            live_bytes: live.bytes,
            live_blocks: live.blocks,
            peak_bytes: open.peak_bytes.max(live.bytes),
            in_phase: open.in_phase,
            thread,
        }
    }
}

impl SlowestCall {
    pub(crate) fn of(step: &Step) -> SlowestCall {
        SlowestCall {
            ticks: step.latency,
            key: step.key,
            size: step.size,
            stack: step.stack,
            thread: step.thread,
            context: step.context,
            kind: Some(step.kind),
        }
    }
}
