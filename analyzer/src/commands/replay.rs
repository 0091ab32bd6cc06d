//! `heapreel replay`: a trace through models of allocators.

use super::analysis::{finish_trace, print, print_json};
use super::models::{ModelArgs, Stage};
use anyhow::bail;
use heapreel_analyzer::report::replay_document;
use heapreel_analyzer::what_if::{Choice, Configuration, Placements, write_csv};
use std::io::{BufWriter, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

/// Flags of `heapreel replay`.
#[derive(clap::Args)]
#[command(
    after_help = "Several models are fed by one decode, each in a thread of its own.

Examples:
  heapreel replay run.hreel --model virtual --set virtual.lru_entries=64
  heapreel replay run.hreel --model mimalloc:2.0.3 --placements --checkpoints 500"
)]
pub struct Args {
    /// The trace
    trace: PathBuf,
    #[command(flatten)]
    models: ModelArgs,
    /// Print the address of every block that is placed or resized, one a line
    #[arg(long)]
    placements: bool,
    /// With --placements: a line with the bytes held every so many events
    #[arg(long, value_name = "EVENTS", requires = "placements", value_parser = clap::value_parser!(u64).range(1..))]
    checkpoints: Option<u64>,
    /// Print JSON
    #[arg(long, conflicts_with = "placements")]
    json: bool,
    /// Print a row for each frame and model, separated by commas
    #[arg(long, conflicts_with_all = ["json", "placements"])]
    csv: bool,
}

/// Replays and reports.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let choices = args.models.choices(&[])?;
    let configuration = args.models.configuration()?;
    let stage = Stage::open(&args.trace)?;
    if args.placements {
        print_placements(&stage, &choices, &configuration, args.checkpoints)?;
        return Ok(finish_trace(&stage.file, &stage.trace));
    }
    let (runs, replayed) = stage.replay_all(&choices, &configuration)?;
    if args.csv {
        write_csv(&runs, &replayed.fed, BufWriter::new(stdout().lock()))?;
    } else if args.json {
        print_json(&replayed)?;
    } else {
        print(&replay_document(&replayed))?;
    }
    Ok(finish_trace(&stage.file, &stage.trace))
}

fn print_placements(
    stage: &Stage,
    choices: &[Choice],
    configuration: &Configuration,
    checkpoints: Option<u64>,
) -> anyhow::Result<()> {
    let [choice] = choices else {
        let named = choices.len();
        bail!("--placements prints one model's addresses; --model names {named}");
    };
    let run = stage.run(choice, configuration)?;
    let watch = Placements::new(BufWriter::new(stdout()), checkpoints);
    let (runs, _) = stage.replay(vec![(run, watch)])?;
    for (_, placements) in runs {
        placements.finish()?;
    }
    Ok(())
}
