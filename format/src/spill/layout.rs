//! Where everything lies in a spill, as both sides see it.

use crate::header::{Ended, TraceId};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The first bytes of every spill; the digit is the layout's version.
pub const SPILL_MAGIC: [u8; 8] = *b"hrspill2";

/// Offset of the encoded file header.
pub const INFO_OFFSET: usize = 4096;
/// Room for the encoded file header.
pub const INFO_BYTES: usize = 256 << 10;
/// Offset of the threads' slots.
pub const SLOTS_OFFSET: usize = INFO_OFFSET + INFO_BYTES;
/// Threads that can record at the same time.
pub const SLOT_COUNT: usize = 4096;
/// Offset of the buffers' states, one word each.
pub const STATES_OFFSET: usize = SLOTS_OFFSET + SLOT_COUNT * size_of::<Slot>();
/// Most buffers of records that a spill may have: 256 MiB.
pub const MOST_BUFFERS: usize = 8 << 10;
/// Offset of the buffers.
pub const BUFFERS_OFFSET: usize = page_up(STATES_OFFSET + MOST_BUFFERS * 4);
/// Bytes of a buffer of records.
pub const BUFFER_BYTES: usize = 32 << 10;
/// Offset of a buffer's first record.
pub const BUFFER_DATA: usize = size_of::<BufferHeader>();
/// Bytes of a block of definitions.
pub const BLOCK_BYTES: usize = 8 << 10;
/// Most blocks of definitions that a spill may have: 1 GiB.
pub const MOST_BLOCKS: usize = 128 << 10;
/// Offset of a block's first definition.
pub const BLOCK_DATA: usize = size_of::<BlockHeader>();

/// How much a spill can hold. Pages that were never used cost no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Buffers of records.
    pub buffers: usize,
    /// Blocks of definitions, the backtrace table.
    pub blocks: usize,
}

impl Capacity {
    /// 64 MiB of records and 256 MiB of definitions.
    pub const USUAL: Capacity = Capacity::of_bytes(64 << 20, 256 << 20);
    /// A few threads can work with this much.
    pub const LEAST: Capacity = Capacity {
        buffers: 16,
        blocks: 16,
    };

    /// Room for so many bytes of records and definitions, within what is possible.
    pub const fn of_bytes(records: usize, definitions: usize) -> Capacity {
        Capacity {
            buffers: clamp(
                records / BUFFER_BYTES,
                Capacity::LEAST.buffers,
                MOST_BUFFERS,
            ),
            blocks: clamp(
                definitions / BLOCK_BYTES,
                Capacity::LEAST.blocks,
                MOST_BLOCKS,
            ),
        }
    }

    /// The same in a spill of at most `bytes`: what is above [`Capacity::LEAST`] is made
    /// smaller alike. `None` below that.
    pub fn within(self, bytes: usize) -> Option<Capacity> {
        let least = Self::LEAST;
        let room = bytes.checked_sub(least.bytes())? as u128;
        let wanted = self.bytes().saturating_sub(least.bytes()) as u128;
        if wanted <= room {
            return Some(self);
        }
        let part = |count: usize, least: usize| {
            least + (count.saturating_sub(least) as u128 * room / wanted) as usize
        };
        Some(Capacity {
            buffers: part(self.buffers, least.buffers),
            blocks: part(self.blocks, least.blocks),
        })
    }

    /// Bytes of the whole spill.
    pub const fn bytes(self) -> usize {
        self.block_offset(self.blocks)
    }

    /// Where a buffer of records begins.
    pub const fn buffer_offset(self, index: usize) -> usize {
        BUFFERS_OFFSET + index * BUFFER_BYTES
    }

    /// Where a block of definitions begins, behind the last buffer.
    pub const fn block_offset(self, index: usize) -> usize {
        self.buffer_offset(self.buffers) + index * BLOCK_BYTES
    }
}

const fn clamp(value: usize, least: usize, most: usize) -> usize {
    if value < least {
        least
    } else if value > most {
        most
    } else {
        value
    }
}

