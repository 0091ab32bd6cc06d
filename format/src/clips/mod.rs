//! Clips: whole traces of a few frames around a moment that is worth a look.
//!
//! [`Clips`] is a sink for a [`Drain`](crate::spill::Drain) instead of a trace file. It keeps
//! the last frames' records in memory, and of what was before them only what lives on: blocks,
//! open phases, definitions. At a trigger it hands out a clip, which is a trace of its own.
//!
//! ```text
//!   records before the beginning │ kept records          │ not yet all here
//!   → carried: blocks, phases    │                       │
//!                                └ beginning             └ watermark
//! ```
//!
//! A clip begins at a frame mark and ends at its trigger, and is made once the watermark has
//! passed the trigger: then nothing within it is missing.

mod carried;
mod frames;
mod store;
mod stream;

use crate::chunk::{self, CHUNK_HEADER_BYTES, ChunkBase, ChunkHeader, ChunkKind};
use crate::codec::{Decoder, StreamRecord};
use crate::definition::{ClipCause, Definition, LoopId, NameId, ThreadId};
use crate::error::WriteError;
use crate::header::{Ended, FileHeader};
use crate::rare::Rare;
use crate::writer::TraceWriter;
use carried::Carried;
use frames::Frames;
use std::collections::BTreeMap;
use std::io::{self, Write};
use store::Store;
use stream::{Piece, Stream};

/// Marks whose name begins so ask for a clip named by what follows.
pub const CLIP_MARK: &str = "clip: ";

/// How much of the past a clip holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClipLength {
    /// So many whole frames.
    Frames(u32),
    /// So many nanoseconds, from the last frame mark before them on.
    Nanos(u64),
}

/// Which clips are wanted.
#[derive(Clone, Copy, Debug)]
pub struct ClipPlan {
    /// How much each holds.
    pub length: ClipLength,
    /// A frame that takes longer, in nanoseconds, makes a clip.
    pub budget_nanos: Option<u64>,
    /// No clip is larger, in bytes.
    pub most_bytes: u64,
    /// Between the triggers of two clips lie at least so many nanoseconds of the trace's time;
    /// the end of a program that crashes is worth one at any time.
    pub every_nanos: u64,
}

/// A clip that was made.
#[derive(Clone, Debug)]
pub struct Clip {
    /// The trace, all of its bytes.
    pub bytes: Vec<u8>,
    /// Why it was made.
    pub cause: ClipCause,
    /// The frame that ended with the clip, as the whole recording counts them.
    pub frame: u64,
}

/// What was asked for and not made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unmade {
    /// Too soon after another clip.
    pub too_soon: u64,
    /// Even without any frame of the past larger than allowed.
    pub too_large: u64,
}

struct Trigger {
    cause: ClipCause,
    key: u64,
    took: u64,
    frame: u64,
    name: String,
}

/// Keeps the last frames and makes clips of them.
pub struct Clips {
    header: FileHeader,
    plan: ClipPlan,
    streams: BTreeMap<(ThreadId, bool), Stream>,
    carried: Carried,
    store: Store,
    frames: Frames,
    watermark: u64,
    /// No kept record is before this key.
    begin: u64,
    pending: Option<Trigger>,
    last: Option<u64>,
    unmade: Unmade,
    made: Box<dyn FnMut(Clip) + Send>,
}

impl Clips {
    /// Clips of the program that `header` names; each is given to `made`.
    pub fn new(header: FileHeader, plan: ClipPlan, made: Box<dyn FnMut(Clip) + Send>) -> Clips {
        Clips {
            header,
            plan,
            streams: BTreeMap::new(),
            carried: Carried::default(),
            store: Store::default(),
            frames: Frames::default(),
            watermark: 0,
            begin: 0,
            pending: None,
            last: None,
            unmade: Unmade::default(),
            made,
        }
    }

    /// What was asked for and not made, so far.
    pub fn unmade(&self) -> Unmade {
        self.unmade
    }

    /// Somebody sent a signal: a clip that ends with the last frame is wanted.
    pub fn signal(&mut self) {
        let key = match self.frames.last() {
            0 => self.watermark,
            last => last,
        };
        self.ask(Trigger {
            cause: ClipCause::Signal,
            key,
            took: 0,
            frame: self.frames.number(),
            name: String::new(),
        });
    }

    fn ticks(&self, nanos: u64) -> u64 {
        (nanos as f64 * self.header.clock.ticks_per_second / 1e9) as u64
    }

