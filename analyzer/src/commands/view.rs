//! `heapreel view`: hands over to the viewer, a program of its own.

use crate::exit_code;
use crate::failure::Failure;
use crate::inspect::find;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

const VIEWER: &str = "heapreel-viewer";

/// Flags of `heapreel view`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  heapreel view run.hreel
  heapreel view run.hreel --screenshot run.png")]
pub struct Args {
    /// The trace, and whatever else heapreel-viewer understands
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "TRACE"
    )]
    arguments: Vec<OsString>,
}

/// Becomes the viewer.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Some(viewer) = viewer() else {
        return Err(Failure::error(
            exit_code::MISUSE,
            format!(
                "{VIEWER} is neither beside this program nor in PATH; cargo install --path viewer installs it"
            ),
        ));
    };
    // Returns only where it could not be started.
    let error = Command::new(&viewer).args(args.arguments).exec();
    let message = format!("{}: cannot be started: {error}", viewer.display());
    Err(Failure::error(exit_code::MISUSE, message))
}

/// Beside this program, as in a release folder or a target directory, or in PATH.
fn viewer() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok()?.with_file_name(VIEWER);
    find(beside.as_os_str(), None)
        .or_else(|_| find(OsStr::new(VIEWER), std::env::var_os("PATH").as_deref()))
        .ok()
}
