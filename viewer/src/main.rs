//! `heapreel-viewer`: a window on a trace, or a picture of it.

use clap::Parser;
use heapreel_viewer::{Args, read_trace, run};
use std::process::ExitCode;

/// The command line or the trace was of no use.
const MISUSE: u8 = 2;

fn main() -> ExitCode {
    match run(&Args::parse(), read_trace) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("heapreel-viewer: {error:#}");
            ExitCode::from(MISUSE)
        }
    }
}
