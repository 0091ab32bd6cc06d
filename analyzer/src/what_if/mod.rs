//! What another allocator would have done: a trace's calls, fed to models.
//!
//! ```text
//! batches of steps ──▶ feeder ──▶ calls ──┬─▶ run (ledger + model), a thread each
//!  (replay::Merge)   (addresses become    └─▶ run …
//!                     block numbers)
//! ```
//!
//! The trace is decoded once, however many models there are. [`Scene`] is what a trace
//! tells models beforehand, [`Choice`] a model as a person names it, [`replay`] the pass.

mod call;
mod choice;
mod configuration;
mod exits;
mod feeder;
mod placements;
mod registry;
mod replay;
mod run;
mod scene;
mod trace_names;

pub use call::{Call, CallKind};
pub use choice::{Choice, MODELS, ModelName, Setting};
pub use configuration::{Configuration, ConfigurationError};
pub use feeder::Fed;
pub use placements::{Placements, Shape};
pub use registry::{BadModel, Built, build};
pub use replay::{Watch, replay};
pub use run::Run;
pub use scene::{Scene, TraceSegment, TraceThread};
