//! `heapreel spikes`: frames over budget, what explains them, and whom to blame.

use super::analysis::{choose_loop, finish, load, print, print_json};
use heapreel_analyzer::Options;
use heapreel_analyzer::place::{FrameRange, Span};
use heapreel_analyzer::report::spikes_document;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// Flags of `heapreel spikes`.
#[derive(clap::Args)]
#[command(
    after_help = "A frame's excess is its time, less the recorder's share, over the median frame's. \
Allocation explains the part of it that the loop's own thread spent in the allocator beyond the median.

Examples:
  heapreel spikes run.hreel --budget 16.67ms
  heapreel spikes run.hreel --frames 4213"
)]
pub struct Args {
    /// The trace
    trace: PathBuf,
    /// The time that a frame may take; by default 1.5 times the median or more
    #[arg(long, value_name = "TIME", conflicts_with = "count")]
    budget: Option<Span>,
    /// Instead: frames with more allocations than this
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Only in these: 4213, 4000..4300 (end excluded), or last
    #[arg(long, value_name = "RANGE")]
    frames: Option<FrameRange>,
    /// The loop whose frames are meant
    #[arg(long = "loop", value_name = "NAME")]
    game_loop: Option<String>,
    /// At most so many frames in full, the longest first
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Spikes<'a> {
    #[serde(rename = "loop")]
    name: &'a str,
    budget_nanos: Option<u64>,
    budget_source: &'a str,
    frames: usize,
    #[serde(flatten)]
    spikes: &'a heapreel_analyzer::SpikeAnalysis,
    /// Names for the indices above.
    sites: std::collections::BTreeMap<u32, &'a str>,
    contexts: std::collections::BTreeMap<u32, &'a str>,
}

/// Prints the spikes.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let options = Options {
        budget_nanos: args.budget.map(|budget| budget.0),
        count_budget: args.count,
        spike_frames: args.frames.clone(),
        spikes: args.limit.max(1),
        ..Options::default()
    };
    let analysis = load(&args.trace, &options)?;
    if analysis.loops.is_empty() && finish(&analysis) != ExitCode::SUCCESS {
        return Ok(ExitCode::from(crate::exit_code::MISUSE));
    }
    let game_loop = choose_loop(&analysis, args.game_loop.as_deref())?;
    if args.json {
        let sites = game_loop.spikes.worst.iter().flat_map(|spike| &spike.sites);
        let contexts = sites.clone().filter_map(|site| site.context);
        let path = |at: u32| analysis.contexts[at as usize].path.as_str();
        print_json(&Spikes {
            name: &game_loop.name,
            budget_nanos: Some(game_loop.budget_nanos).filter(|budget| *budget != u64::MAX),
            budget_source: &game_loop.budget_source,
            frames: game_loop.frames.len(),
            spikes: &game_loop.spikes,
            sites: sites
                .map(|site| (site.site, analysis.sites[site.site as usize].name.as_str()))
                .collect(),
            contexts: contexts.map(|at| (at, path(at))).collect(),
        })?;
    } else {
        print(&spikes_document(&analysis, game_loop, args.frames.as_ref()))?;
    }
    Ok(finish(&analysis))
}
