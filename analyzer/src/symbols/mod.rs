//! From code addresses to functions, source lines and inlined calls.
//!
//! A trace names the modules (program and libraries) that were loaded and the
//! addresses that called an allocation function. [`resolve_module`] finds the file
//! of one module, its separate debug files, and names the addresses; with
//! [`resolve_modules`] all modules of a trace are done at once.
//!
//! ```
//! use heapreel_analyzer::symbols::{ModuleFile, ModuleOutcome, Options, resolve_module};
//!
//! let module = ModuleFile { path: "/no/such/game", build_id: &[] };
//! let resolved = resolve_module(&module, &[0x1234], &Options::default());
//! assert!(matches!(resolved.outcome, ModuleOutcome::NoFile { .. }));
//! assert!(resolved.frames[0].is_empty());
//! ```
//!
//! Names come, best first, from DWARF 2 to 5 (plain or compressed, in the file, in a
//! separate debug file, split into `.dwo` or `.dwp`, or shared by `dwz`), from the
//! symbol tables (Fedora's compressed one too), and for a stripped file from the starts of functions that the
//! unwind tables know (`sub_1a2b30`).
//!
//! **A file whose build-id is not the trace's is never used**: no name is better than
//! the name of another program's line.
//!
//! Files are little-endian 64-bit ELF. They are mapped while being read: whoever
//! truncates one in that moment ends this process with SIGBUS (linkers and package
//! managers replace files instead, which is harmless).
//! Their contents are not trusted: damaged ones cost names, nothing else.

mod arena;
mod debug_info;
mod demangle;
mod elf;
mod function_starts;
mod locate;
mod mini_debug_info;
mod module;
mod names;
mod resolve;
mod search_index;
mod short_name;
mod split;
mod symbol_table;

pub use demangle::demangle;
pub use module::{ModuleFile, ModuleOutcome, NoFileReason, Options, ResolvedFrame, ResolvedModule};
pub use resolve::{resolve_module, resolve_modules};
pub use short_name::short_name;
