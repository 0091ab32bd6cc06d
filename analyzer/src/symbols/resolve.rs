//! Names the addresses of modules.

use super::debug_info::{DebugInfo, RawFrame, Store};
use super::demangle::demangle;
use super::elf::Image;
use super::function_starts::FunctionStarts;
use super::locate::{Finder, Located};
use super::mini_debug_info::mini_debug_info;
use super::module::{ModuleFile, ModuleOutcome, Options, ResolvedFrame, ResolvedModule};
use super::search_index::SearchIndex;
use super::symbol_table::SymbolTable;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

/// Stack of the threads that parse: readers of debug information and of mangled names
/// recurse as deep as their input, up to limits set here for this size.
pub(super) const STACK_SIZE: usize = 64 << 20;

/// What a parser's panic is called.
const PANICKED: &str = "damaged in an unforeseen way";

/// Names the addresses of one module.
///
/// `svmas` are addresses as they stand in the ELF file: address in memory minus load
/// bias. For a call give the return address minus 1, which lies within the call: the
/// return address may already belong to the next line or even the next function.
pub fn resolve_module(module: &ModuleFile<'_>, svmas: &[u64], options: &Options) -> ResolvedModule {
    let mut resolved = resolve_modules(&[(*module, svmas)], options, |_| {});
    resolved.pop().expect("one module gives one answer")
}

/// Names the addresses of several modules, each as [`resolve_module`] does, in parallel.
///
/// The answers are in the order of `modules`. `on_done` is called on this thread with
/// the index of each module that is finished, in any order.
pub fn resolve_modules(
    modules: &[(ModuleFile<'_>, &[u64])],
    options: &Options,
    mut on_done: impl FnMut(usize),
) -> Vec<ResolvedModule> {
    let index = SearchIndex::new(&options.search);
    let finder = Finder {
        options,
        index: &index,
    };
    // The largest first: it decides when all are done.
    let mut order: Vec<usize> = (0..modules.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(modules[*at].1.len()));
    let next = AtomicUsize::new(0);
    let mut answers: Vec<Option<ResolvedModule>> = vec![None; modules.len()];
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..worker_count(modules.len()) {
            let (sender, finder, order, next) = (sender.clone(), &finder, &order, &next);
            let work = move || {
                // Relaxed: the counter only hands out numbers.
                while let Some(at) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (module, svmas) = &modules[*at];
                    if sender
                        .send((*at, resolve_guarded(module, svmas, finder)))
                        .is_err()
                    {
                        return;
                    }
                }
            };
            let builder = thread::Builder::new()
                .name("symbols".to_owned())
                .stack_size(STACK_SIZE);
            // Without any thread the answers below say so.
            let _ = builder.spawn_scoped(scope, work);
        }
        drop(sender);
        for (at, answer) in receiver {
            answers[at] = Some(answer);
            on_done(at);
        }
    });
    let unanswered = |at: usize| {
        let (module, svmas) = &modules[at];
        nothing(
            svmas.len(),
            unreadable(module, "no thread could be started to read it"),
        )
    };
    answers
        .into_iter()
        .enumerate()
        .map(|(at, a)| a.unwrap_or_else(|| unanswered(at)))
        .collect()
}

fn worker_count(modules: usize) -> usize {
    thread::available_parallelism()
        .map_or(1, usize::from)
        .min(modules)
}

/// The parsers promise not to panic. Should one break that promise on a damaged file,
/// the file's names are lost and not the whole report.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| PANICKED.to_owned())
}

fn resolve_guarded(module: &ModuleFile<'_>, svmas: &[u64], finder: &Finder<'_>) -> ResolvedModule {
    guarded(|| resolve(module, svmas, finder))
        .unwrap_or_else(|cause| nothing(svmas.len(), unreadable(module, &cause)))
}

fn unreadable(module: &ModuleFile<'_>, cause: &str) -> ModuleOutcome {
    ModuleOutcome::Unreadable {
        file: PathBuf::from(module.path),
        cause: cause.to_owned(),
    }
}

fn nothing(addresses: usize, outcome: ModuleOutcome) -> ResolvedModule {
    ResolvedModule {
        frames: vec![Vec::new(); addresses],
        outcome,
        skipped: 0,
    }
}

fn resolve(module: &ModuleFile<'_>, svmas: &[u64], finder: &Finder<'_>) -> ResolvedModule {
    let deadline = finder.options.deadline;
    if is_over(deadline) {
        // Even looking for files takes time: one step less, counted like the rest.
        let outcome = unreadable(module, "the time limit was reached before it was read");
        return ResolvedModule {
            skipped: svmas.len(),
            ..nothing(svmas.len(), outcome)
        };
    }
    let located = match finder.locate(module) {
        Ok(located) => located,
        Err(outcome) => return nothing(svmas.len(), outcome),
    };
    let store = Store::new();
    let alternate = debug_image(&located).and_then(|image| finder.alternate(image));
    let names = Names::open(
        &located,
        alternate.as_ref(),
        &store,
        &finder.options.search,
        svmas,
    );
    let mut frames = Vec::with_capacity(svmas.len());
    let mut skipped = 0;
    for svma in svmas {
        let is_late = is_over(deadline);
        skipped += usize::from(is_late);
        frames.push(if is_late {
            Vec::new()
        } else {
            names.find(*svma)
        });
    }
    let outcome = names.outcome(&located, &frames);
    ResolvedModule {
        frames,
        outcome,
        skipped,
    }
}

fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

/// The file of a module that has debug information.
fn debug_image(located: &Located) -> Option<&Image> {
    [Some(&located.file), located.debug.as_ref()]
        .into_iter()
        .flatten()
        .find(|image| image.has_section(".debug_info"))
}

/// All sources of names of one module, the poorer ones read when the better have failed.
struct Names<'a> {
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
    fn open(
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

    fn find(&self, svma: u64) -> Vec<ResolvedFrame> {
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
    fn complete_outermost(&self, svma: u64, frames: &mut [RawFrame]) {
        let Some(outermost) = frames.last_mut() else {
            return;
        };
        if outermost.function.as_deref().is_some_and(is_mangled) {
            return;
        }
        match self.symbols().find(svma) {
            Some(name) if outermost.function.is_none() || is_mangled(name) => {
                outermost.function = Some(name.to_owned());
            }
            None if outermost.function.is_none() => outermost.function = self.starts().find(svma),
            _ => {}
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

    fn outcome(&self, located: &Located, frames: &[Vec<ResolvedFrame>]) -> ModuleOutcome {
        let file = located.file.path.clone();
        let debug_file = located.debug.as_ref().map(|image| image.path.clone());
        let verified = located.verified;
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
