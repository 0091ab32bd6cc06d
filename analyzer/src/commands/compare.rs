//! `heapreel compare`: models of allocators beside each other on one trace.

use super::analysis::{finish_trace, print, print_json};
use super::models::{ModelArgs, Stage};
use heapreel_analyzer::report::compare_document;
use heapreel_analyzer::what_if::{ModelName, compare};
use std::path::PathBuf;
use std::process::ExitCode;

/// Compared where no model is named.
const USUAL: &[ModelName] = &[ModelName::Heap, ModelName::Virtual, ModelName::Mimalloc];

/// Flags of `heapreel compare`.
#[derive(clap::Args)]
#[command(
    after_help = "Without --model: heap, virtual and mimalloc. What changes is told from the first to each of the
others.

Examples:
  heapreel compare run.hreel
  heapreel compare run.hreel --model heap:best,heap:tlsf --set heap.segment.Default=64MiB"
)]
pub struct Args {
    /// The trace
    trace: PathBuf,
    #[command(flatten)]
    models: ModelArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Replays and compares.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let choices = args.models.choices(USUAL)?;
    let configuration = args.models.configuration()?;
    let stage = Stage::open(&args.trace)?;
    let (_, replayed) = stage.replay_all(&choices, &configuration)?;
    let compared = compare(&replayed);
    if args.json {
        print_json(&compared)?;
    } else {
        print(&compare_document(&compared))?;
    }
    Ok(finish_trace(&stage.file, &stage.trace))
}
