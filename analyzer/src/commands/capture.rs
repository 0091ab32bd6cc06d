//! What `record` and `demo` share: run, drain, keep, name, symbolicate, and say so.

use super::text::{count, duration, size};
use crate::exit_code;
use crate::failure::one_line;
use crate::record::clips::Clipping;
use crate::record::host::Plan;
use crate::record::session::Session;
use crate::record::signals::Signals;
use crate::record::{Finished, Host, Naming, finished};
use heapreel_analyzer::symbolicate::{Symbolicated, symbolicate};
use heapreel_analyzer::symbols::Options;
use heapreel_format::{Ended, Trace, TraceFile, TraceWriter, kill_point};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Whether, how long and where to look for names when the program has ended.
#[derive(clap::Args, Clone, Debug)]
pub struct SymbolFlags {
    /// Embed no function names; `heapreel symbols` adds them later
    #[arg(long)]
    pub no_symbols: bool,
    /// Look for function names no longer than this
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = super::text::parse_duration)]
    pub symbol_time: Duration,
    /// Also look for debug files in this folder (may be repeated)
    #[arg(long, value_name = "FOLDER")]
    pub symbol_path: Vec<PathBuf>,
}

/// So many traces beside the main one are listed.
const OTHERS_SHOWN: usize = 5;

/// A recording to be made.
pub struct Capture<'s> {
    pub session: &'s Session,
    pub naming: &'s Naming,
    /// Clips that are made instead of traces.
    pub clips: Option<&'s Clipping>,
    pub only: &'s [String],
    pub library: Option<&'s Path>,
    pub force: bool,
    /// Traces that hold little stay too.
    pub keep_all: bool,
    pub symbols: &'s SymbolFlags,
}

/// A recording that was made.
pub struct Captured {
    root: Ended,
    /// Traces that stay, the main one first.
    pub kept: Vec<Finished>,
    /// No trace could be created, which was told.
    refused: bool,
}

impl Capture<'_> {
    /// Runs `command` to its end and that of its recorded processes.
    ///
    /// # Errors
    ///
    /// The operating system's, where it cannot be started.
    pub fn run(&self, command: &mut Command) -> io::Result<Captured> {
        let plan = Plan {
            session: self.session,
            naming: self.naming,
            clips: self.clips,
            only: self.only,
            library: self.library,
        };
        kill_point::arm_from_environment(kill_myself);
        let mut signals = Signals::catch(self.clips.and_then(Clipping::signal))?;
        let outcome = Host::start(command, plan)?.run(&mut signals);
        let mut kept = finished::keep(outcome.finished, self.keep_all);
        if let Some(line) = finished::name_main(&mut kept, self.naming, self.force) {
            eprintln!("heapreel: {line}");
        }
        if !self.symbols.no_symbols {
            embed_symbols(&kept, self.symbols);
        }
        Ok(Captured {
            root: outcome.root,
            kept,
            refused: outcome.refused,
        })
    }
}

fn kill_myself() {
    _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}

impl Captured {
    /// The command's own exit code, as a shell tells it.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self.root {
            Ended::Exit(status) => status as u8,
            Ended::Signal(signal) => exit_code::SIGNAL_BASE.wrapping_add(signal as u8),
            _ => exit_code::FINE,
        })
    }

    /// The main trace.
    pub fn main(&self) -> Option<&Finished> {
        self.kept.first()
    }

    /// Says on stderr where the traces are and what is in them; the last line names the
    /// main one. `why_nothing` gives the reason where there is none.
    pub fn tell(&self, why_nothing: impl FnOnce() -> String) {
        let Some(main) = self.kept.first() else {
            if !self.refused {
                eprintln!("heapreel: nothing was recorded: {}", why_nothing());
            }
            return;
        };
        let others = &self.kept[1..];
        if others.len() > OTHERS_SHOWN {
            let rest = (others.len() - OTHERS_SHOWN) as u64;
            let folder = main.trace.parent().unwrap_or(Path::new(""));
            let place = if folder.as_os_str().is_empty() {
                Path::new(".")
            } else {
                folder
            };
            eprintln!(
                "heapreel: {} in {}",
                count(rest, "smaller trace"),
                place.display()
            );
        }
        for finished in self.kept.iter().take(1 + OTHERS_SHOWN).rev() {
            eprintln!("heapreel: {}", summary(finished));
        }
        let trace = quoted(&main.trace);
        eprintln!("heapreel: to read it: heapreel report {trace}");
    }
}

