//! `heapreel report`: what the game did with memory, worst findings first.

use super::analysis::{finish, load, print, print_json, print_text};
use heapreel_analyzer::Options;
use heapreel_analyzer::place::Span;
use heapreel_analyzer::report::{markdown, report_document};
use std::path::PathBuf;
use std::process::ExitCode;

/// Flags of `heapreel report`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  heapreel report run.hreel
  heapreel report run.hreel --budget 16.67ms --markdown")]
pub struct Args {
    /// The trace
    trace: PathBuf,
    /// Print JSON
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print Markdown
    #[arg(long)]
    markdown: bool,
    /// The time that a frame may take; by default 1.5 times the median or more
    #[arg(long, value_name = "TIME")]
    budget: Option<Span>,
}

/// Prints the report.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let options = Options {
        budget_nanos: args.budget.map(|budget| budget.0),
        ..Options::default()
    };
    let analysis = load(&args.trace, &options)?;
    if args.json {
        print_json(&analysis)?;
    } else if args.markdown {
        print_text(&markdown(&report_document(&analysis)))?;
    } else {
        print(&report_document(&analysis))?;
    }
    Ok(finish(&analysis))
}
