//! `heapreel view`: to come.

use std::path::PathBuf;
use std::process::ExitCode;

/// Flags of `heapreel view`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  heapreel view run.hreel
  heapreel view run.hreel --json")]
pub struct Args {
    /// The trace
    trace: PathBuf,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("{}: `heapreel view` is not there yet", args.trace.display())
}
