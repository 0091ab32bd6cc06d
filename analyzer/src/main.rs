//! The program `heapreel`: see `heapreel --help`.

mod cli;
mod commands;
mod exit_code;
mod failure;
mod inspect;
mod record;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(std::env::args_os().collect()).unwrap_or_else(|error| failure::report(&error))
}
