//! The hand-written layout of a thread's records.
//!
//! Each record is a tag byte, then varints as postcard writes them:
//!
//! ```text
//! tag = kind (low 4 bits) | flags (high 4 bits)
//!
//! Alloc 1, AllocZeroed 2   gap latency address size stack        [usable] [cost]
//! Realloc 3                gap latency old-address move size stack [usable] [cost]
//! Free 4, Delete 5, DeleteArray 6, RustDealloc 7
//!                          gap latency address           [stack] [usable] [cost]
//! Release 8                gap latency entry address     [stack] [usable] [cost]
//! FailedAlloc 9            gap latency size stack                         [cost]
//! FailedRealloc 10         gap latency address size stack                 [cost]
//! State 11                 segment context
//! Rare 12                  gap length, then `length` bytes: a postcard Rare
//! Rewind 13                ticks
//!
//! flags: 0x10 cost follows, 0x20 addresses are not multiples of 16,
//!        0x40 stack follows (releases), 0x80 usable size follows;
//!        of a State 0x10: its context was entered here, not come back to
//! ```
//!
//! *gap* is the ticks between the end of the record before and the start of this
//! one; *latency* the ticks from start to end; *address* the zigzag difference to
//! the record before (divided by 16 unless flagged); *move* the difference between
//! a reallocation's new and old address, in the same unit. *Rewind* takes time back
//! for the record behind it: a call that a signal handler interrupted starts before
//! the handler's own calls, whose records were published first.

use crate::chunk::ChunkBase;
use crate::definition::{ContextId, SegmentId, StackId, ThreadId};
use crate::event::{Entry, Event, EventKind};
use crate::rare::Rare;
use crate::varint;

/// No event record is longer: tag, eight varints.
pub const MAX_EVENT_BYTES: usize = 1 + 8 * varint::MAX_VARINT_BYTES;

pub(crate) const KIND_MASK: u8 = 0x0f;
pub(crate) const FLAG_COST: u8 = 0x10;
pub(crate) const FLAG_ENTERED: u8 = 0x10;
pub(crate) const FLAG_UNALIGNED: u8 = 0x20;
pub(crate) const FLAG_STACK: u8 = 0x40;
pub(crate) const FLAG_USABLE: u8 = 0x80;

pub(crate) const ALLOC: u8 = 1;
pub(crate) const ALLOC_ZEROED: u8 = 2;
pub(crate) const REALLOC: u8 = 3;
pub(crate) const FREE: u8 = 4;
pub(crate) const DELETE: u8 = 5;
pub(crate) const DELETE_ARRAY: u8 = 6;
pub(crate) const RUST_DEALLOC: u8 = 7;
pub(crate) const RELEASE: u8 = 8;
pub(crate) const FAILED_ALLOC: u8 = 9;
pub(crate) const FAILED_REALLOC: u8 = 10;
pub(crate) const STATE: u8 = 11;
pub(crate) const RARE: u8 = 12;
pub(crate) const REWIND: u8 = 13;

/// What the next record of a stream is relative to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeltaState {
    /// End of the record before, in ticks.
    pub key: u64,
    /// Address of the record before.
    pub address: u64,
}

/// Writes records into room that the caller has made sure of.
///
/// The writer stands at the front of `room`; each method returns the bytes it
/// wrote. A record that does not fit is not written and gives 0, so that a
/// wrong caller costs a record and never memory safety.
pub struct RecordWriter<'a> {
    room: &'a mut [u8],
    at: usize,
}

impl<'a> RecordWriter<'a> {
    /// A writer into `room`; give it at least [`MAX_EVENT_BYTES`].
    #[inline(always)]
    pub fn new(room: &'a mut [u8]) -> Self {
        RecordWriter { room, at: 0 }
    }

    #[inline(always)]
    fn byte(&mut self, byte: u8) {
        if let Some(place) = self.room.get_mut(self.at) {
            *place = byte;
            self.at += 1;
        }
    }

