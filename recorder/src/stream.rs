//! A thread's stream of records: writes them into buffers of the spill.
//!
//! A record counts once the buffer's commit word covers it; the word is stored with
//! Release after the record's bytes. Delta state moves only after that store, so a
//! record given up half way leaves no trace.
#![expect(unsafe_code, reason = "writes into the spill's buffers")]

use crate::os::process;
use crate::spill::Spill;
use heapreel_format::kill_point::{KillPoint, reach};
use heapreel_format::spill::{
    BUFFER_BYTES, BUFFER_DATA, BufferHeader, Header, Slot, commit_word, split_commit,
};
use heapreel_format::{
    ContextId, DeltaState, Event, EventKind, MAX_EVENT_BYTES, Rare, RecordWriter, SegmentId,
};
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, Release},
};

/// Room that is kept for one event with a state change and a rewind before it.
const ROOM: usize = MAX_EVENT_BYTES + 48;
/// How long a thread waits for the drain, in naps of [`NAP_MICROS`], before it
/// counts its events as lost: one second.
const NAPS: u32 = 5_000;
const NAP_MICROS: u32 = 200;

/// The segment and context in which a thread works.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) segment: SegmentId,
    pub(crate) context: ContextId,
}

#[derive(Default)]
/// One stream: the thread's own, or the one of its signal handlers.
pub(crate) struct Stream {
    buffer: Option<NonNull<BufferHeader>>,
    index: usize,
    used: usize,
    count: u32,
    number: u64,
    state: DeltaState,
    place: Place,
}

impl Stream {
    /// Publishes an event; false where it was lost.
    #[inline(always)]
    pub(crate) fn event(&mut self, owner: &Owner<'_>, place: Place, event: &Event) -> bool {
        let Some(room) = self.room(owner, ROOM) else {
            return false;
        };
        if place != self.place || event.start < self.state.key {
            return self.event_behind(room, place, *event);
        }
        // PERF: a copy of its own, so that it can stay in registers.
        let mut state = DeltaState {
            key: self.state.key,
            address: self.state.address,
        };
        let writer = RecordWriter::new(room);
        let length = match event.kind {
            EventKind::Alloc | EventKind::AllocZeroed => writer.alloc(&mut state, event),
            EventKind::Dealloc => writer.dealloc(&mut state, event),
            _ => return self.event_behind(room, place, *event),
        };
        self.commit(length, 1);
        self.state.key = state.key;
        self.state.address = state.address;
        true
    }

    /// The same for any event, behind the change of place or time that it needs.
    #[inline(never)]
    fn event_behind(&mut self, room: &mut [u8], place: Place, event: Event) -> bool {
        let mut state = self.state;
        let (mut length, mut others) = (0, 0);
        if place != self.place {
            length = RecordWriter::new(room).state(place.segment, place.context);
            others = 1;
        }
        if event.start < state.key {
            let back = state.key - event.start;
            length += RecordWriter::new(behind(room, length)).rewind(&mut state, back);
            others += 1;
        }
        length += RecordWriter::new(behind(room, length)).event(&mut state, &event);
        self.count_others(others, 0);
        self.commit(length, others + 1);
        self.state = state;
        self.place = place;
        true
    }

    /// Publishes that the context of `place` was entered.
    #[inline(always)]
    pub(crate) fn enter(&mut self, owner: &Owner<'_>, place: Place) {
        if let Some(room) = self.room(owner, ROOM) {
            let length = RecordWriter::new(room).entered(place.segment, place.context);
            self.count_others(1, 0);
            self.commit(length, 1);
            self.place = place;
        }
    }

    /// Publishes a rare record; false where it was lost.
    pub(crate) fn rare(&mut self, owner: &Owner<'_>, key: u64, rare: &Rare) -> bool {
        let Some(room) = self.room(owner, ROOM + 128) else {
            return false;
        };
        let mut state = self.state;
        let length = RecordWriter::new(room).rare(&mut state, key, rare);
        if length == 0 {
            return false;
        }
        self.count_others(1, u32::from(matches!(rare, Rare::FrameMark { .. })));
        self.commit(length, 1);
        self.state = state;
        true
    }

    /// Counts records that are no events, and the frame marks among them.
    fn count_others(&mut self, others: u32, marks: u32) {
        if let Some(buffer) = self.buffer {
            // SAFETY: see `commit`.
            let header = unsafe { buffer.as_ref() };
            // No atomic addition: only this stream stores here.
            let count = |word: &AtomicU32, more: u32| {
                word.store(word.load(Relaxed).wrapping_add(more), Relaxed);
            };
            count(&header.others, others);
            count(&header.marks, marks);
        }
    }

    #[inline(always)]
    fn commit(&mut self, length: usize, records: u32) {
        self.used += length;
        self.count += records;
        if let Some(buffer) = self.buffer {
            // SAFETY: a BufferHeader is all atomics; the mapping stays.
            let header = unsafe { buffer.as_ref() };
            // Release: whoever loads this word sees the record's bytes.
            header
                .commit
                .store(commit_word(self.used, self.count), Release);
        }
    }

