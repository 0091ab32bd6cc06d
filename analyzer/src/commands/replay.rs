//! `heapreel replay`: a trace through models of allocators.

use super::analysis::finish_trace;
use super::models::{ModelArgs, Stage};
use anyhow::bail;
use heapreel_analyzer::what_if::Placements;
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
}

/// Replays and reports.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let choices = args.models.choices(&[])?;
    let configuration = args.models.configuration()?;
    let stage = Stage::open(&args.trace)?;
    if args.placements {
        let [choice] = choices.as_slice() else {
            bail!(
                "--placements prints one model's addresses; --model names {}",
                choices.len()
            );
        };
        let run = stage.run(choice, &configuration)?;
        let watch = Placements::new(BufWriter::new(stdout()), args.checkpoints);
        let (runs, _) = stage.replay(vec![(run, watch)])?;
        for (_, placements) in runs {
            placements.finish()?;
        }
    }
    Ok(finish_trace(&stage.file, &stage.trace))
}
