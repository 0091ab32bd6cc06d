//! `heapreel info`: to come.

use std::path::PathBuf;
use std::process::ExitCode;

/// Flags of `heapreel info`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  heapreel info run.hreel
  heapreel info run.hreel --json")]
pub struct Args {
    /// The trace
    trace: PathBuf,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("{}: `heapreel info` is not there yet", args.trace.display())
}
