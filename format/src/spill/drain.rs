//! Moves what threads have published from the spill to the trace.

use super::layout::*;
use super::map::{SpillError, SpillMap};
use crate::chunk::ChunkBase;
use crate::codec::{Decoder, StreamRecord};
use crate::definition::{ContextId, Definition, SegmentId, ThreadId};
use crate::error::WriteError;
use crate::header::{Ended, FileHeader};
use crate::kill_point::{KillPoint, reach};
use crate::tally::Tally;
use crate::writer::{TraceWriter, encode_definition};
use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Definitions are collected into chunks of at most this size.
const DEFINITIONS_BYTES: usize = 1 << 20;
/// Pending chunks are handed to the sink from this size on.
const FLUSH_BYTES: usize = 1 << 20;
/// While the sink refuses, no more definitions than this are tried again in one pass.
const TRIED_BYTES: usize = 64 << 10;

/// What one pass moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassStats {
    /// Records moved to the trace.
    pub records: u64,
    /// Records dropped because the trace could not be written.
    pub dropped: u64,
    /// Buffers recycled.
    pub buffers: u32,
}

/// How far one buffer has been written while its thread still owns it.
#[derive(Clone, Copy)]
struct Partial {
    bytes: usize,
    records: u32,
    others: u32,
    marks: u32,
    base: ChunkBase,
}

/// Drains one spill into one trace. Dropping it leaves the spill as it is.
pub struct Drain<W: Write> {
    spill: SpillMap,
    writer: TraceWriter<W>,
    header: FileHeader,
    blocks: Vec<usize>,
    partial: HashMap<usize, Partial>,
    /// Records that were written or dropped, and dropped ones, per stream.
    streams: HashMap<StreamKey, StreamTotals>,
    records: Vec<u8>,
    /// Records that wait for the next flush.
    unflushed: Vec<(StreamKey, Stretch)>,
    /// Blocks whose definitions wait for it, and how far each had been written before.
    unflushed_blocks: Vec<(usize, usize)>,
    /// The last flush failed.
    is_failing: bool,
    watermark: u64,
    written: u64,
    tally: Tally,
}

/// A thread, and whether it is the stream of its signal handlers.
type StreamKey = (ThreadId, bool);

#[derive(Default)]
struct StreamTotals {
    /// Records that were published, dropped ones included.
    records: u64,
    /// Those that the sink refused.
    dropped: Vec<Stretch>,
}

/// Records of a stream that follow one another.
#[derive(Clone, Copy)]
struct Stretch {
    first: u64,
    records: u64,
    /// How many of them are events.
    events: u64,
}

impl StreamTotals {
    fn drop_stretch(&mut self, stretch: Stretch) {
        match self.dropped.last_mut() {
            Some(last) if last.first + last.records == stretch.first => {
                last.records += stretch.records;
                last.events += stretch.events;
            }
            _ => self.dropped.push(stretch),
        }
    }
}

struct Work {
    index: usize,
    thread: ThreadId,
    nested: bool,
    first_number: u64,
    bytes: usize,
    records: u32,
    others: u32,
    marks: u32,
    full: bool,
}

impl<W: Write> Drain<W> {
    /// Begins to drain `spill` into `sink`. The sink must undo a write that failed
    /// half way, so that the trace always ends at a whole chunk.
    ///
    /// # Errors
    ///
    /// [`SpillError`] where the spill's header makes no sense or is not there yet.
    pub fn new(spill: SpillMap, sink: W) -> Result<Drain<W>, SpillError> {
        let header = spill.info()?;
        Ok(Drain {
            writer: TraceWriter::new(sink, &header),
            spill,
            header,
            blocks: Vec::new(),
            partial: HashMap::new(),
            streams: HashMap::new(),
            records: Vec::new(),
            unflushed: Vec::new(),
            unflushed_blocks: Vec::new(),
            is_failing: false,
            watermark: 0,
            written: 0,
            tally: Tally::default(),
        })
    }

    /// Writes the trace's file header, by which a reader finds the spill: should the drain
    /// be killed at its first pass, nothing is lost.
    ///
    /// # Errors
    ///
    /// The sink's.
    pub fn begin(&mut self) -> Result<(), WriteError> {
        self.writer.flush()
    }

    /// Where the records go.
    pub fn sink_mut(&mut self) -> &mut W {
        self.writer.sink_mut()
    }

    /// The trace's file header.
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// The spill.
    pub fn spill(&self) -> &SpillMap {
        &self.spill
    }

