//! Backtraces, taken while the program allocates.
//!
//! The unwinder runs inside `malloc` and inside signal handlers: it never
//! allocates, takes no lock where glibc offers `_dl_find_object`, leaves `errno`
//! alone and reads stack memory only where that memory is known to be mapped.
//!
//! On Linux x86-64 a walk needs no frame pointers. Each return address has a
//! [rule](x86_64::Rule) of one word, compiled once from the module's `.eh_frame`
//! and kept in a table that all threads share without a lock. Elsewhere the
//! `backtrace` crate does the work, see `portable`.
//!
//! # Stack use
//!
//! A walk that finds all its rules uses less than 1 KiB of stack, one that
//! compiles a rule less than 4 KiB.

#![allow(
    dead_code,
    unused_imports,
    reason = "the face is wider than its first users need"
)]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod eh_frame;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod linux;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod x86_64;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod portable;

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) use {
    linux::{BuildId, ModuleInfo, StackBounds, init, is_readable, module_of},
    x86_64::{
        Frame, KnownStack, Regs, forget_modules, generation, here, second_caller, walk, walk_from,
    },
};

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub(crate) use portable::{
    BuildId, ModuleInfo, Regs, StackBounds, forget_modules, generation, here, init, module_of, walk,
};

/// What a walk found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    /// How many return addresses were written.
    pub len: usize,
    /// Why the walk ended there.
    pub ended: End,
}

/// Why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The outermost stack frame was reached: the backtrace is whole.
    Outermost,
    /// The output is full; there may be more.
    Full,
    /// No unwind information covers the last address written (or the start),
    /// and no plausible frame pointer led on.
    NoCfi,
    /// Unwind information covers the last address but needs a register that is
    /// not followed, or a form that is not understood.
    Unsupported,
    /// The next stack frame would lie outside the stack or below the last one.
    BadStack,
}
