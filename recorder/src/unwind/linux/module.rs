//! What is known about a loaded module.

#![expect(unsafe_code, reason = "reads program headers and segments in place")]

use core::ffi::c_char;
use core::ops::Deref;
use core::slice;

use libc::{Elf64_Ehdr, Elf64_Phdr, PF_R, PF_X, PT_GNU_EH_FRAME, PT_LOAD, PT_NOTE};

use super::readable::{PAGE, is_readable};

/// A loaded module. All addresses are those of the running process.
///
/// The pointers in it are good for as long as the module stays loaded: that is
/// so while a stack frame of it is active, and otherwise up to whoever holds on
/// to this.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModuleInfo {
    /// First address of its mapping.
    pub start: u64,
    /// Address behind its mapping.
    pub end: u64,
    /// Address in memory minus address in the file.
    pub bias: u64,
    /// Address of `.eh_frame_hdr`, zero where there is none.
    pub eh_frame_hdr: u64,
    /// The loader's name of it: a path, or empty for the program itself.
    pub name: *const c_char,
    /// Its program headers.
    pub headers: Headers,
}

/// A GNU build-id, at most 64 bytes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BuildId {
    len: u8,
    bytes: [u8; 64],
}

/// The program headers of a loaded module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Headers {
    first: *const Elf64_Phdr,
    count: u16,
    bias: u64,
}

impl ModuleInfo {
    /// The readable segment that holds `address`: its bytes and where they begin.
    pub fn segment_at(&self, address: u64) -> Option<(&[u8], u64)> {
        let (start, len) = self.headers.readable_segment(address)?;
        // SAFETY: the loader mapped this segment readable, with at least its
        // size in the file, and unmaps it only with the module (see the type).
        let bytes = unsafe { slice::from_raw_parts(pointer(start), len) };
        Some((bytes, start))
    }

    /// The build-id that the linker put into a note.
    pub fn build_id(&self) -> Option<BuildId> {
        let notes = self.headers.all().iter().filter(|h| h.p_type == PT_NOTE);
        notes
            .filter_map(|note| {
                let address = self.bias.wrapping_add(note.p_vaddr);
                let (segment, start) = self.segment_at(address)?;
                let at = usize::try_from(address - start).ok()?;
                let len = usize::try_from(note.p_filesz).ok()?;
                let align = if note.p_align == 8 { 8 } else { 4 };
                build_id_in(segment.get(at..at.checked_add(len)?)?, align)
            })
            .next()
    }
}

impl Deref for BuildId {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&[])
    }
}

impl Headers {
    /// # Safety
    /// `first` must point to `count` program headers that stay as long as the
    /// module is loaded, and `bias` must be what the loader added to their
    /// addresses.
    pub(super) unsafe fn from_raw(first: *const Elf64_Phdr, count: u16, bias: u64) -> Self {
        let count = if first.is_null() { 0 } else { count };
        Self { first, count, bias }
    }

    /// Finds the headers by the file header that is mapped at `start`; none if
    /// they are not plainly there.
    pub(super) fn from_file_header(start: u64, end: u64, bias: u64) -> Option<Self> {
        if !start.is_multiple_of(PAGE) || !is_readable(start) {
            return None;
        }
        // SAFETY: the page at `start` is mapped, as was just found, belongs to a
        // loaded module and is larger than the header; any bytes are valid.
        let header = unsafe { &*pointer::<Elf64_Ehdr>(start) };
        let len = u64::from(header.e_phnum) * size_of::<Elf64_Phdr>() as u64;
        let is_plain = header.e_ident.starts_with(b"\x7fELF\x02")
            && usize::from(header.e_phentsize) == size_of::<Elf64_Phdr>()
            && header.e_phoff.is_multiple_of(8)
            && header.e_phoff.checked_add(len)? <= PAGE;
        if !is_plain {
            return None;
        }
        let first = pointer(start + header.e_phoff);
        // SAFETY: they lie in the same page; `is_right` checks that they are the
        // loader's before anything is done with them.
        let headers = unsafe { Self::from_raw(first, header.e_phnum, bias) };
        headers.is_right(start, end).then_some(headers)
    }

    /// Whether they describe a module mapped from `start` to `end`.
    fn is_right(&self, start: u64, end: u64) -> bool {
        let (low, high) = self.range();
        let begins_the_file = |h: &&Elf64_Phdr| h.p_offset == 0;
        self.loads()
            .find(begins_the_file)
            .is_some_and(|h| self.bias.wrapping_add(h.p_vaddr) == start)
            && low == start
            && high <= end.next_multiple_of(PAGE)
    }

    /// The headers themselves, as `elf.h` lays them out.
    pub fn all(&self) -> &[Elf64_Phdr] {
        if self.count == 0 {
            return &[];
        }
        // SAFETY: by the promise of `from_raw`, kept by both makers.
        unsafe { slice::from_raw_parts(self.first, usize::from(self.count)) }
    }

