//! A second, light look at a trace: only the chunks that overlap what is asked about.

use super::clock::Times;
use super::contexts::Contexts;
use super::recording::CostModel;
use super::sites::Sites;
use crate::replay::Dense;
use heapreel_format::{ChunkEntry, DecodedChunk, ReadError, Trace};

/// What such a look needs: the trace, and what resolves positions and ticks.
pub(crate) struct SecondLook<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) dense: &'a Dense,
    pub(crate) sites: &'a Sites,
    pub(crate) times: Times,
    pub(crate) cost: CostModel,
    pub(crate) contexts: &'a Contexts<'a>,
}

impl SecondLook<'_> {
    /// Decodes a chunk; false for a damaged one, which was counted where the whole trace
    /// was read.
    pub(crate) fn decode(
        &self,
        chunk: &ChunkEntry,
        into: &mut DecodedChunk,
    ) -> Result<bool, ReadError> {
        match self.trace.decode_into(chunk, into) {
            Ok(()) => Ok(true),
            Err(ReadError::ChunkDamaged { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether the chunk at this place may hold events from `start` to `end`. Its keys lie
    /// between the end of the record before its first, and the same of the next chunk; a
    /// call that a signal handler interrupted may begin earlier, by less than its own length.
    pub(crate) fn overlaps(&self, at: usize, start: u64, end: u64) -> bool {
        let chunks = self.trace.chunks();
        let header = &chunks[at].header;
        let follows = chunks.get(at + 1).filter(|next| {
            (next.header.thread, next.header.nested) == (header.thread, header.nested)
        });
        let last = follows.map_or(u64::MAX, |next| next.header.first_key);
        header.first_key <= end && last >= start
    }
}
