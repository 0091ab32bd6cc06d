//! `heapreel report`: to come.

use std::path::PathBuf;
use std::process::ExitCode;

/// Flags of `heapreel report`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  heapreel report run.hreel
  heapreel report run.hreel --json")]
pub struct Args {
    /// The trace
    trace: PathBuf,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!(
        "{}: `heapreel report` is not there yet",
        args.trace.display()
    )
}
