//! One recorded process while it runs: its spill, its trace, and whether it is there.

use super::clips::{Clipping, tell_unmade};
use super::finished::{Counts, Finished};
use super::naming::Naming;
use super::thread_names::ThreadNames;
use super::ticks;
use super::watch::Watch;
use heapreel_format::clips::Clips;
use heapreel_format::spill::{Drain, PassStats, SLOT_COUNT, SpillError, SpillMap, split_ended};
use heapreel_format::{Ended, TraceFile, WriteError};
use rustix::fd::BorrowedFd;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// Buffers that are still written to are drained at least this often.
const PARTIAL_EVERY: Duration = Duration::from_millis(400);
/// Both clocks are compared this often.
const PAIR_EVERY: Duration = Duration::from_secs(1);

/// Why a spill is not drained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdoptError {
    /// The spill cannot be used, or not yet.
    #[error(transparent)]
    Spill(#[from] SpillError),
    /// Its program is none that was asked for.
    #[error("is not asked for")]
    NotAskedFor,
    /// The trace cannot be created.
    #[error("{folder}: no trace can be created: {source}", folder = folder.display())]
    Trace {
        /// The folder for traces.
        folder: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
}

/// Where records go.
enum Target {
    File(TraceFile),
    Clips(Box<Clips>),
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Target::File(file) => file.write(bytes),
            Target::Clips(clips) => clips.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Target::File(file) => file.flush(),
            Target::Clips(clips) => clips.flush(),
        }
    }
}

/// A process that is being recorded.
pub struct Recorded {
    watch: Watch,
    executable: String,
    spill_path: PathBuf,
    trace: PathBuf,
    drain: Drain<Target>,
    names: ThreadNames,
    last_partial: Instant,
    last_pair: Option<Instant>,
    /// The first failure to write, told once.
    failure: Option<String>,
}

impl Recorded {
    /// Takes over the spill at `path`, and creates the trace for it or makes `clips` of it,
    /// if its program's path is `wanted`.
    ///
    /// # Errors
    ///
    /// [`AdoptError`].
    pub fn adopt(
        path: PathBuf,
        naming: &Naming,
        clips: Option<&Clipping>,
        root: u32,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Recorded, AdoptError> {
        let spill = SpillMap::open(&path)?;
        let executable = spill.info()?.process.executable;
        if !wanted(&executable) {
            return Err(AdoptError::NotAskedFor);
        }
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let watch = Watch::new(spill.header().pid.load(Relaxed), name);
        let is_root = watch.pid() == root;
        let (trace, sink) = if let Some(clips) = clips {
            let kept = clips.of(&spill.info()?);
            (clips.folder().to_owned(), Target::Clips(Box::new(kept)))
        } else {
            let created = naming.create(watch.pid(), &executable, is_root);
            created
                .and_then(|(path, file)| Ok((path, Target::File(TraceFile::new(file)?))))
                .map_err(|source| AdoptError::Trace {
                    folder: naming.folder().to_owned(),
                    source,
                })?
        };
        let mut recorded = Recorded {
            watch,
            executable,
            spill_path: path,
            trace,
            drain: Drain::new(spill, sink)?,
            names: ThreadNames::default(),
            last_partial: Instant::now(),
            last_pair: None,
            failure: None,
        };
        let begun = recorded.drain.begin();
        recorded.noted(begun);
        Ok(recorded)
    }

    /// Its process id here.
    pub fn pid(&self) -> u32 {
        self.watch.pid()
    }

    /// It writes to the spill at `path`.
    pub fn is_of(&self, path: &Path) -> bool {
        self.spill_path == path
    }

    /// A descriptor that becomes readable when the process is gone.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.watch.descriptor()
    }

    /// Moves what is there to the trace.
    pub fn pass(&mut self, now: Instant) -> PassStats {
        let partial = now.duration_since(self.last_partial) >= PARTIAL_EVERY;
        if partial {
            self.last_partial = now;
        }
        if partial || self.names.has_new(self.drain.spill()) {
            self.name_threads();
        }
        self.compare_clocks(now);
        let passed = self.drain.pass(partial);
        self.noted(passed).unwrap_or_default()
    }

    fn name_threads(&mut self) {
        let names = self.names.look(self.watch.pid(), self.drain.spill());
        if !names.is_empty() {
            let defined = self.drain.define(&names);
            self.noted(defined);
        }
    }

    fn compare_clocks(&mut self, now: Instant) {
        let due = self
            .last_pair
            .is_none_or(|last| now.duration_since(last) >= PAIR_EVERY);
        if due {
            self.last_pair = Some(now);
            if let Some(pair) = ticks::pair(&self.drain.header().clock) {
                let defined = self.drain.define(&[pair]);
                self.noted(defined);
            }
        }
    }

