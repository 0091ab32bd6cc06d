//! Reads a trace, alone or together with the spill that its program left.
//!
//! Opening scans the chunks' headers and reads all definitions and symbols; the
//! events stay in the file until [`Trace::decode`] is asked for a chunk of them.
//! Damage costs the damaged part and is told in [`Trace::health`].

use crate::chunk::{self, CHUNK_HEADER_BYTES, CHUNK_MAGIC, ChunkBase, ChunkHeader, ChunkKind};
use crate::codec::{Decoder, StreamRecord};
use crate::definition::{
    ClipCause, ContextId, Definition, FrameSource, HeapId, HeapKind, LoopId, NameId, Role,
    SegmentId, StackId, ThreadId,
};
use crate::error::ReadError;
use crate::event::{Entry, Event};
use crate::header::{Ended, FileHeader};
use crate::health::{Damage, Health};
use crate::rare::{LiveBlock, Rare};
use crate::spill::{InFlight, Remains, SpillBuffer, SpillMap};
use crate::symbols::SymbolTable;
use crate::varint;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

/// The cause of damage where a write was not finished.
const TORN: &str = "the file ends within a chunk";

/// Bytes that can be read at any offset, from several threads at once.
pub(crate) trait ReadAt: Send + Sync {
    /// How many bytes there are.
    fn length(&self) -> u64;
    /// Fills `out` from `offset` on.
    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()>;
}

impl ReadAt for &[u8] {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        let from = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(self.len());
        let bytes = self
            .get(from..from + out.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }
}

impl ReadAt for Vec<u8> {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        self.as_slice().read_exact_at(out, offset)
    }
}

/// A file and the length it had when it was opened: what is appended later is not seen.
struct OpenFile {
    file: File,
    length: u64,
}

impl ReadAt for OpenFile {
    fn length(&self) -> u64 {
        self.length
    }

    #[cfg(unix)]
    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, out, offset)
    }

    #[cfg(windows)]
    fn read_exact_at(&self, mut out: &mut [u8], mut offset: u64) -> io::Result<()> {
        use std::os::windows::fs::FileExt;
        while !out.is_empty() {
            match self.file.seek_read(out, offset)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => {
                    out = &mut out[read..];
                    offset += read as u64;
                }
            }
        }
        Ok(())
    }
}

/// Where the records of a [`ChunkEntry`] lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the file, the payload beginning at this offset in bytes.
    File(u64),
    /// In the spill: index into its buffers.
    Spill(usize),
}

/// A piece of one thread's stream: a chunk in the file or a buffer in the spill.
#[derive(Clone, Copy, Debug)]
pub struct ChunkEntry {
    /// Where it lies.
    pub place: Place,
    /// Its header; for a buffer in the spill one made up alike.
    pub header: ChunkHeader,
    /// Records at its front that another entry already holds.
    pub skip: u32,
}

/// Records of one chunk.
#[derive(Clone, Debug, Default)]
pub struct DecodedChunk {
    /// Its events, in the order they were published.
    pub events: Vec<Event>,
    /// Its rare records, with their key and the number of events before them in this chunk.
    pub rares: Vec<(u64, usize, Rare)>,
    /// Contexts that were entered, with a key that is not before the entry and not behind
    /// what follows, and the number of events before them in this chunk.
    pub entered: Vec<(u64, usize, ContextId)>,
    /// Records at the end that made no sense and were left out.
    pub unreadable: u32,
}

/// A module as it was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleDef {
    /// Its number.
    pub id: u32,
    /// The generation in which it was met.
    pub generation: u32,
    /// Its path.
    pub path: String,
    /// Address in memory minus address in the file.
    pub bias: u64,
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// GNU build-id or empty.
    pub build_id: Vec<u8>,
}

/// A backtrace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StackDef {
    /// The allocation function that was called.
    pub entry: Entry,
    /// Requested alignment as a power of two, 0 for none.
    pub align_log2: u8,
    /// The generation of modules in which the addresses are to be read.
    pub generation: u32,
    /// Outer stack frames are missing.
    pub cut: bool,
    /// Return addresses, innermost first.
    pub frames: Vec<u64>,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadDef {
    /// The kernel's thread id.
    pub tid: u32,
    /// When it was met, in ticks.
    pub key: u64,
    /// Its last name; empty where none was seen.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// Records it published, once known.
    pub records: Option<u64>,
    /// Events it lost, those among [`Definitions::dropped`] included.
    pub lost: u64,
}

