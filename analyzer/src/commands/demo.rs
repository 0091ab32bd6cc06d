//! `heapreel demo`: to come.

use std::path::PathBuf;
use std::process::ExitCode;

/// Flags of `heapreel demo`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  heapreel demo run.hreel
  heapreel demo run.hreel --json")]
pub struct Args {
    /// The trace
    trace: PathBuf,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("{}: `heapreel demo` is not there yet", args.trace.display())
}
