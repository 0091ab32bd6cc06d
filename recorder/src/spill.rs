//! This process's end of the spill: creates it, claims buffers, blocks and slots.
//!
//! Layout and meaning are [`heapreel_format::spill`]'s; this side stores.
#![expect(unsafe_code, reason = "turns offsets of the mapping into references")]

use crate::os::{limits, memory};
use heapreel_format::spill::{
    BLOCK_BYTES, BUFFER_BYTES, BlockHeader, BufferHeader, Capacity, Header, INFO_BYTES,
    INFO_OFFSET, SLOT_COUNT, SLOTS_OFFSET, SPILL_MAGIC, STATE_FREE, STATE_FULL, STATE_OWNED,
    STATES_OFFSET, Slot,
};
use heapreel_format::{FileHeader, TraceId};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// A mapped spill. Never unmapped: late threads may still store to it.
#[derive(Clone, Copy)]
pub(crate) struct Spill {
    base: NonNull<u8>,
}

// SAFETY: the mapping lives as long as the process and everything in it is atomic,
// or written by one thread before it is published.
unsafe impl Send for Spill {}
// SAFETY: as above.
unsafe impl Sync for Spill {}

impl Spill {
    /// Creates a spill of this capacity at `path` and maps it; `header.spill` names it from
    /// then on.
    ///
    /// It is set up under a temporary name, so that whoever watches the folder
    /// never meets half a spill.
    pub(crate) fn create(
        path: &Path,
        capacity: Capacity,
        header: &mut FileHeader,
    ) -> io::Result<Spill> {
        header.spill = path.to_string_lossy().into_owned();
        let info = postcard::to_allocvec(header).map_err(io::Error::other)?;
        if info.len() > INFO_BYTES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let temporary = PathBuf::from(format!("{}.tmp", path.display()));
        let file = create_private(&temporary)?;
        let spill = Spill::set_up(&file, capacity, &info, header);
        let renamed = spill.and_then(|spill| std::fs::rename(&temporary, path).map(|()| spill));
        if renamed.is_err() {
            _ = std::fs::remove_file(&temporary);
        }
        renamed
    }

    fn set_up(
        file: &File,
        capacity: Capacity,
        info: &[u8],
        header: &FileHeader,
    ) -> io::Result<Spill> {
        let bytes = capacity.bytes();
        file.set_len(bytes as u64)?;
        let base = map(file, bytes)?;
        let spill = Spill { base };
        // Slots, buffers and blocks are provided one by one as threads come; the first
        // ones now, so that a place without room for them is not chosen.
        let first = [
            (0, INFO_OFFSET + info.len()),
            (STATES_OFFSET, capacity.buffers * 4),
            (capacity.buffer_offset(0), BUFFER_BYTES),
            (capacity.block_offset(0), BLOCK_BYTES),
        ];
        // SAFETY: all ranges lie in the mapping just made.
        let provided = first
            .iter()
            .all(|(from, bytes)| unsafe { memory::provide(base.as_ptr().add(*from), *bytes) });
        if !provided {
            // SAFETY: nobody else knows the mapping yet.
            unsafe { libc::munmap(base.as_ptr().cast(), bytes) };
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        // SAFETY: the info area lies in the mapping, has INFO_BYTES (checked by the
        // caller) and is read by nobody before `info_length` is published.
        unsafe {
            std::ptr::copy_nonoverlapping(info.as_ptr(), base.as_ptr().add(INFO_OFFSET), info.len())
        };
        // SAFETY: the whole mapping is this spill's; children get along without it.
        unsafe { memory::keep_from_children(base, bytes) };
        let words = spill.header();
        let TraceId(id) = header.id;
        let half = |from: usize| u64::from_le_bytes(std::array::from_fn(|i| id[from + i]));
        words.id[0].store(half(0), Relaxed);
        words.id[1].store(half(8), Relaxed);
        words.pid.store(header.process.pid, Relaxed);
        words.buffers.store(capacity.buffers as u32, Relaxed);
        words.blocks.store(capacity.blocks as u32, Relaxed);
        words.info_length.store(info.len() as u32, Release);
        words.magic.store(u64::from_le_bytes(SPILL_MAGIC), Release);
        Ok(spill)
    }

    /// The first page.
    #[inline(always)]
    pub(crate) fn header(&self) -> &'static Header {
        // SAFETY: the mapping begins with a Header and is never unmapped.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    /// How much it can hold; set before anybody else knows the spill.
    fn capacity(&self) -> Capacity {
        Capacity {
            buffers: self.header().buffers.load(Relaxed) as usize,
            blocks: self.header().blocks.load(Relaxed) as usize,
        }
    }

    fn at<T>(&self, offset: usize) -> NonNull<T> {
        // SAFETY: offsets come from layout.rs and an index below its count, so the place lies in the mapping and is aligned.
        unsafe { self.base.byte_add(offset).cast() }
    }

    fn state(&self, index: usize) -> &'static AtomicU32 {
        // SAFETY: `index` is below the capacity at all callers; see `at`.
        unsafe { self.at::<AtomicU32>(STATES_OFFSET + index * 4).as_ref() }
    }

    /// One buffer's header; its records follow it.
    pub(crate) fn buffer(&self, index: usize) -> NonNull<BufferHeader> {
        self.at(self.capacity().buffer_offset(index))
    }

    /// Claims an empty buffer: one used before if there is any (its pages are warm),
    /// else a new one; `None` while all are full.
    pub(crate) fn claim_buffer(&self) -> Option<usize> {
        let used = &self.header().buffers_used;
        let known = (used.load(Acquire) as usize).min(self.capacity().buffers);
        (0..known)
            .find(|index| self.try_claim(*index))
            .or_else(|| self.claim_new_buffer(used))
    }

