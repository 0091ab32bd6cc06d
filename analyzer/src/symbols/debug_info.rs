//! Functions, inlined functions and lines from DWARF.

use super::arena::Arena;
use super::elf::{Image, section};
use super::split::SplitFiles;
use addr2line::gimli::{self, EndianSlice, LittleEndian};
use addr2line::{Context, Location, LookupContinuation, LookupResult};
use std::path::PathBuf;

/// How debug sections are read.
pub(super) type Reader<'a> = EndianSlice<'a, LittleEndian>;

/// Deeper nesting is no compiler's work. `addr2line` recurses once a level, which at
/// this depth needs a quarter of [`super::resolve::STACK_SIZE`] in a debug build.
const MAX_NESTING: isize = 2_000;

/// What the readers borrow from.
pub(super) struct Store {
    /// Decompressed sections.
    pub(super) sections: Arena<Vec<u8>>,
    /// Split debug files, opened when an address leads to them.
    pub(super) images: Arena<Image>,
}

impl Store {
    /// An empty store.
    pub(super) fn new() -> Self {
        Store {
            sections: Arena::new(),
            images: Arena::new(),
        }
    }
}

/// One function at an address as DWARF names it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RawFrame {
    /// Mangled where the compiler gave a linkage name.
    pub(super) function: Option<String>,
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
}

/// The debug information of one module. Units are parsed when first needed.
pub(super) struct DebugInfo<'a> {
    context: Context<Reader<'a>>,
    split: SplitFiles<'a>,
}

impl<'a> DebugInfo<'a> {
    /// Reads the table of units of `image`, for these addresses in ascending order.
    /// `alternate` is its `dwz` file; `folders` are searched for split debug files.
    pub(super) fn open(
        image: &'a Image,
        alternate: Option<&'a Image>,
        store: &'a Store,
        folders: Vec<PathBuf>,
        svmas: &[u64],
    ) -> Result<Self, String> {
        let mut dwarf = load(image, store, false)?;
        if let Some(alternate) = alternate {
            dwarf.set_sup(load(alternate, store, false)?);
        }
        // Units of one C++ program share abbreviations so often that this pays at once.
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        if is_nested_too_deeply(&dwarf, Some(svmas)) {
            return Err("nested too deeply".to_owned());
        }
        let context =
            Context::from_dwarf(dwarf).map_err(|error| error.to_string().to_lowercase())?;
        Ok(DebugInfo {
            context,
            split: SplitFiles::new(&image.path, folders, store),
        })
    }

    /// The functions at an address, innermost first; empty where nothing is known.
    pub(super) fn frames(&self, svma: u64) -> Vec<RawFrame> {
        // The last address is nobody's code; the end of a range behind it would be 0.
        if svma == u64::MAX {
            return Vec::new();
        }
        match self.try_frames(svma) {
            Ok(frames) if !frames.is_empty() => frames,
            // A damaged unit, or one that needs a missing file, may still have lines.
            _ => self.location(svma).into_iter().collect(),
        }
    }

    fn try_frames(&self, svma: u64) -> Result<Vec<RawFrame>, gimli::Error> {
        let mut lookup = self.context.find_frames(svma);
        let mut iterator = loop {
            lookup = match lookup {
                LookupResult::Output(frames) => break frames?,
                LookupResult::Load { load, continuation } => {
                    continuation.resume(self.split.load(&load))
                }
            };
        };
        let mut frames = Vec::new();
        while let Some(frame) = iterator.next()? {
            let name = frame
                .function
                .as_ref()
                .and_then(|name| name.raw_name().ok());
            let function = name
                .filter(|name| !name.is_empty())
                .map(|name| name.into_owned());
            frames.push(with_location(function, frame.location));
        }
        Ok(frames)
    }

    fn location(&self, svma: u64) -> Option<RawFrame> {
        let location = self.context.find_location(svma).ok()??;
        Some(with_location(None, Some(location)))
    }
}

/// Loads the sections that `gimli` asks for, or their `.dwo` counterparts.
pub(super) fn load<'a>(
    image: &'a Image,
    store: &'a Store,
    is_split: bool,
) -> Result<gimli::Dwarf<Reader<'a>>, String> {
    let elf = image.elf()?;
    gimli::Dwarf::load(|id| {
        let name = if is_split {
            id.dwo_name()
        } else {
            Some(id.name())
        };
        let bytes = name.map_or(&[][..], |name| section(&elf, &store.sections, name));
        Ok(EndianSlice::new(bytes, LittleEndian))
    })
}

fn with_location(function: Option<String>, location: Option<Location<'_>>) -> RawFrame {
    let (file, line) = location.map_or((None, None), |place| (place.file, place.line));
    let file = file.filter(|file| !file.is_empty()).map(str::to_owned);
    // Line 0 is the compiler's "no line"; a file alone says little and stays.
    RawFrame {
        function,
        file,
        line: line.filter(|line| *line > 0),
    }
}

/// A unit that one of the addresses (or any address) may lead to is nested so deeply
/// that a recursive reader would overflow its stack, which nothing can catch.
pub(super) fn is_nested_too_deeply(
    dwarf: &gimli::Dwarf<Reader<'_>>,
    svmas: Option<&[u64]>,
) -> bool {
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        // An entry takes at least a byte, so small units cannot be deep.
        if (header.length_including_self() as i64) < MAX_NESTING as i64 {
            continue;
        }
        let Ok(unit) = dwarf.unit(header) else {
            continue;
        };
        let is_needed = svmas.is_none_or(|svmas| may_contain(dwarf, &unit, svmas));
        if is_needed && depth_exceeds(&unit, MAX_NESTING) {
            return true;
        }
    }
    false
}

/// Only `DW_AT_ranges` is taken at its word, because it overrides every other source.
fn may_contain(
    dwarf: &gimli::Dwarf<Reader<'_>>,
    unit: &gimli::Unit<Reader<'_>>,
    svmas: &[u64],
) -> bool {
    let mut entries = unit.entries();
    let Ok(Some(root)) = entries.next_dfs() else {
        return true;
    };
    let Some(attribute) = root.attr_value(gimli::DW_AT_ranges) else {
        return true;
    };
    let Ok(Some(mut ranges)) = dwarf.attr_ranges(unit, attribute) else {
        return true;
    };
    let mut is_empty = true;
    loop {
        match ranges.next() {
            Ok(Some(range)) if range.begin < range.end => {
                is_empty = false;
                let next = svmas.partition_point(|svma| *svma < range.begin);
                if svmas.get(next).is_some_and(|svma| *svma < range.end) {
                    return true;
                }
            }
            Ok(Some(_)) => {}
            Ok(None) => return is_empty,
            Err(_) => return true,
        }
    }
}

fn depth_exceeds(unit: &gimli::Unit<Reader<'_>>, limit: isize) -> bool {
    let Ok(mut entries) = unit.entries_raw(None) else {
        return false;
    };
    while !entries.is_empty() {
        if entries.next_depth() > limit {
            return true;
        }
        match entries.read_abbreviation() {
            Ok(Some(abbreviation)) => {
                if entries.skip_attributes(abbreviation.attributes()).is_err() {
                    return false;
                }
            }
            Ok(None) => {}
            // The recursive reader stops here as well.
            Err(_) => return false,
        }
    }
    false
}