/// A trace, and what is in it.
fn summary(finished: &Finished) -> String {
    let name = finished.trace.display();
    let Some(counts) = finished.counts else {
        return format!("{name}: cannot be read back");
    };
    let bytes = std::fs::metadata(&finished.trace).map_or(counts.bytes, |facts| facts.len());
    let only = if counts.events < finished::WORTH_KEEPING {
        "only "
    } else {
        ""
    };
    let mut line = format!(
        "{name}: {only}{}, {}, {}, {}, {}",
        count(counts.events, "event"),
        count(counts.threads, "thread"),
        count(counts.frames, "frame"),
        size(bytes),
        duration(counts.nanos)
    );
    match counts.lost {
        0 => line.push_str(", none lost"),
        lost => line.push_str(&format!(", {} LOST", count(lost, "event"))),
    }
    if !finished.ended.orderly() {
        line.push_str(&format!("; {}", finished.ended));
    }
    if let Some(failure) = &finished.failure {
        line.push_str(&format!("; {failure}"));
    }
    if let Some(spill) = &finished.spill {
        let spill = spill.display();
        line.push_str(&format!(
            "; its end is in {spill}, which `heapreel recover --remove-spill` saves"
        ));
    }
    line
}

/// As it can be given to a shell.
pub fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
    if text.chars().all(is_plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

fn embed_symbols(kept: &[Finished], flags: &SymbolFlags) {
    let deadline = Instant::now() + flags.symbol_time;
    // Where the disk is full there is no room for names either.
    for finished in kept.iter().filter(|f| f.failure.is_none()) {
        name_functions_until(deadline, &finished.trace, flags);
    }
}

/// Adds names to a trace whose program may still run, and tells what could not be named.
pub fn name_functions(trace: &Path, flags: &SymbolFlags) {
    name_functions_until(Instant::now() + flags.symbol_time, trace, flags);
}

fn name_functions_until(deadline: Instant, trace: &Path, flags: &SymbolFlags) {
    let options = Options {
        search: flags.symbol_path.clone(),
        deadline: Some(deadline),
        recorded_until: Some(SystemTime::now()),
        ..Options::default()
    };
    match add_symbols(trace, &options) {
        Ok(done) if done.skipped() > 0 => eprintln!(
            "heapreel: {}: {} of {} addresses have no name yet: --symbol-time was reached; `heapreel symbols` adds the rest",
            trace.display(),
            done.skipped(),
            done.addresses()
        ),
        Ok(_) => {}
        Err(error) => eprintln!("heapreel: {}", one_line(&error)),
    }
}

/// Looks up all names of a trace and appends them to it.
///
/// # Errors
///
/// The trace cannot be read, or not be appended to.
pub fn add_symbols(path: &Path, options: &Options) -> anyhow::Result<Symbolicated> {
    let named = |error: anyhow::Error| error.context(path.display().to_string());
    let trace =
        Trace::open(path).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    let bar = progress_bar(&path.to_string_lossy());
    let done = symbolicate(&trace, options, |at, total| {
        bar.set_length(total as u64);
        bar.set_position(at as u64);
    });
    bar.finish_and_clear();
    if !done.table.addresses.is_empty() || !done.table.remarks.is_empty() {
        append(path, &done).map_err(named)?;
    }
    Ok(done)
}

fn append(path: &Path, done: &Symbolicated) -> anyhow::Result<()> {
    let file = File::options().read(true).append(true).open(path)?;
    let mut writer = TraceWriter::resume(TraceFile::new(file)?);
    writer.symbols(&done.table)?;
    writer.flush()?;
    Ok(())
}

/// On a terminal, and only there.
fn progress_bar(what: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style =
        ProgressStyle::with_template("looking up names for {msg} {bar:30} {pos}/{len} {elapsed}");
    bar.set_style(style.unwrap_or(ProgressStyle::default_bar()));
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// Now, in seconds since 1970.
pub fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::finished::Counts;

    fn finished(counts: Counts) -> Finished {
        Finished {
            pid: 1,
            executable: "/bin/x".to_owned(),
            trace: PathBuf::from("/nowhere/run.hreel"),
            spill: None,
            ended: Ended::Exit(0),
            failure: None,
            counts: Some(counts),
        }
    }

    #[test]
    fn a_summary_says_what_is_in_a_trace() {
        let counts = Counts {
            events: 1_234_567,
            marks: 601,
            frames: 600,
            threads: 8,
            nanos: 12.34e9,
            bytes: 3 << 20,
            lost: 0,
        };
        assert_eq!(
            summary(&finished(counts)),
            "/nowhere/run.hreel: 1,234,567 events, 8 threads, 600 frames, 3.0 MiB, 12.3 s, none lost"
        );
    }

    #[test]
    fn a_summary_says_what_is_missing() {
        let counts = Counts {
            events: 12,
            lost: 1,
            threads: 1,
            ..Counts::default()
        };
        let mut killed = finished(counts);
        killed.ended = Ended::Signal(9);
        killed.failure = Some("cannot be written: disk full".to_owned());
        killed.spill = Some(PathBuf::from("/dev/shm/x/1-a.spill"));
        let line = summary(&killed);
        for part in [
            "only 12 events",
            "1 thread,",
            "1 event LOST",
            "(SIGKILL)",
            "disk full",
            "1-a.spill",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
    }

    #[test]
    fn names_are_quoted_for_shells() {
        assert_eq!(quoted(Path::new("a/b-1.hreel")), "a/b-1.hreel");
        assert_eq!(
            quoted(Path::new("my game's.hreel")),
            "'my game'\\''s.hreel'"
        );
    }
}
