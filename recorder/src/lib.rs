//! Records what a game does with memory: every allocation with its size, thread,
//! latency, segment and backtrace, to be played back by the program `heapreel`.
//!
//! ```no_run
//! use std::alloc::System;
//!
//! #[global_allocator]
//! static ALLOC: heapreel::Recorder<System> = heapreel::Recorder::system();
//!
//! fn main() {
//!     heapreel::start(heapreel::Config::new("game.hreel")).expect("heapreel");
//!     for _turn in 0..600 {
//!         // play
//!         heapreel::frame_mark();
//!     }
//!     heapreel::stop();
//! }
//! ```
//!
//! Instead of calling [`start`] a game may be run with `HEAPREEL_OUT=game.hreel`, or
//! under `heapreel record`, which needs no change at all.
//!
//! # Counters without a trace
//!
//! For an overlay or a test the game reads its own figures, with neither file nor
//! backtraces: [`count`] begins, [`frame_stats`] tells of the last frame, [`thread_stats`]
//! of the calling thread.
//!
//! ```
//! use std::alloc::System;
//!
//! #[global_allocator]
//! static ALLOC: heapreel::Recorder<System> = heapreel::Recorder::system();
//! static LEVEL: heapreel::Segment = heapreel::Segment::new("Level").budget(64 << 20);
//!
//! heapreel::count();
//! let _level = LEVEL.enter();
//! let _map = vec![0u8; 4096];
//! heapreel::frame_mark();
//! let frame = heapreel::frame_stats();
//! for segment in frame.segments() {
//!     let counts = segment.counts;
//!     println!("{} {} of {} bytes", segment.name(), counts.live_bytes, segment.budget);
//! }
//! assert_eq!(frame.segment("Level").live_bytes, 4096);
//! ```
//!
//! [`assert_allocs!`] has a test fail where code asks for memory that should not, and names
//! the call sites.
//!
//! # Contexts
//!
//! What memory is for, rather than which function asked for it: [`context!`] names the asset,
//! level or entity that a scope works for, with strings made at run time. [`Context`] carries
//! it to another thread or a later job. `heapreel contexts` shows the tree.
//!
//! ```
//! fn load(path: &str) -> Vec<u8> {
//!     let _asset = heapreel::context!("asset", path);
//!     vec![0; 4096] // for "level:forest / asset:rock_07.mesh"
//! }
//!
//! let _level = heapreel::context!("level", "forest");
//! let context = heapreel::Context::current();
//! let job = std::thread::spawn(move || {
//!     let _level = context.enter();
//!     load("rock_07.mesh")
//! });
//! # assert_eq!(job.join().unwrap().len(), 4096);
//! ```
//!
//! The feature `tracing` makes contexts of the spans of the crate `tracing`
//! (`tracing::SpanContexts`), the feature `bevy` ends a game frame with each update of an
//! app (`bevy::FramePlugin`).
//!
//! # What it costs
//!
//! Not started: one load and a predictable branch a call. Counting: two clock reads and a
//! few additions to a cache line of the thread's own. Recording: two clock reads,
//! a backtrace and a record of about eight bytes a call; no lock, no system call, and
//! 64 MiB of memory at most beside the table of backtraces. `docs/recorder.md` in the
//! repository has the measurements.
//!
//! # Limits
//!
//! The crate builds and records on Linux on x86-64. On other systems it does not build
//! yet, and says so; what belongs to one system lies in folders of its own.
//!
//! Nothing that goes wrong with recording changes what the game computes: what could
//! not be recorded is counted, and the count is in the trace.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!(
    "heapreel records on Linux on x86-64 so far: depend on it under \
     [target.'cfg(all(target_os = \"linux\", target_arch = \"x86_64\"))'.dependencies]"
);

#[cfg(feature = "assert")]
#[doc(hidden)]
pub mod assertion;
mod backtrace;
#[cfg(feature = "bevy")]
pub mod bevy;
mod calibrate;
mod call;
mod config;
mod context;
mod context_table;
mod count;
mod counters;
mod definitions;
mod drain;
mod heap;
mod heap_records;
mod hooks;
mod interning;
mod modules;
mod names;
mod os;
mod private_heap;
#[doc(hidden)]
pub mod raw;
mod recorder;
mod scopes;
mod session;
mod spill;
mod stacks;
mod start;
mod stream;
mod switch;
mod text;
mod thread;
mod told;
#[cfg(feature = "tracing")]
pub mod tracing;
mod unwind;
mod watch;

pub use config::Config;
pub use context::{Context, ContextScope};
pub use count::count;
pub use counters::{Counts, SegmentCounts, Stats, frame_stats, thread_stats};
pub use heap::{Heap, HeapAnnouncement, HeapKind};
pub use heapreel_format::Role;
pub use recorder::Recorder;
pub use scopes::{
    Loop, Phase, Segment, SegmentScope, clip, frame_mark, frame_mark_in, mark, phase, thread_role,
};
pub use session::StartError;
pub use start::{is_recording, start, stop};
