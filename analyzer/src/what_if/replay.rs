//! One decode, several models, each in a thread of its own.

use super::call::Call;
use super::exits::inferred;
use super::feeder::{Fed, Feeder};
use super::lifetimes::lifetimes;
use super::run::Run;
use super::scene::Scene;
use crate::analysis::Progress;
use crate::replay::{Batch, StepKind, with_batches};
use heapreel_format::{ReadError, Trace};
use heapreel_models::{FORESIGHT, Placed};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Calls that are handed over at once.
///
/// PERF: 2048 of 64 bytes are below the size from which the system's allocator maps
/// memory anew for each.
const PART: usize = 2048;
/// Parts that may wait for a model.
const AHEAD: usize = 16;

/// Looks at a run after each call.
pub trait Watch: Send {
    /// Whether the run is to end before this call is made.
    fn stops_before(&mut self, _call: &Call) -> bool {
        false
    }

    /// A call was made; `placed` where a block was placed or resized.
    fn after(&mut self, run: &Run, call: &Call, placed: Option<Placed>);

    /// Whether nothing more is wanted.
    fn done(&self) -> bool {
        false
    }
}

impl Watch for () {
    fn after(&mut self, _run: &Run, _call: &Call, _placed: Option<Placed>) {}
}

/// Feeds a trace to all runs. Each ends with the trace, or when its watch has seen enough.
///
/// # Errors
///
/// [`ReadError::Io`]; a damaged trace is no error.
pub fn replay<W: Watch>(
    trace: &Trace,
    scene: &Scene,
    runs: Vec<(Run, W)>,
    mut progress: impl FnMut(Progress),
) -> Result<(Vec<(Run, W)>, Fed), ReadError> {
    let exits = inferred(trace, scene)?;
    let lifetimes = match runs.iter().any(|(run, _)| run.asks_lifetimes()) {
        true => lifetimes(trace, scene, exits.clone())?,
        false => Vec::new(),
    };
    let mut feeder = Feeder::new(trace, scene, exits, lifetimes);
    let total = crate::analysis::records(trace);
    std::thread::scope(|scope| {
        let mut senders = Vec::new();
        let mut players = Vec::new();
        for (run, watch) in runs {
            let (send, receive) = sync_channel(AHEAD);
            senders.push(send);
            let thread = std::thread::Builder::new().name(run.label().to_owned());
            players.push(thread.spawn_scoped(scope, || play(run, watch, receive))?);
        }
        let mut done = 0;
        with_batches(trace, &scene.dense, |batch| {
            done += batch.steps.len() as u64;
            feed(&mut feeder, batch);
            let wanted = feeder.waiting() < PART || hand_over(&mut feeder, &mut senders);
            progress(Progress {
                done: done.min(total),
                total,
            });
            wanted
        })?;
        feeder.finish();
        hand_over(&mut feeder, &mut senders);
        drop(senders);
        let played = players.into_iter().map(|player| {
            // A panic over there is a bug; it must not be taken for the trace's end.
            player
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        Ok((played.collect(), feeder.fed()))
    })
}

/// Gives a batch of steps to the feeder.
pub(super) fn feed(feeder: &mut Feeder<'_>, batch: &Batch) {
    for step in &batch.steps {
        if step.kind != StepKind::Rare {
            feeder.step(step);
        } else if let Some(rare) = batch.rares.get(step.address as usize) {
            feeder.rare(step, rare);
        }
    }
}

/// Gives the calls that wait to all who still want them; whether there are any.
fn hand_over(feeder: &mut Feeder<'_>, senders: &mut Vec<SyncSender<Arc<[Call]>>>) -> bool {
    let calls = feeder.take_calls();
    for part in calls.chunks(PART) {
        let part: Arc<[Call]> = part.into();
        senders.retain(|sender| sender.send(part.clone()).is_ok());
    }
    !senders.is_empty()
}

fn play<W: Watch>(mut run: Run, mut watch: W, parts: Receiver<Arc<[Call]>>) -> (Run, W) {
    for part in parts {
        for calls in part.chunks(FORESIGHT) {
            run.expect(calls);
            for call in calls {
                if watch.stops_before(call) {
                    return (run, watch);
                }
                let placed = run.play(call);
                watch.after(&run, call, placed);
                if watch.done() {
                    return (run, watch);
                }
            }
        }
    }
    (run, watch)
}
