//! Allocators that a program carries inside, which a library loaded beside it cannot see.

use memchr::memmem;
use object::{Object, ObjectSymbol};

/// An allocator within a program's own file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct OwnAllocator {
    /// jemalloc, mimalloc, tcmalloc, or "its own".
    pub name: String,
    /// C's functions that the file itself defines: `malloc`, `free` …
    pub c_functions: Vec<String>,
    /// It replaces operator new.
    pub operator_new: bool,
}

impl OwnAllocator {
    /// Its blocks do not come from a malloc that others could see.
    pub fn hides_blocks(&self) -> bool {
        !self.c_functions.is_empty() || self.name != ITS_OWN
    }
}

/// An allocator that has no name.
const ITS_OWN: &str = "its own";

const C_FUNCTIONS: &[&str] = &["malloc", "free", "calloc", "realloc"];
const OPERATOR_NEW: &[&str] = &["_Znwm", "_Znam"];

/// Names and texts that only these allocators have.
const KNOWN: &[(&str, &[&str], &str)] = &[
    (
        "jemalloc",
        &[
            "_rjem_malloc",
            "je_malloc",
            "je_arena_boot",
            "_rjem_mallocx",
        ],
        "<jemalloc>: ",
    ),
    (
        "mimalloc",
        &["mi_malloc", "_mi_malloc_generic", "mi_heap_malloc"],
        "mimalloc: ",
    ),
    ("tcmalloc", &["tc_malloc", "tc_new"], "tcmalloc: "),
];

/// Looks for an allocator in a program's symbols and texts.
pub fn of<'d>(file: &impl Object<'d>, bytes: &[u8]) -> Option<OwnAllocator> {
    let mut c_functions = Vec::new();
    let mut operator_new = false;
    let mut known = None;
    let defined = file
        .symbols()
        .chain(file.dynamic_symbols())
        .filter(|symbol| symbol.is_definition());
    for name in defined.filter_map(|symbol| symbol.name().ok()) {
        let name = name.split('@').next().unwrap_or_default();
        if C_FUNCTIONS.contains(&name) && !c_functions.iter().any(|n| n == name) {
            c_functions.push(name.to_owned());
        }
        operator_new |= OPERATOR_NEW.contains(&name);
        known = known.or_else(|| by_symbol(name));
    }
    c_functions.sort();
    let known = known.or_else(|| by_text(bytes));
    if known.is_none() && c_functions.is_empty() && !operator_new {
        return None;
    }
    Some(OwnAllocator {
        name: known.unwrap_or(ITS_OWN).to_owned(),
        c_functions,
        operator_new,
    })
}

/// Whether a program calls an allocation function of a library's.
pub fn is_asked_of_a_library<'d>(file: &impl Object<'d>) -> bool {
    const OTHERS: &[&str] = &[
        "aligned_alloc",
        "posix_memalign",
        "memalign",
        "reallocarray",
    ];
    let wanted = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_undefined());
    wanted.filter_map(|symbol| symbol.name().ok()).any(|name| {
        C_FUNCTIONS.contains(&name) || OPERATOR_NEW.contains(&name) || OTHERS.contains(&name)
    })
}

fn by_symbol(name: &str) -> Option<&'static str> {
    KNOWN
        .iter()
        .find(|(_, symbols, _)| symbols.contains(&name))
        .map(|(known, ..)| *known)
}

fn by_text(bytes: &[u8]) -> Option<&'static str> {
    KNOWN
        .iter()
        .find(|(.., text)| memmem::find(bytes, text.as_bytes()).is_some())
        .map(|(known, ..)| *known)
}

/// The allocator behind a library's name, as `libjemalloc.so.2`.
pub fn known_by_library(library: &str) -> Option<&'static str> {
    KNOWN
        .iter()
        .map(|(name, ..)| *name)
        .find(|name| library.starts_with(&format!("lib{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_recognised() {
        assert_eq!(known_by_library("libjemalloc.so.2"), Some("jemalloc"));
        assert_eq!(
            known_by_library("libtcmalloc_minimal.so.4"),
            Some("tcmalloc")
        );
        assert_eq!(known_by_library("libm.so.6"), None);
    }

    #[test]
    fn texts_betray_a_stripped_allocator() {
        assert_eq!(by_text(b"..mimalloc: error.."), Some("mimalloc"));
        assert_eq!(by_text(b"nothing"), None);
    }
}
