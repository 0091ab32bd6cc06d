//! Chunks: self-contained pieces of a trace, each with its own header and checksums.
//!
//! ```text
//!  0  magic         u32  "HRCK"
//!  4  kind          u8   ChunkKind
//!  5  codec         u8   0 as it is, 1 LZ4 block
//!  6  flags         u16  bit 0: nested stream (events); the others are 0
//!  8  stored        u32  bytes of the payload that follows
//! 12  raw           u32  its bytes once unpacked
//! 16  thread        u32  ThreadId (events), else 0
//! 20  count         u32  records (events) or values in it
//! 24  first_number  u64  number of its first record in the thread's stream
//! 32  first_key     u64  base time of its first record; a watermark's key
//! 40  last_key      u64  greatest key in it, 0 where not known
//! 48  reserved      u64  0
//! 56  payload_crc   u32  CRC-32C of the stored payload
//! 60  header_crc    u32  CRC-32C of the 60 bytes before
//! ```

use crate::definition::{ContextId, SegmentId, ThreadId};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Bytes of a chunk's header.
pub const CHUNK_HEADER_BYTES: usize = 64;

pub(crate) const CHUNK_MAGIC: [u8; 4] = *b"HRCK";

/// No chunk unpacks to more: bounds what a stranger's length can cost.
pub(crate) const MAX_RAW_BYTES: u32 = 16 << 20;

const NESTED: u16 = 1;

/// What a chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum ChunkKind {
    /// A [`ChunkBase`], then records of one thread's stream.
    Events = 1,
    /// [`Definition`](crate::Definition) values, each behind its length as varint.
    Definitions = 2,
    /// Nothing; no later events chunk holds a key before `first_key`.
    Watermark = 3,
    /// A [`SymbolTable`](crate::SymbolTable).
    Symbols = 4,
    /// How the recording ended: an [`Ended`](crate::Ended).
    End = 5,
    /// Live blocks where a trace begins in the middle: a list of [`LiveBlock`](crate::LiveBlock).
    Snapshot = 6,
    /// Offsets of all chunks that are not events: a list of `u64`. May be missing.
    Index = 7,
}

impl ChunkKind {
    fn from_number(number: u8) -> Option<ChunkKind> {
        Some(match number {
            1 => ChunkKind::Events,
            2 => ChunkKind::Definitions,
            3 => ChunkKind::Watermark,
            4 => ChunkKind::Symbols,
            5 => ChunkKind::End,
            6 => ChunkKind::Snapshot,
            7 => ChunkKind::Index,
            _ => return None,
        })
    }
}

/// How a payload is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Codec {
    /// As it is.
    Plain = 0,
    /// One LZ4 block without a size before it.
    Lz4 = 1,
}

/// A chunk's header, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// What the chunk holds.
    pub kind: ChunkKind,
    /// How its payload is packed.
    pub codec: Codec,
    /// It belongs to the stream that signal handlers wrote while the recorder ran.
    pub nested: bool,
    /// Bytes of the payload in the file.
    pub stored: u32,
    /// Bytes of the payload once unpacked.
    pub raw: u32,
    /// Whose stream, for events.
    pub thread: ThreadId,
    /// Records or values in it.
    pub count: u32,
    /// Number of its first record in the stream.
    pub first_number: u64,
    /// Base time of its first record, in ticks; a watermark's key.
    pub first_key: u64,
    /// Greatest key in it, in ticks; 0 where not known.
    pub last_key: u64,
    /// CRC-32C of the stored payload.
    pub payload_crc: u32,
}

impl ChunkHeader {
    /// A header for a payload that is still to come.
    pub fn new(kind: ChunkKind) -> ChunkHeader {
        ChunkHeader {
            kind,
            codec: Codec::Plain,
            nested: false,
            stored: 0,
            raw: 0,
            thread: ThreadId(0),
            count: 0,
            first_number: 0,
            first_key: 0,
            last_key: 0,
            payload_crc: 0,
        }
    }

