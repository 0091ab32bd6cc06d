//! A list of operations as a trace.

use super::ops::{Form, Op, OpKind, Ops};
use super::streams::Stream;
use heapreel_format::{
    Clock, ClockSource, Definition, Ended, Entry, Event, EventKind, FileHeader, LoopId,
    ProcessFacts, Rare, Role, SegmentId, Settings, StackId, SymbolFrame, SymbolTable, ThreadId,
    TraceId, TraceWriter, WriteError,
};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write;

/// The process id that an imported trace names; its first thread has the same where the
/// list names no threads.
const PID: u32 = 1;
/// A list's times are nanoseconds.
const TICKS_PER_SECOND: f64 = 1e9;
/// Calls that took longer are slow ones, as the recorder has it.
const SLOW_CALL_NANOS: u64 = 5_000;
/// Functions are taken to lie so far apart.
const FUNCTION_BYTES: u64 = 0x1000;
/// Where made-up addresses begin, and what they are multiples of.
const FIRST_ADDRESS: u64 = 0x1000_0000;
const GRANULE: u64 = 16;

/// What went into a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Allocations, reallocations and frees.
    pub events: u64,
    /// Threads; one that came back after its exit counts again.
    pub threads: u32,
    /// Blocks that were never freed.
    pub live: u64,
}

/// Writes a list of operations as a trace. `source` is what the list is called.
///
/// Addresses are made up, and never used twice; the clock counts operations.
///
/// # Errors
///
/// The sink's.
pub fn write_ops(ops: &Ops, source: &str, sink: impl Write) -> Result<Imported, WriteError> {
    let mut import = Import::new(ops.form, TraceWriter::new(sink, &header(ops, source)));
    import.define_names(ops)?;
    for op in &ops.ops {
        import.take(op)?;
    }
    import.finish()
}

fn header(ops: &Ops, source: &str) -> FileHeader {
    FileHeader {
        id: TraceId::default(),
        clock: Clock {
            source: ClockSource::Counter,
            ticks_per_second: TICKS_PER_SECOND,
            ..Clock::default()
        },
        process: ProcessFacts {
            pid: PID,
            executable: source.to_owned(),
            arguments: vec![source.to_owned()],
            page_size: 4096,
            allocator: "none: a list of operations".to_owned(),
            machine: "imported".to_owned(),
            ..ProcessFacts::default()
        },
        settings: Settings {
            recorder: env!("CARGO_PKG_VERSION").to_owned(),
            backtraces: ops.ops.iter().any(|op| op.by.is_some()),
            latency: ops.timed,
            slow_call_nanos: SLOW_CALL_NANOS,
            ..Settings::default()
        },
        spill: String::new(),
    }
}

/// Where a live block lies, and how much room it has there.
#[derive(Clone, Copy)]
struct Home {
    address: u64,
    room: u64,
}

struct Import<W: Write> {
    form: Form,
    writer: TraceWriter<W>,
    streams: Vec<Stream>,
    /// By the list's number of a thread that runs: its place among the streams.
    running: HashMap<u32, usize>,
    blocks: HashMap<u64, Home>,
    next_address: u64,
    /// By entry, alignment and function: the backtrace that carries them.
    stacks: HashMap<(Entry, u8, Option<u32>), StackId>,
    /// By the list's number of its name.
    segments: HashMap<u32, SegmentId>,
    definitions: Vec<Definition<'static>>,
    done: Imported,
}

impl<W: Write> Import<W> {
    fn new(form: Form, writer: TraceWriter<W>) -> Import<W> {
        Import {
            form,
            writer,
            streams: Vec::new(),
            running: HashMap::new(),
            blocks: HashMap::new(),
            next_address: FIRST_ADDRESS,
            stacks: HashMap::new(),
            segments: HashMap::new(),
            definitions: Vec::new(),
            done: Imported::default(),
        }
    }

    /// What the list names, and that nothing was recorded at a cost.
    fn define_names(&mut self, ops: &Ops) -> Result<(), WriteError> {
        if ops.timed {
            self.definitions.push(Definition::Calibration {
                alloc_ticks: 0,
                dealloc_ticks: 0,
                empty_latency_ticks: 0,
            });
        }
        for number in ops.ops.iter().filter_map(|op| op.segment) {
            self.define_segment(number, &ops.names[number as usize]);
        }
        let functions = 0..ops.names.len() as u32;
        let named = |function| SymbolFrame {
            function,
            file: None,
            line: None,
        };
        let addresses = functions.map(|number| (0, address_of(number), vec![named(number)]));
        let table = SymbolTable {
            addresses: addresses.collect(),
            strings: ops.names.clone(),
            ..SymbolTable::default()
        };
        if ops.ops.iter().any(|op| op.by.is_some()) {
            self.writer.symbols(&table)?;
        }
        Ok(())
    }

