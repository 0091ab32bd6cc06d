//! Recording a program from outside: what `heapreel record` and `heapreel demo` share.
//!
//! The program runs with the recorder loaded and leaves its records in a *spill*, a
//! file in a private [`session`] folder. The [`host`] watches that folder and drains
//! every spill that appears there into a trace of its own, in this process: the game
//! has no thread, no descriptor and no file of ours. When a process is gone, what its
//! spill still holds follows, and the spill is removed.
//!
//! ```text
//!  heapreel record ── spawns ──> game ── forks, execs ──> children
//!       │   │                     │                          │
//!       │   └─ session folder: PID-random.spill <── stores ──┘
//!       └─ drains each spill into NAME.PID.EXE.hreel
//! ```
//!
//! Should this process be killed, the programs run on, traces and spills stay as they
//! are, and reading a trace finds its spill by itself.

pub mod clips;
pub mod environment;
mod exit_status;
pub mod finished;
mod glob;
pub mod host;
mod naming;
pub mod preload;
mod proc;
mod recorded;
pub mod session;
pub mod signals;
mod thread_names;
mod ticks;
mod watch;

pub use finished::Finished;
pub use host::Host;
pub use naming::Naming;