/// What tells that a trace is a clip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClipDef {
    /// Why it was made.
    pub cause: ClipCause,
    /// The loop whose frames it counts.
    pub game_loop: LoopId,
    /// The last frame that had ended, as the whole run counts them, from 1.
    pub frame: u64,
    /// Where it begins, in ticks.
    pub begin: u64,
    /// Ticks that this frame took, where that is why; else 0.
    pub took: u64,
    /// Ticks that a frame may take; 0 is any.
    pub budget: u64,
    /// The name given by the call, or how the program ended.
    pub name: String,
}

/// All definitions of a trace, by number.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    /// Backtraces.
    pub stacks: HashMap<StackId, StackDef>,
    /// Modules, in the order met.
    pub modules: BTreeMap<u32, ModuleDef>,
    /// When each generation of modules began, in ticks.
    pub generations: BTreeMap<u32, u64>,
    /// Threads.
    pub threads: BTreeMap<ThreadId, ThreadDef>,
    /// Segments: name and budget in bytes (0 none).
    pub segments: BTreeMap<SegmentId, (String, u64)>,
    /// Contexts: parent, kind, name.
    pub contexts: BTreeMap<ContextId, (ContextId, String, String)>,
    /// Game loops: name, source of marks, symbol.
    pub loops: BTreeMap<LoopId, (String, FrameSource, String)>,
    /// Names of marks and phases.
    pub names: BTreeMap<NameId, String>,
    /// Announced heaps: name, kind, parent, budget in bytes.
    pub heaps: BTreeMap<HeapId, (String, HeapKind, HeapId, u64)>,
    /// Instants on both clocks: ticks, CLOCK_MONOTONIC nanoseconds.
    pub clock_pairs: Vec<(u64, u64)>,
    /// Records that the trace could not take: thread, nested, first number → records and
    /// events.
    pub dropped: BTreeMap<(ThreadId, bool, u64), (u64, u64)>,
    /// Ticks that recording costs: an allocation, a deallocation, the clock alone.
    pub calibration: Option<(u32, u32, u32)>,
    /// The trace is a clip.
    pub clip: Option<ClipDef>,
}

/// An opened trace.
pub struct Trace {
    source: Box<dyn ReadAt>,
    header: FileHeader,
    definitions: Definitions,
    symbols: SymbolTable,
    chunks: Vec<ChunkEntry>,
    spill: Vec<SpillBuffer>,
    in_flight: Vec<InFlight>,
    snapshot: Vec<LiveBlock>,
    watermarks: Vec<(u64, u64)>,
    health: Health,
}

impl Trace {
    /// Opens the trace at `path`, together with its spill where that is still there; or a
    /// spill alone, where whoever was to write the trace did not live to begin it.
    ///
    /// # Errors
    ///
    /// [`ReadError`] where no event could be read at all.
    pub fn open(path: &Path) -> Result<Trace, ReadError> {
        let file = File::open(path)?;
        let facts = file.metadata()?;
        if facts.is_dir() {
            return Err(ReadError::Folder);
        }
        if !facts.is_file() {
            return Trace::from_stream(file);
        }
        let length = facts.len();
        match Trace::scan(Box::new(OpenFile { file, length })) {
            Ok(trace) => Ok(trace.with_spill()),
            Err(ReadError::NotATrace) => Trace::of_spill(path).ok_or(ReadError::NotATrace),
            Err(error) => Err(error),
        }
    }

    /// All that is known of a program whose trace was never begun.
    fn of_spill(path: &Path) -> Option<Trace> {
        let mut header = SpillMap::open(path).ok()?.info().ok()?;
        header.spill = path.to_str()?.to_owned();
        let trace = Trace::from_bytes(header.to_bytes()).ok()?;
        Some(trace.with_spill())
    }

