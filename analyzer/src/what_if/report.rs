//! What came of a run, as plain values.

use super::feeder::Fed;
use super::run::Run;
use super::scene::Scene;
use crate::analysis::naming::Naming;
use heapreel_format::Trace;
use heapreel_models::arena::ArenaReport;
use heapreel_models::layout::{InstanceView, Traffic};
use heapreel_models::ledger::{Excess, Failed, FrameRow, Tally};
use heapreel_models::metrics::Fragmentation;
use heapreel_models::paged::{HeapFacts, HeapKind};
use heapreel_models::pool::PoolReport;
use heapreel_models::virtual_memory::Mapping;
use heapreel_models::{
    Arenas, Counters, FreeClass, Heap, Layout, Mimalloc, Pool, SegmentId, Virtual,
};
use serde::Serialize;
use std::any::Any;

/// Frames that are listed as the worst of a kind.
const WORST: usize = 5;

/// A trace that was replayed through models.
#[derive(Clone, Debug, Serialize)]
pub struct Replayed {
    /// The trace's file.
    pub trace: String,
    /// What the models were fed.
    pub fed: Fed,
    /// What is missing in the trace, one sentence each; empty for a whole one.
    pub remarks: Vec<String>,
    /// A report for each model, in the order asked for.
    pub models: Vec<ModelReport>,
}

/// What one model made of a trace. Bytes, unless a field says otherwise.
#[derive(Clone, Debug, Serialize)]
pub struct ModelReport {
    /// The model as it was asked for.
    pub model: String,
    /// How far it can be trusted, in words.
    pub fidelity: &'static str,
    /// Its counters when the trace ended.
    pub end: Counters,
    /// Most bytes requested at once.
    pub peak_requested: u64,
    /// Most bytes held at once.
    pub peak_held: u64,
    /// Most blocks at once.
    pub peak_blocks: u64,
    /// `1 - requested / held` when most was requested.
    pub waste_at_peak: f64,
    /// The same over all events: mean requested over mean held.
    pub mean_waste: f64,
    /// Held and not requested when the trace ended, by cause.
    pub waste: Vec<Cause>,
    /// The segments that the model can tell apart.
    pub segments: Vec<SegmentRow>,
    /// Frames that ended; 0 where the trace has no frame marks.
    pub frames: u64,
    /// Requests to the operating system before the first frame.
    pub start_up_os_calls: u64,
    /// The same in frames.
    pub os_calls: PerFrame,
    /// Bytes cleared in frames.
    pub zeroed: PerFrame,
    /// Calls in frames that left the fast path.
    pub slow: PerFrame,
    /// Mapped runs that were wanted again while they were kept, for models that keep them.
    pub mapping: Option<Mapping>,
    /// `hits / (hits + misses)`.
    pub lru_hit_rate: Option<f64>,
    /// Heaps of threads with their release queues, for models that have them.
    pub heaps: Vec<HeapFacts>,
    /// Heaps that exited threads left.
    pub abandoned_heaps: u64,
    /// How often what happened.
    pub tally: Tally,
    /// The first failures.
    pub failures: Vec<FailureRow>,
    /// Bytes of blocks that failed and that the trace had live, at most at once.
    pub peak_phantom_bytes: u64,
    /// Times over a budget.
    pub exceeded: Vec<ExcessRow>,
    /// Times over a budget, those that are not listed included.
    pub exceeded_count: u64,
    /// Measures of fragmentation when the trace ended.
    pub fragmentation: Fragmentation,
    /// Arenas, for that model.
    pub arenas: Vec<ArenaReport>,
    /// Blocks that outlived their arena's buffer, for that model.
    pub escapes: Option<u64>,
    /// The pool, for that model.
    pub pool: Option<PoolReport>,
    /// A layout's instances.
    pub instances: Vec<InstanceRow>,
    /// Agrees for two runs that placed all blocks alike.
    pub fingerprint: String,
}

/// Bytes and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Why.
    pub cause: String,
    /// How many.
    pub bytes: u64,
}

