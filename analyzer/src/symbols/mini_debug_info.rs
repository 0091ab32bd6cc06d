//! `.gnu_debugdata`: the symbol table that Fedora leaves in stripped files, as an ELF
//! file compressed with xz.

use super::arena::Arena;
use super::elf::{Image, section};
use std::io::{self, Write};

/// Fedora's largest have a few MiB.
const MAX_SIZE: usize = 128 << 20;

/// The ELF file within a section of `image`.
pub(super) fn mini_debug_info(image: &Image) -> Option<Image> {
    let elf = image.elf().ok()?;
    let store = Arena::new();
    let mut compressed = section(&elf, &store, ".gnu_debugdata");
    if compressed.is_empty() {
        return None;
    }
    let mut unpacked = Bounded(Vec::new());
    lzma_rs::xz_decompress(&mut compressed, &mut unpacked).ok()?;
    Image::embedded(&image.path, unpacked.0)
}

/// Bytes that a stranger's few may not grow to more than [`MAX_SIZE`].
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_SIZE {
            return Err(io::Error::other("too large"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
