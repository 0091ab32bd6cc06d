//! The analysis as plain values: what reports render and the viewer draws.
//!
//! Times are nanoseconds since recording started, durations nanoseconds, sizes bytes.
//! Field names are the keys of `heapreel report --json`; they are added to, never changed.

use serde::Serialize;
use std::collections::BTreeMap;

/// Everything that is known of a trace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Analysis {
    /// The file and the program it is of.
    pub trace: TraceFacts,
    /// The worst things first, at most five.
    pub findings: Vec<Finding>,
    /// How complete the trace is.
    pub health: HealthFacts,
    /// Sums over the whole trace, or the part that was asked for.
    pub totals: Totals,
    /// Game loops, the main one first.
    pub loops: Vec<LoopAnalysis>,
    /// Live bytes over time: exact extremes, at most some 4,000 points.
    pub live_curve: Vec<CurvePoint>,
    /// The high-water mark of live bytes.
    pub peak: Peak,
    /// Latency of each operation by size class.
    pub latency: Vec<LatencyTable>,
    /// The slowest calls, slowest first.
    pub slow_calls: Vec<SlowCall>,
    /// Call sites, in order of their names.
    pub sites: Vec<Site>,
    /// Use of each segment against its budget.
    pub segments: Vec<SegmentUse>,
    /// Contexts as a tree, each before those within it; the first is what is outside of any.
    /// Empty where the trace has none.
    pub contexts: Vec<ContextUse>,
    /// Heaps that the game announced, in that order.
    pub heaps: Vec<HeapUse>,
    /// Threads, in the order they were met.
    pub threads: Vec<ThreadUse>,
    /// Blocks that died within their frame.
    pub temporary: Temporary,
    /// Blocks given back by another thread than took them.
    pub foreign_frees: ForeignFrees,
    /// What was live at the end, by call site.
    pub leaks: Leaks,
    /// Call sites whose live bytes rose steadily.
    pub growth: Vec<Growth>,
    /// What calls and frames cost at the end against the beginning.
    pub drift: Drift,
    /// What recording cost.
    pub recording: RecordingCost,
    /// Marks that the game set.
    pub marks: Vec<MarkAt>,
    /// Phases that the game named.
    pub phases: Vec<PhaseAt>,
}

/// The file and the program.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TraceFacts {
    /// Of a clip: why it was made and of which frame, in words.
    pub clip: Option<String>,
    /// The trace's file name as it was given.
    pub file: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Path of the executable.
    pub executable: String,
    /// The command line.
    pub arguments: Vec<String>,
    /// The folder it was started in.
    pub folder: String,
    /// Process id.
    pub pid: u32,
    /// Its parent's process id.
    pub parent_pid: u32,
    /// The allocator beneath the recorder.
    pub allocator: String,
    /// Kernel and processor.
    pub machine: String,
    /// Bytes of an OS page.
    pub page_size: u32,
    /// Version of the recorder.
    pub recorder: String,
    /// It recorded as a preload library.
    pub preload: bool,
    /// Backtraces were taken.
    pub backtraces: bool,
    /// Calls were timed.
    pub latency: bool,
    /// Calls slower than this count as slow.
    pub slow_call_nanos: u64,
    /// Nanoseconds since 1970 (UTC) when recording started.
    pub start_unix_nanos: u64,
    /// From the start of recording, or of the part asked for, to the last record.
    pub duration_nanos: u64,
    /// Distinct backtraces with their entry points.
    pub stacks: u64,
    /// The trace carries function names.
    pub has_symbols: bool,
}

