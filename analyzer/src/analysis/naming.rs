//! Names of call sites: from backtraces and the trace's symbols.

use super::plumbing::{is_plumbing_function, is_plumbing_module, is_rust_entry, is_rust_library};
use super::values::StackFrame;
use crate::symbolicate::ModuleMap;
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
    modules: ModuleMap<'a>,
    /// Each module's file name, by its number.
    files: HashMap<u32, Rc<str>>,
}

impl<'a> Naming<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Self {
        let modules = trace.definitions().modules.values();
        let files = modules.map(|module| (module.id, Rc::from(file_name(&module.path))));
        Naming {
            trace,
            known: HashMap::new(),
            modules: ModuleMap::new(trace),
            files: files.collect(),
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
        let module = self.modules.find(generation, address);
        let file = module.and_then(|module| self.files.get(&module.id));
        let file: Rc<str> = file.map_or_else(|| Rc::from("?"), Rc::clone);
        let in_library = module.is_some_and(|module| is_plumbing_module(&module.path));
        let symbols = self.trace.symbols();
        let found = symbols.lookup(generation, address).unwrap_or_default();
        if found.is_empty() {
            return vec![unnamed(module, file, address, in_library)];
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
