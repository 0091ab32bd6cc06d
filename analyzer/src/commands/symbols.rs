//! `heapreel symbols`: to come.

use std::path::PathBuf;
use std::process::ExitCode;

/// Flags of `heapreel symbols`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  heapreel symbols run.hreel
  heapreel symbols run.hreel --json")]
pub struct Args {
    /// The trace
    trace: PathBuf,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!(
        "{}: `heapreel symbols` is not there yet",
        args.trace.display()
    )
}