/// A segment when the trace ended. Bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentRow {
    /// Its name.
    pub name: String,
    /// Its budget, where there is one.
    pub budget: Option<u64>,
    /// Most bytes of blocks at once.
    pub peak_used: u64,
    /// Its counters.
    #[serde(flatten)]
    pub end: Counters,
}

/// Something per frame.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PerFrame {
    /// In all frames.
    pub total: u64,
    /// In the mean.
    pub mean: f64,
    /// The frames with the most, worst first; none without any.
    pub worst: Vec<WorstFrame>,
}

/// A frame that is among the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WorstFrame {
    /// Its number.
    pub frame: u32,
    /// How bad.
    pub value: u64,
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailureRow {
    /// The game frame.
    pub frame: u32,
    /// Nanoseconds since recording started.
    pub nanos: u64,
    /// The segment's name.
    pub segment: String,
    /// Who asked; empty where the trace has no backtrace.
    pub site: String,
    /// Bytes that were asked for.
    pub size: u64,
    /// Alignment that was asked for, 0 for none.
    pub align: u64,
    /// A block was to be resized.
    pub resize: bool,
    /// Why.
    pub cause: &'static str,
    /// Bytes needed, headers included.
    pub needed: u64,
    /// Bytes that were free.
    pub free: u64,
    /// The longest free range.
    pub largest_free: u64,
    /// The free ranges at that moment, by powers of two.
    pub free_sizes: Vec<FreeClass>,
}

/// A time over a budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExcessRow {
    /// The segment's name.
    pub segment: String,
    /// Its budget in bytes.
    pub budget: u64,
    /// The most bytes in that time.
    pub peak: u64,
    /// When it began, in nanoseconds since recording started.
    pub from_nanos: u64,
    /// The frame it began in.
    pub from_frame: u32,
    /// When it ended; `None` where it lasted to the end.
    pub until_nanos: Option<u64>,
    /// The frame it ended in.
    pub until_frame: Option<u32>,
}

/// An instance of a layout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InstanceRow {
    /// Its name.
    pub name: String,
    /// What it was asked for.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Most bytes of blocks at once.
    pub peak_used: u64,
    /// Held and not requested when the trace ended, by cause.
    pub waste: Vec<Cause>,
    /// Its counters when the trace ended.
    pub end: Counters,
}

/// Reports on runs that are at their end.
pub fn report(file: &str, trace: &Trace, scene: &Scene, runs: &[Run], fed: Fed) -> Replayed {
    let mut reporter = Reporter {
        trace,
        scene,
        naming: Naming::new(trace),
        fed,
    };
    Replayed {
        trace: file.to_owned(),
        fed,
        remarks: trace.health().remarks(),
        models: runs.iter().map(|run| reporter.model(run)).collect(),
    }
}

/// Frames of a run: those between two marks, and the whole stretch where there are none.
pub fn frame_rows<'a>(run: &'a Run, fed: &Fed) -> &'a [FrameRow] {
    let rows = run.ledger().frames();
    match fed.frames {
        0 => rows,
        // The first row ends at the first mark, the last one is what follows the last.
        frames => rows.get(1..1 + frames as usize).unwrap_or(rows),
    }
}

struct Reporter<'a> {
    trace: &'a Trace,
    scene: &'a Scene,
    naming: Naming<'a>,
    fed: Fed,
}