/// How complete the trace is.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HealthFacts {
    /// Every event that happened is here, in order.
    pub complete: bool,
    /// How the program ended: "exit 0", "signal 9", "exec", "stopped", "recorder left", "confined", "unknown";
    /// "running" while it runs; `None` where nothing tells.
    pub ended: Option<String>,
    /// It ended in a way that let it give back what it held.
    pub orderly: bool,
    /// The file ends too early.
    pub cut: bool,
    /// Sentences for people, worst first.
    pub remarks: Vec<String>,
    /// Stretches of the file that could not be used.
    pub damaged_parts: u64,
    /// Bytes in them.
    pub damaged_bytes: u64,
    /// Records that no chunk holds.
    pub missing_records: u64,
    /// Events that the recorder could not keep.
    pub lost_events: u64,
    /// Records that made no sense.
    pub unreadable_records: u64,
    /// Records found in the spill because the file lacks them.
    pub from_spill: u64,
    /// Releases that had begun when the program ended.
    pub in_flight: u64,
    /// Blocks acquired at live addresses, and double releases.
    pub order_anomalies: u64,
    /// Of these: blocks acquired where another one was live.
    pub acquired_while_live: u64,
    /// Of these: addresses released twice with no acquisition between.
    pub released_twice: u64,
    /// Acquisitions of live addresses that lost events or a pause explain.
    pub explained_anomalies: u64,
    /// Steps that came too late to be put in order.
    pub late_steps: u64,
    /// Releases of blocks never seen acquired, by entry point.
    pub unknown_releases: BTreeMap<String, u64>,
    /// Backtraces cut to their call site.
    pub stacks_cut: u64,
    /// How often a context was not entered because the recorder's table was full.
    pub contexts_cut: u64,
    /// Backtraces that the recorder compared with a whole unwind, where asked to.
    pub unwinds_checked: u64,
    /// How many of them were different.
    pub unwinds_differing: u64,
}

/// Sums of events.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Totals {
    /// All events.
    pub events: u64,
    /// Allocations, zeroed ones included.
    pub allocations: u64,
    /// Of these zeroed.
    pub zeroed_allocations: u64,
    /// Reallocations.
    pub reallocations: u64,
    /// Deallocations.
    pub deallocations: u64,
    /// Requests that failed.
    pub failed_allocations: u64,
    /// Of these reallocations.
    pub failed_reallocations: u64,
    /// Sizes asked for: of allocations and the new ones of reallocations.
    pub requested_bytes: u64,
    /// Sizes of blocks given back.
    pub freed_bytes: u64,
    /// Live at the end.
    pub live_blocks: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// Time in the allocator of all threads, less the clock's own.
    pub allocator_nanos: u64,
    /// Frames of all loops.
    pub frames: u64,
    /// Calls by entry point.
    pub calls_by_entry: BTreeMap<String, u64>,
}

/// One game loop.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LoopAnalysis {
    /// Its name.
    pub name: String,
    /// Where its marks come from.
    pub source: String,
    /// The thread that sets them.
    pub thread: String,
    /// The time that a frame may take; what is above it is a spike.
    pub budget_nanos: u64,
    /// Where the budget comes from.
    pub budget_source: String,
    /// The stretch before the first mark.
    pub start_up: FrameRow,
    /// Frames, in order.
    pub frames: Vec<FrameRow>,
    /// The stretch behind the last mark.
    pub after_end: FrameRow,
    /// Distributions over frames outside of phases.
    pub steady: LoopSummary,
    /// Spikes and what they come from.
    pub spikes: SpikeAnalysis,
}

/// One frame.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FrameRow {
    /// Its number.
    pub number: u64,
    /// When it began.
    pub start_nanos: u64,
    /// How long it took, as recorded.
    pub duration_nanos: u64,
    /// The recorder's share of that, estimated.
    pub recorder_nanos: u64,
    /// How long it took less the recorder's share.
    pub net_nanos: u64,
    /// Allocations of all threads.
    pub allocations: u64,
    /// Reallocations of all threads.
    pub reallocations: u64,
    /// Deallocations of all threads.
    pub deallocations: u64,
    /// Failed requests of all threads.
    pub failed: u64,
    /// Bytes asked for by all threads.
    pub requested_bytes: u64,
    /// Bytes given back by all threads.
    pub freed_bytes: u64,
    /// Time in the allocator on the loop's own thread.
    pub allocator_nanos: u64,
    /// Time in the allocator of all threads.
    pub all_threads_allocator_nanos: u64,
    /// Events on the loop's own thread.
    pub own_events: u64,
    /// The slowest call of any thread.
    pub slowest_call_nanos: u64,
    /// Index of its site in [`Analysis::sites`].
    pub slowest_call_site: Option<u32>,
    /// Blocks that were allocated and given back in it.
    pub temporary: u64,
    /// Blocks given back that another thread had allocated.
    pub foreign_frees: u64,
    /// Live at its end.
    pub live_bytes: u64,
    /// Live blocks at its end.
    pub live_blocks: u64,
    /// The most that was live in it.
    pub peak_bytes: u64,
    /// It overlaps a phase, so it is no spike.
    pub in_phase: bool,
    /// It is over the budget of time.
    pub spike: bool,
}