    fn take(&mut self, header: &ChunkHeader, payload: &[u8]) -> Option<()> {
        match header.kind {
            ChunkKind::Events => self.take_events(header, payload)?,
            ChunkKind::Definitions => self.store.take(payload)?,
            ChunkKind::Watermark => self.watermark = self.watermark.max(header.first_key),
            ChunkKind::End => self.end(postcard::from_bytes(payload).ok()?),
            // A drain writes none of these.
            ChunkKind::Symbols | ChunkKind::Snapshot | ChunkKind::Index => {}
        }
        Some(())
    }

    fn take_events(&mut self, header: &ChunkHeader, payload: &[u8]) -> Option<()> {
        let (base, records): (ChunkBase, &[u8]) = postcard::take_from_bytes(payload).ok()?;
        let mut decoder = Decoder::new(records, header.thread, base);
        while let Some(record) = decoder.next() {
            match record {
                StreamRecord::Rare(key, rare) => self.look_at(key, &rare),
                StreamRecord::Event(_)
                | StreamRecord::State(..)
                | StreamRecord::Entered(..)
                | StreamRecord::Rewind => {}
            }
        }
        let stream = self.streams.entry((header.thread, header.nested));
        stream.or_default().push(Piece {
            base,
            count: header.count,
            records: records.to_vec(),
        });
        Some(())
    }

    /// Whether a record is worth a clip.
    fn look_at(&mut self, key: u64, rare: &Rare) {
        match rare {
            Rare::FrameMark { id } => self.frame(key, *id),
            Rare::PhaseBegin { .. } => self.frames.phase_begins(),
            Rare::PhaseEnd { .. } => self.frames.phase_ends(),
            Rare::Mark { name } => self.call(key, *name),
            _ => {}
        }
    }

    fn frame(&mut self, key: u64, id: LoopId) {
        let Some(frame) = self.frames.mark(key, id) else {
            return;
        };
        let budget = self.plan.budget_nanos.map(|nanos| self.ticks(nanos));
        if budget.is_some_and(|budget| frame.took > budget && !frame.in_phase) {
            self.ask(Trigger {
                cause: ClipCause::Budget,
                key,
                took: frame.took,
                frame: frame.number,
                name: String::new(),
            });
        }
    }

    fn call(&mut self, key: u64, name: NameId) {
        if let Some(name) = self.store.clip_name(name) {
            let name = name.to_owned();
            self.ask(Trigger {
                cause: ClipCause::Call,
                key,
                took: 0,
                frame: self.frames.number(),
                name,
            });
        }
    }

    fn ask(&mut self, trigger: Trigger) {
        let every = self.ticks(self.plan.every_nanos);
        let soon = |last| trigger.key.saturating_sub(last) < every;
        if self.pending.is_some() || self.last.is_some_and(soon) {
            self.unmade.too_soon += 1;
        } else {
            self.last = Some(trigger.key);
            self.pending = Some(trigger);
        }
    }

    /// Makes what was asked for, and forgets what no clip will need.
    fn settle(&mut self) {
        if self
            .pending
            .as_ref()
            .is_some_and(|it| it.key < self.watermark)
            && let Some(trigger) = self.pending.take()
        {
            self.make(&trigger, None);
        }
        if self.pending.is_none()
            && let Some(begin) = self.begin_for(u64::MAX)
        {
            self.advance(begin.min(self.watermark));
        }
        self.keep_small();
    }

    /// Where a clip that ends at `end` begins; `None` where all that is kept belongs to it.
    fn begin_for(&self, end: u64) -> Option<u64> {
        match self.plan.length {
            ClipLength::Frames(count) => self.frames.before(end, count),
            ClipLength::Nanos(nanos) => {
                let end = end.min(self.frames.last());
                self.frames
                    .at_or_before(end.saturating_sub(self.ticks(nanos)))
            }
        }
    }

    /// Records in memory stay below a clip's size, whatever frames that leaves.
    fn keep_small(&mut self) {
        while self.kept_bytes() > self.plan.most_bytes {
            let Some(middle) = self.frames.middle(self.begin) else {
                let latest = self.streams.values().filter_map(Stream::last_base).max();
                self.advance(latest.unwrap_or(self.begin));
                return;
            };
            self.advance(middle);
        }
    }

    fn kept_bytes(&self) -> u64 {
        self.streams.values().map(Stream::bytes).sum()
    }

    /// Nothing before `key` is kept any longer: what it left alive is carried.
    fn advance(&mut self, key: u64) {
        if key <= self.begin {
            return;
        }
        let key = self.unstraddled(key);
        let mut changes = Vec::new();
        for ((thread, _), stream) in &mut self.streams {
            stream.take_before(key, *thread, |record| changes.push((*thread, record)));
        }
        self.carried.apply(&changes);
        self.frames.forget_before(key);
        self.begin = key;
    }

