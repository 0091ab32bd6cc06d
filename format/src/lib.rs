//! The heapreel trace: what the recorder writes and the analyzer reads.
//!
//! A trace is a file header, then self-contained [chunks](ChunkHeader), each with its
//! own length, checksum and base for deltas, so that a damaged chunk costs only
//! itself. `FORMAT.md` beside this crate gives the layout byte by byte.
//!
//! The crate knows bytes and nothing else: no symbols, no statistics, no clock.
//! It also holds the layout of the [spill], the shared memory in which a
//! running program leaves its records, and the [drain](spill::Drain) which turns
//! a spill into a trace; both the recorder and `heapreel record` run that drain.
//!
//! # Words
//!
//! - *record*: one entry of a thread's stream: an event, a state change or a
//!   rare record. *event*: an allocation, reallocation or deallocation.
//! - *key*: the instant, in ticks, that orders an event among all threads. An
//!   acquisition's key is the instant after the call returned, a release's the
//!   instant before it was entered.
//! - *tick*: the unit of the recording's clock; [`FileHeader::clock`] says how
//!   many make a second.
//! - *stream*: all records of one thread, in the order they were published; what
//!   a signal handler recorded while the recorder itself ran is a second, nested
//!   stream of the same thread.
//!
//! # Example
//!
//! ```
//! use heapreel_format::{Trace, testing};
//!
//! let bytes = testing::small_trace();
//! let trace = Trace::from_bytes(bytes).unwrap();
//! assert_eq!(trace.header().process.executable, "/usr/games/example");
//! let mut events = 0;
//! for entry in trace.chunks() {
//!     events += trace.decode(entry).unwrap().events.len();
//! }
//! assert_eq!(events, 2);
//! ```

mod chunk;
pub mod clips;
mod codec;
mod definition;
mod error;
mod event;
mod header;
mod health;
pub mod kill_point;
mod rare;
mod reader;
mod recover;
pub mod spill;
mod symbols;
mod tally;
pub mod testing;
mod varint;
mod writer;

pub use chunk::{CHUNK_HEADER_BYTES, ChunkBase, ChunkHeader, ChunkKind, Codec};
pub use codec::{Decoder, DeltaState, MAX_EVENT_BYTES, RecordWriter, StreamRecord};
pub use definition::{
    ClipCause, ContextId, Definition, FrameSource, HeapId, HeapKind, LoopId, NameId, Role,
    SegmentId, StackId, ThreadId,
};
pub use error::{ReadError, WriteError};
pub use event::{Entry, Event, EventKind};
pub use header::{
    Clock, ClockSource, Ended, FORMAT_VERSION, FileHeader, FormatVersion, MAGIC, ProcessFacts,
    Settings, TraceId,
};
pub use health::{Damage, Health};
pub use rare::{LiveBlock, OsCall, Rare};
pub use reader::{
    ChunkEntry, ClipDef, DecodedChunk, Definitions, ModuleDef, Place, StackDef, ThreadDef, Trace,
};
pub use recover::{RecoverError, Recovered, recover};
pub use symbols::{SymbolFrame, SymbolTable};
pub use tally::Tally;
pub use writer::{TraceFile, TraceWriter};