    fn define_segment(&mut self, number: u32, name: &str) {
        // Every game has a segment Default, whose number is 0.
        let next = SegmentId(self.segments.len() as u16 + 1);
        let id = if name == "Default" {
            SegmentId(0)
        } else {
            next
        };
        if self.segments.insert(number, id).is_none() {
            self.definitions.push(Definition::Segment {
                id,
                name: Cow::Owned(name.to_owned()),
                budget: 0,
            });
        }
    }

    fn take(&mut self, op: &Op) -> Result<(), WriteError> {
        let key = op.end;
        let stream = self.stream(op.thread, op.start);
        let event = match op.kind {
            OpKind::Exit => {
                self.running.remove(&op.thread);
                return self.streams[stream].rare(key, &Rare::ThreadExit, &mut self.writer);
            }
            OpKind::Frame => {
                let mark = Rare::FrameMark { id: LoopId(0) };
                return self.streams[stream].rare(key, &mark, &mut self.writer);
            }
            OpKind::Role { background } => {
                self.define_role(stream, background);
                return Ok(());
            }
            OpKind::Allocate { size, align } => self.allocation(op, size, align),
            OpKind::Reallocate { size } => self.reallocation(op, size),
            OpKind::Free => self.deallocation(op),
        };
        self.done.events += 1;
        let segment = op.segment.and_then(|name| self.segments.get(&name));
        let event = Event {
            segment: segment.copied().unwrap_or_default(),
            ..event
        };
        self.streams[stream].event(&event, &mut self.writer)
    }

    fn define_role(&mut self, stream: usize, background: bool) {
        let role = match background {
            true => Role::Background,
            false => Role::Critical,
        };
        let id = ThreadId(stream as u32 + 1);
        self.definitions.push(Definition::ThreadRole { id, role });
    }

    /// The stream of a thread, a new one where none of that number runs.
    fn stream(&mut self, thread: u32, key: u64) -> usize {
        if let Some(&stream) = self.running.get(&thread) {
            return stream;
        }
        let id = ThreadId(self.streams.len() as u32 + 1);
        // The kernel gives a process's first thread the process's own number.
        let tid = match self.form {
            Form::Threads => PID + id.0,
            Form::OneThread => PID,
        };
        let name = Cow::Owned(format!("thread {thread}"));
        self.definitions.push(Definition::Thread { id, tid, key });
        self.definitions.push(Definition::ThreadName { id, name });
        self.running.insert(thread, self.streams.len());
        self.streams.push(Stream::new(id));
        self.done.threads += 1;
        self.streams.len() - 1
    }

    fn allocation(&mut self, op: &Op, size: u64, align: u64) -> Event {
        let entry = if align == 0 {
            Entry::Malloc
        } else {
            Entry::AlignedAlloc
        };
        let stack = self.stack(entry, align.max(1).ilog2() as u8, op.by);
        let home = self.place(size, align);
        self.blocks.insert(op.id, home);
        Event {
            address: home.address,
            size,
            stack,
            ..Event::blank(op.start, op.end, EventKind::Alloc)
        }
    }

    /// A block that outgrows its room moves.
    fn reallocation(&mut self, op: &Op, size: u64) -> Event {
        let stack = self.stack(Entry::Realloc, 0, op.by);
        let old = self.blocks[&op.id];
        let new = if size <= old.room {
            old
        } else {
            self.place(size, 0)
        };
        self.blocks.insert(op.id, new);
        Event {
            old_address: old.address,
            address: new.address,
            size,
            stack,
            ..Event::blank(op.start, op.end, EventKind::Realloc)
        }
    }

    /// A function that frees has no name: deallocations have no backtrace here.
    fn deallocation(&mut self, op: &Op) -> Event {
        let home = self.blocks.remove(&op.id);
        Event {
            address: home.map_or(0, |home| home.address),
            entry: Entry::Free,
            ..Event::blank(op.start, op.end, EventKind::Dealloc)
        }
    }

    fn place(&mut self, size: u64, align: u64) -> Home {
        let address = self.next_address.next_multiple_of(align.max(GRANULE));
        let room = size.max(1).next_multiple_of(GRANULE);
        self.next_address = address + room;
        Home { address, room }
    }

    fn stack(&mut self, entry: Entry, align_log2: u8, by: Option<u32>) -> StackId {
        let next = StackId(self.stacks.len() as u32 + 1);
        let id = *self.stacks.entry((entry, align_log2, by)).or_insert(next);
        if id == next {
            self.definitions.push(Definition::Stack {
                id,
                entry,
                align_log2,
                generation: 0,
                cut: false,
                deltas: by.map(|name| address_of(name) as i64).into_iter().collect(),
            });
        }
        id
    }

