//! Traces for tests, written in the language of what happened.

use crate::chunk::ChunkBase;
use crate::codec::{DeltaState, MAX_EVENT_BYTES, RecordWriter};
use crate::definition::{ContextId, Definition, LoopId, NameId, SegmentId, StackId, ThreadId};
use crate::event::{Entry, Event, EventKind};
use crate::header::{Clock, ClockSource, Ended, FileHeader, ProcessFacts, Settings, TraceId};
use crate::rare::Rare;
use crate::writer::TraceWriter;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A header as a recording of `/usr/games/example` has it; one tick is one nanosecond.
pub fn header() -> FileHeader {
    FileHeader {
        id: TraceId([7; 16]),
        clock: Clock {
            source: ClockSource::Monotonic,
            shift: 0,
            ticks_per_second: 1e9,
            start: 1_000,
            start_monotonic_nanos: 1_000,
            start_unix_nanos: 1_700_000_000_000_000_000,
        },
        process: ProcessFacts {
            pid: 4242,
            parent_pid: 1,
            executable: "/usr/games/example".to_owned(),
            arguments: vec!["example".to_owned(), "--fast".to_owned()],
            folder: "/home/player".to_owned(),
            page_size: 4096,
            allocator: "glibc 2.36".to_owned(),
            machine: "Linux x86-64".to_owned(),
        },
        settings: Settings {
            recorder: env!("CARGO_PKG_VERSION").to_owned(),
            backtraces: true,
            latency: true,
            depth: 64,
            slow_call_nanos: 5_000,
            ..Settings::default()
        },
        spill: String::new(),
    }
}

/// Builds a trace event by event. Times are ticks of one nanosecond.
pub struct TraceBuilder {
    header: FileHeader,
    definitions: Vec<Definition<'static>>,
    streams: BTreeMap<ThreadId, Stream>,
    ended: Option<Ended>,
    chunk_records: u32,
}

#[derive(Default)]
struct Stream {
    state: DeltaState,
    base: ChunkBase,
    bytes: Vec<u8>,
    count: u32,
    first_number: u64,
    segment: SegmentId,
    context: ContextId,
    done: Vec<(u64, u32, ChunkBase, Vec<u8>)>,
}

impl Default for TraceBuilder {
    fn default() -> Self {
        TraceBuilder::new()
    }
}

impl TraceBuilder {
    /// A trace of [`header`]'s program that will have exited with status 0.
    pub fn new() -> Self {
        TraceBuilder {
            header: header(),
            definitions: Vec::new(),
            streams: BTreeMap::new(),
            ended: Some(Ended::Exit(0)),
            chunk_records: 1_000,
        }
    }

    /// Changes the header.
    pub fn header(mut self, change: impl FnOnce(&mut FileHeader)) -> Self {
        change(&mut self.header);
        self
    }

    /// How it ended; `None` leaves the end record out.
    pub fn ended(mut self, ended: Option<Ended>) -> Self {
        self.ended = ended;
        self
    }

    /// At most so many records in a chunk.
    pub fn chunk_records(mut self, records: u32) -> Self {
        self.chunk_records = records;
        self
    }

    /// Adds a definition.
    pub fn define(mut self, definition: Definition<'static>) -> Self {
        self.definitions.push(definition);
        self
    }

    /// Defines a backtrace by its return addresses, innermost first.
    pub fn stack(self, id: u32, entry: Entry, frames: &[u64]) -> Self {
        let mut deltas = vec![0; frames.len()];
        Definition::stack_deltas(frames, &mut deltas);
        self.define(Definition::Stack {
            id: StackId(id),
            entry,
            align_log2: 0,
            generation: 0,
            cut: false,
            deltas: Cow::Owned(deltas),
        })
    }

    /// Adds any event to its thread's stream.
    pub fn event(mut self, event: Event) -> Self {
        let stream = self.stream(event.thread);
        if (stream.segment, stream.context) != (event.segment, event.context) {
            (stream.segment, stream.context) = (event.segment, event.context);
            stream.record(|writer, _| writer.state(event.segment, event.context));
        }
        stream.record(|writer, state| writer.event(state, &event));
        self
    }

    /// Defines a context in another one; 0 is outside of any.
    pub fn context(self, id: u32, parent: u32, kind: &'static str, name: &'static str) -> Self {
        self.define(Definition::Context {
            id: ContextId(id),
            parent: ContextId(parent),
            kind: Cow::Borrowed(kind),
            name: Cow::Borrowed(name),
        })
    }