    #[inline(always)]
    fn room(&mut self, owner: &Owner<'_>, bytes: usize) -> Option<&'static mut [u8]> {
        if (self.buffer.is_none() || self.used + bytes > BUFFER_BYTES - BUFFER_DATA)
            && !self.next_buffer(owner)
        {
            return None;
        }
        let place = self.buffer?.cast::<u8>();
        // SAFETY: this stream owns the buffer; `used + bytes` lies within it (just
        // checked), and nobody reads beyond the committed length.
        Some(unsafe {
            std::slice::from_raw_parts_mut(place.add(BUFFER_DATA + self.used).as_ptr(), bytes)
        })
    }

    /// Leaves the current buffer to the drain, and claims another one.
    #[cold]
    fn next_buffer(&mut self, owner: &Owner<'_>) -> bool {
        self.leave(owner);
        if owner.spill.header().stop.load(Relaxed) != 0 {
            // Whoever drains wants no more.
            crate::switch::set(crate::switch::OFF);
            return false;
        }
        let Some(index) = claim(owner) else {
            return false;
        };
        let buffer = owner.spill.buffer(index);
        // SAFETY: claimed by this thread; all fields are atomics.
        let header = unsafe { buffer.as_ref() };
        reach(KillPoint::BufferClaimed);
        header.thread.store(owner.thread, Relaxed);
        header.nested.store(u32::from(owner.nested), Relaxed);
        reach(KillPoint::BufferThread);
        header.first_number.store(self.number, Relaxed);
        reach(KillPoint::BufferNumber);
        header.base_key.store(self.state.key, Relaxed);
        header.base_address.store(self.state.address, Relaxed);
        header
            .segment
            .store(u32::from(self.place.segment.0), Relaxed);
        header.context.store(self.place.context.0, Relaxed);
        header.last_key.store(0, Relaxed);
        header.others.store(0, Relaxed);
        header.marks.store(0, Relaxed);
        reach(KillPoint::BufferReady);
        self.buffer = Some(buffer);
        self.index = index;
        true
    }

    /// Hands the current buffer to the drain, if there is one.
    ///
    /// What counts is what was committed: a record that a jump out of a handler cut
    /// short may have been counted here already.
    pub(crate) fn leave(&mut self, owner: &Owner<'_>) {
        if let Some(buffer) = self.buffer.take() {
            reach(KillPoint::BufferLeaving);
            // SAFETY: still this thread's; all fields are atomics.
            let header = unsafe { buffer.as_ref() };
            header.last_key.store(self.state.key, Relaxed);
            reach(KillPoint::BufferLastKey);
            let (_, records) = split_commit(header.commit.load(Relaxed));
            self.number += u64::from(records);
            owner.spill.leave_buffer(self.index);
            reach(KillPoint::BufferLeft);
        }
        self.used = 0;
        self.count = 0;
    }
}

/// The room behind what was written; never panics, unlike an index.
#[inline(always)]
fn behind(room: &mut [u8], length: usize) -> &mut [u8] {
    room.get_mut(length..).unwrap_or(&mut [])
}

/// Whose stream it is.
pub(crate) struct Owner<'a> {
    pub(crate) spill: &'a Spill,
    pub(crate) slot: &'a Slot,
    pub(crate) thread: u32,
    pub(crate) nested: bool,
}

/// An empty buffer; waits for the drain as long as it moves, at most a second in
/// all, and never in a signal handler's stream. Who has waited in vain waits for all:
/// while the drain stands still, nobody does so again.
fn claim(owner: &Owner<'_>) -> Option<usize> {
    let header = owner.spill.header();
    if has_given_up(header) {
        return None;
    }
    if let Some(index) = owner.spill.claim_buffer() {
        return Some(index);
    }
    if owner.nested {
        return None;
    }
    let before = crate::os::clock::end();
    let claimed = wait_for_buffer(owner);
    owner
        .slot
        .stalled
        .fetch_add(crate::os::clock::end() - before, Relaxed);
    claimed
}

fn wait_for_buffer(owner: &Owner<'_>) -> Option<usize> {
    let header = owner.spill.header();
    let heartbeat = header.heartbeat.load(Relaxed);
    for nap in 0..NAPS {
        if !owner.spill.has_full_buffers() {
            // None will become empty, unless the drain has just been here.
            return owner.spill.claim_buffer();
        }
        process::nap(NAP_MICROS);
        let claimed = owner.spill.claim_buffer();
        if claimed.is_some() || has_given_up(header) {
            return claimed;
        }
        let stands_still = header.heartbeat.load(Relaxed) == heartbeat;
        if nap > NAPS / 4 && stands_still {
            break;
        }
    }
    give_up(header);
    None
}

/// Nobody waits again before the drain's next pass.
fn give_up(header: &Header) {
    let heartbeat = header.heartbeat.load(Relaxed);
    header.given_up.store(heartbeat + 1, Relaxed);
}

fn has_given_up(header: &Header) -> bool {
    header.given_up.load(Relaxed) == header.heartbeat.load(Relaxed) + 1
}
