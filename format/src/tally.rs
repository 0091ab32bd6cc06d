//! Counts records without decoding them.

use crate::codec::{
    ALLOC, ALLOC_ZEROED, DELETE, DELETE_ARRAY, FAILED_ALLOC, FAILED_REALLOC, FLAG_COST, FLAG_STACK,
    FLAG_USABLE, FREE, KIND_MASK, RARE, REALLOC, RELEASE, REWIND, RUST_DEALLOC, STATE,
};
use crate::definition::LoopId;
use crate::rare::Rare;
use crate::varint;
use std::collections::BTreeMap;

/// What a number of records were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Allocations, reallocations, deallocations, failed ones.
    pub events: u64,
    /// Frame marks of each loop.
    pub frame_marks: BTreeMap<LoopId, u64>,
    /// The latest end of a call that is known, in ticks.
    pub last_key: u64,
}

impl Tally {
    /// Game frames: what lies between two marks of the same loop.
    pub fn frames(&self) -> u64 {
        self.frame_marks.values().map(|n| n.saturating_sub(1)).sum()
    }

    /// Adds whole records as they lie in a buffer; stops where they make no sense.
    ///
    /// PERF: a third of what decoding takes, and the bytes are in the cache anyway.
    pub(crate) fn count(&mut self, records: &[u8]) {
        let mut at = 0;
        while let Some(tag) = records.get(at) {
            at += 1;
            let passed = match varints(*tag) {
                Some(count) => pass(records, &mut at, count),
                None if tag & KIND_MASK == RARE => self.rare(records, &mut at),
                None => None,
            };
            if passed.is_none() {
                return;
            }
            self.events += u64::from(is_event(*tag));
        }
    }

    fn rare(&mut self, records: &[u8], at: &mut usize) -> Option<()> {
        varint::read(records, at)?;
        let length = usize::try_from(varint::read(records, at)?).ok()?;
        let body = records.get(*at..at.checked_add(length)?)?;
        *at += length;
        if let Ok(Rare::FrameMark { id }) = postcard::from_bytes(body) {
            *self.frame_marks.entry(id).or_default() += 1;
        }
        Some(())
    }
}

fn is_event(tag: u8) -> bool {
    (ALLOC..=FAILED_REALLOC).contains(&(tag & KIND_MASK))
}

/// How many varints follow a tag; `None` for records that are more than varints.
#[inline]
fn varints(tag: u8) -> Option<u32> {
    let fixed = match tag & KIND_MASK {
        ALLOC | ALLOC_ZEROED => 5,
        REALLOC => 6,
        FREE | DELETE | DELETE_ARRAY | RUST_DEALLOC => 3,
        RELEASE => 4,
        FAILED_ALLOC => 4,
        FAILED_REALLOC => 5,
        STATE => return Some(2),
        REWIND => return Some(1),
        _ => return None,
    };
    let releases = FREE..=RELEASE;
    let stack = releases.contains(&(tag & KIND_MASK)) && tag & FLAG_STACK != 0;
    let usable = tag & KIND_MASK < FAILED_ALLOC && tag & FLAG_USABLE != 0;
    Some(fixed + u32::from(stack) + u32::from(usable) + u32::from(tag & FLAG_COST != 0))
}

/// Steps over `count` varints: each ends with its first byte below 0x80.
#[inline]
fn pass(records: &[u8], at: &mut usize, mut count: u32) -> Option<()> {
    while count > 0 {
        let byte = records.get(*at)?;
        *at += 1;
        count -= u32::from(*byte < 0x80);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{DeltaState, RecordWriter};
    use crate::event::{Entry, Event, EventKind};
    use crate::testing::blank;
    use crate::{Decoder, StackId, StreamRecord, ThreadId};
    use proptest::prelude::*;

    const KINDS: &[EventKind] = &[
        EventKind::Alloc,
        EventKind::AllocZeroed,
        EventKind::Realloc,
        EventKind::Dealloc,
        EventKind::FailedAlloc,
        EventKind::FailedRealloc,
    ];

    fn record(bytes: &mut Vec<u8>, write: impl FnOnce(RecordWriter<'_>) -> usize) {
        let mut room = [0; 512];
        let length = write(RecordWriter::new(&mut room));
        bytes.extend_from_slice(&room[..length]);
    }

    proptest! {
        #[test]
        fn a_tally_agrees_with_the_decoder(
            events in proptest::collection::vec((0usize..6, any::<u64>(), 0u64..1 << 40, 0u32..3, any::<bool>(), any::<bool>()), 0..60)
        ) {
            let mut bytes = Vec::new();
            let mut state = DeltaState::default();
            for (index, (kind, address, size, extra, free, mark)) in events.into_iter().enumerate() {
                let time = index as u64 * 100;
                let event = Event {
                    address,
                    old_address: address ^ 4096,
                    size,
                    usable: if extra > 0 { size } else { 0 },
                    cost: extra,
                    stack: StackId(if free { 7 } else { 0 }),
                    entry: if free { Entry::Free } else { Entry::Unknown },
                    ..blank(1, time, time + 50, KINDS[kind])
                };
                record(&mut bytes, |writer| writer.event(&mut state, &event));
                if mark {
                    let rare = Rare::FrameMark { id: LoopId(u16::from(free)) };
                    record(&mut bytes, |writer| writer.rare(&mut state, time + 60, &rare));
                }
            }
            let mut tally = Tally::default();
            tally.count(&bytes);
            let mut expected = Tally::default();
            let mut decoder = Decoder::new(&bytes, ThreadId(1), Default::default());
            while let Some(record) = decoder.next() {
                match record {
                    StreamRecord::Event(_) => expected.events += 1,
                    StreamRecord::Rare(_, Rare::FrameMark { id }) => {
                        *expected.frame_marks.entry(id).or_default() += 1;
                    }
                    _ => {}
                }
            }
            prop_assert_eq!(tally, expected);
        }

        #[test]
        fn foreign_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            Tally::default().count(&bytes);
        }
    }

    #[test]
    fn frames_lie_between_marks() {
        let mut tally = Tally::default();
        assert_eq!(tally.frames(), 0);
        tally.frame_marks.insert(LoopId(0), 1);
        tally.frame_marks.insert(LoopId(1), 5);
        assert_eq!(tally.frames(), 4);
    }
}