    fn try_claim(&self, index: usize) -> bool {
        let state = self.state(index);
        state.load(Relaxed) == STATE_FREE
            && state
                .compare_exchange(STATE_FREE, STATE_OWNED, AcqRel, Relaxed)
                .is_ok()
    }

    fn claim_new_buffer(&self, used: &AtomicU32) -> Option<usize> {
        loop {
            let index = used.load(Acquire) as usize;
            if index >= self.capacity().buffers {
                return None;
            }
            // SAFETY: the buffer lies in the mapping.
            if !unsafe { memory::provide(self.buffer(index).as_ptr().cast(), BUFFER_BYTES) } {
                return None;
            }
            // Claimed before it is counted: whoever sees the count sees an owner.
            if self.try_claim(index) {
                _ = used.compare_exchange(index as u32, index as u32 + 1, AcqRel, Relaxed);
                return Some(index);
            }
            // Another thread was quicker; help it to count, then look further.
            _ = used.compare_exchange(index as u32, index as u32 + 1, AcqRel, Relaxed);
        }
    }

    /// Whether the drain has yet to empty a buffer: only then is it worth waiting for one.
    pub(crate) fn has_full_buffers(&self) -> bool {
        let used = self.header().buffers_used.load(Acquire) as usize;
        let known = 0..used.min(self.capacity().buffers);
        known
            .map(|index| self.state(index).load(Relaxed))
            .any(|state| state == STATE_FULL)
    }

    /// Hands a buffer to the drain.
    pub(crate) fn leave_buffer(&self, index: usize) {
        self.state(index).store(STATE_FULL, Release);
    }

    /// Claims a block for definitions; `None` when all but `kept` of them are taken, or
    /// memory is.
    pub(crate) fn claim_block(&self, kept: Kept) -> Option<NonNull<BlockHeader>> {
        let used = &self.header().blocks_used;
        let capacity = self.capacity();
        let limit = match kept {
            Kept::Nothing => capacity.blocks,
            Kept::ForCallSites => capacity.blocks - capacity.blocks / KEPT_FOR_CALL_SITES,
        };
        loop {
            let index = used.load(Acquire) as usize;
            if index >= limit {
                return None;
            }
            let block = self.at::<BlockHeader>(capacity.block_offset(index));
            // SAFETY: the block lies in the mapping. It is provided before it is counted:
            // a reader looks at whatever the count covers.
            if !unsafe { memory::provide(block.as_ptr().cast(), BLOCK_BYTES) } {
                return None;
            }
            let counted = used.compare_exchange(index as u32, index as u32 + 1, AcqRel, Relaxed);
            if counted.is_ok() {
                return Some(block);
            }
        }
    }

    /// Claims a slot for a thread of this number: one that a dead thread left, else
    /// a new one.
    pub(crate) fn claim_slot(&self, thread: u32) -> Option<&'static Slot> {
        let used = &self.header().slots_used;
        let mut index = 0;
        while index < SLOT_COUNT {
            let known = index < used.load(Acquire) as usize;
            if !known && !self.provide_slot(index) {
                return None;
            }
            let slot = self.slot(index);
            let claimed = slot.thread.load(Relaxed) == 0
                && slot
                    .thread
                    .compare_exchange(0, thread, AcqRel, Relaxed)
                    .is_ok();
            if !known {
                _ = used.compare_exchange(index as u32, index as u32 + 1, AcqRel, Relaxed);
            }
            if claimed {
                return Some(slot);
            }
            index += 1;
        }
        None
    }

    fn provide_slot(&self, index: usize) -> bool {
        let place = self.at::<Slot>(SLOTS_OFFSET + index * size_of::<Slot>());
        // SAFETY: the slot lies in the mapping.
        unsafe { memory::provide(place.as_ptr().cast(), size_of::<Slot>()) }
    }

    fn slot(&self, index: usize) -> &'static Slot {
        // SAFETY: `index` is below SLOT_COUNT; a Slot is all atomics; see `at`.
        unsafe {
            self.at::<Slot>(SLOTS_OFFSET + index * size_of::<Slot>())
                .as_ref()
        }
    }
}

/// The last part in so many of the blocks is kept for call sites and names.
const KEPT_FOR_CALL_SITES: usize = 8;

/// Which blocks of definitions are not to be taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// All may be.
    Nothing,
    /// The last ones stay for what is recorded once whole backtraces no longer are.
    ForCallSites,
}

/// The part of the wanted capacity that the program's own limits leave room for: a spill
/// counts as a file (RLIMIT_FSIZE) and as address space (RLIMIT_AS). `None` where that is
/// too little.
pub(crate) fn possible(wanted: Capacity) -> Option<Capacity> {
    let file = limits::file_size().unwrap_or(u64::MAX);
    let space = limits::address_space_left().map_or(u64::MAX, |left| {
        (left / SHARE_OF_SPACE).saturating_sub(BESIDE_THE_SPILL)
    });
    wanted.within(usize::try_from(file.min(space)).unwrap_or(usize::MAX))
}

/// Of the address space that a limited program has left, the recorder takes one part in so
/// many: the spill, and beside it the drain's stack, threads' states and a table.
const SHARE_OF_SPACE: u64 = 8;
const BESIDE_THE_SPILL: u64 = 2 << 20;

/// A file that only this user may open, and that nobody else had put there.
fn create_private(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

fn map(file: &File, bytes: usize) -> io::Result<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping of a file of that length at an address of the kernel's choice.
    let place = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            access,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if place == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(place.cast()).ok_or_else(io::Error::last_os_error)
}