    fn loads(&self) -> impl Iterator<Item = &Elf64_Phdr> {
        self.all().iter().filter(|h| h.p_type == PT_LOAD)
    }

    /// Lowest page and end of all segments.
    pub(super) fn range(&self) -> (u64, u64) {
        let starts = self.loads().map(|h| self.bias.wrapping_add(h.p_vaddr));
        let ends = self
            .loads()
            .map(|h| self.bias.wrapping_add(h.p_vaddr).wrapping_add(h.p_memsz));
        let low = starts.min().unwrap_or(0);
        (low & !(PAGE - 1), ends.max().unwrap_or(0))
    }

    /// Whether a segment holds `address`.
    pub(super) fn covers(&self, address: u64) -> bool {
        let within =
            |h: &Elf64_Phdr| address.wrapping_sub(self.bias.wrapping_add(h.p_vaddr)) < h.p_memsz;
        self.loads().any(within)
    }

    /// Whether `address` lies in a segment that may be executed.
    pub(in crate::unwind) fn is_code(&self, address: u64) -> bool {
        let within =
            |h: &Elf64_Phdr| address.wrapping_sub(self.bias.wrapping_add(h.p_vaddr)) < h.p_memsz;
        self.loads().any(|h| h.p_flags & PF_X != 0 && within(h))
    }

    fn readable_segment(&self, address: u64) -> Option<(u64, usize)> {
        self.loads()
            .filter(|h| h.p_flags & PF_R != 0)
            .map(|h| {
                let len = h.p_filesz.min(h.p_memsz);
                (self.bias.wrapping_add(h.p_vaddr), len)
            })
            .find(|(start, len)| address.wrapping_sub(*start) < *len)
            .and_then(|(start, len)| Some((start, usize::try_from(len).ok()?)))
    }

    /// Address of `.eh_frame_hdr`, zero where there is none.
    pub(super) fn eh_frame_hdr(&self) -> u64 {
        let header = self.all().iter().find(|h| h.p_type == PT_GNU_EH_FRAME);
        header.map_or(0, |h| self.bias.wrapping_add(h.p_vaddr))
    }
}

fn pointer<T>(address: u64) -> *const T {
    core::ptr::with_exposed_provenance(address as usize)
}

/// Looks for the build-id in notes, each of them
/// `u32 name length │ u32 content length │ u32 kind │ name │ content`, with
/// name and content padded to `align`.
fn build_id_in(mut notes: &[u8], align: usize) -> Option<BuildId> {
    const NT_GNU_BUILD_ID: u32 = 3;
    loop {
        let (head, rest) = notes.split_first_chunk::<12>()?;
        let word = |at: usize| {
            let bytes = head.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_le_bytes(bytes))
        };
        let name_len = usize::try_from(word(0)?).ok()?;
        let len = usize::try_from(word(4)?).ok()?;
        let name = rest.get(..name_len)?;
        let content_at = (12_usize.checked_add(name_len)?)
            .checked_next_multiple_of(align)?
            .checked_sub(12)?;
        let content = rest.get(content_at..content_at.checked_add(len)?)?;
        if word(8)? == NT_GNU_BUILD_ID && name == b"GNU\0" {
            return Some(BuildId::from_slice(content));
        }
        let next = content_at.checked_add(len.checked_next_multiple_of(align)?)?;
        notes = rest.get(next..)?;
    }
}

impl BuildId {
    fn from_slice(content: &[u8]) -> Self {
        let mut bytes = [0; 64];
        let len = content.len().min(bytes.len());
        for (to, from) in bytes.iter_mut().zip(content) {
            *to = *from;
        }
        Self {
            len: len as u8,
            bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &[u8], kind: u32, content: &[u8]) -> Vec<u8> {
        let mut bytes = (name.len() as u32).to_le_bytes().to_vec();
        bytes.extend((content.len() as u32).to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(name);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn the_build_id_is_found_behind_other_notes() {
        let mut notes = note(b"GNU\0", 1, &[9; 16]);
        notes.extend(note(b"Go\0", 4, &[7; 3]));
        notes.extend(note(b"GNU\0", 3, &[1, 2, 3, 4, 5]));
        assert_eq!(&*build_id_in(&notes, 4).unwrap(), &[1, 2, 3, 4, 5]);
        for len in 0..notes.len() - 3 {
            assert_eq!(build_id_in(&notes[..len], 4), None);
        }
    }

    #[test]
    fn a_long_build_id_is_cut() {
        let notes = note(b"GNU\0", 3, &[5; 80]);
        assert_eq!(build_id_in(&notes, 4).unwrap().len(), 64);
        assert_eq!(build_id_in(&[0xff; 32], 4), None);
    }
}