/// A distribution.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Distribution {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 95th percentile (nearest rank).
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Greatest.
    pub max: u64,
    /// The frame of the greatest.
    pub max_frame: u64,
}

/// Distributions over the frames of a loop that overlap no phase.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LoopSummary {
    /// How many frames.
    pub frames: u64,
    /// Frames in phases, left out.
    pub frames_in_phases: u64,
    /// Duration, as recorded.
    pub duration_nanos: Distribution,
    /// Duration less the recorder's share.
    pub net_nanos: Distribution,
    /// Allocations and reallocations of all threads.
    pub allocations: Distribution,
    /// Deallocations of all threads.
    pub deallocations: Distribution,
    /// Bytes asked for.
    pub requested_bytes: Distribution,
    /// Time in the allocator on the loop's thread.
    pub allocator_nanos: Distribution,
    /// How uneven deallocations are.
    pub free_bursts: Bursts,
    /// How uneven allocations and reallocations are.
    pub allocation_bursts: Bursts,
}

/// How unevenly events of a kind fall on frames.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Bursts {
    /// Variance divided by mean; 1 for independent events, more for bursts.
    pub fano_factor: f64,
    /// Share of them all that the 1 % of frames with most of them hold.
    pub share_of_top_percent: f64,
    /// Frames without any.
    pub frames_without: u64,
    /// The most in a frame divided by the median; `None` where the median frame has none.
    pub max_over_median: Option<f64>,
}

/// Frames over budget and their causes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SpikeAnalysis {
    /// How many frames are over budget.
    pub count: u64,
    /// Of these explained by time in the allocator.
    pub explained: u64,
    /// Partly explained.
    pub partly: u64,
    /// Not explained.
    pub not_explained: u64,
    /// Cannot be told.
    pub cannot_tell: u64,
    /// Excess over the median frame, summed over all spikes.
    pub excess_nanos: u64,
    /// Of that: excess time in the allocator on the loop's thread.
    pub allocator_excess_nanos: u64,
    /// Frames outside of phases with a slow call, by any thread.
    pub frames_with_slow_calls: u64,
    /// Of the frames over budget, those with a slow call.
    pub spikes_with_slow_calls: u64,
    /// Whether frames with many calls are the long ones.
    pub coincidence: Coincidence,
    /// The worst ones, longest first.
    pub worst: Vec<Spike>,
}

/// Do peaks in count and in time coincide?
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Coincidence {
    /// Frames that were compared.
    pub frames: u64,
    /// Spearman's rank correlation of calls and net duration; `None` where either never varies.
    pub rank_correlation: Option<f64>,
    /// Of the 5 % longest frames, the share that is also among the 5 % with most calls.
    pub common_share: Option<f64>,
    /// The share that chance alone would give.
    pub chance_share: f64,
}

/// Whether allocation explains a spike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// At least half of the excess.
    Explained,
    /// At least a fifth.
    Partly,
    /// Less.
    NotExplained,
    /// The figures do not suffice.
    #[default]
    CannotTell,
}