    #[inline(always)]
    fn varint(&mut self, value: u64) {
        self.at = varint::write(self.room, self.at, value);
    }

    #[inline(always)]
    fn time(&mut self, state: &mut DeltaState, start: u64, end: u64) {
        // A clock that steps back must not make a gap of 2^64 ticks: time stands still instead.
        let start = start.max(state.key);
        let end = end.max(start);
        self.varint(start - state.key);
        self.varint(end - start);
        state.key = end;
    }

    #[inline(always)]
    fn difference(&mut self, from: u64, to: u64, unaligned: bool) {
        let difference = to.wrapping_sub(from) as i64;
        self.varint(varint::zigzag(if unaligned {
            difference
        } else {
            difference >> 4
        }));
    }

    /// Address differences are divided by 16 when both ends are multiples of it.
    #[inline(always)]
    fn unaligned(addresses: u64) -> u8 {
        if addresses & 15 == 0 {
            0
        } else {
            FLAG_UNALIGNED
        }
    }

    #[inline(always)]
    fn tail(&mut self, event: &Event) {
        if event.usable != 0 {
            self.varint(event.usable);
        }
        if event.cost != 0 {
            self.varint(u64::from(event.cost));
        }
    }

    /// Writes an allocation (`event.kind` says which) and moves `state` behind it.
    #[inline(always)]
    pub fn alloc(mut self, state: &mut DeltaState, event: &Event) -> usize {
        let kind = if event.kind == EventKind::AllocZeroed {
            ALLOC_ZEROED
        } else {
            ALLOC
        };
        let unaligned = Self::unaligned(event.address | state.address);
        self.byte(kind | unaligned | tail_flags(event));
        self.time(state, event.start, event.end);
        self.difference(state.address, event.address, unaligned != 0);
        state.address = event.address;
        self.varint(event.size);
        self.varint(u64::from(event.stack.0));
        self.tail(event);
        self.at
    }

    /// Writes a reallocation that succeeded.
    #[inline(always)]
    pub fn realloc(mut self, state: &mut DeltaState, event: &Event) -> usize {
        let unaligned = Self::unaligned(event.address | event.old_address | state.address);
        self.byte(REALLOC | unaligned | tail_flags(event));
        self.time(state, event.start, event.end);
        self.difference(state.address, event.old_address, unaligned != 0);
        self.difference(event.old_address, event.address, unaligned != 0);
        state.address = event.address;
        self.varint(event.size);
        self.varint(u64::from(event.stack.0));
        self.tail(event);
        self.at
    }

    /// Writes a deallocation.
    #[inline(always)]
    pub fn dealloc(mut self, state: &mut DeltaState, event: &Event) -> usize {
        let kind = match event.entry {
            Entry::Free => FREE,
            Entry::Delete => DELETE,
            Entry::DeleteArray => DELETE_ARRAY,
            Entry::RustDealloc => RUST_DEALLOC,
            _ => RELEASE,
        };
        let unaligned = Self::unaligned(event.address | state.address);
        let stack = if event.stack == StackId::NONE {
            0
        } else {
            FLAG_STACK
        };
        self.byte(kind | unaligned | stack | tail_flags(event));
        self.time(state, event.start, event.end);
        if kind == RELEASE {
            self.varint(event.entry as u64);
        }
        self.difference(state.address, event.address, unaligned != 0);
        state.address = event.address;
        if stack != 0 {
            self.varint(u64::from(event.stack.0));
        }
        self.tail(event);
        self.at
    }