/// A buffer nobody uses.
pub const STATE_FREE: u32 = 0;
/// A buffer that a thread writes to.
pub const STATE_OWNED: u32 = 1;
/// A buffer that its thread has left for good.
pub const STATE_FULL: u32 = 2;

const fn page_up(offset: usize) -> usize {
    offset.div_ceil(4096) * 4096
}

/// The spill's first page.
#[repr(C, align(64))]
pub struct Header {
    /// [`SPILL_MAGIC`], written last when a spill is set up.
    pub magic: AtomicU64,
    /// The trace's id, in two halves, little-endian.
    pub id: [AtomicU64; 2],
    /// Process id of the program.
    pub pid: AtomicU32,
    /// Bytes of the encoded file header; published when it is whole.
    pub info_length: AtomicU32,
    /// How the program ended, as [`ended_word`]; 0 while it runs.
    pub ended: AtomicU64,
    /// How many buffers there are, see [`Capacity`].
    pub buffers: AtomicU32,
    /// How many blocks there are.
    pub blocks: AtomicU32,
    /// Blocks of definitions that were taken.
    pub blocks_used: AtomicU32,
    /// Buffers that were ever taken.
    pub buffers_used: AtomicU32,
    /// Slots that were ever taken.
    pub slots_used: AtomicU32,
    /// Threads that were ever met.
    pub threads: AtomicU32,
    /// Backtraces that were ever defined.
    pub stacks: AtomicU32,
    /// Counted up by the drain at each pass: somebody is there.
    pub heartbeat: AtomicU64,
    /// One more than the heartbeat at which a thread has waited in vain for an empty
    /// buffer: nobody waits again before the drain has moved.
    pub given_up: AtomicU64,
    /// Events lost by threads that got no slot.
    pub lost: AtomicU64,
    /// Backtraces cut to their call site because the table was full.
    pub stacks_cut: AtomicU64,
    /// Backtraces that were compared with a whole walk, where that was asked for.
    pub unwinds_checked: AtomicU64,
    /// How many of them were different.
    pub unwinds_differing: AtomicU64,
    /// A bit for each game loop that was marked; loops above 63 share the last.
    pub loops: AtomicU64,
    /// The drain could not write and drops what it takes.
    pub drain_failing: AtomicU32,
    /// Set by a drain that wants the program to stop recording.
    pub stop: AtomicU32,
    /// Contexts that were not entered because the table was full.
    pub contexts_cut: AtomicU64,
}

/// What one thread is doing. Two cache lines, written by that thread alone.
#[repr(C, align(128))]
pub struct Slot {
    /// 0 free, else the thread's number.
    pub thread: AtomicU32,
    /// The kernel's thread id.
    pub tid: AtomicU32,
    /// 0 outside a call; 1 inside one; else the start key of the release whose
    /// address stands beside it: the *in-flight slot*.
    pub busy: AtomicU64,
    /// The address that a release in flight gives back.
    pub address: AtomicU64,
    /// End of the last record published, in ticks.
    pub last_key: AtomicU64,
    /// Records of the main stream published in buffers that were left.
    pub records: AtomicU64,
    /// Events that could not be recorded.
    pub lost: AtomicU64,
    /// Ticks spent waiting for a free buffer.
    pub stalled: AtomicU64,
}

/// Precedes a block of definitions.
#[repr(C, align(8))]
pub struct BlockHeader {
    /// Bytes of whole definitions behind this header.
    pub committed: AtomicU32,
    /// How many definitions that is.
    pub count: AtomicU32,
}

