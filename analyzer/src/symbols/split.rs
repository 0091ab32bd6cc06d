//! Split DWARF: units whose functions lie in a `.dwo` file or a `.dwp` package.

use super::debug_info::{Reader, Store, is_nested_too_deeply, load};
use super::elf::{Image, section};
use addr2line::SplitDwarfLoad;
use addr2line::gimli::{self, EndianSlice, LittleEndian};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens the split debug files of one module.
pub(super) struct SplitFiles<'a> {
    store: &'a Store,
    package: Option<gimli::DwarfPackage<Reader<'a>>>,
    folders: Vec<PathBuf>,
    /// One `.dwo` file may serve several lookups before `addr2line` keeps its unit.
    loaded: RefCell<HashMap<u64, Option<Arc<gimli::Dwarf<Reader<'a>>>>>>,
}

impl<'a> SplitFiles<'a> {
    /// Of the module at `path`; `folders` are searched after where the compiler put them.
    pub(super) fn new(path: &Path, mut folders: Vec<PathBuf>, store: &'a Store) -> Self {
        folders.extend(path.parent().map(Path::to_owned));
        let package = package(path, &folders, store);
        SplitFiles {
            store,
            package,
            folders,
            loaded: RefCell::default(),
        }
    }

    /// The unit that the skeleton in `wanted` stands for.
    pub(super) fn load(
        &self,
        wanted: &SplitDwarfLoad<Reader<'a>>,
    ) -> Option<Arc<gimli::Dwarf<Reader<'a>>>> {
        if let Some(known) = self.loaded.borrow().get(&wanted.dwo_id.0) {
            return known.clone();
        }
        let found = self
            .find_in_package(wanted)
            .or_else(|| self.find_file(wanted));
        let found = found
            .filter(|dwarf| !is_nested_too_deeply(dwarf, None))
            .map(Arc::new);
        self.loaded
            .borrow_mut()
            .insert(wanted.dwo_id.0, found.clone());
        found
    }

    fn find_in_package(
        &self,
        wanted: &SplitDwarfLoad<Reader<'a>>,
    ) -> Option<gimli::Dwarf<Reader<'a>>> {
        self.package
            .as_ref()?
            .find_cu(wanted.dwo_id, &wanted.parent)
            .ok()?
    }

    fn find_file(&self, wanted: &SplitDwarfLoad<Reader<'a>>) -> Option<gimli::Dwarf<Reader<'a>>> {
        let name = Path::new(wanted.path.as_ref()?.to_string().ok()?);
        let compiled_in = wanted
            .comp_dir
            .as_ref()
            .and_then(|folder| folder.to_string().ok());
        let built =
            compiled_in.map_or_else(|| name.to_owned(), |folder| Path::new(folder).join(name));
        let moved = self.folders.iter().flat_map(|folder| {
            [
                Some(folder.join(name)),
                name.file_name().map(|name| folder.join(name)),
            ]
        });
        std::iter::once(Some(built))
            .chain(moved)
            .flatten()
            .find_map(|path| self.open(&path, wanted))
    }

    /// The file counts only if it has the skeleton's id: another one is another build.
    fn open(
        &self,
        path: &Path,
        wanted: &SplitDwarfLoad<Reader<'a>>,
    ) -> Option<gimli::Dwarf<Reader<'a>>> {
        let image = self.store.images.keep(Image::open(path).ok()?);
        let mut dwarf = load(image, self.store, true).ok()?;
        let header = dwarf.units().next().ok()??;
        let unit = dwarf.unit(header).ok()?;
        if unit.dwo_id != Some(wanted.dwo_id) {
            return None;
        }
        dwarf.make_dwo(&wanted.parent);
        Some(dwarf)
    }
}

fn package<'a>(
    path: &Path,
    folders: &[PathBuf],
    store: &'a Store,
) -> Option<gimli::DwarfPackage<Reader<'a>>> {
    let mut name = OsString::from(path.file_name()?);
    name.push(".dwp");
    let image = folders
        .iter()
        .find_map(|folder| Image::open(&folder.join(&name)).ok())?;
    let image = store.images.keep(image);
    let elf = image.elf().ok()?;
    let empty = EndianSlice::new(&[][..], LittleEndian);
    let section = |id: gimli::SectionId| -> Result<Reader<'a>, gimli::Error> {
        let bytes = id
            .dwo_name()
            .map_or(&[][..], |name| section(&elf, &store.sections, name));
        Ok(EndianSlice::new(bytes, LittleEndian))
    };
    gimli::DwarfPackage::load(section, empty).ok()
}