    /// Writes a request that failed; `old_address` is set for a reallocation.
    pub fn failed(mut self, state: &mut DeltaState, event: &Event) -> usize {
        let realloc = event.kind == EventKind::FailedRealloc;
        let unaligned = if realloc {
            Self::unaligned(event.old_address | state.address)
        } else {
            0
        };
        let kind = if realloc {
            FAILED_REALLOC
        } else {
            FAILED_ALLOC
        };
        let cost = if event.cost == 0 { 0 } else { FLAG_COST };
        self.byte(kind | unaligned | cost);
        self.time(state, event.start, event.end);
        if realloc {
            self.difference(state.address, event.old_address, unaligned != 0);
            state.address = event.old_address;
        }
        self.varint(event.size);
        self.varint(u64::from(event.stack.0));
        if cost != 0 {
            self.varint(u64::from(event.cost));
        }
        self.at
    }

    /// Writes any event by its kind.
    #[inline]
    pub fn event(self, state: &mut DeltaState, event: &Event) -> usize {
        match event.kind {
            EventKind::Alloc | EventKind::AllocZeroed => self.alloc(state, event),
            EventKind::Realloc => self.realloc(state, event),
            EventKind::Dealloc => self.dealloc(state, event),
            EventKind::FailedAlloc | EventKind::FailedRealloc => self.failed(state, event),
        }
    }

    /// Writes that from here on another segment or context is current.
    pub fn state(self, segment: SegmentId, context: ContextId) -> usize {
        self.place(STATE, segment, context)
    }

    /// The same where the context begins anew: an instance more.
    #[inline(always)]
    pub fn entered(self, segment: SegmentId, context: ContextId) -> usize {
        self.place(STATE | FLAG_ENTERED, segment, context)
    }

    #[inline(always)]
    fn place(mut self, tag: u8, segment: SegmentId, context: ContextId) -> usize {
        self.byte(tag);
        self.varint(u64::from(segment.0));
        self.varint(u64::from(context.0));
        self.at
    }

    /// Writes that the next record starts `ticks` before the end of the last one.
    pub fn rewind(mut self, state: &mut DeltaState, ticks: u64) -> usize {
        let ticks = ticks.min(state.key);
        self.byte(REWIND);
        self.varint(ticks);
        state.key -= ticks;
        self.at
    }

    /// Writes a rare record at this instant.
    pub fn rare(mut self, state: &mut DeltaState, key: u64, rare: &Rare) -> usize {
        let mut body = [0u8; 96];
        let Ok(body) = postcard::to_slice(rare, &mut body) else {
            return 0;
        };
        let key = key.max(state.key);
        self.byte(RARE);
        self.varint(key - state.key);
        self.varint(body.len() as u64);
        let Some(room) = self.room.get_mut(self.at..self.at + body.len()) else {
            return 0;
        };
        room.copy_from_slice(body);
        state.key = key;
        self.at + body.len()
    }
}

#[inline(always)]
fn tail_flags(event: &Event) -> u8 {
    (if event.cost == 0 { 0 } else { FLAG_COST })
        | (if event.usable == 0 { 0 } else { FLAG_USABLE })
}

/// One record of a stream, decoded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StreamRecord {
    /// An allocation, reallocation or deallocation.
    Event(Event),
    /// Another segment or context is current from here on.
    State(SegmentId, ContextId),
    /// The same, and the context begins anew.
    Entered(SegmentId, ContextId),
    /// A rare record with its key in ticks.
    Rare(u64, Rare),
    /// Time was taken back for the record behind this one.
    Rewind,
}

/// Reads the records of a chunk one after another.
///
/// Ends early, with [`Decoder::damaged`] set, at the first record that makes no sense.
pub struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
    state: DeltaState,
    thread: ThreadId,
    segment: SegmentId,
    context: ContextId,
    damaged: bool,
}

impl<'a> Decoder<'a> {
    /// A decoder of `bytes`, the records of `thread` behind `base`.
    pub fn new(bytes: &'a [u8], thread: ThreadId, base: ChunkBase) -> Self {
        Decoder {
            bytes,
            at: 0,
            state: DeltaState {
                key: base.key,
                address: base.address,
            },
            thread,
            segment: base.segment,
            context: base.context,
            damaged: false,
        }
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.at
    }

    /// A record made no sense; nothing behind it can be read.
    pub fn damaged(&self) -> bool {
        self.damaged
    }

