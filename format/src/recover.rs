//! Rewrites a broken trace as a whole one.

use crate::definition::{Definition, ThreadId};
use crate::error::{ReadError, WriteError};
use crate::header::Ended;
use crate::reader::{ChunkEntry, Definitions, Trace};
use crate::writer::{TraceWriter, encode_definition};
use std::borrow::Cow;
use std::io::Write;

/// What was saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Records written.
    pub records: u64,
    /// Chunks that were damaged inside and left out.
    pub damaged_chunks: u64,
    /// Records that the trace should have held and does not.
    pub missing_records: u64,
}

/// Why a recovery failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// The broken trace could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The new trace could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Writes everything that can be read of `trace` (spill included) to `sink`.
///
/// # Errors
///
/// [`RecoverError`]: the old file's or the sink's.
pub fn recover<W: Write>(trace: &Trace, sink: W) -> Result<Recovered, RecoverError> {
    let mut header = trace.header().clone();
    header.spill = String::new();
    let mut writer = TraceWriter::new(sink, &header);
    let mut recovered = Recovered {
        missing_records: trace.health().missing_records,
        ..Recovered::default()
    };
    copy_definitions(trace, &mut writer)?;
    if !trace.snapshot().is_empty() {
        writer.snapshot(trace.snapshot())?;
    }
    for entry in trace.chunks() {
        copy_chunk(trace, entry, &mut writer, &mut recovered)?;
        if writer.pending_bytes() > 1 << 20 {
            writer.flush()?;
        }
    }
    if !trace.symbols().addresses.is_empty() || !trace.symbols().remarks.is_empty() {
        writer.symbols(trace.symbols())?;
    }
    writer.end(trace.health().ended.unwrap_or(Ended::Unknown))?;
    writer.finish()?;
    Ok(recovered)
}

fn copy_chunk<W: Write>(
    trace: &Trace,
    entry: &ChunkEntry,
    writer: &mut TraceWriter<W>,
    recovered: &mut Recovered,
) -> Result<(), RecoverError> {
    let Some((base, records)) = trace.raw_records(entry)? else {
        recovered.damaged_chunks += 1;
        recovered.missing_records += u64::from(entry.header.count - entry.skip);
        return Ok(());
    };
    // A piece that partly stands in another one is copied whole: numbers tell the reader.
    let h = &entry.header;
    writer.events(
        h.thread,
        h.nested,
        h.first_number,
        h.count,
        h.last_key,
        base,
        &records,
    )?;
    recovered.records += u64::from(h.count - entry.skip);
    Ok(())
}

fn copy_definitions<W: Write>(
    trace: &Trace,
    writer: &mut TraceWriter<W>,
) -> Result<(), WriteError> {
    let mut encoded = Vec::new();
    for definition in all_definitions(trace) {
        encode_definition(&definition, &mut encoded)?;
        if encoded.len() > 1 << 20 {
            writer.encoded_definitions(&encoded, 0)?;
            encoded.clear();
        }
    }
    writer.encoded_definitions(&encoded, 0)
}

