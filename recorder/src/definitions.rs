//! Publishes definitions: each thread appends to a block of its own in the spill.
//!
//! A definition is whole before the block's committed length covers it, and covered
//! before its number is used, so whoever meets the number can find the definition.
#![expect(unsafe_code, reason = "writes into the spill's blocks")]

use crate::spill::{Kept, Spill};
use heapreel_format::Definition;
use heapreel_format::kill_point::{KillPoint, reach};
use heapreel_format::spill::{BLOCK_BYTES, BLOCK_DATA, BlockHeader};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// The longest definition that is published, in bytes: a backtrace of 256 stack
/// frames takes about 1,300.
const MAX_DEFINITION_BYTES: usize = 4096;

/// One thread's place for definitions.
pub(crate) struct DefinitionWriter {
    block: Option<NonNull<BlockHeader>>,
    used: usize,
    scratch: [u8; MAX_DEFINITION_BYTES],
}

impl DefinitionWriter {
    /// Publishes a definition; false where it is too long or the table is full.
    pub(crate) fn publish(&mut self, spill: &Spill, definition: &Definition<'_>) -> bool {
        self.publish_within(spill, Kept::Nothing, definition)
    }

    /// The same, without a part of the table that is kept for others.
    pub(crate) fn publish_within(
        &mut self,
        spill: &Spill,
        kept: Kept,
        definition: &Definition<'_>,
    ) -> bool {
        // The length takes two bytes; the body is encoded behind them.
        let Ok(body) = postcard::to_slice(definition, &mut self.scratch[2..]) else {
            return false;
        };
        let length = body.len();
        self.scratch[0] = length as u8 | 0x80;
        self.scratch[1] = (length >> 7) as u8;
        self.append(spill, kept, length + 2)
    }

    fn append(&mut self, spill: &Spill, kept: Kept, length: usize) -> bool {
        if self.block.is_none() || self.used + length > BLOCK_BYTES - BLOCK_DATA {
            // What is left of the old block may still take something shorter.
            let Some(block) = spill.claim_block(kept) else {
                return false;
            };
            self.used = 0;
            self.block = Some(block);
        }
        let Some(block) = self.block else {
            return false;
        };
        // SAFETY: the block was claimed by this thread alone and `used + length`
        // stays within it; readers look only below `committed`.
        unsafe {
            let place = block.cast::<u8>().add(BLOCK_DATA + self.used);
            std::ptr::copy_nonoverlapping(self.scratch.as_ptr(), place.as_ptr(), length);
        }
        reach(KillPoint::DefinitionWritten);
        self.used += length;
        // SAFETY: a BlockHeader is all atomics; the mapping stays.
        let header = unsafe { block.as_ref() };
        header.count.fetch_add(1, Relaxed);
        header.committed.store(self.used as u32, Release);
        reach(KillPoint::DefinitionCommitted);
        true
    }
}