/// One frame over budget.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Spike {
    /// The frame's number.
    pub frame: u64,
    /// When it began.
    pub start_nanos: u64,
    /// How long it took, as recorded.
    pub duration_nanos: u64,
    /// Less the recorder's share.
    pub net_nanos: u64,
    /// Over the median frame.
    pub excess_nanos: u64,
    /// Time in the allocator on the loop's thread.
    pub allocator_nanos: u64,
    /// That over the median frame's.
    pub allocator_excess_nanos: u64,
    /// Calls on the loop's thread.
    pub calls: u64,
    /// The slowest call of any thread.
    pub slowest_call_nanos: u64,
    /// Share of the excess that the allocator explains, 0 to 1.
    pub share: f64,
    /// The judgement.
    pub verdict: Verdict,
    /// Call sites by their time in it, at most five, on the loop's thread.
    pub sites: Vec<SpikeSite>,
}

/// A call site's part in a frame.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct SpikeSite {
    /// Index in [`Analysis::sites`].
    pub site: u32,
    /// Its calls there.
    pub calls: u64,
    /// Bytes it asked for.
    pub bytes: u64,
    /// Their time in the allocator.
    pub nanos: u64,
    /// The slowest of them.
    pub slowest_nanos: u64,
    /// Index in [`Analysis::contexts`] of the one in which they took most of that time;
    /// `None` where the trace has none.
    pub context: Option<u32>,
}

/// A point of the curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CurvePoint {
    /// When.
    pub nanos: u64,
    /// Live bytes from then on.
    pub bytes: u64,
}

/// The high-water mark.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Peak {
    /// Live bytes.
    pub bytes: u64,
    /// Live blocks at that instant.
    pub blocks: u64,
    /// When.
    pub nanos: u64,
    /// The main loop's frame in which it fell.
    pub frame: Option<u64>,
}

/// Latency of one operation in one size class.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LatencyTable {
    /// "allocation", "reallocation" or "deallocation".
    pub operation: String,
    /// "to 4 KiB", "to 1 MiB", "above 1 MiB" or "unknown size".
    pub size_class: String,
    /// Calls.
    pub count: u64,
    /// Mean, exact.
    pub mean_nanos: u64,
    /// Percentiles: at most 6.25 % above the true value.
    pub p50_nanos: u64,
    /// 99th percentile.
    pub p99_nanos: u64,
    /// 99.9th percentile.
    pub p999_nanos: u64,
    /// Greatest, exact.
    pub max_nanos: u64,
    /// Calls by latency.
    pub histogram: Vec<LatencyBucket>,
}

/// Calls whose latency lies in one power of two of the clock's ticks.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LatencyBucket {
    /// From here on.
    pub from_nanos: u64,
    /// To below here.
    pub to_nanos: u64,
    /// Calls.
    pub count: u64,
}

/// One slow call.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SlowCall {
    /// When it was ordered among the others.
    pub nanos: u64,
    /// How long it took.
    pub duration_nanos: u64,
    /// "allocation", "reallocation", "deallocation" or "failed request".
    pub operation: String,
    /// Bytes asked for.
    pub bytes: u64,
    /// The main loop's frame in which it lies.
    pub frame: Option<u64>,
    /// Name of its thread.
    pub thread: String,
    /// Index in [`Analysis::sites`]; `None` for deallocations without backtrace.
    pub site: Option<u32>,
    /// Index in [`Analysis::contexts`]; `None` where the trace has none.
    pub context: Option<u32>,
    /// What bounds its cause, where the recorder looked.
    pub cause: Option<CallCause>,
}

/// What the thread met in an interval that contains a slow call.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct CallCause {
    /// Page faults without input or output.
    pub minor_faults: u32,
    /// Page faults with it.
    pub major_faults: u32,
    /// Times it waited.
    pub voluntary_switches: u32,
    /// Times it was interrupted by others.
    pub involuntary_switches: u32,
    /// Length of that interval.
    pub interval_nanos: u64,
}

