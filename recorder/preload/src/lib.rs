//! The recorder as a library for `LD_PRELOAD`: every allocation function of the C
//! library and every form of C++'s operator new and delete, seen in any dynamically
//! linked program, unchanged.
//!
//! `heapreel record` loads it. By hand:
//!
//! ```text
//! HEAPREEL_OUT=game.%p.hreel LD_PRELOAD=/path/to/libheapreel_preload.so ./game
//! ```
//!
//! Without `HEAPREEL_SESSION` or `HEAPREEL_OUT` it passes every call on. What is
//! recorded and how is the business of the crate `heapreel`; here is only what it
//! takes to stand between a program and its C library:
//!
//! - `next`: what the program would have called without us,
//! - `c_entries`, `cxx_entries`, `shim`: the functions that it calls instead,
//! - `callers`: which of those calls come from another of these functions,
//! - `lifecycle`, `exec`, `environment`, `unloading`: processes and libraries
//!   that begin and end,
//! - `confinement`, `loading`: what changes what we can do and see, looked at by `aside`,
//! - `pictures`: functions that end game frames without the game saying so,
//! - `interface`: what heapreel.h declares,
//!
//! # Absent on purpose
//!
//! Nothing here calls a function of ours by its public name, allocates from the
//! program's malloc, holds a lock while the program's allocator runs, or panics
//! between a call and its event.

#![cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

mod aside;
mod binding;
mod bootstrap;
mod c_entries;
mod callers;
mod confinement;
mod cxx_entries;
mod cxx_runtime;
mod environment;
mod exec;
mod interface;
mod lifecycle;
mod loading;
mod message;
mod next;
mod pictures;
mod shim;
mod unloading;

/// The memory of our own code: never the program's malloc.
#[global_allocator]
static HEAP: heapreel::raw::PrivateHeap = heapreel::raw::PrivateHeap::new();
