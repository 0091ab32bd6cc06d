//! One stream's records that are kept.

use crate::chunk::ChunkBase;
use crate::codec::{Decoder, StreamRecord};
use crate::definition::{StackId, ThreadId};
use crate::event::EventKind;
use crate::rare::Rare;
use std::collections::{HashSet, VecDeque};

/// Records that follow one another.
pub(super) struct Piece {
    pub(super) base: ChunkBase,
    pub(super) count: u32,
    pub(super) records: Vec<u8>,
}

/// Records as they go into a chunk: base, number, bytes.
pub(super) type Records = (ChunkBase, u32, Vec<u8>);

#[derive(Default)]
pub(super) struct Stream {
    pieces: VecDeque<Piece>,
    bytes: u64,
}

impl Stream {
    pub(super) fn push(&mut self, piece: Piece) {
        self.bytes += piece.records.len() as u64;
        self.pieces.push_back(piece);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The key that the last piece begins at.
    pub(super) fn last_base(&self) -> Option<u64> {
        self.pieces.back().map(|piece| piece.base.key)
    }

    /// Takes the records in front of the first one with `key` or a later key.
    pub(super) fn take_before(
        &mut self,
        key: u64,
        thread: ThreadId,
        mut taken: impl FnMut(StreamRecord),
    ) {
        while let Some(piece) = self.pieces.front_mut() {
            let cut = split(piece, thread, |it| it < key, &mut taken);
            self.bytes -= cut.bytes as u64;
            if cut.bytes < piece.records.len() {
                piece.records.drain(..cut.bytes);
                piece.count -= cut.count;
                piece.base = cut.base;
                return;
            }
            self.pieces.pop_front();
        }
    }

    /// The start of a reallocation that has begun before `key` and has not ended before it.
    pub(super) fn straddling(&self, key: u64, thread: ThreadId) -> Option<u64> {
        for piece in &self.pieces {
            let mut decoder = Decoder::new(&piece.records, thread, piece.base);
            while let Some(record) = decoder.next() {
                if key_of(&record).is_some_and(|it| it >= key) {
                    return match record {
                        StreamRecord::Event(event)
                            if event.kind == EventKind::Realloc && event.start < key =>
                        {
                            Some(event.start)
                        }
                        _ => None,
                    };
                }
            }
        }
        None
    }

    /// The records up to the last one that is not behind `end`; their backtraces are added
    /// to `needed`.
    pub(super) fn until(
        &self,
        end: u64,
        thread: ThreadId,
        needed: &mut HashSet<StackId>,
    ) -> Vec<Records> {
        let mut all = Vec::new();
        for piece in &self.pieces {
            let cut = split(piece, thread, |it| it <= end, &mut |record| {
                needed.extend(stack_of(&record));
            });
            if cut.count > 0 {
                all.push((piece.base, cut.count, piece.records[..cut.bytes].to_vec()));
            }
            if cut.bytes < piece.records.len() {
                break;
            }
        }
        all
    }
}

/// Where a piece is cut.
struct Cut {
    bytes: usize,
    count: u32,
    base: ChunkBase,
}

/// Finds the first record whose key is not `wanted`, and shows those before it.
fn split(
    piece: &Piece,
    thread: ThreadId,
    wanted: impl Fn(u64) -> bool,
    shown: &mut impl FnMut(StreamRecord),
) -> Cut {
    let mut decoder = Decoder::new(&piece.records, thread, piece.base);
    let mut count = 0;
    loop {
        let (bytes, base) = (decoder.position(), decoder.base());
        let cut = Cut { bytes, count, base };
        let Some(record) = decoder.next() else {
            return cut;
        };
        if key_of(&record).is_some_and(|key| !wanted(key)) {
            return cut;
        }
        shown(record);
        count += 1;
    }
}

fn key_of(record: &StreamRecord) -> Option<u64> {
    match record {
        StreamRecord::Event(event) => Some(event.key()),
        StreamRecord::Rare(key, _) => Some(*key),
        StreamRecord::State(..) | StreamRecord::Entered(..) | StreamRecord::Rewind => None,
    }
}

fn stack_of(record: &StreamRecord) -> Option<StackId> {
    match record {
        StreamRecord::Event(event) => Some(event.stack),
        StreamRecord::Rare(_, Rare::HeapAlloc { stack, .. } | Rare::HeapRealloc { stack, .. }) => {
            Some(*stack)
        }
        StreamRecord::Rare(..)
        | StreamRecord::State(..)
        | StreamRecord::Entered(..)
        | StreamRecord::Rewind => None,
    }
}
