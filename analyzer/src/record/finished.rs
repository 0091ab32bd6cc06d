//! Traces that are finished: which stay, which one is the main one, what is in them.

use super::naming::Naming;
use heapreel_format::{DecodedChunk, Ended, LoopId, Rare, Trace};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A process with fewer events than this leaves nothing behind, unless there is no other.
pub const WORTH_KEEPING: u64 = 1_000;

/// A recording that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The process.
    pub pid: u32,
    /// Its program's path.
    pub executable: String,
    /// Its trace.
    pub trace: PathBuf,
    /// Its spill, where the trace could not take everything.
    pub spill: Option<PathBuf>,
    /// How it ended.
    pub ended: Ended,
    /// Why they could not.
    pub failure: Option<String>,
    /// What the trace holds; `None` where only reading it can tell.
    pub counts: Option<Counts>,
}

/// What a trace holds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Allocations, reallocations, deallocations, failed ones.
    pub events: u64,
    /// Frame marks of all loops.
    pub marks: u64,
    /// Whole game frames of all loops: what lies between two marks of the same one.
    pub frames: u64,
    /// Threads that recorded something.
    pub threads: u64,
    /// From the start of the recording to its last record, in nanoseconds.
    pub nanos: f64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Events that are not in the trace though they happened.
    pub lost: u64,
}

impl Counts {
    /// Counts what is in a trace, by reading all of it.
    pub fn of(trace: &Trace) -> Counts {
        let mut counts = Counts {
            bytes: trace.bytes(),
            lost: trace.health().lost_events + trace.health().missing_records,
            ..Counts::default()
        };
        let mut threads: Vec<_> = trace.chunks().iter().map(|c| c.header.thread).collect();
        threads.dedup();
        threads.sort_unstable();
        threads.dedup();
        counts.threads = threads.len() as u64;
        let mut marks: HashMap<LoopId, u64> = HashMap::new();
        let mut decoded = DecodedChunk::default();
        let mut last = trace.header().clock.start;
        for entry in trace.chunks() {
            if trace.decode_into(entry, &mut decoded).is_err() {
                counts.lost += u64::from(entry.header.count);
                continue;
            }
            counts.events += decoded.events.len() as u64;
            for (.., rare) in &decoded.rares {
                if let Rare::FrameMark { id } = rare {
                    *marks.entry(*id).or_default() += 1;
                }
            }
            last = last.max(decoded.events.last().map_or(0, |event| event.end));
            last = last.max(decoded.rares.last().map_or(0, |(key, ..)| *key));
        }
        counts.nanos = trace.header().clock.nanos_since_start(last);
        counts.marks = marks.values().sum();
        counts.frames = marks.values().map(|marks| marks - 1).sum();
        counts
    }
}

/// Puts the main trace first and removes those that hold too little to be of use, unless
/// all are wanted: of a program replaced by exec, a shell, a launcher. What has frame
/// marks stays, and so does the last one left.
pub fn keep(mut all: Vec<Finished>, wants_all: bool) -> Vec<Finished> {
    for finished in all.iter_mut().filter(|f| f.counts.is_none()) {
        finished.counts = Trace::open(&finished.trace).ok().map(|t| Counts::of(&t));
    }
    // Stable: of equals the first stays first.
    all.sort_by_key(|finished| std::cmp::Reverse(finished.rank()));
    if wants_all {
        return all;
    }
    let keeps = all.iter().filter(|f| f.is_worth_keeping()).count().max(1);
    for finished in all.drain(keeps.min(all.len())..) {
        _ = fs::remove_file(&finished.trace);
        if let Some(spill) = finished.spill {
            _ = fs::remove_file(spill);
        }
    }
    all
}

/// Gives the main trace the name that was asked for.
///
/// Returns why it could not, as one line.
pub fn name_main(kept: &mut [Finished], naming: &Naming, force: bool) -> Option<String> {
    let wanted = naming.main()?;
    let (main, others) = kept.split_first_mut()?;
    if main.trace == wanted {
        return None;
    }
    if let Some(holder) = others.iter_mut().find(|other| other.trace == wanted) {
        let free = naming.free(holder.pid, &holder.executable)?;
        if let Err(error) = fs::rename(wanted, &free) {
            return Some(stays(&main.trace, wanted, &error.to_string()));
        }
        holder.trace = free;
    } else if !force && wanted.symlink_metadata().is_ok() {
        return Some(stays(
            &main.trace,
            wanted,
            "somebody made that file meanwhile",
        ));
    }
    match fs::rename(&main.trace, wanted) {
        Ok(()) => {
            main.trace = wanted.to_owned();
            None
        }
        Err(error) => Some(stays(&main.trace, wanted, &error.to_string())),
    }
}

fn stays(trace: &Path, wanted: &Path, why: &str) -> String {
    format!(
        "{}: cannot be named {}: {why}; it keeps its name",
        trace.display(),
        wanted.display()
    )
}

