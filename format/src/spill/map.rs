//! A spill mapped into this process.
#![expect(
    unsafe_code,
    reason = "the one module that turns offsets of a mapping into references"
)]

use super::layout::*;
use crate::header::FileHeader;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// The largest spill there can be.
const MOST: Capacity = Capacity {
    buffers: MOST_BUFFERS,
    blocks: MOST_BLOCKS,
};

/// Why a file is no usable spill.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpillError {
    /// The operating system refused.
    #[error("cannot be mapped: {0}")]
    Io(#[from] io::Error),
    /// Another size or magic than a spill of this version.
    #[error("is no spill of this version of heapreel")]
    NotASpill,
    /// The program has not finished setting it up.
    #[error("is not set up yet")]
    NotReady,
}

/// A spill in this process's address space, unmapped when dropped.
///
/// Every part is made of atomics or read by copying, so a program that writes at
/// the same time is no data race.
pub struct SpillMap {
    map: memmap2::MmapRaw,
    capacity: Capacity,
}

impl SpillMap {
    /// Maps the spill at `path` for reading and draining.
    ///
    /// # Errors
    ///
    /// See [`SpillError`]; a spill is ready once its magic stands.
    pub fn open(path: &Path) -> Result<SpillMap, SpillError> {
        let file = File::options().read(true).write(true).open(path)?;
        SpillMap::of_file(&file)
    }

    /// Maps an open spill.
    ///
    /// # Errors
    ///
    /// As [`SpillMap::open`].
    pub fn of_file(file: &File) -> Result<SpillMap, SpillError> {
        let length = file.metadata()?.len();
        let possible = Capacity::LEAST.bytes() as u64..=MOST.bytes() as u64;
        if !possible.contains(&length) {
            return Err(SpillError::NotASpill);
        }
        let map = memmap2::MmapOptions::new()
            .len(length as usize)
            .map_raw(file)?;
        let mut spill = SpillMap {
            map,
            capacity: Capacity::LEAST,
        };
        match spill.header().magic.load(Acquire).to_le_bytes() {
            SPILL_MAGIC => {}
            [0, 0, 0, 0, 0, 0, 0, 0] => return Err(SpillError::NotReady),
            _ => return Err(SpillError::NotASpill),
        }
        spill.capacity = Capacity {
            buffers: (spill.header().buffers.load(Relaxed) as usize).min(MOST_BUFFERS),
            blocks: (spill.header().blocks.load(Relaxed) as usize).min(MOST_BLOCKS),
        };
        // The counts are the program's word; the file's length is the kernel's.
        if spill.capacity.bytes() as u64 != length {
            return Err(SpillError::NotASpill);
        }
        Ok(spill)
    }

    /// The header.
    pub fn header(&self) -> &Header {
        self.at(0)
    }

    /// Buffers that were ever taken; the others have no memory yet.
    pub fn buffers_used(&self) -> usize {
        (self.header().buffers_used.load(Acquire) as usize).min(self.capacity.buffers)
    }

    /// Blocks that were ever taken; the others have no memory yet.
    pub fn blocks_used(&self) -> usize {
        (self.header().blocks_used.load(Acquire) as usize).min(self.capacity.blocks)
    }