/// The definitions of a trace as values again, in order of their numbers.
fn all_definitions(trace: &Trace) -> Vec<Definition<'_>> {
    let known = trace.definitions();
    let mut all: Vec<Definition<'_>> = Vec::new();
    all.extend(known.modules.values().map(|m| Definition::Module {
        id: m.id,
        generation: m.generation,
        path: Cow::Borrowed(&m.path),
        bias: m.bias,
        start: m.start,
        end: m.end,
        build_id: Cow::Borrowed(&m.build_id),
        key: 0,
    }));
    all.extend(
        known
            .generations
            .iter()
            .map(|(g, key)| Definition::Generation {
                generation: *g,
                key: *key,
            }),
    );
    for (id, thread) in &known.threads {
        all.push(Definition::Thread {
            id: *id,
            tid: thread.tid,
            key: thread.key,
        });
        all.push(Definition::ThreadName {
            id: *id,
            name: Cow::Borrowed(&thread.name),
        });
        all.push(Definition::ThreadRole {
            id: *id,
            role: thread.role,
        });
        let lost = thread
            .lost
            .saturating_sub(dropped(known, |thread| thread == *id));
        if thread.records.is_some() || lost > 0 {
            all.push(Definition::ThreadTotals {
                id: *id,
                records: thread.records.unwrap_or(0),
                lost,
            });
        }
    }
    all.extend(nameless_losses(trace));
    let stretches = known.dropped.iter();
    all.extend(stretches.map(
        |((id, nested, first), (records, events))| Definition::Dropped {
            id: *id,
            nested: *nested,
            first: *first,
            records: *records,
            events: *events,
        },
    ));
    all.extend(
        known
            .segments
            .iter()
            .map(|(id, (name, budget))| Definition::Segment {
                id: *id,
                name: Cow::Borrowed(name),
                budget: *budget,
            }),
    );
    all.extend(
        known
            .contexts
            .iter()
            .map(|(id, (parent, kind, name))| Definition::Context {
                id: *id,
                parent: *parent,
                kind: Cow::Borrowed(kind),
                name: Cow::Borrowed(name),
            }),
    );
    all.extend(
        known
            .loops
            .iter()
            .map(|(id, (name, source, symbol))| Definition::Loop {
                id: *id,
                name: Cow::Borrowed(name),
                source: *source,
                symbol: Cow::Borrowed(symbol),
            }),
    );
    all.extend(known.names.iter().map(|(id, text)| Definition::Name {
        id: *id,
        text: Cow::Borrowed(text),
    }));
    all.extend(
        known
            .heaps
            .iter()
            .map(|(id, (name, kind, parent, budget))| Definition::Heap {
                id: *id,
                name: Cow::Borrowed(name),
                kind: *kind,
                parent: *parent,
                budget: *budget,
            }),
    );
    all.extend(
        known
            .clock_pairs
            .iter()
            .map(|(key, nanos)| Definition::ClockPair {
                key: *key,
                monotonic_nanos: *nanos,
            }),
    );
    if let Some((alloc_ticks, dealloc_ticks, empty_latency_ticks)) = known.calibration {
        all.push(Definition::Calibration {
            alloc_ticks,
            dealloc_ticks,
            empty_latency_ticks,
        });
    }
    all.extend(stacks(trace));
    all.extend(trace.in_flight().iter().map(|f| Definition::InFlight {
        id: f.thread,
        address: f.address,
        start: f.start,
    }));
    if trace.health().stacks_cut > 0 {
        all.push(Definition::StacksCut {
            count: trace.health().stacks_cut,
        });
    }
    if trace.health().contexts_cut > 0 {
        all.push(Definition::ContextsCut {
            count: trace.health().contexts_cut,
        });
    }
    if trace.health().unwinds_checked > 0 {
        all.push(Definition::UnwindCheck {
            checked: trace.health().unwinds_checked,
            differing: trace.health().unwinds_differing,
        });
    }
    if trace.health().confined {
        all.push(Definition::Confined {
            children: !trace.health().children_unrecorded,
        });
    }
    all.extend(known.clip.as_ref().map(|clip| Definition::Clip {
        cause: clip.cause,
        id: clip.game_loop,
        frame: clip.frame,
        begin: clip.begin,
        took: clip.took,
        budget: clip.budget,
        name: clip.name.clone().into(),
    }));
    all
}

/// Events that the trace could not take, of the threads chosen.
fn dropped(known: &Definitions, is_chosen: impl Fn(ThreadId) -> bool) -> u64 {
    let stretches = known.dropped.iter();
    let chosen = stretches.filter(|((id, ..), _)| is_chosen(*id));
    chosen.map(|(_, (_, events))| *events).sum()
}

/// Events that no thread is known to have lost: those that only the spill told of.
fn nameless_losses(trace: &Trace) -> Option<Definition<'static>> {
    let threads = trace.definitions().threads.values();
    let of_threads: u64 = threads.map(|thread| thread.lost).sum();
    let lost = trace.health().lost_events.saturating_sub(of_threads);
    (lost > 0).then_some(Definition::ThreadTotals {
        id: ThreadId(0),
        records: 0,
        lost,
    })
}

fn stacks(trace: &Trace) -> Vec<Definition<'static>> {
    let mut stacks: Vec<_> = trace.definitions().stacks.iter().collect();
    stacks.sort_by_key(|(id, _)| **id);
    stacks
        .into_iter()
        .map(|(id, stack)| {
            let mut deltas = vec![0; stack.frames.len()];
            Definition::stack_deltas(&stack.frames, &mut deltas);
            Definition::Stack {
                id: *id,
                entry: stack.entry,
                align_log2: stack.align_log2,
                generation: stack.generation,
                cut: stack.cut,
                deltas: Cow::Owned(deltas),
            }
        })
        .collect()
}