impl Finished {
    /// Whether there is anything to read: a trace that was removed, or that could not even
    /// begin, is none.
    pub fn has_trace(&self) -> bool {
        fs::metadata(&self.trace).is_ok_and(|facts| facts.len() > 0)
    }

    /// What makes a trace the main one: frame marks, or failing that, the most events.
    fn rank(&self) -> (bool, u64) {
        self.counts
            .map_or((false, 0), |counts| (counts.marks > 0, counts.events))
    }

    fn is_worth_keeping(&self) -> bool {
        let (marked, events) = self.rank();
        marked || events >= WORTH_KEEPING
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapreel_format::testing::TraceBuilder;

    /// A trace of `events` allocations, and of frame marks if `marked`.
    fn finished(folder: &Path, pid: u32, events: u64, marked: bool) -> Finished {
        let mut trace = TraceBuilder::new();
        for index in 0..events {
            let at = 2_000 + index * 100;
            trace = trace.alloc(1, at, at + 50, 0x7f00_0000 + index * 64, 24, 0);
        }
        if marked {
            trace = trace.frame_mark(1, 2_000 + events * 100, 0);
        }
        let path = folder.join(format!("run.{pid}.x.hreel"));
        fs::write(&path, trace.bytes()).unwrap();
        Finished {
            pid,
            executable: "/bin/x".to_owned(),
            trace: path,
            spill: None,
            ended: Ended::Exit(0),
            failure: None,
            counts: None,
        }
    }

    fn pids(kept: &[Finished]) -> Vec<u32> {
        kept.iter().map(|f| f.pid).collect()
    }

    #[test]
    fn the_trace_with_frame_marks_is_the_main_one() {
        let folder = tempfile::tempdir().unwrap();
        let all = vec![
            finished(folder.path(), 1, 5_000, false),
            finished(folder.path(), 2, 1_200, true),
            finished(folder.path(), 3, 999, false),
            finished(folder.path(), 4, 1_000, false),
        ];
        let gone = all[2].trace.clone();
        let kept = keep(all, false);
        assert_eq!(pids(&kept), [2, 1, 4]);
        assert!(!gone.exists());
        assert!(kept.iter().all(|f| f.trace.exists()));
    }

    #[test]
    fn small_ones_stay_where_all_are_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let all = vec![
            finished(folder.path(), 1, 3, false),
            finished(folder.path(), 2, 1_200, true),
            finished(folder.path(), 3, 40, false),
        ];
        let kept = keep(all, true);
        assert_eq!(pids(&kept), [2, 3, 1]);
        assert!(kept.iter().all(|f| f.trace.exists()));
    }

    #[test]
    fn a_small_one_stays_where_it_is_the_only_one() {
        let folder = tempfile::tempdir().unwrap();
        let all = vec![
            finished(folder.path(), 1, 3, false),
            finished(folder.path(), 2, 40, false),
        ];
        let kept = keep(all, false);
        assert_eq!(pids(&kept), [2]);
        assert_eq!(kept[0].counts.unwrap().events, 40);
        assert!(keep(Vec::new(), false).is_empty());
    }

    #[test]
    fn the_main_trace_gets_the_name_and_its_holder_makes_way() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = folder.path().join("run.hreel");
        let naming = Naming::new(Some(&wanted), false, 0).unwrap();
        let mut root = finished(folder.path(), 1, 1_500, false);
        fs::rename(&root.trace, &wanted).unwrap();
        root.trace = wanted.clone();
        let mut kept = keep(vec![root, finished(folder.path(), 2, 1_100, true)], false);
        assert_eq!(name_main(&mut kept, &naming, false), None);
        assert_eq!(kept[0].trace, wanted);
        assert_eq!(kept[1].trace, folder.path().join("run.1.x.hreel"));
        let main = Trace::open(&wanted).unwrap();
        assert_eq!(Counts::of(&main).marks, 1);
    }

    #[test]
    fn a_file_made_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = folder.path().join("run.hreel");
        let naming = Naming::new(Some(&wanted), false, 0).unwrap();
        let mut kept = keep(vec![finished(folder.path(), 2, 1_100, true)], false);
        fs::write(&wanted, "precious").unwrap();
        let told = name_main(&mut kept, &naming, false).unwrap();
        assert!(told.contains("somebody"), "{told}");
        assert_eq!(fs::read(&wanted).unwrap(), b"precious");
        assert_eq!(name_main(&mut kept, &naming, true), None);
        assert_eq!(kept[0].trace, wanted);
    }

    #[test]
    fn counts_are_those_of_the_trace() {
        let folder = tempfile::tempdir().unwrap();
        let kept = keep(vec![finished(folder.path(), 1, 10, true)], false);
        let counts = kept[0].counts.unwrap();
        assert_eq!((counts.events, counts.threads), (10, 1));
        // Nothing lies between one mark and another.
        assert_eq!((counts.marks, counts.frames), (1, 0));
        // The clock starts at 1,000; the mark stands at 3,000.
        assert_eq!(counts.nanos, 2_000.0);
        assert_eq!(counts.lost, 0);
    }
}