/// A call site: the first function that is no allocator's or library's plumbing.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Site {
    /// The function's short name, or `module+0xoffset`.
    pub name: String,
    /// The full name.
    pub function: String,
    /// Source file and line, where known.
    pub place: Option<String>,
    /// The module's file name.
    pub module: String,
    /// Allocations.
    pub allocations: u64,
    /// Reallocations.
    pub reallocations: u64,
    /// Failed requests.
    pub failed: u64,
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Time in the allocator, of these calls and of giving their blocks back.
    pub allocator_nanos: u64,
    /// The slowest call.
    pub slowest_nanos: u64,
    /// Blocks of it given back.
    pub frees: u64,
    /// Of these by another thread.
    pub foreign_frees: u64,
    /// Blocks that died within their frame.
    pub temporary: u64,
    /// Live at the end.
    pub live_bytes: u64,
    /// Live blocks at the end.
    pub live_blocks: u64,
    /// What it held at the whole program's peak.
    pub peak_bytes: u64,
    /// Blocks it held then.
    pub peak_blocks: u64,
    /// Its backtraces, the one with most allocations first; at most some.
    pub stacks: Vec<SiteStack>,
}

/// One backtrace of a call site.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SiteStack {
    /// Its number in the trace.
    pub id: u32,
    /// The entry point called.
    pub entry: String,
    /// Allocations and reallocations.
    pub calls: u64,
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Live at the end.
    pub live_bytes: u64,
    /// Live blocks at the end.
    pub live_blocks: u64,
    /// Functions, innermost first.
    pub frames: Vec<StackFrame>,
    /// Outer stack frames are missing.
    pub cut: bool,
}

/// One function of a backtrace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StackFrame {
    /// Its name, or `module+0xoffset`.
    pub function: String,
    /// Source file and line, where known.
    pub place: Option<String>,
}

/// Use of a segment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SegmentUse {
    /// Its name.
    pub name: String,
    /// Its budget; 0 is none.
    pub budget_bytes: u64,
    /// The most it held.
    pub peak_bytes: u64,
    /// Held at the end.
    pub live_bytes: u64,
    /// Blocks held at the end.
    pub live_blocks: u64,
    /// Allocations in it.
    pub allocations: u64,
    /// Bytes asked for.
    pub requested_bytes: u64,
}

/// One context.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ContextUse {
    /// Index in [`Analysis::contexts`] of the one around; `None` of what is outside of any.
    pub parent: Option<u32>,
    /// How many there are around, what is outside of any included.
    pub depth: u32,
    /// Its kind: asset, level, entity, system, user, or the game's own.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// It and those around it, outermost first: "level:forest / asset:rock_07".
    pub path: String,
    /// How often it was entered.
    pub instances: u64,
    /// Bytes asked for in it and in those within it, for each instance.
    pub mean_bytes: Option<f64>,
    /// What was done in it and in none within it.
    pub own: ContextSums,
    /// The same, and what was done in those within it.
    pub total: ContextSums,
}

/// What was done in a context. Blocks are those of whoever acquired or last reallocated them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ContextSums {
    /// Allocations.
    pub allocations: u64,
    /// Reallocations.
    pub reallocations: u64,
    /// Blocks of it that were given back, in whichever context.
    pub deallocations: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Live at the end.
    pub live_bytes: u64,
    /// Live blocks at the end.
    pub live_blocks: u64,
    /// The most bytes that were live at once.
    pub peak_bytes: u64,
}

/// A part of a call site's live blocks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ContextShare {
    /// Index in [`Analysis::contexts`].
    pub context: u32,
    /// It and those around it, as [`ContextUse::path`].
    pub path: String,
    /// Blocks.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A heap that the game announced. Its blocks lie in memory that it got from the allocator, or
