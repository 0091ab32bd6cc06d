//! `heapreel trend`: what many clips have in common.

use super::analysis::{choose_loop, load, print, print_json};
use crate::exit_code;
use crate::failure::Failure;
use anyhow::Context;
use heapreel_analyzer::Options;
use heapreel_analyzer::report::{ClipGroup, clip_group, joined, trend_document};
use heapreel_format::{ClipCause, ClipDef, Trace};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Flags of `heapreel trend`.
#[derive(clap::Args)]
#[command(
    after_help = "A clip of a frame over budget counts for the call site that took most of that frame's time in the \
allocator, or for \"allocation does not explain\" where less than a fifth of the excess went there.

Examples:
  heapreel trend clips
  heapreel trend clips --json"
)]
pub struct Args {
    /// Clips, and folders of them
    #[arg(required = true, value_name = "CLIPS")]
    clips: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Trend<'a> {
    clips: u64,
    groups: &'a [ClipGroup],
}

/// Prints the groups.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut found = Vec::new();
    for path in files(&args.clips)? {
        found.push(read(&path)?);
    }
    let groups = joined(found);
    if args.json {
        print_json(&Trend {
            clips: groups.iter().map(|group| group.clips).sum(),
            groups: &groups,
        })?;
    } else {
        print(&trend_document(&groups))?;
    }
    Ok(ExitCode::from(exit_code::FINE))
}

/// The files named, and the traces in the folders named, by name.
fn files(given: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in given {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let named = || path.display().to_string();
        let entries = std::fs::read_dir(path).with_context(named)?;
        let mut inside = Vec::new();
        for entry in entries {
            inside.push(entry.with_context(named)?.path());
        }
        inside.retain(|file| file.extension().is_some_and(|it| it == "hreel"));
        inside.sort();
        files.extend(inside);
    }
    Ok(files)
}

fn read(path: &Path) -> anyhow::Result<ClipGroup> {
    let trace =
        Trace::open(path).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    let Some(clip) = trace.definitions().clip.clone() else {
        return Err(Failure::error(
            exit_code::MISUSE,
            format!(
                "{}: is a whole recording and no clip; `heapreel spikes` tells of its frames",
                path.display()
            ),
        ));
    };
    let loops = &trace.definitions().loops;
    let name = loops
        .get(&clip.game_loop)
        .map_or("main", |it| it.0.as_str());
    let analysis = load(path, &options(&trace, &clip)?)?;
    let game_loop = choose_loop(&analysis, Some(name)).ok();
    Ok(clip_group(&analysis, game_loop, &clip))
}

/// The last frame alone is asked for: it is the one that made the clip.
fn options(trace: &Trace, clip: &ClipDef) -> anyhow::Result<Options> {
    let by_budget = clip.cause == ClipCause::Budget;
    let budget = trace.header().clock.nanos(clip.budget) as u64;
    Ok(Options {
        budget_nanos: Some(budget).filter(|_| by_budget),
        spike_frames: by_budget.then(|| "last".parse()).transpose()?,
        spikes: 1,
        ..Options::default()
    })
}
