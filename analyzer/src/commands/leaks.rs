//! `heapreel leaks`: to come.

use std::path::PathBuf;
use std::process::ExitCode;

/// Flags of `heapreel leaks`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  heapreel leaks run.hreel
  heapreel leaks run.hreel --json")]
pub struct Args {
    /// The trace
    trace: PathBuf,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!(
        "{}: `heapreel leaks` is not there yet",
        args.trace.display()
    )
}
