//! `heapreel doctor`: to come.

use std::path::PathBuf;
use std::process::ExitCode;

/// Flags of `heapreel doctor`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  heapreel doctor run.hreel
  heapreel doctor run.hreel --json")]
pub struct Args {
    /// The trace
    trace: PathBuf,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!(
        "{}: `heapreel doctor` is not there yet",
        args.trace.display()
    )
}