impl Reporter<'_> {
    fn model(&mut self, run: &Run) -> ModelReport {
        let ledger = run.ledger();
        let model = ledger.model();
        let any: &dyn Any = model;
        let end = model.counters();
        let wilson = ledger.johnstone_wilson();
        let [mean, at_requested, ..] = wilson.measures();
        let rows = frame_rows(run, &self.fed);
        let start_up = ledger.frames().first().filter(|_| self.fed.frames > 0);
        let virtual_memory = any.downcast_ref::<Virtual>();
        let arenas = any.downcast_ref::<Arenas>();
        let heaps = virtual_memory.map_or_else(Vec::new, Virtual::heaps);
        let abandoned = heaps.iter().filter(|heap| heap.kind == HeapKind::Abandoned);
        ModelReport {
            model: run.label().to_owned(),
            fidelity: fidelity(any),
            peak_requested: wilson.peak_requested(),
            peak_held: end.peak_held.max(wilson.peak_held()),
            peak_blocks: ledger.peak_blocks(),
            waste_at_peak: share_lost(at_requested),
            mean_waste: share_lost(mean),
            waste: waste(any, &end),
            segments: self.segments(run),
            frames: self.fed.frames,
            start_up_os_calls: start_up.map_or(0, |row| row.os_calls),
            os_calls: per_frame(rows, |row| row.os_calls),
            zeroed: per_frame(rows, |row| row.zeroed),
            slow: per_frame(rows, |row| row.slow),
            mapping: virtual_memory.map(Virtual::mapping),
            lru_hit_rate: virtual_memory.map(|model| model.mapping().hit_rate()),
            abandoned_heaps: abandoned.count() as u64,
            heaps,
            tally: *ledger.tally(),
            failures: ledger
                .failures()
                .iter()
                .map(|it| self.failure(it))
                .collect(),
            peak_phantom_bytes: ledger.peak_phantom_bytes(),
            exceeded: ledger.excesses().iter().map(|it| self.excess(it)).collect(),
            exceeded_count: ledger.excess_count(),
            fragmentation: Fragmentation::of(&model.regions(), &end),
            arenas: arenas.map_or_else(Vec::new, Arenas::reports),
            escapes: arenas.map(Arenas::escapes),
            pool: any.downcast_ref::<Pool>().map(Pool::report),
            instances: any
                .downcast_ref::<Layout>()
                .map_or_else(Vec::new, instances),
            fingerprint: format!("{:016x}", ledger.fingerprint()),
            end,
        }
    }

    fn segments(&self, run: &Run) -> Vec<SegmentRow> {
        let ledger = run.ledger();
        let row = |(id, end): (SegmentId, Counters)| {
            let number = usize::from(id.0);
            let name = run.segments().get(number).cloned();
            let name = name.unwrap_or_else(|| format!("segment {number}"));
            let in_trace = self.scene.segments.iter().position(|it| it.name == name);
            let charged = in_trace.map(|at| ledger.peak_charged(SegmentId(at as u16)));
            SegmentRow {
                budget: run.budget(&name),
                peak_used: charged.unwrap_or(0).max(end.used),
                name,
                end,
            }
        };
        ledger.model().by_segment().into_iter().map(row).collect()
    }

    fn segment_name(&self, number: u16) -> String {
        let known = self.scene.segments.get(usize::from(number));
        known.map_or_else(|| format!("segment {number}"), |it| it.name.clone())
    }

    fn site_name(&mut self, site: u32) -> String {
        let id = self.scene.dense.stacks.get(site as usize);
        let stack = id.and_then(|id| self.trace.definitions().stacks.get(id));
        let function = stack.and_then(|stack| self.naming.blamed(stack));
        function.map_or_else(String::new, |function| function.short)
    }

    fn failure(&mut self, failed: &Failed) -> FailureRow {
        FailureRow {
            frame: failed.frame,
            nanos: failed.nanos,
            segment: self.segment_name(failed.segment.0),
            site: self.site_name(failed.site),
            size: failed.size,
            align: failed.align,
            resize: failed.resize,
            cause: cause(failed.failure.cause),
            needed: failed.failure.needed,
            free: failed.failure.free,
            largest_free: failed.failure.largest_free,
            free_sizes: failed.free.classes(),
        }
    }

    fn excess(&self, excess: &Excess) -> ExcessRow {
        ExcessRow {
            segment: self.segment_name(excess.segment),
            budget: excess.budget,
            peak: excess.peak,
            from_nanos: excess.from_nanos,
            from_frame: excess.from_frame,
            until_nanos: excess.until_nanos,
            until_frame: excess.until_frame,
        }
    }
}