/// from another heap, and are counted nowhere else.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HeapUse {
    /// Its name.
    pub name: String,
    /// "general", "pool", "arena", "gpu" or "file-mapped".
    pub kind: String,
    /// Index in [`Analysis::heaps`] of the one that it takes its memory from.
    pub parent: Option<u32>,
    /// Its budget; 0 is none.
    pub budget_bytes: u64,
    /// Bytes of its ranges at the end.
    pub held_bytes: u64,
    /// Bytes of its live blocks at the end, as they were asked for.
    pub live_bytes: u64,
    /// Live blocks at the end.
    pub live_blocks: u64,
    /// The most that its blocks took at once.
    pub peak_bytes: u64,
    /// When.
    pub peak_nanos: u64,
    /// In which frame of the main loop.
    pub peak_frame: Option<u64>,
    /// Blocks that it handed out.
    pub allocations: u64,
    /// Blocks that it changed.
    pub reallocations: u64,
    /// Blocks that went back one by one.
    pub deallocations: u64,
    /// How often it was emptied at once.
    pub resets: u64,
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// The first time that its blocks took more than its budget.
    pub over_budget: Option<OverBudget>,
    /// Resets that are missing among regular ones.
    pub forgotten_resets: Option<ForgottenResets>,
    /// Its end, where it came to one.
    pub destroyed: Option<HeapEnd>,
    /// Blocks given back or changed that it did not have.
    pub unknown_blocks: u64,
    /// Blocks handed out where one was live.
    pub given_twice: u64,
    /// Blocks outside of its ranges, where it has some.
    pub outside_ranges: u64,
    /// What was told of it after its end.
    pub after_end: u64,
    /// The memory that it holds at the end, in order of addresses.
    pub ranges: Vec<HeapRange>,
    /// The call sites that asked it for blocks, those with most live bytes first; at most some.
    pub sites: Vec<HeapSite>,
}

/// When a heap broke its budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OverBudget {
    /// Bytes of its blocks then.
    pub bytes: u64,
    /// Nanoseconds since the recording began.
    pub nanos: u64,
    /// The frame of the main loop.
    pub frame: Option<u64>,
}

/// Resets that are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ForgottenResets {
    /// How many.
    pub count: u64,
    /// The frame of the main loop in which the first one was to come.
    pub first_frame: u64,
    /// Frames from one reset to the next otherwise.
    pub usual_frames: u64,
}

/// How a heap ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HeapEnd {
    /// When.
    pub nanos: u64,
    /// Bytes of blocks that it still had.
    pub left_bytes: u64,
    /// How many.
    pub left_blocks: u64,
}

/// Memory that a heap holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HeapRange {
    /// First address.
    pub address: u64,
    /// Length.
    pub bytes: u64,
}

/// A call site that asked a heap for blocks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HeapSite {
    /// The function's short name.
    pub name: String,
    /// Source file and line, where known.
    pub place: Option<String>,
    /// Blocks handed out or changed.
    pub calls: u64,
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Live at the end.
    pub live_bytes: u64,
    /// Live blocks at the end.
    pub live_blocks: u64,
}

/// One thread.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ThreadUse {
    /// Its number in the trace.
    pub id: u32,
    /// The kernel's thread id.
    pub tid: u32,
    /// Its name, or "thread" and its number.
    pub name: String,
    /// "critical", "background" or "unknown".
    pub role: String,
    /// Allocations.
    pub allocations: u64,
    /// Reallocations.
    pub reallocations: u64,
    /// Deallocations.
    pub deallocations: u64,
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Time in the allocator.
    pub allocator_nanos: u64,
    /// Blocks it gave back that another thread had allocated.
    pub foreign_frees: u64,
    /// Events that it lost.
    pub lost_events: u64,
}

/// Blocks that were allocated and given back within one frame of the main loop.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Temporary {
    /// How many; `None` without frame marks.
    pub blocks: Option<u64>,
    /// Their share of the allocations in frames.
    pub share: Option<f64>,
    /// Their bytes.
    pub bytes: u64,
}

/// Deallocations by another thread than allocated.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ForeignFrees {
    /// How many.
    pub count: u64,
    /// Their share of the deallocations of known blocks.
    pub share: f64,
}

/// What was live at the end.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Leaks {
    /// "leaked", or "live when the process ended abruptly", or "live at the end of the window".
    pub word: String,
    /// The program ended in a way that lets live blocks be called leaked.
    pub leaked: bool,
    /// Blocks.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// By call site, most bytes first.
    pub sites: Vec<LeakSite>,
}

