//! The slowest calls, with what bounds their cause where the recorder looked.

use super::frame_table::SlowestCall;
use crate::replay::{Span, Step};
use heapreel_format::Rare;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// What the thread met in an interval that contains the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) minor_faults: u32,
    pub(crate) major_faults: u32,
    pub(crate) voluntary_switches: u32,
    pub(crate) involuntary_switches: u32,
    pub(crate) interval_ticks: u64,
}

/// Keeps the slowest calls; of equal ones the earlier ones.
#[derive(Clone, Debug)]
pub(crate) struct SlowCalls {
    limit: usize,
    /// Calls slower than this are counted.
    threshold: u64,
    pub(crate) count: u64,
    pub(crate) ticks: u64,
    /// A call at or below this is none of the slowest.
    floor: u64,
    heap: BinaryHeap<Reverse<Kept>>,
    /// Causes by stream and key.
    causes: BTreeMap<(u32, u64), Cause>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    ticks: u64,
    /// Earlier ones stand higher.
    key: Reverse<u64>,
    stream: Reverse<u32>,
    rest: Rest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rest(SlowestCall);

impl PartialOrd for Rest {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rest {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl SlowCalls {
    pub(crate) fn new(limit: usize, threshold: u64) -> SlowCalls {
        SlowCalls {
            limit,
            threshold,
            count: 0,
            ticks: 0,
            floor: 0,
            heap: BinaryHeap::new(),
            causes: BTreeMap::new(),
        }
    }

    pub(crate) fn on_events(&mut self, span: Span<'_>) {
        for step in span.steps {
            if step.latency > self.threshold {
                self.count += 1;
                self.ticks += step.latency;
            }
            if step.latency > self.floor {
                self.keep(step);
            }
        }
    }

    pub(crate) fn on_rare(&mut self, step: &Step, rare: &Rare) {
        let Rare::SlowCall {
            minor_faults,
            major_faults,
            voluntary_switches,
            involuntary_switches,
            interval_ticks,
        } = *rare
        else {
            return;
        };
        let cause = Cause {
            minor_faults,
            major_faults,
            voluntary_switches,
            involuntary_switches,
            interval_ticks,
        };
        self.causes.insert((step.stream, step.key), cause);
        if self.causes.len() > 64 * self.limit {
            self.forget_causes();
        }
    }

    /// The slowest calls, slowest first.
    pub(crate) fn slowest(&self) -> Vec<(SlowestCall, Option<Cause>)> {
        let mut kept: Vec<_> = self.heap.iter().map(|Reverse(kept)| *kept).collect();
        kept.sort_unstable_by(|a, b| b.cmp(a));
        kept.iter()
            .map(|kept| (kept.rest.0, self.cause(kept)))
            .collect()
    }

    fn keep(&mut self, step: &Step) {
        let kept = Kept {
            ticks: step.latency,
            key: Reverse(step.key),
            stream: Reverse(step.stream),
            rest: Rest(SlowestCall::of(step)),
        };
        self.heap.push(Reverse(kept));
        if self.heap.len() > self.limit {
            self.heap.pop();
            self.floor = self.heap.peek().map_or(0, |Reverse(least)| least.ticks);
        }
    }

    /// The record of a call's cause stands right behind the call in its stream: it is
    /// the first one whose key is not before the call's end.
    fn cause(&self, kept: &Kept) -> Option<Cause> {
        let call = kept.rest.0;
        let from = (kept.stream.0, call.key);
        let ((stream, key), cause) = self.causes.range(from..).next()?;
        let end = call.key.saturating_add(call.ticks);
        (*stream == kept.stream.0 && *key <= end.saturating_add(call.ticks)).then_some(*cause)
    }

    /// Keeps only causes of calls that are kept.
    fn forget_causes(&mut self) {
        let wanted: Vec<_> = self
            .heap
            .iter()
            .filter_map(|Reverse(kept)| {
                let from = (kept.stream.0, kept.rest.0.key);
                self.causes.range(from..).next().map(|(place, _)| *place)
            })
            .collect();
        self.causes.retain(|place, _| wanted.contains(place));
    }
}
