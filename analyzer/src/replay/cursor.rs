//! One stream: decodes its chunks one ahead and puts its steps in key order.

use super::names::Dense;
use super::step::{Step, StepKind, StreamPlace};
use heapreel_format::{ChunkEntry, ContextId, DecodedChunk, Rare, ReadError, Trace};

/// Steps of one chunk, in key order.
#[derive(Debug, Default)]
struct Piece {
    steps: Vec<Step>,
    rares: Vec<Rare>,
    /// Smallest key in it.
    first: u64,
    /// Greatest key in it.
    last: u64,
}

/// What could not be decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeFaults {
    /// Chunks with a wrong checksum or contents.
    pub damaged_chunks: u64,
    /// Records in them, by their headers' word.
    pub damaged_records: u64,
    /// Records that made no sense at the end of sound chunks.
    pub unreadable_records: u64,
    /// Steps that came too late to be put in order.
    pub late_steps: u64,
}

/// Memory that is used again from chunk to chunk, and the faults met on the way.
#[derive(Debug, Default)]
pub(crate) struct Workshop {
    decoded: DecodedChunk,
    spare: Vec<Piece>,
    pub(crate) faults: DecodeFaults,
}

/// One stream's place in the merge.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    chunks: &'a [ChunkEntry],
    place: StreamPlace,
    current: Piece,
    at: usize,
    next: Option<Piece>,
    begun: bool,
}

impl<'a> Cursor<'a> {
    /// A stream of these chunks, its first one decoded.
    pub(crate) fn new(
        trace: &Trace,
        dense: &Dense,
        chunks: &'a [ChunkEntry],
        stream: u32,
        shop: &mut Workshop,
    ) -> Result<Self, ReadError> {
        let thread = chunks
            .first()
            .map_or(0, |chunk| dense.thread(chunk.header.thread));
        let place = StreamPlace { thread, stream };
        let mut cursor = Cursor {
            chunks,
            place,
            current: Piece::default(),
            at: 0,
            next: None,
            begun: false,
        };
        cursor.current = cursor.decode_next(trace, dense, shop)?.unwrap_or_default();
        Ok(cursor)
    }

    /// A stream of steps that are already there, in any order.
    pub(crate) fn of_steps(mut steps: Vec<Step>) -> Self {
        steps.sort_by_key(|step| step.key);
        let current = Piece::new(steps, Vec::new());
        Cursor {
            chunks: &[],
            place: StreamPlace::default(),
            current,
            at: 0,
            next: None,
            begun: true,
        }
    }

    /// What is still to come of the current chunk, in key order.
    #[inline]
    pub(crate) fn rest(&self) -> &[Step] {
        &self.current.steps[self.at..]
    }

    /// The rare record of a step of this chunk.
    pub(crate) fn rare(&self, step: &Step) -> Rare {
        self.current.rares[step.address as usize]
    }

    /// Decodes one chunk further ahead, before the first step is taken: a call that a
    /// signal handler interrupted is published behind the handler's calls, perhaps in
    /// the next chunk, and begins before them.
    #[inline]
    pub(crate) fn prepare(
        &mut self,
        trace: &Trace,
        dense: &Dense,
        shop: &mut Workshop,
    ) -> Result<(), ReadError> {
        if !self.begun {
            self.begun = true;
            self.look_ahead(trace, dense, shop)?;
        }
        Ok(())
    }

    /// Goes on by `count` steps; false at the stream's end.
    #[inline]
    pub(crate) fn advance(
        &mut self,
        count: usize,
        trace: &Trace,
        dense: &Dense,
        shop: &mut Workshop,
    ) -> Result<bool, ReadError> {
        self.at += count;
        while self.at >= self.current.steps.len() {
            let Some(next) = self.next.take() else {
                return Ok(false);
            };
            shop.recycle(std::mem::replace(&mut self.current, next));
            self.at = 0;
            self.look_ahead(trace, dense, shop)?;
        }
        Ok(true)
    }

    fn look_ahead(
        &mut self,
        trace: &Trace,
        dense: &Dense,
        shop: &mut Workshop,
    ) -> Result<(), ReadError> {
        let floor = self.current.last;
        if let Some(mut next) = self.decode_next(trace, dense, shop)? {
            if next.first < floor && !self.current.steps.is_empty() {
                self.current.take_early_steps(&mut next);
            }
            self.next = Some(next);
        }
        Ok(())
    }

