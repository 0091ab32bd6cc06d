//! Runs a command, drains the spills of all its processes, and waits for the last.

use super::clips::Clipping;
use super::exit_status;
use super::finished::Finished;
use super::glob;
use super::naming::Naming;
use super::proc;
use super::recorded::{AdoptError, Recorded, dismiss};
use super::session::Session;
use super::signals::Signals;
use heapreel_format::Ended;
use heapreel_format::spill::SpillError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Pause between two looks while records keep coming.
const BUSY: Duration = Duration::from_millis(5);
/// Pause between two looks while nothing happens.
const IDLE: Duration = Duration::from_millis(20);
/// A child is given so long to load its recorder before it counts as one without.
const LOADING: Duration = Duration::from_millis(500);
/// Descendants that outlive the command are named after this long.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// What a recording came to.
#[derive(Debug)]
pub struct Outcome {
    /// How the command itself ended.
    pub root: Ended,
    /// All processes' traces, in the order they ended.
    pub finished: Vec<Finished>,
    /// Something was not recorded, and why was told on stderr.
    pub refused: bool,
}

/// How to record.
#[derive(Clone, Copy)]
pub struct Plan<'s> {
    /// Where spills appear.
    pub session: &'s Session,
    /// How traces are called.
    pub naming: &'s Naming,
    /// Clips that are made instead of traces.
    pub clips: Option<&'s Clipping>,
    /// Patterns of programs' names; empty for all.
    pub only: &'s [String],
    /// The recorder that is loaded into programs; `None` where they carry it inside.
    pub library: Option<&'s Path>,
}

/// A running recording.
pub struct Host<'s> {
    plan: Plan<'s>,
    root: u32,
    live: Vec<Recorded>,
    finished: Vec<Finished>,
    /// Spills that were looked at and are not drained.
    dismissed: HashSet<PathBuf>,
    /// How our children ended, and the orphans among their descendants.
    statuses: HashMap<u32, Ended>,
    /// Children in which no recorder was seen yet, and since when.
    loading: HashMap<u32, Instant>,
    told_trace_failure: bool,
    /// Since when only descendants of the command are left.
    alone: Option<Instant>,
    told_waiting: bool,
}

impl<'s> Host<'s> {
    /// Starts `command`.
    ///
    /// # Errors
    ///
    /// The operating system's, where it cannot be started.
    pub fn start(command: &mut Command, plan: Plan<'s>) -> io::Result<Host<'s>> {
        // Descendants whose parents are gone become our children: their ends are seen.
        // Without that, which old kernels refuse, only how they ended is not known.
        _ = set_child_subreaper(Some(getpid()));
        let root = command.spawn()?.id();
        Ok(Host {
            plan,
            root,
            live: Vec::new(),
            finished: Vec::new(),
            dismissed: HashSet::new(),
            statuses: HashMap::new(),
            loading: HashMap::new(),
            told_trace_failure: false,
            alone: None,
            told_waiting: false,
        })
    }

    /// Drains until the last recorded process is gone, or somebody ends the recording
    /// after the command itself is.
    pub fn run(mut self, signals: &mut Signals) -> Outcome {
        let mut pause = BUSY;
        loop {
            self.wait(pause);
            self.reap();
            let wants_end = signals.forward(self.running_root());
            self.adopt_new();
            if *signals.wants_clip() && !self.live.is_empty() {
                *signals.wants_clip() = false;
                self.live.iter_mut().for_each(Recorded::ask_for_clip);
            }
            let buffers = self.pass();
            self.finish_ended();
            if self.running_root().is_none() && (wants_end || !self.is_anybody_left()) {
                break;
            }
            pause = if buffers > 0 {
                BUSY
            } else {
                (pause * 2).min(IDLE)
            };
        }
        self.adopt_new();
        self.finish_rest();
        Outcome {
            root: self
                .statuses
                .get(&self.root)
                .copied()
                .unwrap_or(Ended::Unknown),
            finished: self.finished,
            refused: self.told_trace_failure || self.plan.session.has_refusals(),
        }
    }

    fn running_root(&self) -> Option<u32> {
        (!self.statuses.contains_key(&self.root)).then_some(self.root)
    }

    /// Sleeps, unless a recorded process ends or a signal comes.
    fn wait(&self, pause: Duration) {
        let mut fds: Vec<_> = self
            .live
            .iter()
            .filter_map(Recorded::descriptor)
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(pause.subsec_nanos()),
        };
        _ = poll(&mut fds, Some(&timeout));
    }