    /// Reads a trace that lies in memory.
    ///
    /// # Errors
    ///
    /// As [`Trace::open`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Trace, ReadError> {
        Trace::scan(Box::new(bytes))
    }

    /// A pipe or device: only what begins like a trace is read to its end.
    fn from_stream(mut file: File) -> Result<Trace, ReadError> {
        use std::io::Read;
        let mut bytes = Vec::new();
        file.by_ref()
            .take(crate::header::MAGIC.len() as u64)
            .read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            return Err(ReadError::Empty);
        }
        if bytes != crate::header::MAGIC {
            return Err(ReadError::NotATrace);
        }
        file.read_to_end(&mut bytes)?;
        Ok(Trace::from_bytes(bytes)?.with_spill())
    }

    /// The file header.
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// All definitions.
    pub fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// Symbols that the trace carries.
    pub fn symbols(&self) -> &SymbolTable {
        &self.symbols
    }

    /// Pieces of threads' streams: by thread, each stream's in order, none twice.
    pub fn chunks(&self) -> &[ChunkEntry] {
        &self.chunks
    }

    /// Releases that had begun when the program ended.
    pub fn in_flight(&self) -> &[InFlight] {
        &self.in_flight
    }

    /// Blocks that were live where the trace begins; empty for a whole recording.
    pub fn snapshot(&self) -> &[LiveBlock] {
        &self.snapshot
    }

    /// Watermarks: offset in the file, key before which nothing comes behind that offset.
    pub fn watermarks(&self) -> &[(u64, u64)] {
        &self.watermarks
    }

    /// How complete the trace is, as far as headers tell; damage within chunks
    /// shows when they are decoded.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.source.length()
    }

    /// Decodes one piece.
    ///
    /// # Errors
    ///
    /// [`ReadError::ChunkDamaged`] where its checksum is wrong, [`ReadError::Io`].
    pub fn decode(&self, entry: &ChunkEntry) -> Result<DecodedChunk, ReadError> {
        let mut decoded = DecodedChunk::default();
        self.decode_into(entry, &mut decoded)?;
        Ok(decoded)
    }

    /// As [`Trace::decode`], into a value whose memory is used again.
    ///
    /// # Errors
    ///
    /// As [`Trace::decode`].
    pub fn decode_into(
        &self,
        entry: &ChunkEntry,
        decoded: &mut DecodedChunk,
    ) -> Result<(), ReadError> {
        decoded.events.clear();
        decoded.rares.clear();
        decoded.entered.clear();
        decoded.unreadable = 0;
        match entry.place {
            Place::Spill(index) => {
                let Some(buffer) = self.spill.get(index) else {
                    return Ok(());
                };
                decode_records(&buffer.records, buffer.base, entry, decoded);
            }
            Place::File(offset) => {
                let damaged = || ReadError::ChunkDamaged {
                    offset: offset - CHUNK_HEADER_BYTES as u64,
                };
                let payload = self.payload(&entry.header, offset)?.ok_or_else(damaged)?;
                let (base, records) = postcard::take_from_bytes(&payload).map_err(|_| damaged())?;
                decode_records(records, base, entry, decoded);
            }
        }
        Ok(())
    }

    /// The records of one piece as they lie in the file, with their base; `None`
    /// where they are damaged.
    ///
    /// # Errors
    ///
    /// [`ReadError::Io`].
    pub fn raw_records(
        &self,
        entry: &ChunkEntry,
    ) -> Result<Option<(ChunkBase, Vec<u8>)>, ReadError> {
        match entry.place {
            Place::Spill(index) => Ok(self.spill.get(index).map(|b| (b.base, b.records.clone()))),
            Place::File(offset) => {
                let Some(payload) = self.payload(&entry.header, offset)? else {
                    return Ok(None);
                };
                Ok(postcard::take_from_bytes(&payload)
                    .ok()
                    .map(|(base, records)| (base, records.to_vec())))
            }
        }
    }

    fn payload(&self, header: &ChunkHeader, offset: u64) -> Result<Option<Vec<u8>>, ReadError> {
        let mut stored = vec![0; header.stored as usize];
        self.source.read_exact_at(&mut stored, offset)?;
        Ok(chunk::unpack(header, &stored).map(std::borrow::Cow::into_owned))
    }

    fn scan(source: Box<dyn ReadAt>) -> Result<Trace, ReadError> {
        let (header, mut at) = FileHeader::read(&SourceRef(source.as_ref()))?;
        let mut trace = Trace {
            source,
            header,
            definitions: Definitions::default(),
            symbols: SymbolTable::default(),
            chunks: Vec::new(),
            spill: Vec::new(),
            in_flight: Vec::new(),
            snapshot: Vec::new(),
            watermarks: Vec::new(),
            health: Health::default(),
        };
        while at < trace.source.length() {
            at = match trace.chunk_at(at)? {
                Some(header) => trace.take_chunk(header, at)?,
                None => trace.skip_damage(at)?,
            };
        }
        trace.health.cut |= trace.health.ended.is_none();
        trace.arrange();
        Ok(trace)
    }

    /// The header at `at`, if one is there and its payload is not cut off.
    fn chunk_at(&self, at: u64) -> Result<Option<ChunkHeader>, ReadError> {
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        if at + CHUNK_HEADER_BYTES as u64 > self.source.length() {
            return Ok(None);
        }
        self.source.read_exact_at(&mut bytes, at)?;
        Ok(ChunkHeader::from_bytes(&bytes).filter(|h| {
            at + CHUNK_HEADER_BYTES as u64 + u64::from(h.stored) <= self.source.length()
        }))
    }

    fn take_chunk(&mut self, header: ChunkHeader, at: u64) -> Result<u64, ReadError> {
        let payload = at + CHUNK_HEADER_BYTES as u64;
        let behind = payload + u64::from(header.stored);
        match header.kind {
            ChunkKind::Events => self.chunks.push(ChunkEntry {
                place: Place::File(payload),
                header,
                skip: 0,
            }),
            ChunkKind::Watermark => self.watermarks.push((at, header.first_key)),
            ChunkKind::Index => {}
            _ => self.take_values(&header, payload, at)?,
        }
        Ok(behind)
    }

    fn take_values(
        &mut self,
        header: &ChunkHeader,
        payload: u64,
        at: u64,
    ) -> Result<(), ReadError> {
        let length = CHUNK_HEADER_BYTES as u64 + u64::from(header.stored);
        let bytes = self.payload(header, payload)?;
        let taken = bytes.and_then(|bytes| self.take_payload(header.kind, &bytes));
        if taken.is_none() {
            let cause = format!("{:?} chunk with a wrong checksum or contents", header.kind);
            self.health.damage.push(Damage {
                offset: at,
                length,
                cause,
            });
        }
        Ok(())
    }

    fn take_payload(&mut self, kind: ChunkKind, bytes: &[u8]) -> Option<()> {
        match kind {
            ChunkKind::Definitions => self.take_definitions(bytes)?,
            ChunkKind::Symbols => self.symbols.absorb(postcard::from_bytes(bytes).ok()?),
            ChunkKind::End => self.health.ended = Some(postcard::from_bytes::<Ended>(bytes).ok()?),
            ChunkKind::Snapshot => self
                .snapshot
                .extend(postcard::from_bytes::<Vec<LiveBlock>>(bytes).ok()?),
            ChunkKind::Events | ChunkKind::Watermark | ChunkKind::Index => {}
        }
        Some(())
    }

    fn take_definitions(&mut self, bytes: &[u8]) -> Option<()> {
        let mut at = 0;
        while at < bytes.len() {
            let length = usize::try_from(varint::read(bytes, &mut at)?).ok()?;
            let body = bytes.get(at..at.checked_add(length)?)?;
            at += length;
            // One that a later version added, or a damaged one, costs only itself.
            if let Ok(definition) = postcard::from_bytes::<Definition<'static>>(body) {
                self.take_definition(definition);
            }
        }
        Some(())
    }

    fn take_definition(&mut self, definition: Definition<'static>) {
        let known = &mut self.definitions;
        match definition {
            Definition::Stack {
                id,
                entry,
                align_log2,
                generation,
                cut,
                deltas,
            } => {
                let frames = Definition::stack_frames(&deltas);
                known.stacks.insert(
                    id,
                    StackDef {
                        entry,
                        align_log2,
                        generation,
                        cut,
                        frames,
                    },
                );
            }
            Definition::Module {
                id,
                generation,
                path,
                bias,
                start,
                end,
                build_id,
                key: _,
            } => {
                let path = path.into_owned();
                let build_id = build_id.into_owned();
                known.modules.insert(
                    id,
                    ModuleDef {
                        id,
                        generation,
                        path,
                        bias,
                        start,
                        end,
                        build_id,
                    },
                );
            }
            Definition::Generation { generation, key } => {
                _ = known.generations.insert(generation, key)
            }
            Definition::Thread { id, tid, key } => {
                let thread = known.threads.entry(id).or_default();
                thread.tid = tid;
                thread.key = key;
            }
            Definition::ThreadName { id, name } => {
                known.threads.entry(id).or_default().name = name.into_owned()
            }
            Definition::ThreadRole { id, role } => known.threads.entry(id).or_default().role = role,
            Definition::ThreadTotals { id, records, lost } => self.take_totals(id, records, lost),
            Definition::Segment { id, name, budget } => {
                _ = known.segments.insert(id, (name.into_owned(), budget))
            }
            Definition::Context {
                id,
                parent,
                kind,
                name,
            } => {
                known
                    .contexts
                    .insert(id, (parent, kind.into_owned(), name.into_owned()));
            }
            Definition::Loop {
                id,
                name,
                source,
                symbol,
            } => {
                known
                    .loops
                    .insert(id, (name.into_owned(), source, symbol.into_owned()));
            }
            Definition::Name { id, text } => _ = known.names.insert(id, text.into_owned()),
            Definition::Heap {
                id,
                name,
                kind,
                parent,
                budget,
            } => {
                known
                    .heaps
                    .insert(id, (name.into_owned(), kind, parent, budget));
            }
            Definition::ClockPair {
                key,
                monotonic_nanos,
            } => known.clock_pairs.push((key, monotonic_nanos)),
            Definition::Calibration {
                alloc_ticks,
                dealloc_ticks,
                empty_latency_ticks,
            } => {
                known.calibration = Some((alloc_ticks, dealloc_ticks, empty_latency_ticks));
            }
            Definition::StacksCut { count } => self.health.stacks_cut = count,
            Definition::ContextsCut { count } => self.health.contexts_cut = count,
            Definition::Clip {
                cause,
                id,
                frame,
                begin,
                took,
                budget,
                name,
            } => {
                known.clip = Some(ClipDef {
                    cause,
                    game_loop: id,
                    frame,
                    begin,
                    took,
                    budget,
                    name: name.into_owned(),
                });
            }
            Definition::UnwindCheck { checked, differing } => {
                self.health.unwinds_checked = checked;
                self.health.unwinds_differing = differing;
            }
            Definition::Dropped {
                id,
                nested,
                first,
                records,
                events,
            } => {
                let known = known.dropped.insert((id, nested, first), (records, events));
                if known.is_none() {
                    self.lose(id, events);
                }
            }
            Definition::Confined { children } => {
                self.health.confined = true;
                self.health.children_unrecorded |= !children;
            }
            Definition::InFlight { id, address, start } => {
                self.in_flight.push(InFlight {
                    thread: id,
                    address,
                    start,
                });
            }
        }
    }

    fn take_totals(&mut self, id: ThreadId, records: u64, lost: u64) {
        self.lose(id, lost);
        if id.0 != 0 {
            let thread = self.definitions.threads.entry(id).or_default();
            thread.records = Some(records);
        }
    }

    /// Counts events that were lost; thread 0 is none that is known.
    fn lose(&mut self, id: ThreadId, events: u64) {
        self.health.lost_events = self.health.lost_events.saturating_add(events);
        if id.0 != 0 {
            let thread = self.definitions.threads.entry(id).or_default();
            thread.lost = thread.lost.saturating_add(events);
        }
    }

    /// Looks for the next chunk behind damage at `at` and notes what was skipped.
    fn skip_damage(&mut self, at: u64) -> Result<u64, ReadError> {
        let next = self.find_chunk(at + 1)?;
        let end = self.source.length();
        let behind = next.unwrap_or(end);
        let whole_header = end - at >= CHUNK_HEADER_BYTES as u64;
        if next.is_none() {
            self.health.cut = true;
        }
        let cause = match next {
            None if !whole_header || self.header_is_sound(at)? => TORN,
            _ => "no sound chunk header",
        };
        self.health.damage.push(Damage {
            offset: at,
            length: behind - at,
            cause: cause.to_owned(),
        });
        Ok(behind)
    }

    fn header_is_sound(&self, at: u64) -> Result<bool, ReadError> {
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        self.source.read_exact_at(&mut bytes, at)?;
        Ok(ChunkHeader::from_bytes(&bytes).is_some())
    }

    fn find_chunk(&self, mut from: u64) -> Result<Option<u64>, ReadError> {
        let mut window = vec![0; 64 << 10];
        let end = self.source.length();
        while from + CHUNK_HEADER_BYTES as u64 <= end {
            let length = window.len().min((end - from) as usize);
            self.source.read_exact_at(&mut window[..length], from)?;
            for (index, bytes) in window[..length].windows(4).enumerate() {
                let at = from + index as u64;
                if bytes == CHUNK_MAGIC && self.chunk_at(at)?.is_some() {
                    return Ok(Some(at));
                }
            }
            from += (length - 3) as u64;
        }
        Ok(None)
    }

    /// Adds what the spill holds and the file does not.
    fn with_spill(mut self) -> Trace {
        if self.header.spill.is_empty() || self.health.ended.is_some() {
            return self;
        }
        let Ok(spill) = SpillMap::open(Path::new(&self.header.spill)) else {
            return self;
        };
        if spill.header().trace_id() != self.header.id {
            return self;
        }
        let remains = Remains::of(&spill);
        self.health.running = process_runs(
            spill
                .header()
                .pid
                .load(std::sync::atomic::Ordering::Relaxed),
        );
        self.add(remains);
        self
    }

    /// Adds what a spill held to what the file has.
    fn add(&mut self, remains: Remains) {
        self.take_definitions(&remains.definitions);
        for (index, buffer) in remains.buffers.iter().enumerate() {
            self.chunks.push(spill_entry(index, buffer));
        }
        self.health.ended = remains.ended;
        self.health.lost_events = self.health.lost_events.saturating_add(remains.lost);
        self.health.stacks_cut = self.health.stacks_cut.max(remains.stacks_cut);
        self.health.contexts_cut = self.health.contexts_cut.max(remains.contexts_cut);
        self.health.unwinds_checked = self.health.unwinds_checked.max(remains.unwinds_checked);
        self.health.unwinds_differing =
            self.health.unwinds_differing.max(remains.unwinds_differing);
        if self.health.ended.is_none() && !self.health.running {
            self.health.ended = Some(Ended::Unknown);
        }
        if !self.health.running {
            self.in_flight = remains.in_flight;
        }
        // The file ends where the drain stopped, within a chunk perhaps: no buffer is given
        // back before all of its chunk is written, so the spill has the rest.
        self.health.cut = false;
        self.health.damage.retain(|damage| damage.cause != TORN);
        self.spill = remains.buffers;
        self.arrange();
        self.regain();
    }

    /// What the trace could not take and a buffer of the spill still holds is not lost: a
    /// buffer that its thread had not left when the program ended stays as it was.
    fn regain(&mut self) {
        for at in 0..self.chunks.len() {
            let entry = self.chunks[at];
            let Place::Spill(index) = entry.place else {
                continue;
            };
            let header = &entry.header;
            let stream = (header.thread, header.nested);
            let behind = header.first_number.saturating_add(header.count.into());
            let held = header.first_number.saturating_add(entry.skip.into())..behind;
            let before = (stream.0, stream.1, 0)..(stream.0, stream.1, held.end);
            let dropped = self.definitions.dropped.range(before);
            let starts: Vec<u64> = dropped
                .filter(|((.., first), (records, _))| first.saturating_add(*records) > held.start)
                .map(|((.., first), _)| *first)
                .collect();
            if starts.is_empty() {
                continue;
            }
            let events = self.spill[index].events();
            for first in starts {
                self.regain_from(stream, first, &held, &events);
            }
        }
    }

    /// Takes the records that a buffer holds of a stream, of which some are events, out of the
    /// dropped stretch from `first` on.
    fn regain_from(
        &mut self,
        stream: StreamKey,
        first: u64,
        held: &Range<u64>,
        events_held: &[u64],
    ) {
        let key = |first| (stream.0, stream.1, first);
        let (records, events) = self.definitions.dropped[&key(first)];
        let behind = first.saturating_add(records);
        let both = first.max(held.start)..behind.min(held.end);
        self.definitions.dropped.remove(&key(first));
        let before = |end| events_held.partition_point(|number| *number < end) as u64;
        let regained = events.min(before(both.end) - before(both.start));
        // A buffer's part is a stretch's end, so that all that is left is in front of it.
        let mut left = events - regained;
        for (first, records) in [(first, both.start - first), (both.end, behind - both.end)] {
            if records > 0 {
                let known = (records, left.min(records));
                left -= known.1;
                self.definitions.dropped.insert(key(first), known);
            }
        }
        self.health.lost_events = self.health.lost_events.saturating_sub(regained);
        if let Some(thread) = self.definitions.threads.get_mut(&stream.0) {
            thread.lost = thread.lost.saturating_sub(regained);
        }
    }

    /// Puts streams in order, drops what stands twice, counts what is missing.
    fn arrange(&mut self) {
        self.chunks.sort_by_key(|c| {
            (
                c.header.thread,
                c.header.nested,
                c.header.first_number,
                c.header.count,
            )
        });
        self.health.missing_records = 0;
        self.health.from_spill = 0;
        let mut kept: Vec<ChunkEntry> = Vec::with_capacity(self.chunks.len());
        let mut stream = None;
        let mut next = 0u64;
        for mut entry in std::mem::take(&mut self.chunks) {
            let key = (entry.header.thread, entry.header.nested);
            if stream != Some(key) {
                self.finish_stream(stream, next);
                stream = Some(key);
                next = 0;
            }
            let first = entry.header.first_number;
            let behind = first.saturating_add(u64::from(entry.header.count));
            self.miss(key, next, first);
            if behind <= next {
                continue;
            }
            entry.skip = next.saturating_sub(first) as u32;
            if let Place::Spill(_) = entry.place {
                self.health.from_spill += u64::from(entry.header.count - entry.skip);
            }
            next = behind;
            kept.push(entry);
        }
        self.finish_stream(stream, next);
        self.chunks = kept;
    }

    fn finish_stream(&mut self, stream: Option<(ThreadId, bool)>, next: u64) {
        if let Some((thread, false)) = stream {
            let told = self
                .definitions
                .threads
                .get(&thread)
                .and_then(|t| t.records)
                .unwrap_or(0);
            self.miss((thread, false), next, told);
        }
    }

    /// Counts the records `from..to` of a stream as missing, but for those that are known
    /// to have been dropped: they count as lost events.
    fn miss(&mut self, (thread, nested): (ThreadId, bool), from: u64, to: u64) {
        if to <= from {
            return;
        }
        let of_stream = (thread, nested, 0)..(thread, nested, to);
        let explained = self.definitions.dropped.range(of_stream);
        let explained = explained.map(|((.., first), (records, _))| {
            let behind = first.saturating_add(*records).min(to);
            behind.saturating_sub((*first).max(from))
        });
        let explained = explained.fold(0, u64::saturating_add);
        let missing = (to - from).saturating_sub(explained);
        self.health.missing_records = self.health.missing_records.saturating_add(missing);
    }
}

