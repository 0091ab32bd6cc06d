//! When threads are taken to be gone.
//!
//! A recorded trace does not say when a thread exits: what ran last in it is its last
//! record. A thread that makes no call for the rest of the run, and for a second at least,
//! is taken to be gone after that record, unless it is the program's first. A list that
//! was imported says what is so.

use super::Scene;
use heapreel_format::{ClockSource, ReadError, ThreadId, Trace};
use std::collections::BTreeMap;

/// A thread that is silent for less than this before the trace's end is still there.
const SILENCE_NANOS: u64 = 1_000_000_000;

/// (key, position of the thread), in order of keys: from behind that key on it is gone.
pub(super) fn inferred(trace: &Trace, scene: &Scene) -> Result<Vec<(u64, u32)>, ReadError> {
    if trace.header().clock.source == ClockSource::Counter {
        return Ok(Vec::new());
    }
    let last = last_keys(trace)?;
    let end = last.values().copied().max().unwrap_or(0);
    let silence = scene.times.ticks(SILENCE_NANOS);
    let main = scene.main_thread();
    let mut exits: Vec<_> = last
        .into_iter()
        .map(|(id, key)| (key, scene.dense.thread(id)))
        .filter(|(key, thread)| Some(*thread) != main && end.saturating_sub(*key) >= silence)
        .collect();
    exits.sort_unstable();
    Ok(exits)
}

/// The greatest key of each thread.
fn last_keys(trace: &Trace) -> Result<BTreeMap<ThreadId, u64>, ReadError> {
    let mut last = BTreeMap::new();
    for chunk in trace.chunks() {
        let header = &chunk.header;
        let key = match header.last_key {
            0 => last_key(trace, chunk)?,
            key => key,
        };
        let known = last.entry(header.thread).or_insert(0);
        *known = key.max(*known);
    }
    Ok(last)
}

/// The greatest key of a chunk whose header does not tell it. A damaged chunk has none.
fn last_key(trace: &Trace, chunk: &heapreel_format::ChunkEntry) -> Result<u64, ReadError> {
    let decoded = match trace.decode(chunk) {
        Ok(decoded) => decoded,
        Err(ReadError::Io(error)) => return Err(ReadError::Io(error)),
        Err(_) => return Ok(0),
    };
    let events = decoded.events.iter().map(|event| event.key());
    let rares = decoded.rares.iter().map(|(key, ..)| *key);
    Ok(events.chain(rares).max().unwrap_or(0))
}
