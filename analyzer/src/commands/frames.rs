//! `heapreel frames`: to come.

use std::path::PathBuf;
use std::process::ExitCode;

/// Flags of `heapreel frames`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  heapreel frames run.hreel
  heapreel frames run.hreel --json")]
pub struct Args {
    /// The trace
    trace: PathBuf,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!(
        "{}: `heapreel frames` is not there yet",
        args.trace.display()
    )
}
