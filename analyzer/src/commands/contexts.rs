//! `heapreel contexts`: what memory is for.

use super::analysis::{finish, load, print, print_json, print_text, row_limit};
use super::moment::MomentArgs;
use heapreel_analyzer::report::{ContextSort, ContextsShown, contexts_document, markdown};
use heapreel_analyzer::{ContextUse, Options};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// Flags of `heapreel contexts`.
#[derive(clap::Args)]
#[command(
    after_help = "A block is for the context in which it was acquired or last reallocated, whoever frees it. \
Without a moment, live is what is live at the trace's end; with one, everything is counted up to there.

Examples:
  heapreel contexts run.hreel
  heapreel contexts run.hreel --kind asset --at @\"level loaded\""
)]
pub struct Args {
    /// The trace
    trace: PathBuf,
    /// Only contexts of this kind, such as asset; the others count for the nearest around
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    #[command(flatten)]
    moment: MomentArgs,
    /// Each by itself instead of as a tree
    #[arg(long)]
    flat: bool,
    /// The figure to order by, greatest first
    #[arg(long, value_enum, default_value_t = Sort::Live)]
    sort: Sort,
    /// At most so many contexts, 0 for all
    #[arg(long, visible_alias = "top", value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Print JSON
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print Markdown
    #[arg(long)]
    markdown: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Sort {
    /// Live bytes, then their peak
    Live,
    /// The most bytes that were live at once
    Peak,
    /// Bytes asked for
    Bytes,
    /// Allocations and reallocations
    Allocations,
    /// How often they were entered
    Instances,
}

/// What `--json` prints: all contexts, each before those within it.
#[derive(Serialize)]
struct Report<'a> {
    kind: Option<&'a str>,
    moment: Option<&'a str>,
    not_entered: u64,
    contexts: &'a [ContextUse],
}

/// Prints the contexts.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let options = Options {
        to: args.moment.place(),
        context_kind: args.kind.clone(),
        ..Options::default()
    };
    let analysis = load(&args.trace, &options)?;
    let shown = ContextsShown {
        sort: match args.sort {
            Sort::Live => ContextSort::Live,
            Sort::Peak => ContextSort::Peak,
            Sort::Bytes => ContextSort::Bytes,
            Sort::Allocations => ContextSort::Allocations,
            Sort::Instances => ContextSort::Instances,
        },
        limit: row_limit(args.limit),
        flat: args.flat,
        kind: args.kind,
        moment: args.moment.told(),
    };
    if args.json {
        print_json(&Report {
            kind: shown.kind.as_deref(),
            moment: shown.moment.as_deref(),
            not_entered: analysis.health.contexts_cut,
            contexts: &analysis.contexts,
        })?;
    } else if args.markdown {
        print_text(&markdown(&contexts_document(&analysis, &shown)))?;
    } else {
        print(&contexts_document(&analysis, &shown))?;
    }
    Ok(finish(&analysis))
}
