//! `heapreel recover`: to come.

use std::path::PathBuf;
use std::process::ExitCode;

/// Flags of `heapreel recover`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  heapreel recover run.hreel
  heapreel recover run.hreel --json")]
pub struct Args {
    /// The trace
    trace: PathBuf,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!(
        "{}: `heapreel recover` is not there yet",
        args.trace.display()
    )
}
