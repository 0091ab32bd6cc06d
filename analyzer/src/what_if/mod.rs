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
mod compared;
mod configuration;
mod csv;
mod deciding;
mod exits;
mod feeder;
mod lifetimes;
mod phases;
mod placements;
mod registry;
mod replay;
mod report;
mod run;
mod scene;
mod sweep;
mod trace_names;

pub use call::{Call, CallKind};
pub use choice::{Choice, MODELS, ModelName, Setting};
pub use compared::{Compared, ComparedRow, compare};
pub use configuration::{Configuration, ConfigurationError};
pub use csv::write_csv;
pub use deciding::{ClassHeld, HeldBySize, HeldMost, held_by_size};
pub use feeder::Fed;
pub use placements::Placements;
pub use registry::{BadModel, Built, build};
pub use replay::{Watch, replay};
pub use report::{
    Cause, ExcessRow, FailureRow, InstanceRow, ModelReport, PerFrame, Replayed, SegmentRow,
    WorstFrame, frame_rows, report,
};
pub use run::Run;
pub use scene::{Scene, TraceSegment, TraceThread};
pub use sweep::{Swept, SweptRow, Vary, combinations, mark_best};
