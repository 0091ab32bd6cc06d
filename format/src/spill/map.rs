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
use std::sync::atomic::{AtomicU32, Ordering::Acquire};

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
        if file.metadata()?.len() != SPILL_BYTES as u64 {
            return Err(SpillError::NotASpill);
        }
        let map = memmap2::MmapOptions::new().len(SPILL_BYTES).map_raw(file)?;
        let spill = SpillMap { map };
        match spill.header().magic.load(Acquire).to_le_bytes() {
            SPILL_MAGIC => Ok(spill),
            [0, 0, 0, 0, 0, 0, 0, 0] => Err(SpillError::NotReady),
            _ => Err(SpillError::NotASpill),
        }
    }

    /// The header.
    pub fn header(&self) -> &Header {
        self.at(0)
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

    /// One buffer's state; `index` below [`BUFFER_COUNT`].
    pub fn state(&self, index: usize) -> &AtomicU32 {
        self.at(STATES_OFFSET + index * 4)
    }

    /// One buffer's header; `index` below [`BUFFER_COUNT`].
    pub fn buffer(&self, index: usize) -> &BufferHeader {
        self.at(BUFFERS_OFFSET + index * BUFFER_BYTES)
    }

    /// One block's header; `index` below [`BLOCK_COUNT`].
    pub fn block(&self, index: usize) -> &BlockHeader {
        self.at(BLOCKS_OFFSET + index * BLOCK_BYTES)
    }

    /// Copies committed records `from..to` of a buffer behind `out`.
    pub fn copy_records(&self, index: usize, from: usize, to: usize, out: &mut Vec<u8>) {
        let to = to.min(BUFFER_BYTES - BUFFER_DATA);
        self.copy(
            BUFFERS_OFFSET + index * BUFFER_BYTES + BUFFER_DATA,
            from.min(to),
            to,
            out,
        );
    }

    /// Copies committed definitions `from..to` of a block behind `out`.
    pub fn copy_definitions(&self, index: usize, from: usize, to: usize, out: &mut Vec<u8>) {
        let to = to.min(BLOCK_BYTES - BLOCK_DATA);
        self.copy(
            BLOCKS_OFFSET + index * BLOCK_BYTES + BLOCK_DATA,
            from.min(to),
            to,
            out,
        );
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
        assert!(offset + size_of::<T>() <= SPILL_BYTES && offset.is_multiple_of(align_of::<T>()));
        // SAFETY: the range lies in the mapping (asserted; the mapping has
        // SPILL_BYTES, set in `of_file`) and is aligned because the mapping
        // begins at a page. T is one of layout.rs's structs or AtomicU32: all
        // atomics, valid for any bits, and safe to share with other writers.
        unsafe { &*self.map.as_mut_ptr().add(offset).cast::<T>() }
    }

    fn copy(&self, area: usize, from: usize, to: usize, out: &mut Vec<u8>) {
        let length = to - from;
        assert!(area + to <= SPILL_BYTES);
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
