//! From a trace's backtraces to the table of symbols that is embedded in it.

use crate::symbols::{ModuleFile, ModuleOutcome, Options, ResolvedModule, resolve_modules};
use heapreel_format::{ModuleDef, SymbolFrame, SymbolTable, Trace};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What became of one module's addresses.
#[derive(Clone, Debug)]
pub struct ModuleNames {
    /// The module's number in the trace.
    pub id: u32,
    /// Its path when it was recorded.
    pub path: String,
    /// Distinct code addresses in it.
    pub addresses: usize,
    /// Those of them that have a name now.
    pub named: usize,
    /// Where the names came from, or why there are none.
    pub outcome: ModuleOutcome,
    /// Addresses that the time limit left out.
    pub skipped: usize,
}

/// Symbols for a trace.
#[derive(Clone, Debug, Default)]
pub struct Symbolicated {
    /// What to embed.
    pub table: SymbolTable,
    /// Modules that addresses lie in, most addresses first.
    pub modules: Vec<ModuleNames>,
    /// Addresses in no module: code made at run time, or damage.
    pub homeless: usize,
}

impl Symbolicated {
    /// Distinct addresses asked for.
    pub fn addresses(&self) -> usize {
        self.homeless + self.modules.iter().map(|m| m.addresses).sum::<usize>()
    }

    /// Those that have a name.
    pub fn named(&self) -> usize {
        self.modules.iter().map(|m| m.named).sum()
    }

    /// Those that the time limit left out.
    pub fn skipped(&self) -> usize {
        self.modules.iter().map(|m| m.skipped).sum()
    }
}

/// The distinct addresses of one module.
struct Asked<'t> {
    module: &'t ModuleDef,
    /// Generation and return address as they stand in backtraces, ascending.
    keys: Vec<(u32, u64)>,
    /// The same as addresses within calls, in the file's own space.
    svmas: Vec<u64>,
}

/// Names all addresses of the trace's backtraces.
///
/// `on_done` is called with the number of addresses done and their total, whenever a
/// module is finished.
pub fn symbolicate(
    trace: &Trace,
    options: &Options,
    mut on_done: impl FnMut(usize, usize),
) -> Symbolicated {
    let (asked, homeless) = addresses_by_module(trace);
    let files: Vec<(ModuleFile<'_>, &[u64])> = asked
        .iter()
        .map(|a| (file_of(a.module), a.svmas.as_slice()))
        .collect();
    let total = asked.iter().map(|a| a.keys.len()).sum();
    let mut done = 0;
    let resolved = resolve_modules(&files, options, |index| {
        done += asked[index].keys.len();
        on_done(done, total);
    });
    let mut table = TableBuilder::default();
    let mut modules: Vec<_> = asked
        .iter()
        .zip(resolved)
        .map(|(asked, resolved)| table.add(asked, resolved))
        .collect();
    modules.sort_by(|a, b| b.addresses.cmp(&a.addresses).then(a.id.cmp(&b.id)));
    Symbolicated {
        table: table.finish(),
        modules,
        homeless,
    }
}

fn file_of(module: &ModuleDef) -> ModuleFile<'_> {
    ModuleFile {
        path: &module.path,
        build_id: &module.build_id,
    }
}

/// The distinct addresses of all backtraces, by the module that they lie in, and how
/// many lie in none.
fn addresses_by_module(trace: &Trace) -> (Vec<Asked<'_>>, usize) {
    let mut distinct = BTreeSet::new();
    for stack in trace.definitions().stacks.values() {
        distinct.extend(
            stack
                .frames
                .iter()
                .map(|address| (stack.generation, *address)),
        );
    }
    let modules = ModuleMap::new(trace);
    let mut by_module: HashMap<u32, Asked<'_>> = HashMap::new();
    let mut homeless = 0;
    for (generation, address) in distinct {
        let Some(module) = modules.find(generation, address) else {
            homeless += 1;
            continue;
        };
        let asked = by_module.entry(module.id).or_insert_with(|| Asked {
            module,
            keys: Vec::new(),
            svmas: Vec::new(),
        });
        asked.keys.push((generation, address));
        // A return address may already belong to the next line or function: the call
        // lies before it.
        let svma = address.wrapping_sub(1).wrapping_sub(module.bias);
        asked.svmas.push(svma);
    }
    let mut asked: Vec<_> = by_module.into_values().collect();
    asked.sort_by_key(|a| a.module.id);
    (asked, homeless)
}

/// Finds the module at an address in a generation.
pub struct ModuleMap<'t> {
    /// By where they begin; those of one place in the order in which they were met.
    places: BTreeMap<u64, Vec<&'t ModuleDef>>,
}

/// Places below an address that are looked at: modules hardly overlap, even over time.
const PLACES: usize = 64;

impl<'t> ModuleMap<'t> {
    /// Of all modules that the trace names.
    pub fn new(trace: &'t Trace) -> ModuleMap<'t> {
        let mut places: BTreeMap<u64, Vec<&ModuleDef>> = BTreeMap::new();
        for module in trace.definitions().modules.values() {
            places.entry(module.start).or_default().push(module);
        }
        for modules in places.values_mut() {
            modules.sort_by_key(|module| (module.generation, module.id));
        }
        ModuleMap { places }
    }

    /// The module that held the return address `address` in `generation`: of those met
    /// by then the latest, since an unloaded one leaves its addresses to others.
    pub fn find(&self, generation: u32, address: u64) -> Option<&'t ModuleDef> {
        // A call that never returns may be a function's last instruction: its return
        // address is then the module's end.
        let call = address.wrapping_sub(1);
        let below = self.places.range(..=call).rev().take(PLACES);
        let latest = below.filter_map(|(_, modules)| {
            let met = modules.partition_point(|module| module.generation <= generation);
            modules[..met].last().filter(|module| call < module.end)
        });
        latest.max_by_key(|m| (m.generation, m.id)).copied()
    }
}

