//! `heapreel sharing`: cache lines that threads share, and what blocks touch.

use super::analysis::{finish_trace, print, print_json, row_limit};
use super::models::{ModelArgs, Stage};
use super::moment::MomentArgs;
use heapreel_analyzer::fragmentation::TraceNames;
use heapreel_analyzer::report::sharing_document;
use heapreel_analyzer::sharing::{Sharing, sharing};
use heapreel_analyzer::what_if::ModelName;
use std::path::PathBuf;
use std::process::ExitCode;

/// Flags of `heapreel sharing`.
#[derive(clap::Args)]
#[command(
    after_help = "Where blocks lie is what was recorded, or with a model where another allocator would \
have put them. Without a moment, the trace's end, where a game may have given all back.

Examples:
  heapreel sharing run.hreel --frame 4213
  heapreel sharing run.hreel --frame 4213 --model heap --json"
)]
pub struct Args {
    /// The trace
    trace: PathBuf,
    #[command(flatten)]
    models: ModelArgs,
    #[command(flatten)]
    moment: MomentArgs,
    /// A cache line: 128 on Apple's processors
    #[arg(long, value_name = "SIZE", default_value = "64", value_parser = line)]
    line: u64,
    /// At most so many rows of each table; 0 is all
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn line(text: &str) -> Result<u64, String> {
    let line = heapreel_models::parameters::power_of_two("--line", text)
        .map_err(|error| error.to_string())?;
    if (8..=4096).contains(&line) {
        Ok(line)
    } else {
        Err(format!("{text:?} is no cache line; write 32, 64 or 128"))
    }
}

/// Shows what is shared.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let choice = args
        .models
        .only("sharing shows one model", ModelName::Recorded)?;
    let configuration = args.models.configuration()?;
    let stage = Stage::open(&args.trace)?;
    let (run, books) = args
        .moment
        .run(&stage, &choice, &configuration, None, None)?;
    let mut names = TraceNames::new(&stage.trace, &stage.scene);
    let sharing = Sharing {
        trace: stage.file.clone(),
        model: choice.to_string(),
        ..sharing(run.ledger().model(), &books, args.line, &mut names)
    };
    if args.json {
        print_json(&sharing)?;
    } else {
        print(&sharing_document(&sharing, row_limit(args.limit)))?;
    }
    Ok(finish_trace(&stage.file, &stage.trace))
}
