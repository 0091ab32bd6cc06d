//! The folders a user named, indexed by build-id.

use super::elf::Image;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// More files than a folder of symbols has; beyond it, somebody named their home.
const MAX_FILES: usize = 20_000;

/// The ELF files that lie directly in the folders, by build-id.
///
/// Made once for all modules, since every file must be opened for it.
#[derive(Default)]
pub(super) struct SearchIndex {
    by_build_id: HashMap<Vec<u8>, Vec<PathBuf>>,
}

impl SearchIndex {
    /// Opens every file in `folders`, not those in folders within them.
    pub(super) fn new(folders: &[PathBuf]) -> Self {
        let mut index = SearchIndex::default();
        for path in folders
            .iter()
            .flat_map(|folder| files_in(folder))
            .take(MAX_FILES)
        {
            let Ok(image) = Image::open(&path) else {
                continue;
            };
            let id = image.build_id();
            if !id.is_empty() {
                index
                    .by_build_id
                    .entry(id.to_owned())
                    .or_default()
                    .push(path);
            }
        }
        index
    }

    /// The files with this build-id.
    pub(super) fn find(&self, build_id: &[u8]) -> &[PathBuf] {
        self.by_build_id.get(build_id).map_or(&[], Vec::as_slice)
    }
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = folder.read_dir() else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort(); // Equal candidates are taken in the same order everywhere.
    files.retain(|path| is_elf(path));
    files
}

/// Four bytes decide, so that a folder of textures is not mapped file by file.
fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    path.is_file()
        && File::open(path)
            .and_then(|mut file| file.read_exact(&mut magic))
            .is_ok()
        && magic == *b"\x7fELF"
}