    /// Records written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// What the records were that went to the trace, those it could not take included.
    pub fn tally(&self) -> Tally {
        let loops = self.spill.header().loops.load(Relaxed).count_ones();
        Tally {
            loops: u64::from(loops),
            ..self.tally
        }
    }

    /// Threads that published records.
    pub fn threads(&self) -> usize {
        let main = self.streams.keys().filter(|(_, nested)| !nested);
        main.count()
    }

    /// Events that could not be written.
    pub fn dropped(&self) -> u64 {
        let stretches = self.streams.values().flat_map(|s| &s.dropped);
        stretches.map(|stretch| stretch.events).sum()
    }

    /// Moves every buffer that its thread has left, and, with `partial`, also what
    /// is committed in buffers still written to. Recycles what it moved.
    ///
    /// # Errors
    ///
    /// The sink's. What it refused is dropped and counted; the next pass tries again.
    pub fn pass(&mut self, partial: bool) -> Result<PassStats, WriteError> {
        self.spill.header().heartbeat.fetch_add(1, Relaxed);
        // The order matters: commits first, then definitions, so that whatever an
        // event refers to was published before and is written before it.
        let watermark = if partial {
            self.next_watermark()
        } else {
            self.watermark
        };
        let work = self.work(partial);
        reach(KillPoint::DrainLooked);
        let mut stats = PassStats::default();
        let mut result = self.definitions();
        for item in &work {
            result = result.and(self.records_of(item));
            if self.writer.pending_bytes() >= FLUSH_BYTES {
                result = result.and(self.flush(&mut stats));
            }
        }
        if watermark > self.watermark {
            self.watermark = watermark;
            result = result.and(self.writer.watermark(watermark));
        }
        result = result.and(self.flush(&mut stats));
        // Only now may buffers be used again: before, the trace did not hold them.
        // They are, even where it could not be written: the program goes on.
        self.recycle(&work, &mut stats);
        result.map(|()| stats)
    }

    /// Adds definitions of the drain's own: thread names, clock pairs.
    ///
    /// # Errors
    ///
    /// [`WriteError::TooLarge`] above 16 MiB.
    pub fn define(&mut self, definitions: &[Definition<'_>]) -> Result<(), WriteError> {
        self.writer.definitions(definitions)
    }

    /// Moves all that is left, says how the program ended and what is missing, and gives
    /// the writer back for whatever is to follow.
    ///
    /// # Errors
    ///
    /// The sink's, where it refuses even the end. Then the spill says what is missing, for
    /// a reader that finds it.
    pub fn finish(mut self, ended: Ended) -> Result<TraceWriter<W>, WriteError> {
        // What this pass cannot write it counts, and the totals tell.
        _ = self.pass(true);
        let totals = self.totals();
        let written = self
            .writer
            .definitions(&totals)
            .and_then(|()| self.writer.end(ended))
            .and_then(|()| {
                reach(KillPoint::DrainEnding);
                self.writer.flush()
            });
        match written {
            Ok(()) => {
                reach(KillPoint::DrainEnded);
                Ok(self.writer)
            }
            Err(error) => {
                self.leave_word();
                Err(error)
            }
        }
    }

    /// Leaves in the spill what the trace cannot tell: which records it never took.
    fn leave_word(&self) {
        let mut encoded = Vec::new();
        for definition in self.dropped_definitions() {
            if encode_definition(&definition, &mut encoded).is_err() {
                return;
            }
            if encoded.len() > BLOCK_BYTES / 2 {
                self.spill.append_definitions(&encoded);
                encoded.clear();
            }
        }
        self.spill.append_definitions(&encoded);
    }

    fn dropped_definitions(&self) -> Vec<Definition<'static>> {
        let mut dropped: Vec<_> = self
            .streams
            .iter()
            .flat_map(|(key, totals)| totals.dropped.iter().map(|stretch| (*key, *stretch)))
            .collect();
        dropped.sort_by_key(|(key, stretch)| (*key, stretch.first));
        dropped
            .into_iter()
            .map(|((id, nested), stretch)| Definition::Dropped {
                id,
                nested,
                first: stretch.first,
                records: stretch.records,
                events: stretch.events,
            })
            .collect()
    }