    fn noted<T>(&mut self, result: Result<T, WriteError>) -> Option<T> {
        noted(&mut self.failure, &self.trace, result)
    }

    /// Makes a clip of the last frames, where clips are made.
    pub fn ask_for_clip(&mut self) {
        if let Target::Clips(clips) = self.drain.sink_mut() {
            clips.signal();
        }
    }

    /// The process is gone.
    pub fn is_gone(&mut self) -> bool {
        self.watch.is_gone()
    }

    /// How the recording ended, if it has. `status` is the process's, where this
    /// process was its parent.
    pub fn ended(&mut self, status: impl Fn(u32) -> Option<Ended>) -> Option<Ended> {
        let word = split_ended(self.drain.spill().header().ended.load(Acquire));
        let gone = self.watch.is_gone();
        if word == Some(Ended::Exec) {
            return (gone || self.watch.has_replaced_itself()).then_some(Ended::Exec);
        }
        self.watch.stays();
        if !gone {
            return None;
        }
        // What the kernel says is more than what the program meant to do.
        let status = status(self.watch.pid()).or_else(|| self.watch.status());
        Some(match (word, status) {
            (Some(word @ (Ended::Stopped | Ended::Confined)), _) => word,
            (_, Some(status)) => status,
            (Some(word), None) => word,
            (None, None) => Ended::Unknown,
        })
    }

    /// Asks the program to record no longer.
    pub fn stop(&self) {
        self.drain.spill().header().stop.store(1, Relaxed);
    }

    /// Moves the rest and ends the trace. The spill goes, unless the trace could not
    /// take everything.
    pub fn finish(mut self, ended: Ended) -> Finished {
        // Before the drain is used up: what it has seen of a program that is gone is all.
        let passed = self.drain.pass(true);
        self.noted(passed);
        let counts = self.counts();
        let written = self.drain.finish(ended);
        let is_lost = matches!(&written, Err(error) if error.file_is_gone());
        let written = noted(&mut self.failure, &self.trace, written);
        let is_whole = written.is_some();
        if let Some(mut writer) = written
            && let Target::Clips(clips) = writer.sink_mut()
        {
            tell_unmade(&self.executable, clips.unmade());
        }
        if is_whole || is_lost || is_empty(&self.trace) {
            _ = fs::remove_file(&self.spill_path);
        }
        Finished {
            pid: self.watch.pid(),
            executable: self.executable,
            // What was lost on the way to the disk only the trace itself can tell.
            counts: self.failure.is_none().then_some(counts),
            trace: self.trace,
            spill: self.spill_path.exists().then_some(self.spill_path),
            ended,
            failure: self.failure,
        }
    }

    /// What went to the trace, counted on the way: reading it back would cost a tenth
    /// of what recording does.
    fn counts(&self) -> Counts {
        let tally = self.drain.tally();
        let clock = self.drain.header().clock;
        Counts {
            events: tally.events,
            marks: tally.frame_marks,
            frames: tally.frames(),
            threads: self.drain.threads() as u64,
            nanos: clock.nanos_since_start(tally.last_key.max(clock.start)),
            bytes: 0,
            lost: lost(self.drain.spill()) + self.drain.dropped(),
        }
    }
}

/// Tells the first failure to write on stderr, at once: the game may run for hours.
fn noted<T>(
    failure: &mut Option<String>,
    trace: &Path,
    result: Result<T, WriteError>,
) -> Option<T> {
    let error = match result {
        Ok(value) => return Some(value),
        Err(error) => error,
    };
    if failure.is_none() {
        let trace = trace.display();
        let outlook = if error.file_is_gone() {
            "and is not recorded any more"
        } else {
            "and events are lost until there is room"
        };
        eprintln!("heapreel: {trace}: {error}; the program runs on, {outlook}");
        *failure = Some(error.to_string());
    }
    None
}

/// Nothing at all could be written, not even the header that leads to the spill.
fn is_empty(trace: &Path) -> bool {
    fs::metadata(trace).is_ok_and(|facts| facts.len() == 0)
}

/// Events that the program could not record.
fn lost(spill: &SpillMap) -> u64 {
    let slots = spill.header().slots_used.load(Acquire) as usize;
    let of_threads: u64 = (0..slots.min(SLOT_COUNT))
        .map(|index| spill.slot(index).lost.load(Relaxed))
        .sum();
    of_threads + spill.header().lost.load(Relaxed)
}

/// Ends a recording that nobody wants: the program is asked to stop, the spill goes.
pub fn dismiss(path: &Path) {
    if let Ok(spill) = SpillMap::open(path) {
        spill.header().stop.store(1, Relaxed);
    }
    _ = fs::remove_file(path);
}