    /// Takes the statuses of children that are gone.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if status.exited() || status.signaled() {
                let ended = exit_status::from_raw(status.as_raw());
                self.statuses.insert(pid.as_raw_pid() as u32, ended);
            }
        }
    }

    fn adopt_new(&mut self) {
        for path in self.plan.session.spills() {
            let known = self.dismissed.contains(&path)
                || self.live.iter().any(|recorded| recorded.is_of(&path));
            if !known {
                self.adopt(path);
            }
        }
    }

    fn adopt(&mut self, path: PathBuf) {
        let wanted = |executable: &str| is_wanted(self.plan.only, executable);
        match Recorded::adopt(
            path.clone(),
            self.plan.naming,
            self.plan.clips,
            self.root,
            wanted,
        ) {
            Ok(recorded) => self.live.push(recorded),
            Err(AdoptError::NotAskedFor) => {
                dismiss(&path);
                self.dismissed.insert(path);
            }
            // Set up in the next moment, or left half-made by a process that was killed.
            Err(AdoptError::Spill(SpillError::NotReady)) => {}
            Err(error) => self.refuse(path, &error),
        }
    }

    /// The game runs on without being recorded, and one line says so.
    fn refuse(&mut self, path: PathBuf, error: &AdoptError) {
        dismiss(&path);
        if !self.told_trace_failure {
            self.told_trace_failure = true;
            eprintln!("heapreel: {error}; the program runs on and is not recorded");
        }
        self.dismissed.insert(path);
    }

    /// Drains all; returns how many buffers were moved.
    fn pass(&mut self) -> u32 {
        let now = Instant::now();
        self.live
            .iter_mut()
            .map(|live| live.pass(now).buffers)
            .sum()
    }

    fn finish_ended(&mut self) {
        // Who is gone stays gone: a child of ours that is has a status by now, though
        // it may have had none at the last look.
        if self.live.iter_mut().any(Recorded::is_gone) {
            self.reap();
        }
        let mut at = 0;
        while at < self.live.len() {
            let statuses = &self.statuses;
            match self.live[at].ended(|pid| statuses.get(&pid).copied()) {
                Some(ended) => {
                    let recorded = self.live.remove(at);
                    self.finish(recorded, ended);
                }
                None => at += 1,
            }
        }
    }

    /// Whether, the command being gone, something is or may yet be recorded.
    fn is_anybody_left(&mut self) -> bool {
        let mut waiting = self.waiting();
        if self.live.is_empty() && waiting.is_empty() {
            // A parent that ended during that look had passed its children on to us.
            waiting = self.waiting();
            if waiting.is_empty() {
                return false;
            }
        }
        self.tell_waiting(&waiting);
        true
    }

    /// Descendants in which something is or may yet be recorded.
    fn waiting(&mut self) -> Vec<u32> {
        let mut waiting = proc::descendants(std::process::id());
        waiting.retain(|pid| self.may_record(*pid));
        waiting
    }

    /// A descendant that carries the session on: it has our recorder loaded, or is young
    /// enough to be still loading it.
    fn may_record(&mut self, pid: u32) -> bool {
        if self.live.iter().any(|live| live.pid() == pid) {
            return true;
        }
        let folder = self.plan.session.folder().to_string_lossy().into_owned();
        if !matches!(proc::state(pid), Some((state, _)) if !matches!(state, 'Z' | 'X'))
            || proc::environment_contains(pid, &format!("HEAPREEL_SESSION={folder}")) == Some(false)
        {
            return false;
        }
        let library = self.plan.library.map(|library| library.to_string_lossy());
        let has_recorder = library.is_some_and(|library| proc::maps(pid, &library) == Some(true));
        if has_recorder && self.plan.only.is_empty() {
            return true;
        }
        let since = *self.loading.entry(pid).or_insert_with(Instant::now);
        since.elapsed() < LOADING
    }

    /// Says what is waited for, once, and not of what is gone in a moment anyway.
    fn tell_waiting(&mut self, waiting: &[u32]) {
        let alone = *self.alone.get_or_insert_with(Instant::now);
        let live = self.live.iter().map(Recorded::pid);
        let pids: BTreeSet<u32> = live.chain(waiting.iter().copied()).collect();
        if self.told_waiting || alone.elapsed() < TELL_AFTER {
            return;
        }
        self.told_waiting = true;
        let name = |pid: &u32| format!("{} ({pid})", proc::name(*pid));
        let names: Vec<String> = pids.iter().map(name).collect();
        eprintln!(
            "heapreel: the command has ended; still recording {} (Ctrl-C ends the recording)",
            names.join(", ")
        );
    }

    fn finish_rest(&mut self) {
        for mut recorded in std::mem::take(&mut self.live) {
            let statuses = &self.statuses;
            let ended = recorded.ended(|pid| statuses.get(&pid).copied());
            if ended.is_none() {
                recorded.stop();
            }
            self.finish(recorded, ended.unwrap_or(Ended::RecorderLeft));
        }
    }

    fn finish(&mut self, recorded: Recorded, ended: Ended) {
        let finished = recorded.finish(ended);
        // A spill that has to stay belongs to this trace and begins no other.
        self.dismissed.extend(finished.spill.clone());
        if self.plan.clips.is_some() {
            return;
        }
        if finished.has_trace() {
            self.finished.push(finished);
        } else {
            // Nothing to be read, and why was told.
            self.told_trace_failure = true;
            _ = std::fs::remove_file(finished.trace);
        }
    }
}

fn is_wanted(only: &[String], executable: &str) -> bool {
    let executable = executable.strip_suffix(" (deleted)").unwrap_or(executable);
    let name = executable.rsplit('/').next().unwrap_or_default();
    only.is_empty() || only.iter().any(|pattern| glob::matches(pattern, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_chosen_by_their_file_name() {
        let only = ["open*".to_owned(), "doom".to_owned()];
        assert!(is_wanted(&only, "/usr/games/openttd (deleted)"));
        assert!(is_wanted(&only, "/usr/games/doom"));
        assert!(!is_wanted(&only, "/usr/bin/sh"));
        assert!(is_wanted(&[], "/usr/bin/sh"));
    }
}
