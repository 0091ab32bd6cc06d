//! From the pieces of a trace to one sequence in key order, and from that to blocks.
//!
//! ```text
//! chunks of each stream ──▶ cursor (decode, restore order) ──┐
//!                                                            ├─▶ merge ─▶ batches ─▶ live set ─▶ observers
//! releases in flight ──────▶ cursor ─────────────────────────┘    (a thread of its own)
//! ```
//!
//! A stream is what one thread published; its signal handlers' records are a second,
//! nested one. Memory is two chunks of each stream, a few batches, and the live set.

mod cursor;
mod feed;
mod live_set;
mod merge;
mod names;
mod player;
mod step;

pub use cursor::DecodeFaults;
pub use live_set::{Block, LiveSet};
pub use merge::{Batch, Merge};
pub use names::Dense;
pub use player::{Anomalies, Effect, Observer, Outcome, Player, Span, Tick};
pub use step::{Step, StepKind};

pub(crate) use feed::with_batches;
pub(crate) use player::snapshot_blocks;
