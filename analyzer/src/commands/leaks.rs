//! `heapreel leaks`: what was never given back, by call site.

use super::analysis::{finish, load, print, print_json, row_limit};
use heapreel_analyzer::place::Place;
use heapreel_analyzer::report::leaks_document;
use heapreel_analyzer::{Analysis, LeakSite, Options, Site};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// Flags of `heapreel leaks`.
#[derive(clap::Args)]
#[command(
    after_help = "With --from, only blocks allocated from there on; with --to, those live there instead of at \
the end. Places are frames 4213, times 12.5s, or marks @\"level loaded\" and @\"level loaded\"#2.

Examples:
  heapreel leaks run.hreel
  heapreel leaks run.hreel --from @\"level loaded\" --to @\"level left\""
)]
pub struct Args {
    /// The trace
    trace: PathBuf,
    /// Only blocks allocated from this place on
    #[arg(long, value_name = "PLACE")]
    from: Option<Place>,
    /// Blocks that are live at this place
    #[arg(long, value_name = "PLACE")]
    to: Option<Place>,
    /// At most so many call sites in full, 0 for all
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    word: &'a str,
    leaked: bool,
    ended: Option<&'a str>,
    blocks: u64,
    bytes: u64,
    sites: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    function: &'a str,
    place: Option<&'a str>,
    module: &'a str,
    #[serde(flatten)]
    leak: &'a LeakSite,
    stacks: Vec<&'a heapreel_analyzer::SiteStack>,
}

/// Prints the leaks.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let options = Options {
        from: args.from,
        to: args.to,
        ..Options::default()
    };
    let analysis = load(&args.trace, &options)?;
    if args.json {
        print_json(&json(&analysis))?;
    } else {
        print(&leaks_document(&analysis, row_limit(args.limit)))?;
    }
    Ok(finish(&analysis))
}

fn json(analysis: &Analysis) -> Report<'_> {
    let leaks = &analysis.leaks;
    Report {
        word: &leaks.word,
        leaked: leaks.leaked,
        ended: analysis.health.ended.as_deref(),
        blocks: leaks.blocks,
        bytes: leaks.bytes,
        sites: leaks
            .sites
            .iter()
            .map(|leak| row(&analysis.sites[leak.site as usize], leak))
            .collect(),
    }
}

fn row<'a>(site: &'a Site, leak: &'a LeakSite) -> Row<'a> {
    Row {
        name: &site.name,
        function: &site.function,
        place: site.place.as_deref(),
        module: &site.module,
        leak,
        stacks: site
            .stacks
            .iter()
            .filter(|stack| stack.live_blocks > 0)
            .collect(),
    }
}