    /// `thread` enters a context; its next events have to name it.
    pub fn enter(mut self, thread: u32, context: u32) -> Self {
        let stream = self.stream(ThreadId(thread));
        stream.context = ContextId(context);
        let segment = stream.segment;
        stream.record(|writer, _| writer.entered(segment, ContextId(context)));
        self
    }

    /// `thread` allocates; the call takes from `start` to `end`.
    pub fn alloc(
        self,
        thread: u32,
        start: u64,
        end: u64,
        address: u64,
        size: u64,
        stack: u32,
    ) -> Self {
        self.event(Event {
            address,
            size,
            stack: StackId(stack),
            ..blank(thread, start, end, EventKind::Alloc)
        })
    }

    /// `thread` gives a block back with `free`.
    pub fn free(self, thread: u32, start: u64, end: u64, address: u64) -> Self {
        self.event(Event {
            address,
            entry: Entry::Free,
            ..blank(thread, start, end, EventKind::Dealloc)
        })
    }

    /// `thread` reallocates.
    #[allow(
        clippy::too_many_arguments,
        reason = "these are a reallocation's facts"
    )]
    pub fn realloc(
        self,
        thread: u32,
        start: u64,
        end: u64,
        old: u64,
        address: u64,
        size: u64,
        stack: u32,
    ) -> Self {
        let blank = blank(thread, start, end, EventKind::Realloc);
        self.event(Event {
            old_address: old,
            address,
            size,
            stack: StackId(stack),
            ..blank
        })
    }

    /// A game frame of this loop ends.
    pub fn frame_mark(self, thread: u32, key: u64, id: u16) -> Self {
        self.rare(thread, key, Rare::FrameMark { id: LoopId(id) })
    }

    /// A named instant.
    pub fn mark(self, thread: u32, key: u64, name: u32) -> Self {
        self.rare(thread, key, Rare::Mark { name: NameId(name) })
    }

    /// Any rare record.
    pub fn rare(mut self, thread: u32, key: u64, rare: Rare) -> Self {
        self.stream(ThreadId(thread))
            .record(|writer, state| writer.rare(state, key, &rare));
        self
    }

    /// The trace's bytes.
    pub fn bytes(mut self) -> Vec<u8> {
        let mut writer = TraceWriter::new(Vec::new(), &self.header);
        let threads = self.streams.keys().map(|id| Definition::Thread {
            id: *id,
            tid: id.0 + 100,
            key: 0,
        });
        let definitions: Vec<_> = threads.chain(self.definitions).collect();
        writer
            .definitions(&definitions)
            .expect("definitions of a test are small");
        for (thread, stream) in &mut self.streams {
            stream.close();
            for (first, count, base, bytes) in &stream.done {
                writer
                    .events(*thread, false, *first, *count, 0, *base, bytes)
                    .expect("chunks of a test are small");
            }
        }
        if let Some(ended) = self.ended {
            writer.end(ended).expect("an end record is small");
        }
        writer.finish().expect("memory takes all")
    }

    fn stream(&mut self, thread: ThreadId) -> &mut Stream {
        let limit = self.chunk_records;
        let stream = self.streams.entry(thread).or_default();
        if stream.count >= limit {
            stream.close();
        }
        stream
    }
}

impl Stream {
    fn record(&mut self, write: impl FnOnce(RecordWriter<'_>, &mut DeltaState) -> usize) {
        let mut room = [0; MAX_EVENT_BYTES + 128];
        let length = write(RecordWriter::new(&mut room), &mut self.state);
        self.bytes.extend_from_slice(&room[..length]);
        self.count += 1;
    }

    fn close(&mut self) {
        if self.count > 0 {
            self.done.push((
                self.first_number,
                self.count,
                self.base,
                std::mem::take(&mut self.bytes),
            ));
        }
        self.first_number += u64::from(self.count);
        self.count = 0;
        self.base = ChunkBase {
            key: self.state.key,
            address: self.state.address,
            segment: self.segment,
            context: self.context,
        };
    }
}

/// An event of this kind and time with nothing else set.
pub fn blank(thread: u32, start: u64, end: u64, kind: EventKind) -> Event {
    Event {
        thread: ThreadId(thread),
        ..Event::blank(start, end, kind)
    }
}

/// One block allocated and freed by one thread.
pub fn small_trace() -> Vec<u8> {
    TraceBuilder::new()
        .stack(1, Entry::Malloc, &[0x5000_1234, 0x5000_0100])
        .alloc(1, 2_000, 2_050, 0x7f00_0000_1000, 24, 1)
        .free(1, 3_000, 3_020, 0x7f00_0000_1000)
        .bytes()
}