    fn totals(&self) -> Vec<Definition<'static>> {
        let mut totals: Vec<_> = self
            .streams
            .iter()
            .filter(|((_, nested), _)| !nested)
            .map(|((id, _), s)| (*id, s.records))
            .collect();
        totals.sort();
        let mut lost: HashMap<ThreadId, u64> = HashMap::new();
        for slot in self.spill.slots() {
            let thread = slot.thread.load(Acquire);
            if thread != 0 {
                *lost.entry(ThreadId(thread)).or_default() += slot.lost.load(Relaxed);
            }
        }
        let mut definitions = self.dropped_definitions();
        for (id, records) in totals {
            let lost = lost.remove(&id).unwrap_or(0);
            definitions.push(Definition::ThreadTotals { id, records, lost });
        }
        for (id, lost) in lost {
            if lost > 0 {
                definitions.push(Definition::ThreadTotals {
                    id,
                    records: 0,
                    lost,
                });
            }
        }
        let nameless = self.spill.header().lost.load(Relaxed);
        if nameless > 0 {
            definitions.push(Definition::ThreadTotals {
                id: ThreadId(0),
                records: 0,
                lost: nameless,
            });
        }
        let count = self.spill.header().stacks_cut.load(Relaxed);
        if count > 0 {
            definitions.push(Definition::StacksCut { count });
        }
        let count = self.spill.header().contexts_cut.load(Relaxed);
        if count > 0 {
            definitions.push(Definition::ContextsCut { count });
        }
        let checked = self.spill.header().unwinds_checked.load(Relaxed);
        if checked > 0 {
            let differing = self.spill.header().unwinds_differing.load(Relaxed);
            definitions.push(Definition::UnwindCheck { checked, differing });
        }
        definitions.extend(self.in_flight());
        definitions
    }

    /// Releases that stand in slots when the program is gone.
    fn in_flight(&self) -> Vec<Definition<'static>> {
        let flights = super::remains::in_flight(&self.spill);
        flights
            .into_iter()
            .map(|f| Definition::InFlight {
                id: f.thread,
                address: f.address,
                start: f.start,
            })
            .collect()
    }

    /// Every buffer with something new, a stream's buffers in order.
    fn work(&self, partial: bool) -> Vec<Work> {
        let mut work: Vec<Work> = (0..self.spill.buffers_used())
            .filter_map(|index| self.work_on(index, partial))
            .collect();
        work.sort_by_key(|w| (w.thread, w.nested, w.first_number));
        work
    }

    fn work_on(&self, index: usize, partial: bool) -> Option<Work> {
        let state = self.spill.state(index).load(Acquire);
        let full = state == STATE_FULL;
        if !(full || partial && state == STATE_OWNED) {
            return None;
        }
        let buffer = self.spill.buffer(index);
        let (bytes, records) = split_commit(buffer.commit.load(Acquire));
        let done = self.partial.get(&index).map_or(0, |p| p.bytes);
        if bytes <= done && !full {
            return None;
        }
        Some(Work {
            index,
            thread: ThreadId(buffer.thread.load(Relaxed)),
            nested: buffer.nested.load(Relaxed) != 0,
            first_number: buffer.first_number.load(Relaxed),
            bytes: bytes.min(BUFFER_BYTES - BUFFER_DATA),
            records,
            // May be ahead of the commit word by the record that is being written, unless
            // the buffer is full.
            others: buffer.others.load(Relaxed),
            marks: buffer.marks.load(Relaxed),
            full,
        })
    }

    fn records_of(&mut self, work: &Work) -> Result<(), WriteError> {
        let buffer = self.spill.buffer(work.index);
        let done = self.partial.get(&work.index).copied().unwrap_or(Partial {
            bytes: 0,
            records: 0,
            others: 0,
            marks: 0,
            base: ChunkBase {
                key: buffer.base_key.load(Relaxed),
                address: buffer.base_address.load(Relaxed),
                segment: SegmentId(buffer.segment.load(Relaxed) as u16),
                context: ContextId(buffer.context.load(Relaxed)),
            },
        });
        if work.bytes <= done.bytes {
            return Ok(());
        }
        self.records.clear();
        self.spill
            .copy_records(work.index, done.bytes, work.bytes, &mut self.records);
        let count = work.records.saturating_sub(done.records);
        let last_key = if work.full {
            buffer.last_key.load(Relaxed)
        } else {
            0
        };
        let first_number = work.first_number + u64::from(done.records);
        self.writer.events(
            work.thread,
            work.nested,
            first_number,
            count,
            last_key,
            done.base,
            &self.records,
        )?;
        reach(KillPoint::DrainCopied);
        // The rest of a buffer still written to will be a chunk of its own: find its base,
        // and count what is in this part, of which the buffer's count may be ahead.
        let behind = (!work.full).then(|| Part::of(&self.records, work.thread, done.base));
        let others = match &behind {
            Some(part) => count.saturating_sub(part.events),
            None => work.others.wrapping_sub(done.others),
        };
        let events = u64::from(count.saturating_sub(others));
        let stretch = Stretch {
            first: first_number,
            records: u64::from(count),
            events,
        };
        self.unflushed.push(((work.thread, work.nested), stretch));
        self.tally.events += events;
        self.tally.frame_marks += u64::from(work.marks.wrapping_sub(done.marks));
        self.tally.last_key = self.tally.last_key.max(last_key);
        if let Some(Part { base, .. }) = behind {
            self.tally.last_key = self.tally.last_key.max(base.key);
            self.partial.insert(
                work.index,
                Partial {
                    bytes: work.bytes,
                    records: work.records,
                    others: done.others.wrapping_add(others),
                    marks: work.marks,
                    base,
                },
            );
        }
        Ok(())
    }

    fn recycle(&mut self, work: &[Work], stats: &mut PassStats) {
        for item in work.iter().filter(|w| w.full) {
            self.partial.remove(&item.index);
            // Emptied before it is offered: its next owner finds it so, and a
            // reader of the remains never takes old records for new ones.
            self.spill.buffer(item.index).commit.store(0, Release);
            reach(KillPoint::DrainEmptied);
            self.spill.state(item.index).store(STATE_FREE, Release);
            reach(KillPoint::DrainFreed);
            stats.buffers += 1;
        }
    }

    fn definitions(&mut self) -> Result<(), WriteError> {
        let used = self.spill.blocks_used();
        self.blocks.resize(used.max(self.blocks.len()), 0);
        let mut encoded = Vec::new();
        for index in 0..used {
            let committed = self.spill.block(index).committed.load(Acquire) as usize;
            let done = self.blocks[index];
            if committed <= done {
                continue;
            }
            self.spill
                .copy_definitions(index, done, committed, &mut encoded);
            self.blocks[index] = committed;
            self.unflushed_blocks.push((index, done));
            if self.is_failing && encoded.len() >= TRIED_BYTES {
                break;
            }
            if encoded.len() >= DEFINITIONS_BYTES {
                self.writer.encoded_definitions(&encoded, 0)?;
                encoded.clear();
            }
        }
        if encoded.is_empty() {
            Ok(())
        } else {
            self.writer.encoded_definitions(&encoded, 0)
        }
    }

    /// A key before which nothing will come any more, see the module's promise.
    ///
    /// A thread outside a call can only publish keys later than any key already
    /// published (the clock is one for all); a thread inside a call can still
    /// publish a key just behind its last one.
    fn next_watermark(&self) -> u64 {
        let mut latest = 0;
        let mut bound = u64::MAX;
        let ticks_in_a_milli = (self.header.clock.ticks_per_second / 1e3) as u64;
        for slot in self.spill.slots() {
            if slot.thread.load(Acquire) == 0 {
                continue;
            }
            let busy = slot.busy.load(Acquire);
            let last = slot.last_key.load(Acquire);
            latest = latest.max(last);
            if busy > 1 {
                bound = bound.min(busy);
            }
            if busy != 0 {
                bound = bound.min(last);
            }
        }
        // A store of `busy` may still sit in another core's store buffer: far less
        // than a millisecond, which is taken off.
        bound.min(latest.saturating_sub(ticks_in_a_milli))
    }

    fn flush(&mut self, stats: &mut PassStats) -> Result<(), WriteError> {
        reach(KillPoint::DrainAppending);
        let result = self.writer.flush();
        reach(KillPoint::DrainAppended);
        self.spill
            .header()
            .drain_failing
            .store(u32::from(result.is_err()), Relaxed);
        self.is_failing = result.is_err();
        for (key, stretch) in self.unflushed.drain(..) {
            let stream = self.streams.entry(key).or_default();
            stream.records += stretch.records;
            if result.is_ok() {
                self.written += stretch.records;
                stats.records += stretch.records;
            } else {
                stream.drop_stretch(stretch);
                stats.dropped += stretch.records;
            }
        }
        // Definitions stay where they are, and are tried again.
        for (index, done) in self.unflushed_blocks.drain(..).rev() {
            if result.is_err() {
                self.blocks[index] = done;
            }
        }
        result
    }
}

/// A part of a buffer that its thread still writes to.
struct Part {
    /// Of the record behind it.
    base: ChunkBase,
    events: u32,
}

impl Part {
    fn of(records: &[u8], thread: ThreadId, base: ChunkBase) -> Part {
        let mut decoder = Decoder::new(records, thread, base);
        let mut events = 0;
        while let Some(record) = decoder.next() {
            events += u32::from(matches!(record, StreamRecord::Event(_)));
        }
        Part {
            base: decoder.base(),
            events,
        }
    }
}
