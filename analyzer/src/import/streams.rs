//! Threads' streams of records on their way into a trace.

use heapreel_format::{
    ChunkBase, ContextId, DeltaState, Event, MAX_EVENT_BYTES, Rare, RecordWriter, SegmentId,
    ThreadId, TraceWriter, WriteError,
};
use std::io::Write;

/// Records of a chunk.
const CHUNK_RECORDS: u32 = 4096;
/// A rare record's longest encoding fits in what an event may take and so much more.
const RARE_BYTES: usize = 128;

/// One thread's stream: whole chunks go to the writer as they fill.
#[derive(Default)]
pub(super) struct Stream {
    thread: ThreadId,
    state: DeltaState,
    base: ChunkBase,
    segment: SegmentId,
    bytes: Vec<u8>,
    count: u32,
    first_number: u64,
}

impl Stream {
    pub(super) fn new(thread: ThreadId) -> Stream {
        Stream {
            thread,
            ..Stream::default()
        }
    }

    /// Adds an event.
    pub(super) fn event<W: Write>(
        &mut self,
        event: &Event,
        to: &mut TraceWriter<W>,
    ) -> Result<(), WriteError> {
        if self.segment != event.segment {
            self.segment = event.segment;
            self.record(to, |writer, _| writer.state(event.segment, ContextId::NONE))?;
        }
        self.record(to, |writer, state| writer.event(state, event))
    }

    /// Adds a rare record.
    pub(super) fn rare<W: Write>(
        &mut self,
        key: u64,
        rare: &Rare,
        to: &mut TraceWriter<W>,
    ) -> Result<(), WriteError> {
        self.record(to, |writer, state| writer.rare(state, key, rare))
    }

    /// Records so far.
    pub(super) fn records(&self) -> u64 {
        self.first_number + u64::from(self.count)
    }

    /// Writes what is left.
    pub(super) fn close<W: Write>(&mut self, to: &mut TraceWriter<W>) -> Result<(), WriteError> {
        if self.count == 0 {
            return Ok(());
        }
        to.events(
            self.thread,
            false,
            self.first_number,
            self.count,
            self.state.key,
            self.base,
            &self.bytes,
        )?;
        self.bytes.clear();
        self.first_number += u64::from(self.count);
        self.count = 0;
        self.base = ChunkBase {
            key: self.state.key,
            address: self.state.address,
            segment: self.segment,
            ..self.base
        };
        to.flush()
    }

    fn record<W: Write>(
        &mut self,
        to: &mut TraceWriter<W>,
        write: impl FnOnce(RecordWriter<'_>, &mut DeltaState) -> usize,
    ) -> Result<(), WriteError> {
        let mut room = [0; MAX_EVENT_BYTES + RARE_BYTES];
        let length = write(RecordWriter::new(&mut room), &mut self.state);
        self.bytes.extend_from_slice(&room[..length]);
        self.count += 1;
        if self.count == CHUNK_RECORDS {
            self.close(to)?;
        }
        Ok(())
    }
}
