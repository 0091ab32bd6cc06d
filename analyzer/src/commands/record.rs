//! `heapreel record`: to come.

use std::process::ExitCode;

/// Flags of `heapreel record`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  heapreel record -o run.hreel -- ./mygame
  heapreel record -o 'run-%e-%p.hreel' -- ./start.sh")]
pub struct Args {
    /// Deepest backtrace, in stack frames
    #[arg(long, default_value_t = 64)]
    depth: u32,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true)]
    command: Vec<std::ffi::OsString>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!(
        "{:?} {} `heapreel record` is not there yet",
        args.command,
        args.depth
    )
}