#[derive(Default)]
struct TableBuilder {
    table: SymbolTable,
    known: HashMap<String, u32>,
}

impl TableBuilder {
    fn add(&mut self, asked: &Asked<'_>, resolved: ResolvedModule) -> ModuleNames {
        let named = resolved
            .frames
            .iter()
            .filter(|frames| !frames.is_empty())
            .count();
        let names = ModuleNames {
            id: asked.module.id,
            path: asked.module.path.clone(),
            addresses: asked.keys.len(),
            named,
            skipped: resolved.skipped,
            outcome: resolved.outcome,
        };
        for (key, frames) in asked.keys.iter().zip(resolved.frames) {
            let frames = frames
                .into_iter()
                .map(|frame| SymbolFrame {
                    function: self.string(frame.function),
                    file: frame.file.map(|file| self.string(file)),
                    line: frame.line,
                })
                .collect();
            self.table.addresses.push((key.0, key.1, frames));
        }
        if names.skipped > 0 {
            let remark = format!(
                "{} addresses were left out: the time limit was reached",
                names.skipped
            );
            self.table.remarks.push((names.id, remark));
        }
        if names.outcome.is_incomplete() {
            self.table
                .remarks
                .push((names.id, names.outcome.to_string()));
        }
        names
    }

    fn string(&mut self, text: String) -> u32 {
        if let Some(index) = self.known.get(&text) {
            return *index;
        }
        let index = self.table.strings.len() as u32;
        self.table.strings.push(text.clone());
        self.known.insert(text, index);
        index
    }

    fn finish(mut self) -> SymbolTable {
        self.table
            .addresses
            .sort_by_key(|(generation, address, _)| (*generation, *address));
        self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapreel_format::testing::TraceBuilder;
    use heapreel_format::{Definition, Entry};

    fn module(id: u32, generation: u32, start: u64, path: &str) -> Definition<'static> {
        Definition::Module {
            id,
            generation,
            path: path.to_owned().into(),
            bias: start,
            start,
            end: start + 0x1000,
            build_id: Vec::new().into(),
            key: 0,
        }
    }

    #[test]
    fn an_address_belongs_to_the_module_of_its_generation() {
        let bytes = TraceBuilder::new()
            .define(module(1, 0, 0x1000, "/old.so"))
            .define(module(2, 3, 0x1000, "/new.so"))
            .bytes();
        let trace = Trace::from_bytes(bytes).unwrap();
        let modules = ModuleMap::new(&trace);
        let id = |generation, address| modules.find(generation, address).map(|m| m.id);
        assert_eq!(id(2, 0x1010), Some(1));
        assert_eq!(id(3, 0x1010), Some(2));
        // Return addresses: the first byte's is one behind it.
        assert_eq!(id(3, 0x1000), None);
        assert_eq!(id(3, 0x2000), Some(2));
        assert_eq!(id(3, 0x2001), None);
    }

    #[test]
    fn libraries_that_take_turns_at_a_place_are_told_apart() {
        let mut trace = TraceBuilder::new();
        for generation in 0..1000 {
            let path = ["/wolf.so", "/deer.so"][generation as usize % 2];
            trace = trace.define(module(generation + 1, generation, 0x5000, path));
        }
        let trace = Trace::from_bytes(trace.bytes()).unwrap();
        let modules = ModuleMap::new(&trace);
        for generation in 0..1000 {
            let found = modules.find(generation, 0x5010).map(|m| m.id);
            assert_eq!(found, Some(generation + 1));
        }
    }

    #[test]
    fn missing_files_are_remarked_on_and_every_address_has_an_entry() {
        let bytes = TraceBuilder::new()
            .define(module(1, 0, 0x1000, "/no/such/file"))
            .stack(1, Entry::Malloc, &[0x1010, 0x1020])
            .stack(2, Entry::Malloc, &[0x1010, 0x9_0000])
            .bytes();
        let trace = Trace::from_bytes(bytes).unwrap();
        let mut progress = Vec::new();
        let done = symbolicate(&trace, &Options::default(), |done, total| {
            progress.push((done, total))
        });
        assert_eq!(progress, [(2, 2)]);
        assert_eq!((done.addresses(), done.named(), done.homeless), (3, 0, 1));
        assert_eq!(done.table.addresses.len(), 2);
        assert_eq!(
            done.table.remarks,
            [(1, "the file is not there any more".to_owned())]
        );
    }

    #[test]
    fn this_test_finds_its_own_name() {
        #[inline(never)]
        fn somewhere() -> u64 {
            std::hint::black_box(somewhere as *const () as u64)
        }
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let program = std::env::current_exe().unwrap();
        let program = program.to_str().unwrap();
        let first = maps.lines().find(|line| line.ends_with(program)).unwrap();
        let base = u64::from_str_radix(first.split('-').next().unwrap(), 16).unwrap();
        let bytes = TraceBuilder::new()
            .define(Definition::Module {
                id: 1,
                generation: 0,
                path: program.to_owned().into(),
                bias: base,
                start: base,
                end: base + (1 << 30),
                build_id: Vec::new().into(),
                key: 0,
            })
            .stack(1, Entry::Malloc, &[somewhere() + 1])
            .bytes();
        let trace = Trace::from_bytes(bytes).unwrap();
        let done = symbolicate(&trace, &Options::default(), |_, _| {});
        let frames = done.table.lookup(0, somewhere() + 1).unwrap();
        let name = done.table.string(frames.last().unwrap().function);
        assert!(name.contains("somewhere"), "{name}");
    }
}