    fn decode_next(
        &mut self,
        trace: &Trace,
        dense: &Dense,
        shop: &mut Workshop,
    ) -> Result<Option<Piece>, ReadError> {
        while let Some((entry, rest)) = self.chunks.split_first() {
            self.chunks = rest;
            let piece = shop.decode(trace, dense, entry, self.place)?;
            if !piece.steps.is_empty() {
                return Ok(Some(piece));
            }
            shop.recycle(piece);
        }
        Ok(None)
    }
}

impl Workshop {
    fn decode(
        &mut self,
        trace: &Trace,
        dense: &Dense,
        entry: &ChunkEntry,
        place: StreamPlace,
    ) -> Result<Piece, ReadError> {
        let mut piece = self.spare.pop().unwrap_or_default();
        match trace.decode_into(entry, &mut self.decoded) {
            Ok(()) => piece.fill(&self.decoded, place, dense),
            Err(ReadError::ChunkDamaged { .. }) => {
                self.faults.damaged_chunks += 1;
                self.faults.damaged_records += u64::from(entry.header.count - entry.skip);
                self.decoded.unreadable = 0;
            }
            Err(error) => return Err(error),
        }
        self.faults.unreadable_records += u64::from(self.decoded.unreadable);
        Ok(piece)
    }

    fn recycle(&mut self, mut piece: Piece) {
        piece.steps.clear();
        piece.rares.clear();
        self.spare.push(piece);
    }
}

impl Piece {
    fn new(steps: Vec<Step>, rares: Vec<Rare>) -> Piece {
        let first = steps.first().map_or(0, |step| step.key);
        let last = steps.last().map_or(0, |step| step.key);
        Piece {
            steps,
            rares,
            first,
            last,
        }
    }

    fn fill(&mut self, decoded: &DecodedChunk, place: StreamPlace, dense: &Dense) {
        self.steps
            .reserve(decoded.events.len() + decoded.rares.len() + decoded.entered.len());
        let mut done = 0;
        let mut entered = decoded.entered.as_slice();
        for (key, events_before, rare) in &decoded.rares {
            while let Some((entry, rest)) = entered.split_first()
                && (entry.1, entry.0) <= (*events_before, *key)
            {
                self.push_events(&decoded.events[done..entry.1], place, dense);
                done = entry.1;
                self.push_entered(entry, place);
                entered = rest;
            }
            self.push_events(&decoded.events[done..*events_before], place, dense);
            done = *events_before;
            let address = self.rares.len() as u64;
            self.rares.push(*rare);
            let step = Step::blank(*key, StepKind::Rare);
            self.steps.push(Step {
                address,
                thread: place.thread,
                stream: place.stream,
                ..step
            });
        }
        for entry in entered {
            self.push_events(&decoded.events[done..entry.1], place, dense);
            done = entry.1;
            self.push_entered(entry, place);
        }
        self.push_events(&decoded.events[done..], place, dense);
        // Stable: steps of one instant stay in program order.
        if !self.steps.is_sorted_by_key(|step| step.key) {
            self.steps.sort_by_key(|step| step.key);
        }
        self.first = self.steps.first().map_or(0, |step| step.key);
        self.last = self.steps.last().map_or(0, |step| step.key);
    }

    fn push_entered(&mut self, (key, _, context): &(u64, usize, ContextId), place: StreamPlace) {
        let step = Step::blank(*key, StepKind::Entered);
        self.steps.push(Step {
            context: context.0,
            thread: place.thread,
            stream: place.stream,
            ..step
        });
    }

    fn push_events(
        &mut self,
        events: &[heapreel_format::Event],
        place: StreamPlace,
        dense: &Dense,
    ) {
        for event in events {
            Step::of_event(event, place, dense, |step| self.steps.push(step));
        }
    }

    /// Takes over those of the next chunk's steps that come before this chunk's end.
    #[cold]
    fn take_early_steps(&mut self, next: &mut Piece) {
        let early = next.steps.partition_point(|step| step.key < self.last);
        for mut step in next.steps.drain(..early) {
            if step.kind == StepKind::Rare {
                self.rares.push(next.rares[step.address as usize]);
                step.address = (self.rares.len() - 1) as u64;
            }
            self.steps.push(step);
        }
        self.steps.sort_by_key(|step| step.key);
        next.first = next.steps.first().map_or(u64::MAX, |step| step.key);
    }
}