    fn finish(mut self) -> Result<Imported, WriteError> {
        for stream in &mut self.streams {
            stream.close(&mut self.writer)?;
        }
        let totals = self.streams.iter().enumerate().map(|(at, stream)| {
            let id = ThreadId(at as u32 + 1);
            let (records, lost) = (stream.records(), 0);
            Definition::ThreadTotals { id, records, lost }
        });
        self.definitions.extend(totals);
        for part in self.definitions.chunks(1 << 14) {
            self.writer.definitions(part)?;
        }
        self.writer.end(Ended::Exit(0))?;
        self.done.live = self.blocks.len() as u64;
        self.writer.finish()?;
        Ok(self.done)
    }
}

/// Where a named function is taken to lie.
fn address_of(name: u32) -> u64 {
    (u64::from(name) + 1) * FUNCTION_BYTES
}

#[cfg(test)]
mod tests {
    use super::super::parse_ops;
    use super::*;
    use heapreel_format::Trace;

    fn imported(text: &str) -> (Imported, Trace) {
        let mut bytes = Vec::new();
        let done = write_ops(&parse_ops(text).unwrap(), "list", &mut bytes).unwrap();
        (done, Trace::from_bytes(bytes).unwrap())
    }

    #[test]
    fn a_list_becomes_a_whole_trace() {
        let (done, trace) = imported("a 5 1 100\nA 5 2 64 256\nr 4 1 200\nf 4 2\nx 5\na 5 3 8\n");
        let expected = Imported {
            events: 5,
            threads: 3,
            live: 2,
        };
        assert_eq!(done, expected);
        assert!(trace.health().complete(), "{:?}", trace.health());
        let decoded: Vec<_> = trace
            .chunks()
            .iter()
            .map(|chunk| trace.decode(chunk).unwrap())
            .collect();
        let first = &decoded[0].events;
        assert_eq!(
            (first[0].address, first[0].size, first[0].end),
            (0x1000_0000, 100, 1_000)
        );
        assert_eq!(first[1].address, 0x1000_0100);
        assert_eq!(trace.definitions().stacks[&first[1].stack].align_log2, 8);
        assert_eq!(decoded[0].rares, [(5_000, 2, Rare::ThreadExit)]);
        let moved = &decoded[1].events[0];
        assert_eq!(
            (moved.old_address, moved.address),
            (0x1000_0000, 0x1000_0140)
        );
        assert_eq!(trace.definitions().threads[&ThreadId(3)].name, "thread 5");
    }

    #[test]
    fn what_a_line_says_more_stands_in_the_trace() {
        let list =
            "t 1 background\nm 1\na 1 7 48 took=40us by=Hud::label in=Temp\nf 1 7\nm 1 took=9ms\n";
        let (_, trace) = imported(list);
        assert!(trace.health().complete(), "{:?}", trace.health());
        let settings = &trace.header().settings;
        assert!(settings.latency && settings.backtraces);
        let decoded = trace.decode(&trace.chunks()[0]).unwrap();
        let call = &decoded.events[0];
        assert_eq!((call.latency(), call.segment), (40_000, SegmentId(1)));
        assert_eq!(decoded.events[1].segment, SegmentId(0));
        let marks: Vec<_> = decoded.rares.iter().map(|(key, ..)| *key).collect();
        assert_eq!(marks, [2_000, 9_002_000]);
        let definitions = trace.definitions();
        assert_eq!(definitions.segments[&SegmentId(1)].0, "Temp");
        assert_eq!(definitions.threads[&ThreadId(1)].role, Role::Background);
        let address = definitions.stacks[&call.stack].frames[0];
        let names = trace.symbols().lookup(0, address).unwrap();
        assert_eq!(trace.symbols().string(names[0].function), "Hud::label");
    }

    #[test]
    fn streams_longer_than_a_chunk_stay_whole() {
        let mut text = String::new();
        for id in 0..10_000 {
            text += &format!("a {id} 16\n");
        }
        let (done, trace) = imported(&text);
        assert_eq!((done.events, done.live), (10_000, 10_000));
        assert!(trace.health().complete(), "{:?}", trace.health());
        let events = trace.chunks().iter().map(|chunk| {
            let events = trace.decode(chunk).unwrap().events;
            assert!(events.iter().all(|event| event.size == 16));
            events.len()
        });
        assert_eq!(events.collect::<Vec<_>>(), [4096, 4096, 10_000 - 2 * 4096]);
    }
}
