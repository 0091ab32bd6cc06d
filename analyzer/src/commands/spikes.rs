//! `heapreel spikes`: to come.

use std::path::PathBuf;
use std::process::ExitCode;

/// Flags of `heapreel spikes`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  heapreel spikes run.hreel
  heapreel spikes run.hreel --json")]
pub struct Args {
    /// The trace
    trace: PathBuf,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!(
        "{}: `heapreel spikes` is not there yet",
        args.trace.display()
    )
}
