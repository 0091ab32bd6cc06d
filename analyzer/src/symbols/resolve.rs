//! Names the addresses of modules.

use super::debug_info::Store;
use super::locate::Finder;
use super::module::{ModuleFile, ModuleOutcome, Options, ResolvedModule};
use super::names::{Names, debug_image, guarded};
use super::search_index::SearchIndex;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

/// Stack of the threads that parse: readers of debug information and of mangled names
/// recurse as deep as their input, up to limits set here for this size.
pub(super) const STACK_SIZE: usize = 64 << 20;

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
    let outcome = names.outcome(&frames);
    ResolvedModule {
        frames,
        outcome,
        skipped,
    }
}

fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}
