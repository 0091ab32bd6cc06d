//! From a trace to an [`Analysis`]: one pass over all events, a second look at the
//! worst frames, and names for what was found.

mod blame;
pub(crate) mod clock;
pub(crate) mod contexts;
mod drift;
mod findings;
mod growing;
mod health;
pub(crate) mod heaps;
mod leaks;
mod loops;
pub(crate) mod naming;
mod plumbing;
mod recording;
mod second_look;
mod sites;
mod spikes;
mod stats;
pub(crate) mod threads;
mod values;
mod view;

pub use drift::{DRIFT_FACTOR, DRIFT_NOISE};
pub use loops::{SPIKE_FACTOR, SPIKE_MIN_EXCESS_NANOS, SPIKE_SPREADS};
pub use values::*;

use crate::facts::{Bound, ContextTree, Facts, HeapLedger, Setting, Window};
use crate::place::{FrameRange, Place};
use crate::replay::{Batch, DecodeFaults, Dense, Player, with_batches};
use clock::Times;
use heapreel_format::{LoopId, NameId, ReadError, Trace};
use std::path::Path;

/// What is asked of a trace.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Count only from here on; blocks that are live here stay live.
    pub from: Option<Place>,
    /// Stop here.
    pub to: Option<Place>,
    /// The time that a frame may take, in nanoseconds; by default derived from the median.
    pub budget_nanos: Option<u64>,
    /// Instead of a budget of time: a frame with more allocations and reallocations is a spike.
    pub count_budget: Option<u64>,
    /// Only spikes in these frames are listed.
    pub spike_frames: Option<FrameRange>,
    /// The name of the loop that decides what is temporary and where things lie; by
    /// default the first one.
    pub main_loop: Option<String>,
    /// How many spikes are listed with the call sites to blame; 0 is [`WORST_SPIKES`].
    pub spikes: usize,
    /// Contexts of this kind alone make the tree; by default all.
    pub context_kind: Option<String>,
}

/// Spikes listed for each loop where nothing else is asked for.
pub const WORST_SPIKES: usize = 16;

/// How far an analysis has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Events replayed.
    pub done: u64,
    /// Records in the trace.
    pub total: u64,
}

/// Why a trace could not be analysed. Messages are fragments for behind the file's name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnalysisError {
    /// The file cannot be read as a trace.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A place that is not in the trace.
    #[error("{0}")]
    Place(String),
}

/// Analyses the trace at `path`. `progress` is called now and then; it may be `|_| ()`.
///
/// # Errors
///
/// [`AnalysisError`]. A damaged trace is no error: see [`Analysis::health`].
pub fn analyze(
    path: &Path,
    options: &Options,
    progress: impl FnMut(Progress),
) -> Result<Analysis, AnalysisError> {
    let trace = Trace::open(path)?;
    let mut analysis = analyze_trace(&trace, options, progress)?;
    analysis.trace.file = path.display().to_string();
    findings::complete_commands(&mut analysis);
    Ok(analysis)
}

/// As [`analyze`], of a trace that is already open; [`TraceFacts::file`] stays empty.
///
/// # Errors
///
/// As [`analyze`].
pub fn analyze_trace(
    trace: &Trace,
    options: &Options,
    progress: impl FnMut(Progress),
) -> Result<Analysis, AnalysisError> {
    let dense = Dense::of(trace);
    let replayed = replay(trace, &dense, options, progress)?;
    Ok(view::analysis(trace, &dense, &replayed, options)?)
}

/// What the pass over all events left.
pub(crate) struct Replayed {
    pub(crate) facts: Facts,
    pub(crate) live: Vec<(u64, crate::replay::Block)>,
    pub(crate) anomalies: crate::replay::Anomalies,
    pub(crate) decode: DecodeFaults,
}

/// Records that the trace's chunks hold.
pub(crate) fn records(trace: &Trace) -> u64 {
    let chunks = trace.chunks().iter();
    chunks
        .map(|chunk| u64::from(chunk.header.count - chunk.skip))
        .sum()
}

pub(crate) fn replay(
    trace: &Trace,
    dense: &Dense,
    options: &Options,
    mut progress: impl FnMut(Progress),
) -> Result<Replayed, AnalysisError> {
    let times = Times::of(&trace.header().clock);
    let setting = setting(trace, dense, options, &times)?;
    let stop = match setting.window.to {
        Some(Bound::Key(key)) => key,
        _ => u64::MAX,
    };
    let mut facts = Facts::new(setting);
    let snapshot: Vec<_> = crate::replay::snapshot_blocks(trace, dense).collect();
    snapshot
        .iter()
        .for_each(|(_, block)| facts.begin_with(block));
    let mut player = Player::with_snapshot(snapshot.into_iter());
    let total = records(trace);
    let mut done = 0;
    let decode = with_batches(trace, dense, |batch: &mut Batch| {
        done += batch.steps.len() as u64;
        // The live set must not run ahead of the window's end.
        let within = batch.steps.partition_point(|step| step.key < stop);
        let whole = within == batch.steps.len();
        batch.steps.truncate(within);
        player.play(batch, &mut facts);
        progress(Progress {
            done: done.min(total),
            total,
        });
        whole && !crate::replay::Observer::done(&facts)
    })?;
    progress(Progress { done: total, total });
    facts.finish();
    check_window(trace, options, &facts)?;
    Ok(Replayed {
        live: player.live_blocks(),
        anomalies: player.anomalies().clone(),
        decode,
        facts,
    })
}

