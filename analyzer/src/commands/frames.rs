//! `heapreel frames`: game frames with their allocations and times.

use super::analysis::{choose_loop, finish, load, print, print_json, print_text, row_limit};
use heapreel_analyzer::place::{FrameRange, Span};
use heapreel_analyzer::report::{FrameSort, frames_csv, frames_document};
use heapreel_analyzer::{FrameRow, LoopAnalysis, Options};
use std::path::PathBuf;
use std::process::ExitCode;

/// Flags of `heapreel frames`.
#[derive(clap::Args)]
#[command(
    after_help = "Frame k of a loop lies between its marks k and k+1, counted from 0.

Examples:
  heapreel frames run.hreel --sort time --limit 20
  heapreel frames run.hreel --frames 4000..4300 --csv"
)]
pub struct Args {
    /// The trace
    trace: PathBuf,
    /// Print CSV: nanoseconds and bytes
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The loop whose frames are meant
    #[arg(long = "loop", value_name = "NAME")]
    game_loop: Option<String>,
    /// Only these: 4213, 4000..4300 (end excluded), or last
    #[arg(long, value_name = "RANGE")]
    frames: Option<FrameRange>,
    /// What to sort by, the greatest first
    #[arg(long, value_enum, default_value_t = Sort::Number)]
    sort: Sort,
    /// At most so many rows, 0 for all [default: 50 in the table, else all]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// The time that a frame may take; by default 1.5 times the median or more
    #[arg(long, value_name = "TIME")]
    budget: Option<Span>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Sort {
    /// The order they happened
    Number,
    /// Time less the recorder's share
    Time,
    /// Allocations and reallocations
    Allocations,
    /// Deallocations
    Deallocations,
    /// Bytes asked for
    Bytes,
    /// Time in the allocator
    Allocator,
    /// The slowest call
    Slowest,
}

/// What `--json` prints.
#[derive(serde::Serialize)]
struct Frames<'a> {
    #[serde(rename = "loop")]
    name: &'a str,
    source: &'a str,
    thread: &'a str,
    budget_nanos: Option<u64>,
    /// Durations in nanoseconds, sizes in bytes.
    frames: &'a [FrameRow],
    /// Distributions over all frames outside of phases.
    steady: &'a heapreel_analyzer::LoopSummary,
}

/// Rows of a table where nothing else is asked for.
const TABLE_ROWS: usize = 50;

/// Prints frames.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let options = Options {
        budget_nanos: args.budget.map(|budget| budget.0),
        ..Options::default()
    };
    let analysis = load(&args.trace, &options)?;
    if analysis.loops.is_empty()
        && args.game_loop.is_none()
        && finish(&analysis) != ExitCode::SUCCESS
    {
        return Ok(ExitCode::from(crate::exit_code::MISUSE));
    }
    let game_loop = choose_loop(&analysis, args.game_loop.as_deref())?;
    let mut rows = chosen(&args, game_loop);
    let limit = match args.limit {
        Some(limit) => row_limit(limit),
        None if args.csv || args.json => usize::MAX,
        None => TABLE_ROWS,
    };
    let left_out = rows.len().saturating_sub(limit);
    rows.truncate(limit);
    if args.csv {
        print_text(&frames_csv(&rows))?;
    } else if args.json {
        print_json(&Frames {
            name: &game_loop.name,
            source: &game_loop.source,
            thread: &game_loop.thread,
            budget_nanos: Some(game_loop.budget_nanos).filter(|budget| *budget != u64::MAX),
            frames: &rows,
            steady: &game_loop.steady,
        })?;
    } else {
        print(&frames_document(&analysis, game_loop, &rows, left_out))?;
    }
    Ok(finish(&analysis))
}

fn chosen(args: &Args, game_loop: &LoopAnalysis) -> Vec<FrameRow> {
    let first = game_loop.frames.first().map_or(0, |frame| frame.number);
    let all = game_loop.frames.len();
    let range = args
        .frames
        .as_ref()
        .map_or(0..all, |range| range.positions(first, all));
    let mut rows = game_loop.frames[range].to_vec();
    args.sort.order().sort(&mut rows);
    rows
}

impl Sort {
    fn order(self) -> FrameSort {
        match self {
            Sort::Number => FrameSort::Number,
            Sort::Time => FrameSort::Time,
            Sort::Allocations => FrameSort::Allocations,
            Sort::Deallocations => FrameSort::Deallocations,
            Sort::Bytes => FrameSort::Bytes,
            Sort::Allocator => FrameSort::Allocator,
            Sort::Slowest => FrameSort::Slowest,
        }
    }
}