/// Precedes a buffer of records.
#[repr(C, align(64))]
pub struct BufferHeader {
    /// Bytes and number of whole records behind this header, see [`commit_word`].
    pub commit: AtomicU64,
    /// Whose stream.
    pub thread: AtomicU32,
    /// 1 where it is the stream of signal handlers.
    pub nested: AtomicU32,
    /// Number of the first record in the stream.
    pub first_number: AtomicU64,
    /// What the first record's time is relative to.
    pub base_key: AtomicU64,
    /// What the first record's address is relative to.
    pub base_address: AtomicU64,
    /// Segment before the first record.
    pub segment: AtomicU32,
    /// Context before the first record.
    pub context: AtomicU32,
    /// Greatest end of a call in the buffer, set when it is left; else 0.
    pub last_key: AtomicU64,
    /// How many of the records are no events.
    pub others: AtomicU32,
    /// How many of those are frame marks.
    pub marks: AtomicU32,
}

const _: () = assert!(size_of::<Header>() <= 4096);
const _: () = assert!(size_of::<Slot>() == 128);
const _: () = assert!(size_of::<BufferHeader>() == 64);
const _: () = assert!(BUFFERS_OFFSET.is_multiple_of(4096));

/// Bytes and records as one word, so that one store publishes both.
#[inline(always)]
pub fn commit_word(bytes: usize, records: u32) -> u64 {
    bytes as u64 | u64::from(records) << 32
}

/// The inverse of [`commit_word`].
#[inline(always)]
pub fn split_commit(word: u64) -> (usize, u32) {
    (word as u32 as usize, (word >> 32) as u32)
}

/// How a program ended, as one word that is never 0.
pub fn ended_word(ended: Ended) -> u64 {
    let (kind, value) = match ended {
        Ended::Exit(status) => (1, status),
        Ended::Signal(number) => (2, number),
        Ended::Exec => (3, 0),
        Ended::Unknown => (4, 0),
        Ended::Stopped => (5, 0),
        Ended::RecorderLeft => (6, 0),
        Ended::Confined => (7, 0),
    };
    kind << 32 | u64::from(value as u32)
}

/// The inverse of [`ended_word`]; `None` for 0 and for words that mean nothing.
pub fn split_ended(word: u64) -> Option<Ended> {
    let value = word as u32 as i32;
    Some(match word >> 32 {
        1 => Ended::Exit(value),
        2 => Ended::Signal(value),
        3 => Ended::Exec,
        4 => Ended::Unknown,
        5 => Ended::Stopped,
        6 => Ended::RecorderLeft,
        7 => Ended::Confined,
        _ => return None,
    })
}

impl Header {
    /// The trace's id.
    pub fn trace_id(&self) -> TraceId {
        use std::sync::atomic::Ordering::Relaxed;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.id[0].load(Relaxed).to_le_bytes());
        id[8..].copy_from_slice(&self.id[1].load(Relaxed).to_le_bytes());
        TraceId(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spill_is_made_smaller_where_there_is_less_room() {
        let usual = Capacity::USUAL;
        assert_eq!((usual.buffers, usual.blocks), (2048, 32 << 10));
        assert_eq!(usual.within(usual.bytes()), Some(usual));
        let least = Capacity::LEAST;
        let half = (usual.bytes() + least.bytes()) / 2;
        let expected = Capacity {
            buffers: (2048 + 16) / 2,
            blocks: ((32 << 10) + 16) / 2,
        };
        assert_eq!(usual.within(half), Some(expected));
        assert_eq!(usual.within(least.bytes()), Some(least));
        assert_eq!(usual.within(least.bytes() - 1), None);
        for bytes in (0..8 << 20).step_by(77_777) {
            assert!(usual.within(bytes).is_none_or(|c| c.bytes() <= bytes));
        }
    }

    #[test]
    fn words_come_back() {
        for ended in [
            Ended::Exit(-1),
            Ended::Exit(0),
            Ended::Signal(9),
            Ended::Exec,
            Ended::Stopped,
            Ended::Confined,
        ] {
            assert_eq!(split_ended(ended_word(ended)), Some(ended));
        }
        assert_eq!(split_ended(0), None);
        assert_eq!(split_commit(commit_word(32 << 10, 7)), (32 << 10, 7));
    }
}