fn setting(
    trace: &Trace,
    dense: &Dense,
    options: &Options,
    times: &Times,
) -> Result<Setting, AnalysisError> {
    let main = main_loop(trace, options)?;
    let bound = |place: &Option<Place>| {
        place
            .as_ref()
            .map(|place| bound(trace, times, place))
            .transpose()
    };
    let loops = trace.definitions().loops.keys().copied();
    let heaps = trace.definitions().heaps.iter();
    let budgets = heaps.map(|(id, (_, _, _, budget))| (*id, *budget));
    Ok(Setting {
        stacks: dense.stacks.len(),
        threads: dense.threads.len(),
        loops: loops.collect(),
        main,
        start: times.start(),
        slow_ticks: times.ticks(trace.header().settings.slow_call_nanos.max(1)),
        window: Window {
            from: bound(&options.from)?,
            to: bound(&options.to)?,
        },
        contexts: context_tree(trace, options)?,
        heaps: HeapLedger::new(budgets),
    })
}

/// The contexts that are asked for.
fn context_tree(trace: &Trace, options: &Options) -> Result<ContextTree, AnalysisError> {
    let definitions = trace.definitions();
    let kinds = || {
        definitions
            .contexts
            .values()
            .map(|(_, kind, _)| kind.as_str())
    };
    if let Some(wanted) = &options.context_kind
        && !definitions.contexts.is_empty()
        && !kinds().any(|kind| kind == wanted)
    {
        return Err(AnalysisError::Place(format!(
            "has no contexts of kind {wanted:?}{}",
            nearest(wanted, kinds())
        )));
    }
    Ok(ContextTree::of(
        definitions,
        options.context_kind.as_deref(),
    ))
}

/// The loop that is asked for.
fn main_loop(trace: &Trace, options: &Options) -> Result<Option<LoopId>, AnalysisError> {
    let loops = &trace.definitions().loops;
    let Some(name) = &options.main_loop else {
        return Ok(None);
    };
    let found = loops.iter().find(|(_, (known, ..))| known == name);
    match found {
        Some((id, _)) => Ok(Some(*id)),
        None if loops.is_empty() && name == "main" => Ok(Some(LoopId(0))),
        None => {
            let names = loops.values().map(|(name, ..)| name.as_str());
            Err(AnalysisError::Place(format!(
                "has no loop {name:?}{}",
                nearest(name, names)
            )))
        }
    }
}

fn bound(trace: &Trace, times: &Times, place: &Place) -> Result<Bound, AnalysisError> {
    Ok(match place {
        Place::Frame(number) => Bound::Frame(*number),
        Place::Time(nanos) => Bound::Key(times.key_at(*nanos)),
        Place::Mark { name, occurrence } => {
            let names = &trace.definitions().names;
            let same: Vec<NameId> = names
                .iter()
                .filter(|(_, text)| *text == name)
                .map(|(id, _)| *id)
                .collect();
            if same.is_empty() {
                let known = names.values().map(String::as_str);
                return Err(AnalysisError::Place(format!(
                    "has no mark {name:?}{}",
                    nearest(name, known)
                )));
            }
            Bound::Mark {
                names: same,
                occurrence: *occurrence,
            }
        }
    })
}

fn check_window(trace: &Trace, options: &Options, facts: &Facts) -> Result<(), AnalysisError> {
    let (begun, ended) = facts.window_met();
    let missing = match (&options.from, &options.to) {
        (Some(from), _) if !begun => from,
        (_, Some(to)) if !ended => {
            // A time behind the end is the end; so is a frame just behind the last one.
            if matches!(to, Place::Time(_)) {
                return Ok(());
            }
            to
        }
        _ => return Ok(()),
    };
    let why = match missing {
        Place::Frame(_) => {
            let frames: u64 = facts
                .frames
                .loops
                .get(&facts.frames.primary)
                .map_or(0, |l| l.frames.len() as u64);
            format!(
                "the main loop has {} frames",
                frames + facts.first_frame(facts.frames.primary)
            )
        }
        Place::Time(_) => {
            let times = Times::of(&trace.header().clock);
            format!(
                "the recording is {:.3} s long",
                times.since_start(facts.to) as f64 / 1e9
            )
        }
        Place::Mark { name, .. } => {
            let names = &trace.definitions().names;
            let of_name = |id: &NameId| names.get(id) == Some(name);
            let count = facts
                .timeline
                .marks
                .iter()
                .filter(|(_, id)| of_name(id))
                .count();
            format!(
                "the mark was set {count} time(s){}",
                if begun { " up to there" } else { "" }
            )
        }
    };
    Err(AnalysisError::Place(format!(
        "has no place {missing} in the part asked for; {why}"
    )))
}

/// "; did you mean …?" for the name that is most like `word`, else all names if they are few.
pub(crate) fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    let likeness = |name: &&str| strsim::jaro_winkler(word, name);
    let best = names
        .iter()
        .copied()
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match best {
        Some(best) if likeness(&best) > 0.7 => format!("; did you mean {best:?}?"),
        Some(_) if names.len() <= 8 => format!("; there are {}", names.join(", ")),
        Some(_) => "; see `heapreel info`".to_owned(),
        None => "; the game set none".to_owned(),
    }
}