/// `1 - requested / held` from `held / requested - 1`.
fn share_lost(excess: f64) -> f64 {
    1.0 - 1.0 / (1.0 + excess)
}

fn cause(cause: heapreel_models::FailureCause) -> &'static str {
    use heapreel_models::FailureCause as Cause;
    match cause {
        Cause::NoContiguous => "no contiguous range",
        Cause::Exhausted => "exhausted",
        Cause::OverBudget => "over budget",
        Cause::TooLarge => "too large",
    }
}

fn fidelity(model: &dyn Any) -> &'static str {
    if model.is::<Mimalloc>() {
        "mimalloc 2.0.3, checked address for address with calls in a row; when memory goes back \
         is an estimate"
    } else if model.is::<Virtual>() {
        "an estimate: what lies under it is mimalloc 2.0.3, the rest is as its makers describe it"
    } else if model.is::<heapreel_models::Recorded>() {
        "what was recorded; between blocks a trace cannot tell headers from free memory"
    } else {
        "exact for the rules it states; no real one to compare with"
    }
}

/// What is held and was not requested, by cause; all of it adds up.
fn waste(model: &dyn Any, end: &Counters) -> Vec<Cause> {
    if let Some(layout) = model.downcast_ref::<Layout>() {
        return summed(layout.instances().map(|it| waste_of(it.model)));
    }
    let cause = |cause: &str, bytes| Cause {
        cause: cause.to_owned(),
        bytes,
    };
    let rounding = cause("rounding", end.used - end.requested.min(end.used));
    let parts = if let Some(model) = model.downcast_ref::<Virtual>() {
        named(&model.waste())
    } else if let Some(model) = model.downcast_ref::<Mimalloc>() {
        named(&model.waste())
    } else {
        let meta = match model.is::<Heap>() {
            true => "headers",
            false => "tables",
        };
        vec![cause(meta, end.meta), cause("free", end.free)]
    };
    std::iter::once(rounding)
        .chain(parts)
        .filter(|it| it.bytes > 0)
        .collect()
}

fn waste_of(model: &dyn heapreel_models::Model) -> Vec<Cause> {
    waste(model, &model.counters())
}

/// The causes of several models, each once, in the order in which they are met.
fn summed(models: impl Iterator<Item = Vec<Cause>>) -> Vec<Cause> {
    let mut sums: Vec<Cause> = Vec::new();
    for cause in models.flatten() {
        match sums.iter_mut().find(|sum| sum.cause == cause.cause) {
            Some(sum) => sum.bytes += cause.bytes,
            None => sums.push(cause),
        }
    }
    sums
}

/// The fields of a value that are numbers, by their names.
fn named(value: &impl Serialize) -> Vec<Cause> {
    let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(value) else {
        return Vec::new();
    };
    let number = |(name, value): (String, serde_json::Value)| {
        Some(Cause {
            cause: name.replace('_', " "),
            bytes: value.as_u64()?,
        })
    };
    fields.into_iter().filter_map(number).collect()
}

fn per_frame(rows: &[FrameRow], value: impl Fn(&FrameRow) -> u64) -> PerFrame {
    let total: u64 = rows.iter().map(&value).sum();
    let mut worst: Vec<_> = rows
        .iter()
        .map(|row| WorstFrame {
            frame: row.frame,
            value: value(row),
        })
        .filter(|it| it.value > 0)
        .collect();
    worst.sort_by_key(|it| (std::cmp::Reverse(it.value), it.frame));
    worst.truncate(WORST);
    PerFrame {
        total,
        mean: total as f64 / rows.len().max(1) as f64,
        worst,
    }
}

fn instances(layout: &Layout) -> Vec<InstanceRow> {
    let row = |it: InstanceView<'_>| InstanceRow {
        name: it.name.to_owned(),
        traffic: *it.traffic,
        peak_used: it.peak_used,
        waste: waste_of(it.model),
        end: it.model.counters(),
    };
    layout.instances().map(row).collect()
}
