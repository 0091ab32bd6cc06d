//! `heapreel info`: what a trace holds and how complete it is.

use super::analysis::{finish, load, print, print_json};
use heapreel_analyzer::place::Place;
use heapreel_analyzer::report::info_document;
use heapreel_analyzer::{Analysis, Options};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

/// Flags of `heapreel info`.
#[derive(clap::Args)]
#[command(
    after_help = "Places are frames 4213, times 12.5s, or marks @\"level loaded\" and @\"level loaded\"#2.

Examples:
  heapreel info run.hreel
  heapreel info run.hreel --json --from @\"level loaded\" --to @\"level left\""
)]
pub struct Args {
    /// The trace
    trace: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Count only events from this place on
    #[arg(long, value_name = "PLACE")]
    from: Option<Place>,
    /// Count only events before this place
    #[arg(long, value_name = "PLACE")]
    to: Option<Place>,
}

/// Prints what a trace holds.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let options = Options {
        from: args.from,
        to: args.to,
        ..Options::default()
    };
    let analysis = load(&args.trace, &options)?;
    if args.json {
        print_json(&Info::of(&analysis))?;
    } else {
        print(&info_document(&analysis))?;
    }
    Ok(finish(&analysis))
}

/// What `--json` prints. Keys are added to, never changed.
#[derive(Serialize)]
struct Info<'a> {
    /// Of a clip: why it was made and of which frame.
    clip: Option<&'a str>,
    file: &'a str,
    bytes: u64,
    executable: &'a str,
    arguments: &'a [String],
    folder: &'a str,
    pid: u32,
    parent_pid: u32,
    allocator: &'a str,
    machine: &'a str,
    recorder: &'a str,
    preload: bool,
    start_unix_nanos: u64,
    duration_nanos: u64,
    /// "exit 0", "signal 9", "exec", "stopped", "recorder left", "confined", "unknown", "running" or null.
    ended: Option<&'a str>,
    /// The sum of the four below.
    events: u64,
    allocations: u64,
    reallocations: u64,
    deallocations: u64,
    failed_allocations: u64,
    zeroed_allocations: u64,
    failed_reallocations: u64,
    /// Sizes of allocations and new sizes of reallocations.
    requested_bytes: u64,
    freed_bytes: u64,
    live_blocks: u64,
    live_bytes: u64,
    peak_bytes: u64,
    calls_by_entry: &'a BTreeMap<String, u64>,
    unknown_releases: u64,
    unknown_releases_by_entry: &'a BTreeMap<String, u64>,
    lost_events: u64,
    missing_records: u64,
    unreadable_records: u64,
    damaged_parts: u64,
    order_anomalies: u64,
    explained_anomalies: u64,
    in_flight: u64,
    from_spill: u64,
    stacks_cut: u64,
    contexts_cut: u64,
    unwinds_checked: u64,
    unwinds_differing: u64,
    cut: bool,
    complete: bool,
    remarks: &'a [String],
    threads: usize,
    frames: u64,
    loops: Vec<LoopInfo<'a>>,
    stacks: u64,
    has_symbols: bool,
    marks: usize,
    phases: usize,
}

#[derive(Serialize)]
struct LoopInfo<'a> {
    name: &'a str,
    source: &'a str,
    frames: usize,
}

impl Info<'_> {
    fn of(analysis: &Analysis) -> Info<'_> {
        let (trace, totals, health) = (&analysis.trace, &analysis.totals, &analysis.health);
        Info {
            clip: trace.clip.as_deref(),
            file: &trace.file,
            bytes: trace.bytes,
            executable: &trace.executable,
            arguments: &trace.arguments,
            folder: &trace.folder,
            pid: trace.pid,
            parent_pid: trace.parent_pid,
            allocator: &trace.allocator,
            machine: &trace.machine,
            recorder: &trace.recorder,
            preload: trace.preload,
            start_unix_nanos: trace.start_unix_nanos,
            duration_nanos: trace.duration_nanos,
            ended: health.ended.as_deref(),
            events: totals.events,
            allocations: totals.allocations,
            reallocations: totals.reallocations,
            deallocations: totals.deallocations,
            failed_allocations: totals.failed_allocations,
            zeroed_allocations: totals.zeroed_allocations,
            failed_reallocations: totals.failed_reallocations,
            requested_bytes: totals.requested_bytes,
            freed_bytes: totals.freed_bytes,
            live_blocks: totals.live_blocks,
            live_bytes: totals.live_bytes,
            peak_bytes: analysis.peak.bytes,
            calls_by_entry: &totals.calls_by_entry,
            unknown_releases: health.unknown_releases.values().sum(),
            unknown_releases_by_entry: &health.unknown_releases,
            lost_events: health.lost_events,
            missing_records: health.missing_records,
            unreadable_records: health.unreadable_records,
            damaged_parts: health.damaged_parts,
            order_anomalies: health.order_anomalies,
            explained_anomalies: health.explained_anomalies,
            in_flight: health.in_flight,
            from_spill: health.from_spill,
            stacks_cut: health.stacks_cut,
            contexts_cut: health.contexts_cut,
            unwinds_checked: health.unwinds_checked,
            unwinds_differing: health.unwinds_differing,
            cut: health.cut,
            complete: health.complete,
            remarks: &health.remarks,
            threads: analysis.threads.len(),
            frames: totals.frames,
            loops: analysis
                .loops
                .iter()
                .map(|l| LoopInfo {
                    name: &l.name,
                    source: &l.source,
                    frames: l.frames.len(),
                })
                .collect(),
            stacks: trace.stacks,
            has_symbols: trace.has_symbols,
            marks: analysis.marks.len(),
            phases: analysis.phases.len(),
        }
    }
}
