//! One ELF file: opened, checked, its sections.

use super::arena::Arena;
use memmap2::Mmap;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection};
use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Parsed headers of an ELF file.
pub(super) type Elf<'a> = ElfFile64<'a, LittleEndian, &'a [u8]>;

/// More than deflate can expand (1032 times); what claims more lies about its size.
const MAX_EXPANSION: u64 = 1100;

/// Why a file could not be used.
#[derive(Debug)]
pub(super) enum OpenError {
    /// It is not there.
    Missing,
    /// It is there and is not what we need; why, as a lowercase fragment.
    Unreadable(String),
}

/// An ELF file in memory.
pub(super) struct Image {
    /// Where it was found.
    pub(super) path: PathBuf,
    bytes: Bytes,
}

enum Bytes {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl Image {
    /// Opens the file and checks that it is an ELF file of ours.
    pub(super) fn open(path: &Path) -> Result<Image, OpenError> {
        let bytes = Bytes::Mapped(map(path).map_err(|error| open_error(&error))?);
        let image = Image {
            path: path.to_owned(),
            bytes,
        };
        image.elf().map_err(OpenError::Unreadable)?;
        Ok(image)
    }

    /// An ELF file that was inside another, `path`.
    pub(super) fn embedded(path: &Path, bytes: Vec<u8>) -> Option<Image> {
        let image = Image {
            path: path.to_owned(),
            bytes: Bytes::Owned(bytes),
        };
        image.elf().is_ok().then_some(image)
    }

    /// The whole file.
    pub(super) fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }

    /// Its headers, parsed anew: this costs microseconds, keeping them a self-reference.
    pub(super) fn elf(&self) -> Result<Elf<'_>, String> {
        let bytes = self.bytes();
        if !bytes.starts_with(b"\x7fELF") {
            return Err("not an ELF file".to_owned());
        }
        if bytes.get(4..6) != Some(&[2, 1]) {
            return Err("not a 64-bit little-endian ELF file".to_owned());
        }
        Elf::parse(bytes).map_err(|error| format!("damaged ELF file: {error}").to_lowercase())
    }

    /// Its GNU build-id, empty if it has none.
    pub(super) fn build_id(&self) -> &[u8] {
        self.elf()
            .ok()
            .and_then(|elf| elf.build_id().ok().flatten())
            .unwrap_or(&[])
    }

    /// It has a section of this name with contents (`.zdebug_…` counts as `.debug_…`).
    pub(super) fn has_section(&self, name: &str) -> bool {
        self.elf().is_ok_and(|elf| {
            elf.section_by_name(name)
                .and_then(|section| section.compressed_data().ok())
                .is_some_and(|contents| !contents.data.is_empty())
        })
    }

    /// When the file was last changed.
    pub(super) fn modified(&self) -> Option<SystemTime> {
        std::fs::metadata(&self.path).ok()?.modified().ok()
    }
}

/// The contents of a section, decompressed; empty if the file has none.
pub(super) fn section<'a>(elf: &Elf<'a>, store: &'a Arena<Vec<u8>>, name: &str) -> &'a [u8] {
    let Some(contents) = elf
        .section_by_name(name)
        .and_then(|section| section.compressed_data().ok())
    else {
        return &[];
    };
    let limit = (contents.data.len() as u64).saturating_mul(MAX_EXPANSION);
    if contents.uncompressed_size > limit.max(contents.data.len() as u64) {
        return &[];
    }
    match contents.decompress() {
        Ok(Cow::Borrowed(bytes)) => bytes,
        Ok(Cow::Owned(bytes)) => store.keep(bytes),
        Err(_) => &[],
    }
}

#[expect(
    unsafe_code,
    reason = "debug files of hundreds of MiB are mapped, not read"
)]
fn map(path: &Path) -> io::Result<Mmap> {
    // Opening a FIFO would wait for its writer, so the kind is asked first.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let file = File::open(path)?;
    // SAFETY: the mapping is private and read-only, and nothing in this process writes
    // the file. Another process may: then bytes change under the parsers, which take
    // every byte as hostile, keep no state that relies on reading the same twice for
    // memory safety (slices have fixed bounds), and at worst yield wrong or no names.
    // Truncation raises SIGBUS; the module's documentation says so.
    unsafe { Mmap::map(&file) }
}

fn open_error(error: &io::Error) -> OpenError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => OpenError::Missing,
        _ => OpenError::Unreadable(error.to_string().to_lowercase()),
    }
}
