//! What the commands share that look at a trace: reading it with progress, printing,
//! and the exit code for one that is damaged.

use crate::exit_code;
use anyhow::anyhow;
use heapreel_analyzer::report::{Document, text};
use heapreel_analyzer::{
    Analysis, AnalysisError, HealthFacts, LoopAnalysis, Options, Progress, analyze,
};
use heapreel_format::Trace;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Shorter work shows no progress.
const PATIENCE: Duration = Duration::from_millis(500);

/// Analyses a trace; a long one with a progress bar on a terminal.
pub fn load(path: &Path, options: &Options) -> anyhow::Result<Analysis> {
    let mut bar = Bar::new();
    let analysis = analyze(path, options, |progress| bar.show(progress));
    bar.clear();
    analysis.map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &AnalysisError) -> anyhow::Error {
    anyhow!("{}: {error}", path.display())
}

/// The rows that `--limit` allows: 0 is all.
pub fn row_limit(limit: usize) -> usize {
    match limit {
        0 => usize::MAX,
        limit => limit,
    }
}

/// Prints a document on stdout, with colours only for a terminal that wants them.
pub fn print(document: &Document) -> anyhow::Result<()> {
    print_text(&text(document, wants_colour()))
}

/// Prints a value as JSON on stdout.
pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    serde_json::to_writer_pretty(&mut out, value)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Prints text on stdout.
pub fn print_text(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// <https://no-color.org>: any value but the empty one means no colour.
pub fn wants_colour() -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    std::io::stdout().is_terminal()
        && set("NO_COLOR").is_none()
        && set("TERM").is_none_or(|term| term != "dumb")
}

/// Exit code 0, or 2 with one line for a trace of which parts are missing.
pub fn finish(analysis: &Analysis) -> ExitCode {
    let health = &analysis.health;
    if !is_broken(health) {
        return ExitCode::from(exit_code::FINE);
    }
    let cause = health
        .remarks
        .first()
        .map_or("parts of it are missing", String::as_str);
    let file = &analysis.trace.file;
    eprintln!(
        "heapreel: {file}: {cause}; what could be read is shown, its figures are lower bounds"
    );
    ExitCode::from(exit_code::MISUSE)
}

/// The same for a trace that was replayed and not analysed.
pub fn finish_trace(file: &str, trace: &Trace) -> ExitCode {
    let health = trace.health();
    let broken = health.cut || !health.damage.is_empty() || health.missing_records > 0;
    if !broken {
        return ExitCode::from(exit_code::FINE);
    }
    let remarks = health.remarks();
    let cause = remarks
        .first()
        .map_or("parts of it are missing", String::as_str);
    eprintln!(
        "heapreel: {file}: {cause}; what could be read is shown, its figures are lower bounds"
    );
    ExitCode::from(exit_code::MISUSE)
}

fn is_broken(health: &HealthFacts) -> bool {
    health.cut || health.damaged_parts + health.missing_records + health.unreadable_records > 0
}

/// The loop with this name, or the main one.
pub fn choose_loop<'a>(
    analysis: &'a Analysis,
    name: Option<&str>,
) -> anyhow::Result<&'a LoopAnalysis> {
    let file = &analysis.trace.file;
    let loops = &analysis.loops;
    let Some(name) = name else {
        return loops.first().ok_or_else(|| {
            anyhow!("{file}: has no frame marks; mark frames by heapreel::frame(), or see `heapreel doctor`")
        });
    };
    loops
        .iter()
        .find(|game_loop| game_loop.name == name)
        .ok_or_else(|| {
            let names: Vec<_> = loops
                .iter()
                .map(|game_loop| game_loop.name.as_str())
                .collect();
            match names.as_slice() {
                [] => anyhow!("{file}: has no frame marks"),
                names => anyhow!(
                    "{file}: has no frames of a loop {name:?}; there are {}",
                    names.join(", ")
                ),
            }
        })
}

/// A progress bar that appears only after a while, and only on a terminal.
pub struct Bar {
    begun: Instant,
    bar: Option<ProgressBar>,
    calls: u32,
}

impl Bar {
    /// A bar that does not show yet.
    pub fn new() -> Bar {
        Bar {
            begun: Instant::now(),
            bar: None,
            calls: 0,
        }
    }

    /// Shows how far the work has come.
    pub fn show(&mut self, progress: Progress) {
        self.calls = self.calls.wrapping_add(1);
        // A batch takes a tenth of a millisecond: looking at the clock each time is too often.
        if !self.calls.is_multiple_of(256) || !std::io::stderr().is_terminal() {
            return;
        }
        if self.bar.is_none() && self.begun.elapsed() > PATIENCE {
            let style = ProgressStyle::with_template(
                "reading {wide_bar} {percent}% ({per_sec}, {eta} left)",
            );
            let bar = ProgressBar::new(progress.total);
            self.bar = Some(style.map_or(bar.clone(), |style| bar.with_style(style)));
        }
        if let Some(bar) = &self.bar {
            bar.set_position(progress.done);
        }
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