/// A thread, and whether it is the stream of its signal handlers.
type StreamKey = (ThreadId, bool);

/// Lets a trait object be passed where `impl ReadAt` is asked for.
struct SourceRef<'a>(&'a dyn ReadAt);

impl ReadAt for SourceRef<'_> {
    fn length(&self) -> u64 {
        self.0.length()
    }

    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }
}

fn spill_entry(index: usize, buffer: &SpillBuffer) -> ChunkEntry {
    let header = ChunkHeader {
        nested: buffer.nested,
        thread: buffer.thread,
        count: buffer.count,
        first_number: buffer.first_number,
        first_key: buffer.base.key,
        raw: buffer.records.len() as u32,
        ..ChunkHeader::new(ChunkKind::Events)
    };
    ChunkEntry {
        place: Place::Spill(index),
        header,
        skip: 0,
    }
}

fn decode_records(records: &[u8], base: ChunkBase, entry: &ChunkEntry, decoded: &mut DecodedChunk) {
    let mut decoder = Decoder::new(records, entry.header.thread, base);
    let mut taken = 0;
    // Of the contexts entered the first behind which no record with a time stands yet.
    let mut untimed = 0;
    // The header's count is a stranger's word: the bytes bound it, two a record.
    decoded
        .events
        .reserve((entry.header.count as usize).min(records.len() / 2));
    while taken < entry.header.count {
        let Some(record) = decoder.next() else { break };
        taken += 1;
        if taken <= entry.skip {
            continue;
        }
        match record {
            StreamRecord::Event(event) => {
                time_entries(&mut decoded.entered, &mut untimed, event.start);
                decoded.events.push(event);
            }
            StreamRecord::Rare(key, rare) => {
                time_entries(&mut decoded.entered, &mut untimed, key);
                decoded.rares.push((key, decoded.events.len(), rare));
            }
            StreamRecord::Entered(_, context) => {
                let entry = (decoder.base().key, decoded.events.len(), context);
                decoded.entered.push(entry);
            }
            StreamRecord::State(..) | StreamRecord::Rewind => {}
        }
    }
    decoded.unreadable = entry.header.count - taken;
}