    /// Slots that were ever taken; all others are empty.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        let used = (self.header().slots_used.load(Acquire) as usize).min(SLOT_COUNT);
        (0..used).map(|index| self.slot(index))
    }

    /// One thread's slot; `index` below [`SLOT_COUNT`].
    pub fn slot(&self, index: usize) -> &Slot {
        self.at(SLOTS_OFFSET + index * size_of::<Slot>())
    }

    /// One buffer's state; `index` below [`SpillMap::buffers_used`].
    pub fn state(&self, index: usize) -> &AtomicU32 {
        self.at(STATES_OFFSET + index * 4)
    }

    /// One buffer's header; `index` below [`SpillMap::buffers_used`].
    pub fn buffer(&self, index: usize) -> &BufferHeader {
        self.at(self.capacity.buffer_offset(index))
    }

    /// One block's header; `index` below [`SpillMap::blocks_used`].
    pub fn block(&self, index: usize) -> &BlockHeader {
        self.at(self.capacity.block_offset(index))
    }

    /// Copies committed records `from..to` of a buffer behind `out`.
    pub fn copy_records(&self, index: usize, from: usize, to: usize, out: &mut Vec<u8>) {
        let to = to.min(BUFFER_BYTES - BUFFER_DATA);
        self.copy(
            self.capacity.buffer_offset(index) + BUFFER_DATA,
            from.min(to),
            to,
            out,
        );
    }

    /// Copies committed definitions `from..to` of a block behind `out`.
    pub fn copy_definitions(&self, index: usize, from: usize, to: usize, out: &mut Vec<u8>) {
        let to = to.min(BLOCK_BYTES - BLOCK_DATA);
        self.copy(
            self.capacity.block_offset(index) + BLOCK_DATA,
            from.min(to),
            to,
            out,
        );
    }

    /// Adds definitions, each behind its length as varint, in a block of their own; false
    /// where they do not fit or no block is left.
    pub(super) fn append_definitions(&self, encoded: &[u8]) -> bool {
        if encoded.len() > BLOCK_BYTES - BLOCK_DATA {
            return false;
        }
        loop {
            let index = self.blocks_used();
            let place = self.capacity.block_offset(index);
            if index >= self.capacity.blocks || !self.provide(place, BLOCK_BYTES) {
                return false;
            }
            let (now, next) = (index as u32, index as u32 + 1);
            let used = &self.header().blocks_used;
            if used.compare_exchange(now, next, AcqRel, Relaxed).is_err() {
                continue;
            }
            // SAFETY: the block was taken by this call alone, lies in the mapping, and
            // has room (checked); readers look only below `committed`.
            unsafe {
                let place = self.map.as_mut_ptr().add(place + BLOCK_DATA);
                std::ptr::copy_nonoverlapping(encoded.as_ptr(), place, encoded.len());
            }
            let committed = &self.block(index).committed;
            committed.store(encoded.len() as u32, Release);
            return true;
        }
    }

    /// Has the kernel provide pages before they are stored to.
    #[cfg(target_os = "linux")]
    fn provide(&self, offset: usize, bytes: usize) -> bool {
        let advice = memmap2::Advice::PopulateWrite;
        // Refused by kernels before 5.14, which do not know the advice: then nothing is stored.
        self.map.advise_range(advice, offset, bytes).is_ok()
    }

    /// Other systems provide memory when it is mapped.
    #[cfg(not(target_os = "linux"))]
    fn provide(&self, _offset: usize, _bytes: usize) -> bool {
        true
    }

    /// The trace's file header, as the program left it.
    ///
    /// # Errors
    ///
    /// [`SpillError::NotReady`] until it is whole, [`SpillError::NotASpill`] where it makes no sense.
    pub fn info(&self) -> Result<FileHeader, SpillError> {
        let length = self.header().info_length.load(Acquire) as usize;
        if length == 0 {
            return Err(SpillError::NotReady);
        }
        let mut bytes = Vec::new();
        self.copy(INFO_OFFSET, 0, length.min(INFO_BYTES), &mut bytes);
        postcard::from_bytes(&bytes).map_err(|_| SpillError::NotASpill)
    }

    fn at<T>(&self, offset: usize) -> &T {
        assert!(
            offset + size_of::<T>() <= self.map.len() && offset.is_multiple_of(align_of::<T>())
        );
        // SAFETY: the range lies in the mapping (asserted) and is aligned because the mapping
        // begins at a page. T is one of layout.rs's structs or AtomicU32: all
        // atomics, valid for any bits, and safe to share with other writers.
        unsafe { &*self.map.as_mut_ptr().add(offset).cast::<T>() }
    }

    fn copy(&self, area: usize, from: usize, to: usize, out: &mut Vec<u8>) {
        let length = to - from;
        assert!(area + to <= self.map.len());
        out.reserve(length);
        // SAFETY: source range within the mapping (asserted), destination just
        // reserved. Bytes below a commit that was loaded with Acquire are never
        // stored to again until the drain itself recycles them, so this copy
        // races with nobody; a hostile writer can only make the bytes wrong.
        unsafe {
            let source = self.map.as_mut_ptr().add(area + from);
            std::ptr::copy_nonoverlapping(source, out.as_mut_ptr().add(out.len()), length);
            out.set_len(out.len() + length);
        }
    }
}