    /// What a chunk that begins here would be relative to.
    pub fn base(&self) -> ChunkBase {
        ChunkBase {
            key: self.state.key,
            address: self.state.address,
            segment: self.segment,
            context: self.context,
        }
    }

    #[inline(always)]
    fn varint(&mut self) -> Option<u64> {
        varint::read(self.bytes, &mut self.at)
    }

    #[inline(always)]
    fn stack(&mut self) -> Option<StackId> {
        Some(StackId(u32::try_from(self.varint()?).ok()?))
    }

    #[inline(always)]
    fn address(&mut self, from: u64, tag: u8) -> Option<u64> {
        let difference = varint::unzigzag(self.varint()?);
        let difference = if tag & FLAG_UNALIGNED == 0 {
            difference << 4
        } else {
            difference
        };
        Some(from.wrapping_add(difference as u64))
    }

    /// The next record; `None` at the end or at damage.
    #[allow(
        clippy::should_implement_trait,
        reason = "an Iterator would hide `damaged`"
    )]
    #[inline]
    pub fn next(&mut self) -> Option<StreamRecord> {
        if self.damaged || self.at >= self.bytes.len() {
            return None;
        }
        let record = self.record();
        self.damaged = record.is_none();
        record
    }

    #[inline(always)]
    fn record(&mut self) -> Option<StreamRecord> {
        let tag = self.bytes[self.at];
        self.at += 1;
        match tag & KIND_MASK {
            STATE => self.state_change(tag & !KIND_MASK),
            RARE => self.rare(tag),
            REWIND => self.rewind(tag),
            kind => self.event(kind, tag).map(StreamRecord::Event),
        }
    }

    fn state_change(&mut self, flags: u8) -> Option<StreamRecord> {
        if flags & !FLAG_ENTERED != 0 {
            return None;
        }
        self.segment = SegmentId(u16::try_from(self.varint()?).ok()?);
        self.context = ContextId(u32::try_from(self.varint()?).ok()?);
        Some(if flags == 0 {
            StreamRecord::State(self.segment, self.context)
        } else {
            StreamRecord::Entered(self.segment, self.context)
        })
    }

    fn rewind(&mut self, tag: u8) -> Option<StreamRecord> {
        if tag != REWIND {
            return None;
        }
        self.state.key = self.state.key.checked_sub(self.varint()?)?;
        Some(StreamRecord::Rewind)
    }

    fn rare(&mut self, tag: u8) -> Option<StreamRecord> {
        if tag != RARE {
            return None;
        }
        let key = self.state.key.checked_add(self.varint()?)?;
        let length = usize::try_from(self.varint()?).ok()?;
        let body = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        let rare = postcard::from_bytes(body).ok()?;
        self.at += length;
        self.state.key = key;
        Some(StreamRecord::Rare(key, rare))
    }

    #[inline(always)]
    fn event(&mut self, kind: u8, tag: u8) -> Option<Event> {
        let start = self.state.key.checked_add(self.varint()?)?;
        let end = start.checked_add(self.varint()?)?;
        let mut event = Event {
            thread: self.thread,
            context: self.context,
            segment: self.segment,
            ..Event::blank(start, end, EventKind::Alloc)
        };
        match kind {
            ALLOC | ALLOC_ZEROED => self.alloc(&mut event, kind, tag)?,
            FREE..=RELEASE => self.release(&mut event, kind, tag)?,
            REALLOC => self.realloc(&mut event, tag)?,
            FAILED_ALLOC | FAILED_REALLOC => self.failed(&mut event, kind, tag)?,
            _ => return None,
        }
        if tag & FLAG_USABLE != 0 {
            event.usable = self.varint()?;
        }
        if tag & FLAG_COST != 0 {
            event.cost = u32::try_from(self.varint()?).ok()?;
        }
        self.state.key = end;
        Some(event)
    }

    #[inline(always)]
    fn alloc(&mut self, event: &mut Event, kind: u8, tag: u8) -> Option<()> {
        if kind == ALLOC_ZEROED {
            event.kind = EventKind::AllocZeroed;
        }
        event.address = self.address(self.state.address, tag)?;
        event.size = self.varint()?;
        event.stack = self.stack()?;
        self.state.address = event.address;
        Some(())
    }

    #[inline(always)]
    fn release(&mut self, event: &mut Event, kind: u8, tag: u8) -> Option<()> {
        event.kind = EventKind::Dealloc;
        event.entry = match kind {
            FREE => Entry::Free,
            DELETE => Entry::Delete,
            DELETE_ARRAY => Entry::DeleteArray,
            RUST_DEALLOC => Entry::RustDealloc,
            _ => Entry::from_number(u8::try_from(self.varint()?).ok()?),
        };
        event.address = self.address(self.state.address, tag)?;
        self.state.address = event.address;
        if tag & FLAG_STACK != 0 {
            event.stack = self.stack()?;
        }
        Some(())
    }

    fn realloc(&mut self, event: &mut Event, tag: u8) -> Option<()> {
        event.kind = EventKind::Realloc;
        event.old_address = self.address(self.state.address, tag)?;
        event.address = self.address(event.old_address, tag)?;
        event.size = self.varint()?;
        event.stack = self.stack()?;
        self.state.address = event.address;
        Some(())
    }

    fn failed(&mut self, event: &mut Event, kind: u8, tag: u8) -> Option<()> {
        event.kind = EventKind::FailedAlloc;
        if kind == FAILED_REALLOC {
            event.kind = EventKind::FailedRealloc;
            event.old_address = self.address(self.state.address, tag)?;
            self.state.address = event.old_address;
        }
        event.size = self.varint()?;
        event.stack = self.stack()?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::blank;
    use proptest::prelude::*;

    fn any_event() -> impl Strategy<Value = Event> {
        let times = (0u64..1 << 40, 0u64..1 << 20);
        let addresses = (1u64..1 << 47, 1u64..1 << 47, prop::bool::ANY);
        (
            times,
            addresses,
            any::<u64>(),
            any::<u32>(),
            0u32..2,
            0usize..6,
        )
            .prop_map(
                |((gap, latency), (address, old, aligned), size, stack, extra, kind)| {
                    let mask = if aligned { !15 } else { !0 };
                    let kinds = [
                        EventKind::Alloc,
                        EventKind::AllocZeroed,
                        EventKind::Realloc,
                        EventKind::Dealloc,
                        EventKind::FailedAlloc,
                        EventKind::FailedRealloc,
                    ];
                    let kind = kinds[kind];
                    let mut event = blank(3, gap, gap + latency, kind);
                    let failed = matches!(kind, EventKind::FailedAlloc | EventKind::FailedRealloc);
                    event.address = if failed { 0 } else { address & mask };
                    event.old_address =
                        if matches!(kind, EventKind::Realloc | EventKind::FailedRealloc) {
                            old & mask
                        } else {
                            0
                        };
                    event.size = if kind == EventKind::Dealloc { 0 } else { size };
                    event.stack = StackId(stack);
                    event.cost = extra * 17;
                    event.usable = if failed { 0 } else { u64::from(extra) * 4000 };
                    event.entry = match kind {
                        EventKind::Dealloc => Entry::from_number(10 + (stack % 14) as u8),
                        _ => Entry::Unknown,
                    };
                    event
                },
            )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(events in prop::collection::vec(any_event(), 1..50)) {
            let mut bytes = Vec::new();
            let mut state = DeltaState::default();
            let mut written = Vec::new();
            for mut event in events {
                // Times are relative to the record before, as a thread's clock is.
                event.start += state.key;
                event.end += state.key;
                let mut room = [0; MAX_EVENT_BYTES];
                let length = RecordWriter::new(&mut room).event(&mut state, &event);
                bytes.extend_from_slice(&room[..length]);
                written.push(event);
            }
            let mut decoder = Decoder::new(&bytes, ThreadId(3), ChunkBase::default());
            for event in written {
                prop_assert_eq!(decoder.next(), Some(StreamRecord::Event(event)));
            }
            prop_assert_eq!(decoder.next(), None);
            prop_assert!(!decoder.damaged());
        }

        #[test]
        fn foreign_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut decoder = Decoder::new(&bytes, ThreadId(1), ChunkBase::default());
            while decoder.next().is_some() {}
            prop_assert!(decoder.position() <= bytes.len());
        }
    }

    #[test]
    fn a_postcard_reader_takes_a_record_apart() {
        let event = Event {
            address: 0x1000,
            size: 300,
            stack: StackId(5),
            ..blank(1, 40, 200, EventKind::Alloc)
        };
        let mut room = [0; MAX_EVENT_BYTES];
        let length = RecordWriter::new(&mut room).alloc(&mut DeltaState::default(), &event);
        let (fields, rest): ((u8, u64, u64, i64, u64, u32), _) =
            postcard::take_from_bytes(&room[..length]).unwrap();
        assert_eq!(fields, (ALLOC, 40, 160, 0x100, 300, 5));
        assert!(rest.is_empty());
    }

    #[test]
    fn a_context_is_entered_or_come_back_to() {
        let mut room = [0; 3 * MAX_EVENT_BYTES];
        let (inner, outer) = (ContextId(300), ContextId(7));
        let mut length = RecordWriter::new(&mut room).entered(SegmentId(2), inner);
        length += RecordWriter::new(&mut room[length..]).state(SegmentId(2), outer);
        room[length] = STATE | FLAG_STACK;
        let records = &room[..length + 3];
        let mut decoder = Decoder::new(records, ThreadId(1), ChunkBase::default());
        let read = decoder.next();
        assert_eq!(read, Some(StreamRecord::Entered(SegmentId(2), inner)));
        assert_eq!(decoder.base().context, inner);
        let read = decoder.next();
        assert_eq!(read, Some(StreamRecord::State(SegmentId(2), outer)));
        // No other flag means anything.
        assert_eq!(decoder.next(), None);
        assert!(decoder.damaged());
    }

    #[test]
    fn an_interrupted_call_keeps_its_start() {
        let mut state = DeltaState {
            key: 500,
            address: 0,
        };
        let event = Event {
            address: 0x1000,
            size: 1,
            ..blank(1, 400, 650, EventKind::Alloc)
        };
        let mut room = [0; MAX_EVENT_BYTES];
        let mut bytes = Vec::new();
        let length = RecordWriter::new(&mut room).rewind(&mut state, 100);
        bytes.extend_from_slice(&room[..length]);
        let length = RecordWriter::new(&mut room).alloc(&mut state, &event);
        bytes.extend_from_slice(&room[..length]);
        let base = ChunkBase {
            key: 500,
            ..ChunkBase::default()
        };
        let mut decoder = Decoder::new(&bytes, ThreadId(1), base);
        assert_eq!(decoder.next(), Some(StreamRecord::Rewind));
        assert_eq!(decoder.next(), Some(StreamRecord::Event(event)));
    }

    #[test]
    fn a_clock_that_steps_back_stands_still() {
        let mut state = DeltaState {
            key: 500,
            address: 0,
        };
        let event = Event {
            address: 0x1000,
            size: 1,
            ..blank(1, 400, 450, EventKind::Alloc)
        };
        let mut room = [0; MAX_EVENT_BYTES];
        let length = RecordWriter::new(&mut room).alloc(&mut state, &event);
        let base = ChunkBase {
            key: 500,
            ..ChunkBase::default()
        };
        let Some(StreamRecord::Event(read)) =
            Decoder::new(&room[..length], ThreadId(1), base).next()
        else {
            panic!("one event")
        };
        assert_eq!((read.start, read.end), (500, 500));
    }
}
