//! Names of code addresses, carried inside the trace.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// One function at an address: the innermost inlined one first, the real one last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SymbolFrame {
    /// Index of the function's name in [`SymbolTable::strings`].
    pub function: u32,
    /// Index of the source file's path, where known.
    pub file: Option<u32>,
    /// Line in that file, from 1, where known.
    pub line: Option<u32>,
}

/// Symbols of distinct code addresses. A trace may hold several; later ones win.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SymbolTable {
    /// Function names and paths, each once.
    pub strings: Vec<String>,
    /// Per generation and return address, in ascending order: its functions.
    /// An address with none was looked up in vain.
    pub addresses: Vec<(u32, u64, Vec<SymbolFrame>)>,
    /// Per module number: why its names are missing or incomplete.
    pub remarks: Vec<(u32, String)>,
}

impl SymbolTable {
    /// The functions at a return address as it stands in a backtrace.
    pub fn lookup(&self, generation: u32, address: u64) -> Option<&[SymbolFrame]> {
        let at = self
            .addresses
            .binary_search_by(|(g, a, _)| (*g, *a).cmp(&(generation, address)))
            .ok()?;
        Some(&self.addresses[at].2)
    }

    /// The string with this index, or "?" where a stranger's table points nowhere.
    pub fn string(&self, index: u32) -> &str {
        self.strings.get(index as usize).map_or("?", String::as_str)
    }

    /// Takes over all that `other` knows.
    pub fn absorb(&mut self, other: SymbolTable) {
        let mut known: HashMap<String, u32> = self
            .strings
            .iter()
            .enumerate()
            .map(|(i, s)| (s.clone(), i as u32))
            .collect();
        let renumber: Vec<u32> = other
            .strings
            .into_iter()
            .map(|text| {
                *known.entry(text.clone()).or_insert_with(|| {
                    self.strings.push(text);
                    (self.strings.len() - 1) as u32
                })
            })
            .collect();
        let map = |index: u32| renumber.get(index as usize).copied().unwrap_or(u32::MAX);
        for (generation, address, frames) in other.addresses {
            let frames = frames
                .into_iter()
                .map(|f| SymbolFrame {
                    function: map(f.function),
                    file: f.file.map(map),
                    line: f.line,
                })
                .collect();
            self.addresses.push((generation, address, frames));
        }
        // Stable: among equals the later one stands behind, and is kept.
        self.addresses
            .sort_by_key(|(generation, address, _)| (*generation, *address));
        self.addresses.reverse();
        self.addresses
            .dedup_by_key(|(generation, address, _)| (*generation, *address));
        self.addresses.reverse();
        self.remarks.extend(other.remarks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str, address: u64) -> SymbolTable {
        SymbolTable {
            strings: vec![name.to_owned()],
            addresses: vec![(
                0,
                address,
                vec![SymbolFrame {
                    function: 0,
                    file: None,
                    line: Some(7),
                }],
            )],
            remarks: Vec::new(),
        }
    }

    #[test]
    fn later_names_win() {
        let mut all = table("old", 0x10);
        all.absorb(table("other", 0x20));
        all.absorb(table("new", 0x10));
        let name = |address| all.string(all.lookup(0, address).unwrap()[0].function);
        assert_eq!(name(0x10), "new");
        assert_eq!(name(0x20), "other");
        assert_eq!(all.lookup(1, 0x10), None);
    }
}