/// Entries have no time of their own: between the record before, whose key they have so
/// far, and the one behind, which begins at `key`, they are put as late as can be.
#[inline(always)]
fn time_entries(entered: &mut [(u64, usize, ContextId)], untimed: &mut usize, key: u64) {
    if *untimed < entered.len() {
        for entry in &mut entered[*untimed..] {
            entry.0 = entry.0.max(key);
        }
        *untimed = entered.len();
    }
}

/// Whether a process with this id runs on this machine, as far as /proc tells: one
/// that has ended and waits for its parent (a zombie) does not.
fn process_runs(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    !matches!(state, Some('Z' | 'X'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{DeltaState, MAX_EVENT_BYTES, RecordWriter};
    use crate::event::EventKind;
    use crate::testing::{TraceBuilder, blank};
    use crate::writer::encode_definition;

    /// A buffer with allocations of thread 1, the first one having this number.
    fn buffer(first_number: u64, count: u32) -> SpillBuffer {
        let mut state = DeltaState::default();
        let mut records = Vec::new();
        for at in 0..u64::from(count) {
            let event = Event {
                address: 0x1000 + at * 64,
                size: 16,
                ..blank(1, 5_000 + at * 10, 5_001 + at * 10, EventKind::Alloc)
            };
            let mut room = [0; MAX_EVENT_BYTES];
            let length = RecordWriter::new(&mut room).event(&mut state, &event);
            records.extend_from_slice(&room[..length]);
        }
        SpillBuffer {
            thread: ThreadId(1),
            nested: false,
            first_number,
            count,
            base: ChunkBase::default(),
            records,
        }
    }

    #[test]
    fn what_a_buffer_still_holds_is_not_lost() {
        let file = TraceBuilder::new()
            .alloc(1, 2_000, 2_010, 0x100, 8, 0)
            .ended(None)
            .bytes();
        let mut trace = Trace::from_bytes(file).unwrap();
        // The file has record 0. The trace could take none of 1 to 99, of which the thread's
        // buffer has the last 40.
        let mut definitions = Vec::new();
        let dropped = Definition::Dropped {
            id: ThreadId(1),
            nested: false,
            first: 1,
            records: 99,
            events: 99,
        };
        encode_definition(&dropped, &mut definitions).unwrap();
        trace.add(Remains {
            buffers: vec![buffer(60, 40)],
            definitions,
            ..Remains::default()
        });
        assert_eq!(trace.health().from_spill, 40);
        assert_eq!(trace.health().lost_events, 59);
        assert_eq!(trace.health().missing_records, 0);
        assert_eq!(trace.definitions().threads[&ThreadId(1)].lost, 59);
        let left: Vec<_> = trace.definitions().dropped.iter().collect();
        assert_eq!(left, [(&(ThreadId(1), false, 1), &(59, 59))]);
    }
}
