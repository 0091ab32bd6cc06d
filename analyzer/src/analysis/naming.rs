//! Names of call sites: from backtraces and the trace's symbols.

use super::plumbing::{is_plumbing_function, is_plumbing_module, is_rust_entry, is_rust_library};
use super::values::StackFrame;
use crate::symbols::short_name;
use heapreel_format::{ModuleDef, StackDef, Trace};
use std::collections::HashMap;
use std::rc::Rc;

/// A function at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) short: String,
    pub(crate) full: String,
    pub(crate) place: Option<String>,
    pub(crate) module: Rc<str>,
    plumbing: bool,
}

impl Function {
    /// A function of which nothing but a name is known.
    pub(crate) fn named(name: &str) -> Function {
        Function {
            short: name.to_owned(),
            full: name.to_owned(),
            place: None,
            module: Rc::from(""),
            plumbing: false,
        }
    }
}

/// Names the addresses of one trace, each once.
pub(crate) struct Naming<'a> {
    trace: &'a Trace,
    /// By generation and return address.
    known: HashMap<(u32, u64), Rc<[Function]>>,
    /// In order of their start.
    modules: Vec<(&'a ModuleDef, Rc<str>)>,
}

impl<'a> Naming<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Self {
        let modules = trace.definitions().modules.values();
        let mut modules: Vec<_> = modules
            .map(|module| (module, Rc::from(file_name(&module.path))))
            .collect();
        modules.sort_by_key(|(module, _)| (module.start, module.generation, module.id));
        Naming {
            trace,
            known: HashMap::new(),
            modules,
        }
    }

    /// The functions of a backtrace, inlined ones included, innermost first.
    pub(crate) fn functions(&mut self, stack: &StackDef) -> Vec<Rc<[Function]>> {
        stack
            .frames
            .iter()
            .map(|address| self.at(stack.generation, *address))
            .collect()
    }

    /// The functions of a backtrace as a report shows them.
    pub(crate) fn frames(&mut self, stack: &StackDef) -> Vec<StackFrame> {
        let functions = self.functions(stack);
        let flat = functions.iter().flat_map(|functions| functions.iter());
        flat.map(|function| StackFrame {
            function: function.full.clone(),
            place: function.place.clone(),
        })
        .collect()
    }

    /// The function to blame: the first that is no plumbing; where all are, the outermost.
    ///
    /// Whatever a Rust program's global allocator is made of lies inward of the
    /// compiler's own entry, and is plumbing however it is named.
    pub(crate) fn blamed(&mut self, stack: &StackDef) -> Option<Function> {
        let functions = self.functions(stack);
        let flat: Vec<&Function> = functions.iter().flat_map(|f| f.iter()).collect();
        let entry = flat.iter().rposition(|f| is_rust_entry(&f.full));
        let outside = flat.get(entry.map_or(0, |entry| entry + 1)..)?;
        let first = outside.iter().find(|function| !function.plumbing);
        first.or(flat.last()).map(|function| (*function).clone())
    }

    fn at(&mut self, generation: u32, address: u64) -> Rc<[Function]> {
        if let Some(functions) = self.known.get(&(generation, address)) {
            return functions.clone();
        }
        let functions: Rc<[Function]> = self.name(generation, address).into();
        self.known.insert((generation, address), functions.clone());
        functions
    }

    fn name(&self, generation: u32, address: u64) -> Vec<Function> {
        let module = self.module(generation, address);
        let file: Rc<str> = module.map_or_else(|| Rc::from("?"), |(_, file)| file.clone());
        let in_library = module.is_some_and(|(module, _)| is_plumbing_module(&module.path));
        let symbols = self.trace.symbols();
        let found = symbols.lookup(generation, address).unwrap_or_default();
        if found.is_empty() {
            return vec![unnamed(
                module.map(|(module, _)| *module),
                file,
                address,
                in_library,
            )];
        }
        let functions = found.iter().map(|frame| {
            let full = symbols.string(frame.function).to_owned();
            let path = frame.file.map(|file| symbols.string(file));
            let place = path.map(|path| match frame.line {
                Some(line) => format!("{path}:{line}"),
                None => path.to_owned(),
            });
            let plumbing =
                in_library || path.is_some_and(is_rust_library) || is_plumbing_function(&full);
            Function {
                short: short_name(&full),
                full,
                place,
                module: file.clone(),
                plumbing,
            }
        });
        functions.collect()
    }

    /// The module at an address: of several the one that was met last.
    fn module(&self, generation: u32, address: u64) -> Option<&(&'a ModuleDef, Rc<str>)> {
        // A return address may lie just behind the last byte of its caller.
        let inside = address.wrapping_sub(1);
        let after = self
            .modules
            .partition_point(|(module, _)| module.start <= inside);
        let candidates = self.modules[..after].iter().rev().take(64);
        let fitting = candidates.filter(|(m, _)| m.end > inside && m.generation <= generation);
        fitting.max_by_key(|(module, _)| (module.generation, module.id))
    }
}

fn unnamed(module: Option<&ModuleDef>, file: Rc<str>, address: u64, plumbing: bool) -> Function {
    let name = match module {
        Some(module) => format!("{file}+{:#x}", address.wrapping_sub(module.bias)),
        None => format!("{address:#x}"),
    };
    Function {
        short: name.clone(),
        full: name,
        place: None,
        module: file,
        plumbing,
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/')
        .next()
        .filter(|name| !name.is_empty())
        .unwrap_or(path)
}
