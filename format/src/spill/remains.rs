//! What a spill still holds: read beside a trace whose program was killed, whose
//! drain was killed, or that is still being recorded.

use super::layout::*;
use super::map::SpillMap;
use crate::chunk::ChunkBase;
use crate::codec::{Decoder, StreamRecord};
use crate::definition::{ContextId, SegmentId, ThreadId};
use crate::event::EventKind;
use crate::header::Ended;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// One buffer's committed records.
#[derive(Clone, Debug)]
pub struct SpillBuffer {
    /// Whose stream.
    pub thread: ThreadId,
    /// It is the stream of signal handlers.
    pub nested: bool,
    /// Number of its first record in the stream.
    pub first_number: u64,
    /// How many records.
    pub count: u32,
    /// What the first one is relative to.
    pub base: ChunkBase,
    /// The records.
    pub records: Vec<u8>,
}

impl SpillBuffer {
    /// Numbers of those records that are events, in order.
    pub(crate) fn events(&self) -> Vec<u64> {
        let mut decoder = Decoder::new(&self.records, self.thread, self.base);
        let records = std::iter::from_fn(|| decoder.next()).take(self.count as usize);
        let numbered = records.enumerate();
        let events = numbered.filter(|(_, record)| matches!(record, StreamRecord::Event(_)));
        events
            .map(|(at, _)| self.first_number.saturating_add(at as u64))
            .collect()
    }
}

/// A release that had begun when the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Whose.
    pub thread: ThreadId,
    /// Of which block.
    pub address: u64,
    /// When, in ticks.
    pub start: u64,
}

/// All that can be read from a spill at one moment.
#[derive(Clone, Debug, Default)]
pub struct Remains {
    /// Buffers that hold records.
    pub buffers: Vec<SpillBuffer>,
    /// Encoded definitions, each behind its length as varint.
    pub definitions: Vec<u8>,
    /// Releases that had begun.
    pub in_flight: Vec<InFlight>,
    /// How the program ended, if it left word.
    pub ended: Option<Ended>,
    /// Events lost by threads without a slot, and by those with one.
    pub lost: u64,
    /// Backtraces cut to their call site.
    pub stacks_cut: u64,
    /// Contexts that were not entered because the table was full.
    pub contexts_cut: u64,
    /// Backtraces that were compared with a whole unwind.
    pub unwinds_checked: u64,
    /// How many of them were different.
    pub unwinds_differing: u64,
}

impl Remains {
    /// Copies what `spill` holds now.
    pub fn of(spill: &SpillMap) -> Remains {
        let header = spill.header();
        let in_flight = in_flight(spill);
        let buffers = (0..spill.buffers_used())
            .filter_map(|index| buffer(spill, index))
            .collect();
        let mut definitions = Vec::new();
        for index in 0..spill.blocks_used() {
            let committed = spill.block(index).committed.load(Acquire) as usize;
            spill.copy_definitions(index, 0, committed, &mut definitions);
        }
        let lost = spill
            .slots()
            .map(|s| s.lost.load(Relaxed))
            .fold(0u64, u64::saturating_add);
        Remains {
            buffers,
            definitions,
            in_flight,
            ended: split_ended(header.ended.load(Acquire)),
            lost: lost.saturating_add(header.lost.load(Relaxed)),
            stacks_cut: header.stacks_cut.load(Relaxed),
            contexts_cut: header.contexts_cut.load(Relaxed),
            unwinds_checked: header.unwinds_checked.load(Relaxed),
            unwinds_differing: header.unwinds_differing.load(Relaxed),
        }
    }
}

fn buffer(spill: &SpillMap, index: usize) -> Option<SpillBuffer> {
    let header = spill.buffer(index);
    let (bytes, count) = split_commit(header.commit.load(Acquire));
    if bytes == 0 || bytes > BUFFER_BYTES - BUFFER_DATA {
        return None;
    }
    let mut records = Vec::new();
    spill.copy_records(index, 0, bytes, &mut records);
    Some(SpillBuffer {
        thread: ThreadId(header.thread.load(Relaxed)),
        nested: header.nested.load(Relaxed) != 0,
        first_number: header.first_number.load(Relaxed),
        count,
        base: ChunkBase {
            key: header.base_key.load(Relaxed),
            address: header.base_address.load(Relaxed),
            segment: SegmentId(header.segment.load(Relaxed) as u16),
            context: ContextId(header.context.load(Relaxed)),
        },
        records,
    })
}

/// Releases that stand in threads' slots and whose record was not published.
///
/// A thread killed after it published a record and before it cleared its slot
/// leaves both: then the record counts.
pub(crate) fn in_flight(spill: &SpillMap) -> Vec<InFlight> {
    let mut flights = Vec::new();
    for slot in spill.slots() {
        let thread = ThreadId(slot.thread.load(Acquire));
        let start = slot.busy.load(Acquire);
        let flight = InFlight {
            thread,
            address: slot.address.load(Relaxed),
            start,
        };
        if thread.0 != 0 && start > 1 && !published(spill, &flight) {
            flights.push(flight);
        }
    }
    flights
}

/// Whether the thread's newest buffers hold the record of this very release.
fn published(spill: &SpillMap, flight: &InFlight) -> bool {
    (0..spill.buffers_used())
        .filter(|index| spill.buffer(*index).thread.load(Relaxed) == flight.thread.0)
        .filter_map(|index| buffer(spill, index))
        .any(|buffer| ends_with(&buffer, flight))
}

fn ends_with(buffer: &SpillBuffer, flight: &InFlight) -> bool {
    let mut decoder = Decoder::new(&buffer.records, buffer.thread, buffer.base);
    let mut last = None;
    while let Some(record) = decoder.next() {
        if let StreamRecord::Event(event) = record {
            last = Some(event);
        }
    }
    last.is_some_and(|event| {
        let address = if event.kind == EventKind::Realloc {
            event.old_address
        } else {
            event.address
        };
        event.start == flight.start && address == flight.address
    })
}