    /// The start of a reallocation that `key` would cut in two, or `key`.
    fn unstraddled(&self, mut key: u64) -> u64 {
        loop {
            let streams = self.streams.iter();
            let starts = streams.filter_map(|((thread, _), it)| it.straddling(key, *thread));
            match starts.min() {
                Some(start) if start < key => key = start,
                _ => return key,
            }
        }
    }

    fn end(&mut self, ended: Ended) {
        if let Some(trigger) = self.pending.take() {
            self.make(&trigger, None);
        }
        if is_crash(ended) {
            let trigger = Trigger {
                cause: ClipCause::Crash,
                key: u64::MAX,
                took: 0,
                frame: self.frames.number(),
                name: ended.to_string(),
            };
            self.make(&trigger, Some(ended));
        }
    }

    /// Makes a clip that is not too large, of fewer frames if need be.
    fn make(&mut self, trigger: &Trigger, ended: Option<Ended>) {
        if let Some(begin) = self.begin_for(trigger.key) {
            self.advance(begin);
        }
        loop {
            let bytes = self.encode(trigger, ended).unwrap_or_default();
            if !bytes.is_empty() && bytes.len() as u64 <= self.plan.most_bytes {
                let (cause, frame) = (trigger.cause, trigger.frame);
                (self.made)(Clip {
                    bytes,
                    cause,
                    frame,
                });
                return;
            }
            match self.frames.middle(self.begin) {
                Some(middle) if middle < trigger.key => self.advance(middle),
                _ => break,
            }
        }
        self.unmade.too_large += 1;
    }

    fn encode(&self, trigger: &Trigger, ended: Option<Ended>) -> Result<Vec<u8>, WriteError> {
        let mut header = self.header.clone();
        // All is here, and the spill has other records under the same numbers.
        header.spill.clear();
        let mut writer = TraceWriter::new(Vec::new(), &header);
        let mut events = TraceWriter::resume(Vec::new());
        let mut needed = self.carried.stacks();
        let carried = self.carried.rares(self.begin);
        for ((thread, nested), stream) in &self.streams {
            let before = if *nested { None } else { carried.get(thread) };
            let chunks = stream.until(trigger.key, *thread, &mut needed);
            let mut number = 0;
            for (base, count, records) in before.into_iter().cloned().chain(chunks) {
                events.events(*thread, *nested, number, count, 0, base, &records)?;
                number += u64::from(count);
            }
        }
        self.store.write(&needed, &mut writer)?;
        writer.definitions(&[Definition::Clip {
            cause: trigger.cause,
            id: self.frames.game_loop(),
            frame: trigger.frame,
            begin: self.begin,
            took: trigger.took,
            budget: self.plan.budget_nanos.map_or(0, |nanos| self.ticks(nanos)),
            name: trigger.name.as_str().into(),
        }])?;
        writer.snapshot(&self.carried.blocks())?;
        let mut bytes = writer.finish()?;
        events.end(ended.unwrap_or(Ended::RecorderLeft))?;
        bytes.extend(events.finish()?);
        Ok(bytes)
    }
}

/// Whether the program's end is worth a clip: not where somebody ended it as people do, by
/// SIGHUP, SIGINT or SIGTERM.
fn is_crash(ended: Ended) -> bool {
    matches!(ended, Ended::Signal(number) if ![1, 2, 15].contains(&number))
}

impl Write for Clips {
    /// Takes whole chunks, and at first the file's header.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut at = 0;
        if bytes.starts_with(&crate::header::MAGIC) {
            let unusable = |_| io::Error::from(io::ErrorKind::InvalidData);
            at = FileHeader::read(&bytes).map_err(unusable)?.1 as usize;
        }
        while let Some(front) = bytes
            .get(at..)
            .and_then(|rest| rest.first_chunk::<CHUNK_HEADER_BYTES>())
        {
            let invalid = || io::Error::from(io::ErrorKind::InvalidData);
            let header = ChunkHeader::from_bytes(front).ok_or_else(invalid)?;
            let payload = at + CHUNK_HEADER_BYTES;
            at = payload + header.stored as usize;
            let stored = bytes.get(payload..at).ok_or_else(invalid)?;
            let payload = chunk::unpack(&header, stored).ok_or_else(invalid)?;
            self.take(&header, &payload).ok_or_else(invalid)?;
        }
        self.settle();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
