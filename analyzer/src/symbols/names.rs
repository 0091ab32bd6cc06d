//! All sources of names of one module, from the best to the poorest.

use super::debug_info::{DebugInfo, RawFrame, Store};
use super::demangle::demangle;
use super::elf::Image;
use super::function_starts::FunctionStarts;
use super::locate::Located;
use super::mini_debug_info::mini_debug_info;
use super::module::{ModuleOutcome, ResolvedFrame};
use super::symbol_table::SymbolTable;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// What a parser's panic is called.
const PANICKED: &str = "damaged in an unforeseen way";

/// What can name addresses; the poorer sources are read when the better have failed.
pub(super) struct Names<'a> {
    located: &'a Located,
    store: &'a Store,
    debug_info: Option<DebugInfo<'a>>,
    /// Why debug information that is there is not used.
    damage: OnceCell<String>,
    symbols: OnceCell<SymbolTable<'a>>,
    starts: OnceCell<FunctionStarts>,
    demangled: RefCell<HashMap<String, String>>,
}

impl<'a> Names<'a> {
    /// Opens the debug information, for these addresses. `alternate` is its `dwz` file;
    /// `folders` are searched for split debug files.
    pub(super) fn open(
        located: &'a Located,
        alternate: Option<&'a Image>,
        store: &'a Store,
        folders: &[PathBuf],
        svmas: &[u64],
    ) -> Self {
        let mut names = Names {
            located,
            store,
            debug_info: None,
            damage: OnceCell::new(),
            symbols: OnceCell::new(),
            starts: OnceCell::new(),
            demangled: RefCell::default(),
        };
        let mut sorted = svmas.to_vec();
        sorted.sort_unstable();
        let open = |image| DebugInfo::open(image, alternate, store, folders.to_vec(), &sorted);
        if let Some(image) = debug_image(located) {
            match guarded(|| open(image)).unwrap_or_else(Err) {
                Ok(info) => names.debug_info = Some(info),
                Err(cause) => names.damage = OnceCell::from(cause),
            }
        }
        names
    }

    /// The functions at an address, innermost first; empty where nothing is known.
    pub(super) fn find(&self, svma: u64) -> Vec<ResolvedFrame> {
        let mut frames = self.debug_frames(svma);
        if frames.is_empty() {
            let function = self.table_name(svma);
            let frame = function.map(|function| RawFrame {
                function: Some(function),
                ..RawFrame::default()
            });
            frames.extend(frame);
        }
        self.complete_outermost(svma, &mut frames);
        frames
            .into_iter()
            .filter_map(|frame| self.finish(frame))
            .collect()
    }

    fn debug_frames(&self, svma: u64) -> Vec<RawFrame> {
        match &self.debug_info {
            Some(info) if self.damage.get().is_none() => guarded(|| info.frames(svma))
                .unwrap_or_else(|cause| {
                    self.damage.get_or_init(|| cause);
                    Vec::new()
                }),
            _ => Vec::new(),
        }
    }

    /// Debug information made with `-gline-tables-only`, or of a class local to a
    /// function, has names without their scope; the symbol table has the mangled one.
    /// It also has the names that people know for the `__…` of the C library.
    fn complete_outermost(&self, svma: u64, frames: &mut [RawFrame]) {
        let Some(outermost) = frames.last_mut() else {
            return;
        };
        let Some(name) = &outermost.function else {
            outermost.function = self.table_name(svma);
            return;
        };
        if is_mangled(name) {
            return;
        }
        let is_better =
            |other: &&str| is_mangled(other) || name.starts_with('_') && !other.starts_with('_');
        if let Some(better) = self.symbols().find(svma).filter(is_better) {
            outermost.function = Some(better.to_owned());
        }
    }

    fn table_name(&self, svma: u64) -> Option<String> {
        let name = self.symbols().find(svma).map(str::to_owned);
        name.or_else(|| self.starts().find(svma))
    }

    fn finish(&self, frame: RawFrame) -> Option<ResolvedFrame> {
        let raw = frame.function?;
        let function = match self.demangled.borrow().get(&raw) {
            Some(known) => known.clone(),
            None => demangle(&raw),
        };
        self.demangled
            .borrow_mut()
            .entry(raw)
            .or_insert_with(|| function.clone());
        Some(ResolvedFrame {
            function,
            file: frame.file,
            line: frame.line,
        })
    }

    fn symbols(&self) -> &SymbolTable<'a> {
        self.symbols.get_or_init(|| {
            let file = &self.located.file;
            let mut images: Vec<&Image> = self.located.debug.iter().chain([file]).collect();
            if !images.iter().any(|image| image.has_section(".symtab")) {
                images.extend(mini_debug_info(file).map(|image| self.store.images.keep(image)));
            }
            SymbolTable::read(&images)
        })
    }

    fn starts(&self) -> &FunctionStarts {
        self.starts
            .get_or_init(|| FunctionStarts::read(&self.located.file))
    }

    /// Where the names in `frames` came from.
    pub(super) fn outcome(&self, frames: &[Vec<ResolvedFrame>]) -> ModuleOutcome {
        let file = self.located.file.path.clone();
        let debug_file = self.located.debug.as_ref().map(|image| image.path.clone());
        let verified = self.located.verified;
        let damage = self.damage.get().cloned();
        if self.debug_info.is_some() && damage.is_none() {
            let has_lines = frames.iter().flatten().any(|frame| frame.line.is_some());
            return ModuleOutcome::Resolved {
                file,
                debug_file,
                has_lines,
                verified,
            };
        }
        let symbols = self.symbols();
        if symbols.is_empty() && damage.is_none() {
            return ModuleOutcome::StartsOnly { file, verified };
        }
        let exported_only = !symbols.has_full_table();
        ModuleOutcome::SymbolTableOnly {
            file,
            debug_file,
            exported_only,
            damage,
            verified,
        }
    }
}

fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("_R")
}

/// The file of a module that has debug information.
pub(super) fn debug_image(located: &Located) -> Option<&Image> {
    [Some(&located.file), located.debug.as_ref()]
        .into_iter()
        .flatten()
        .find(|image| image.has_section(".debug_info"))
}

/// The parsers promise not to panic. Should one break that promise on a damaged file,
/// the file's names are lost and not the whole report.
pub(super) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| PANICKED.to_owned())
}