    /// The header's bytes, checksum included.
    pub fn to_bytes(&self) -> [u8; CHUNK_HEADER_BYTES] {
        let mut bytes = [0u8; CHUNK_HEADER_BYTES];
        bytes[0..4].copy_from_slice(&CHUNK_MAGIC);
        bytes[4] = self.kind as u8;
        bytes[5] = self.codec as u8;
        bytes[6..8].copy_from_slice(&(if self.nested { NESTED } else { 0 }).to_le_bytes());
        bytes[8..12].copy_from_slice(&self.stored.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.raw.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.thread.0.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.count.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first_number.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.first_key.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.last_key.to_le_bytes());
        bytes[56..60].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a header; `None` where the bytes are not one, or not one of this version.
    pub fn from_bytes(bytes: &[u8; CHUNK_HEADER_BYTES]) -> Option<ChunkHeader> {
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let flags = u16::from_le_bytes([bytes[6], bytes[7]]);
        if bytes[0..4] != CHUNK_MAGIC || u32_at(60) != crc32c::crc32c(&bytes[..60]) {
            return None;
        }
        if flags & !NESTED != 0 || u64_at(48) != 0 {
            return None;
        }
        let codec = match bytes[5] {
            0 => Codec::Plain,
            1 => Codec::Lz4,
            _ => return None,
        };
        let header = ChunkHeader {
            kind: ChunkKind::from_number(bytes[4])?,
            codec,
            nested: flags & NESTED != 0,
            stored: u32_at(8),
            raw: u32_at(12),
            thread: ThreadId(u32_at(16)),
            count: u32_at(20),
            first_number: u64_at(24),
            first_key: u64_at(32),
            last_key: u64_at(40),
            payload_crc: u32_at(56),
        };
        header.plausible().then_some(header)
    }

    /// LZ4 packs at most 255 to 1; a record takes at least two bytes.
    fn plausible(&self) -> bool {
        let fits = match self.codec {
            Codec::Plain => self.raw == self.stored,
            Codec::Lz4 => u64::from(self.raw) <= u64::from(self.stored) * 255 + 64,
        };
        fits && self.raw <= MAX_RAW_BYTES && self.count <= self.raw.max(1)
    }
}

/// What the first record of an events chunk is relative to; precedes the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkBase {
    /// End of the record before, in ticks.
    pub key: u64,
    /// Address of the record before.
    pub address: u64,
    /// The current segment.
    pub segment: SegmentId,
    /// The current context.
    pub context: ContextId,
}

/// A chunk as it is written: header, then payload, packed where that is asked for and
/// saves space. The saved bytes are returned.
///
/// `header.stored`, `raw`, `codec` and the checksum are filled in here.
pub(crate) fn pack(
    mut header: ChunkHeader,
    payload: &[u8],
    try_to_pack: bool,
    out: &mut Vec<u8>,
) -> usize {
    let start = out.len();
    out.resize(start + CHUNK_HEADER_BYTES, 0);
    header.raw = payload.len() as u32;
    let body = out.len();
    header.codec = Codec::Plain;
    if try_to_pack {
        let room = lz4_flex::block::get_maximum_output_size(payload.len());
        out.resize(body + room, 0);
        let packed =
            lz4_flex::block::compress_into(payload, &mut out[body..]).unwrap_or(usize::MAX);
        // A saving below 1/16 is not worth unpacking for.
        if packed < payload.len() - payload.len() / 16 {
            header.codec = Codec::Lz4;
            out.truncate(body + packed);
        } else {
            out.truncate(body);
        }
    }
    if header.codec == Codec::Plain {
        out.extend_from_slice(payload);
    }
    header.stored = (out.len() - body) as u32;
    header.payload_crc = crc32c::crc32c(&out[body..]);
    out[start..body].copy_from_slice(&header.to_bytes());
    payload.len() - (out.len() - body)
}

/// Checks and unpacks a payload; `None` where it is damaged.
pub(crate) fn unpack<'a>(header: &ChunkHeader, stored: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    if stored.len() != header.stored as usize || crc32c::crc32c(stored) != header.payload_crc {
        return None;
    }
    match header.codec {
        Codec::Plain => Some(Cow::Borrowed(stored)),
        Codec::Lz4 => {
            let raw = lz4_flex::block::decompress(stored, header.raw as usize).ok()?;
            (raw.len() == header.raw as usize).then_some(Cow::Owned(raw))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_packed_comes_back(payload in proptest::collection::vec(0u8..4, 0..5000), number: u64, key: u64) {
            let mut header = ChunkHeader::new(ChunkKind::Events);
            header.first_number = number;
            header.first_key = key;
            let mut bytes = Vec::new();
            pack(header, &payload, true, &mut bytes);
            let read = ChunkHeader::from_bytes(bytes[..64].try_into().unwrap()).unwrap();
            prop_assert_eq!(read.first_number, number);
            prop_assert_eq!(read.first_key, key);
            let unpacked = unpack(&read, &bytes[64..]).unwrap();
            prop_assert_eq!(unpacked.as_ref(), payload.as_slice());
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let mut bytes = Vec::new();
        pack(
            ChunkHeader::new(ChunkKind::Definitions),
            &[7; 300],
            true,
            &mut bytes,
        );
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let header = ChunkHeader::from_bytes(bad[..64].try_into().unwrap());
            let payload = header.and_then(|h| unpack(&h, &bad[64..]).map(|p| p.into_owned()));
            assert_eq!(payload, None, "bit {bit}");
        }
    }
}
