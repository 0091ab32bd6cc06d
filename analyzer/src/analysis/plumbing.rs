//! Which functions of a backtrace are an allocator's or a library's plumbing: the call
//! site to blame is the first function above them.

use crate::symbols::short_name;

/// Namespaces and crates that only pass a request on.
const NAMESPACES: &[&str] = &[
    "alloc::",
    "core::",
    "std::",
    "hashbrown::",
    "heapreel::",
    "heapreel_preload::",
    "heapreel_format::",
    "__gnu_cxx::",
    "__cxxabiv1::",
];

/// Functions that do nothing but allocate, or start a thread.
const FUNCTIONS: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "strdup",
    "strndup",
    "operator new",
    "operator new[]",
    "operator delete",
    "operator delete[]",
    "_start",
    "start_thread",
    "clone",
    "clone3",
];

const FUNCTION_PREFIXES: &[&str] = &[
    "__rust_alloc",
    "__rust_realloc",
    "__rust_dealloc",
    "__rustc",
    "__rdl_",
    "__rg_",
    "__libc_",
    "__cxa_",
];

/// Libraries whose every function is plumbing to a game.
const MODULES: &[&str] = &[
    "libc.so",
    "libc-",
    "libstdc++",
    "libc++",
    "libgcc_s",
    "ld-linux",
    "ld-",
    "libpthread",
    "libm.so",
    "libdl.so",
];

/// Whether a module, by its path, holds only plumbing.
pub(crate) fn is_plumbing_module(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.starts_with("libheapreel_preload") || MODULES.iter().any(|module| file.starts_with(module))
}

/// Whether a function, by its demangled name, is plumbing.
pub(crate) fn is_plumbing_function(full: &str) -> bool {
    if FUNCTION_PREFIXES
        .iter()
        .any(|prefix| full.starts_with(prefix))
    {
        return true;
    }
    if let Some(inside) = full.strip_prefix('<') {
        return is_library_type(inside);
    }
    if !is_cpp(full) {
        return in_namespace(full) || FUNCTIONS.contains(&full);
    }
    // The name may begin with a return type.
    let short = short_name(full);
    FUNCTIONS.contains(&short.as_str()) || in_namespace(&short)
}

/// Whether the compiler made this function between Rust code and the global allocator.
pub(crate) fn is_rust_entry(full: &str) -> bool {
    let name = full.rsplit("::").next().unwrap_or(full);
    ["__rust_alloc", "__rust_realloc", "__rust_dealloc"]
        .iter()
        .any(|entry| name.starts_with(entry))
}

/// Whether a source file is the Rust standard library's, as it was built at its makers'.
pub(crate) fn is_rust_library(file: &str) -> bool {
    file.starts_with("/rustc/")
}

fn in_namespace(name: &str) -> bool {
    NAMESPACES
        .iter()
        .any(|namespace| name.starts_with(namespace))
}

/// C++ and Rust both have a `std`; only C++ writes parameters, at the end.
fn is_cpp(full: &str) -> bool {
    full.trim_end_matches(" const").ends_with(')') || full.contains(" [clone ")
}

/// The inside of `<Type as Trait>::function`: library types, and type parameters of a
/// library's trait, as in `<T as core::convert::Into<U>>::into`.
fn is_library_type(inside: &str) -> bool {
    let inside = inside.trim_start_matches(['&', '[', '*']);
    let inside = ["mut ", "const ", "dyn "]
        .iter()
        .fold(inside, |text, prefix| {
            text.strip_prefix(prefix).unwrap_or(text)
        });
    if in_namespace(inside) {
        return true;
    }
    let Some((of, rest)) = inside.split_once(" as ") else {
        return false;
    };
    of.len() == 1 && in_namespace(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plumbing_is_told_from_the_game() {
        for name in [
            "malloc",
            "operator new(unsigned long)",
            "__rust_alloc",
            "__rdl_alloc",
            "__rustc[5d2f]::__rust_alloc",
            "alloc::vec::Vec<T,A>::push",
            "<alloc::vec::Vec<u8> as core::clone::Clone>::clone",
            "<T as core::convert::Into<U>>::into",
            "<&mut F as core::ops::FnOnce<(A, B)>>::call_once",
            "std::rt::lang_start::{{closure}}",
            "heapreel::raw::allocate",
            "<heapreel::Recorder<A> as core::alloc::global::GlobalAlloc>::alloc",
            "std::vector<int, std::allocator<int> >::push_back(int const&)",
            "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int const&>(int*, int const&)",
            "__gnu_cxx::new_allocator<int>::allocate(unsigned long, void const*)",
            "std::__cxx11::basic_string<char>::_M_create(unsigned long&, unsigned long)",
            "hashbrown::raw::RawTable<T,A>::reserve_rehash",
        ] {
            assert!(is_plumbing_function(name), "{name}");
        }
        for name in [
            "TerrainTile::load(std::string const&)",
            "game::spawn_label",
            "<game::Foo as core::clone::Clone>::clone",
            "std_like::thing",
            "allocate_everything()",
            "main",
            "std::vector<Tile>* World::tiles(int)",
        ] {
            assert!(!is_plumbing_function(name), "{name}");
        }
    }

    #[test]
    fn libraries_are_told_by_their_file() {
        assert!(is_plumbing_module("/lib/x86_64-linux-gnu/libc.so.6"));
        assert!(is_plumbing_module("/usr/lib/libstdc++.so.6.0.30"));
        assert!(is_plumbing_module("/tmp/x/libheapreel_preload.so"));
        assert!(is_plumbing_module("/lib64/ld-linux-x86-64.so.2"));
        assert!(!is_plumbing_module("/usr/games/openttd"));
        assert!(!is_plumbing_module("/usr/lib/libcairo.so.2"));
        assert!(!is_plumbing_module("/usr/lib/libSDL2-2.0.so.0"));
    }

    #[test]
    fn the_compilers_entry_is_known_under_its_names() {
        assert!(is_rust_entry("__rust_alloc"));
        assert!(is_rust_entry("__rustc::__rust_realloc"));
        assert!(!is_rust_entry("game::rust_alloc"));
        assert!(is_rust_library(
            "/rustc/59807616e1fa/library/alloc/src/vec/mod.rs"
        ));
        assert!(!is_rust_library("/home/dev/game/src/main.rs"));
    }
}
