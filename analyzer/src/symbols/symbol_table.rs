//! Names from `.symtab` and `.dynsym`.

use super::elf::{Elf, Image};
use object::{Object, ObjectSection, ObjectSymbol, SectionFlags, SymbolKind, elf};

/// Symbols that may overlap an address without containing it; more is not real code.
const MAX_STEPS_BACK: usize = 256;

/// Functions by address.
#[derive(Default)]
pub(super) struct SymbolTable<'a> {
    /// In ascending order of `start`, one for each.
    symbols: Vec<Symbol<'a>>,
    /// For each symbol the highest end up to it, to know when looking back is vain.
    highest_end: Vec<u64>,
    has_full_table: bool,
}

#[derive(Clone, Copy, Debug)]
struct Symbol<'a> {
    start: u64,
    /// Exclusive; for symbols without a size the start of the next or the section's end.
    end: u64,
    has_size: bool,
    rank: u8,
    name: &'a str,
}

impl<'a> SymbolTable<'a> {
    /// Reads the tables of all files of a module.
    pub(super) fn read(images: &[&'a Image]) -> Self {
        let mut symbols = Vec::new();
        let mut has_full_table = false;
        for image in images {
            let Ok(elf) = image.elf() else { continue };
            let code = code_sections(&elf);
            let before = symbols.len();
            symbols.extend(elf.symbols().filter_map(|symbol| function(&symbol, &code)));
            has_full_table |= symbols.len() > before;
            symbols.extend(
                elf.dynamic_symbols()
                    .filter_map(|symbol| function(&symbol, &code)),
            );
        }
        SymbolTable::new(symbols, has_full_table)
    }

    fn new(mut symbols: Vec<Symbol<'a>>, has_full_table: bool) -> Self {
        // Of several names the best comes first and stays; the rest decides equal ranks
        // the same way in every run.
        symbols.sort_unstable_by_key(|s| (s.start, s.rank, s.name.len(), s.name));
        symbols.dedup_by_key(|symbol| symbol.start);
        for at in 1..symbols.len() {
            let next = symbols[at].start;
            let symbol = &mut symbols[at - 1];
            if !symbol.has_size {
                symbol.end = symbol.end.min(next);
            }
        }
        let mut highest = 0;
        let highest_end = symbols
            .iter()
            .map(|symbol| {
                highest = highest.max(symbol.end);
                highest
            })
            .collect();
        SymbolTable {
            symbols,
            highest_end,
            has_full_table,
        }
    }

    /// The name of the function that contains the address, mangled.
    pub(super) fn find(&self, svma: u64) -> Option<&'a str> {
        let after = self.symbols.partition_point(|symbol| symbol.start <= svma);
        let mut label = None;
        for at in (0..after).rev().take(MAX_STEPS_BACK) {
            if self.highest_end[at] <= svma {
                break;
            }
            let symbol = &self.symbols[at];
            if svma < symbol.end {
                // A label without a size inside a function must not hide the function.
                if symbol.has_size {
                    return Some(symbol.name);
                }
                label = label.or(Some(symbol.name));
            }
        }
        label
    }

    /// There are no symbols of functions at all.
    pub(super) fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// A table of all functions was found, not only that of the exported ones.
    pub(super) fn has_full_table(&self) -> bool {
        self.has_full_table
    }
}

/// Address ranges of sections with code.
fn code_sections(elf: &Elf<'_>) -> Vec<(u64, u64)> {
    elf.sections()
        .filter(|section| match section.flags() {
            SectionFlags::Elf { sh_flags, .. } => {
                sh_flags & elf::SHF_EXECINSTR != elf::SectionFlags::default()
            }
            _ => false,
        })
        .map(|section| {
            (
                section.address(),
                section.address().saturating_add(section.size()),
            )
        })
        .collect()
}

fn function<'a>(symbol: &impl ObjectSymbol<'a>, code: &[(u64, u64)]) -> Option<Symbol<'a>> {
    if !symbol.is_definition() && symbol.is_undefined() {
        return None;
    }
    let kind_rank = match symbol.kind() {
        SymbolKind::Text => 0,
        SymbolKind::Unknown | SymbolKind::Label => 32,
        _ => return None,
    };
    let (start, size) = (symbol.address(), symbol.size());
    let section = code
        .iter()
        .find(|(begin, end)| (*begin..*end).contains(&start));
    let end = match section {
        _ if size > 0 && kind_rank == 0 => start.checked_add(size)?,
        Some((_, end)) if size == 0 => *end,
        Some(_) => start.checked_add(size)?,
        None => return None,
    };
    let name = symbol.name().ok()?;
    // "memcpy@@GLIBC_2.14" in tables of debug files.
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    if name.is_empty() || name.starts_with('$') {
        return None;
    }
    let rank = kind_rank + u8::from(size == 0) * 16 + alias_rank(symbol, name);
    Some(Symbol {
        start,
        end,
        has_size: size > 0,
        rank,
        name,
    })
}

/// Among aliases of one address, the global name without underscores is the one that
/// people know: `printf` rather than `_IO_printf` or `__GI_printf`.
fn alias_rank<'a>(symbol: &impl ObjectSymbol<'a>, name: &str) -> u8 {
    let underscores = name.bytes().take_while(|byte| *byte == b'_').count().min(3) as u8;
    u8::from(symbol.is_local()) * 8 + if is_mangled(name) { 0 } else { underscores }
}

fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("_R")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(name: &str, start: u64, size: u64) -> Symbol<'_> {
        let end = if size == 0 { 0x9000 } else { start + size };
        Symbol {
            start,
            end,
            has_size: size > 0,
            rank: 0,
            name,
        }
    }

    fn table(symbols: &[Symbol<'static>]) -> SymbolTable<'static> {
        SymbolTable::new(symbols.to_vec(), true)
    }

    #[test]
    fn sizes_bound_functions() {
        let table = table(&[symbol("one", 0x1000, 0x10), symbol("two", 0x1020, 0x10)]);
        assert_eq!(table.find(0xfff), None);
        assert_eq!(table.find(0x1000), Some("one"));
        assert_eq!(table.find(0x100f), Some("one"));
        assert_eq!(table.find(0x1010), None, "between functions is neither");
        assert_eq!(table.find(0x1020), Some("two"));
        assert_eq!(table.find(u64::MAX), None);
    }

    #[test]
    fn without_a_size_the_next_symbol_ends_a_function() {
        let table = table(&[symbol("start", 0x1000, 0), symbol("next", 0x1020, 0x10)]);
        assert_eq!(table.find(0x101f), Some("start"));
        assert_eq!(table.find(0x1020), Some("next"));
        assert_eq!(table.find(0x1030), None);
    }

    #[test]
    fn a_label_does_not_hide_the_function_around_it() {
        let table = table(&[
            symbol("memcpy", 0x1000, 0x100),
            symbol("copy_loop", 0x1040, 0),
            symbol("after", 0x1200, 0),
        ]);
        assert_eq!(table.find(0x1050), Some("memcpy"));
        assert_eq!(table.find(0x1104), Some("copy_loop"));
        assert_eq!(table.find(0x8fff), Some("after"));
        assert_eq!(table.find(0x9000), None);
    }

    #[test]
    fn the_better_of_two_names_stays() {
        let weak = Symbol {
            rank: 2,
            ..symbol("a_local_alias", 0x1000, 0x10)
        };
        assert_eq!(
            table(&[weak, symbol("puts", 0x1000, 0x10)]).find(0x1004),
            Some("puts")
        );
        assert!(table(&[]).is_empty());
    }
}