/// One call site's live blocks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LeakSite {
    /// Index in [`Analysis::sites`].
    pub site: u32,
    /// Its name.
    pub name: String,
    /// Blocks.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of the blocks those allocated after the main loop's first mark, or all without marks.
    pub later_blocks: u64,
    /// Their bytes.
    pub later_bytes: u64,
    /// When the oldest was allocated.
    pub oldest_nanos: u64,
    /// When the newest was allocated.
    pub newest_nanos: u64,
    /// The main loop's frame of the oldest, and of the newest.
    pub frames: Option<(u64, u64)>,
    /// What they are for, most bytes first; empty where the trace has no contexts.
    pub contexts: Vec<ContextShare>,
}

/// A call site that grew.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Growth {
    /// Index in [`Analysis::sites`].
    pub site: u32,
    /// Its name.
    pub name: String,
    /// Live bytes where the steady part begins.
    pub from_bytes: u64,
    /// Live bytes at the end.
    pub to_bytes: u64,
    /// Growth in bytes a second.
    pub bytes_per_second: f64,
    /// Share of intervals in which it rose.
    pub rising_share: f64,
}

/// What recording cost, as estimated from calibration and samples.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RecordingCost {
    /// Where the figures come from: "samples", "calibration" or "unknown".
    pub source: String,
    /// Per allocation with its backtrace.
    pub per_acquisition_nanos: f64,
    /// Per deallocation.
    pub per_release_nanos: f64,
    /// That two clock reads with nothing between them show; taken off each latency.
    pub clock_nanos: f64,
    /// Events whose cost was measured.
    pub sampled_events: u64,
    /// In all, on all threads.
    pub total_nanos: u64,
    /// Share of the recorded duration, of one thread's time.
    pub share_of_duration: f64,
}

/// A mark.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MarkAt {
    /// When.
    pub nanos: u64,
    /// Its name.
    pub name: String,
    /// Which of this name, from 1.
    pub occurrence: u64,
    /// The main loop's frame.
    pub frame: Option<u64>,
}

/// A phase.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PhaseAt {
    /// Its name.
    pub name: String,
    /// When it began.
    pub start_nanos: u64,
    /// When it ended; `None` where it had not.
    pub end_nanos: Option<u64>,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    #[default]
    Note,
    /// Worth mending.
    Warning,
    /// Wrong, or the trace cannot be trusted.
    Error,
}

/// A sentence at the top of the report.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Finding {
    /// Which kind: "untrusted", "failed", "spikes_explained", "spikes_not_explained",
    /// "calls_per_frame", "leaks", "growth", "drift", "heap_misused", "heap_over_budget",
    /// "heap_not_reset", "heap_left_blocks".
    pub kind: String,
    /// How much it matters.
    pub severity: Severity,
    /// One sentence with figure and place.
    pub text: String,
    /// The command that tells more.
    pub command: String,
    /// Loop and frame, where it speaks of one.
    pub frame: Option<(String, u64)>,
}

/// What calls and frames of the main loop cost in the last tenth of its frames against the
/// first, frames in phases left out.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Drift {
    /// Frames of each tenth; 0 where there are too few to tell.
    pub frames: u64,
    /// A frame's time less the recorder's share.
    pub frame_time: Option<DriftRow>,
    /// An allocation or reallocation by any thread.
    pub allocations: Option<DriftRow>,
    /// A deallocation by any thread.
    pub deallocations: Option<DriftRow>,
    /// Allocations and reallocations of each call site with enough of them: those that
    /// drift first, by how much time that adds or saves.
    pub sites: Vec<DriftRow>,
}

/// A cost in both tenths.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct DriftRow {
    /// Index in [`Analysis::sites`]; `None` where it is no call site's.
    pub site: Option<u32>,
    /// Calls, or frames, of the first tenth that were looked at.
    pub first_calls: u64,
    /// The same of the last tenth.
    pub last_calls: u64,
    /// What one cost in the first tenth, in the mean.
    pub first_mean_nanos: f64,
    /// The same in the last tenth.
    pub last_mean_nanos: f64,
    /// Standard error of the difference of both means.
    pub noise_nanos: f64,
    /// The difference is beyond the noise, and large enough to speak of.
    pub drifts: bool,
}
