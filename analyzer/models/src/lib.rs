//! Models of allocators: what a run would have looked like in another heap.
//!
//! A [`Model`] is fed one call at a time, in the trace's order, and answers with simulated
//! addresses and [`Counters`]. It knows neither traces nor files nor other models; where a
//! model takes memory in pages it does so through the [`PageSource`] that it is given.
//!
//! [`Heap`] is a heap of segments (best, first and next fit, TLSF), [`Arenas`] a frame
//! arena for each thread, [`Pool`] objects of one size, [`Recorded`] what really happened;
//! a [`Layout`] sends each request to one of several. A [`Ledger`] keeps the books of a
//! replay whatever the model, [`metrics`] measures fragmentation, [`map`] draws it down to
//! cells, and a [`Lookup`] says who may have written to an address.
//!
//! ```
//! use heapreel_models::heap::Parameters;
//! use heapreel_models::ledger::Options;
//! use heapreel_models::{BlockId, Heap, Ledger, Moment, Request};
//!
//! let mut parameters = Parameters::preset("best")?;
//! parameters.set("segments", "Default=64KiB")?;
//! let mut replay = Ledger::new(Box::new(Heap::new(parameters)?), Options::default());
//! let at = Moment::default();
//! let request = Request { size: 40 << 10, align: 0, zeroed: false };
//! assert!(replay.allocate(&at, BlockId(0), request).is_ok());
//! assert!(replay.allocate(&at, BlockId(1), request).is_err());
//! assert_eq!(replay.tally().exhausted, 1);
//! # Ok::<(), heapreel_models::BadParameter>(())
//! ```
//!
//! Time comes from the trace, never from a clock, so a replay gives the same result bit
//! for bit wherever it runs.

mod address_space;
pub mod arena;
mod budgets;
mod counters;
mod free_sizes;
pub mod heap;
pub mod layout;
pub mod ledger;
pub mod lookup;
pub mod map;
pub mod metrics;
pub mod mimalloc;
mod model;
mod page_source;
pub mod paged;
pub mod parameters;
pub mod virtual_memory;

pub use address_space::AddressSpace;
pub use budgets::BudgetExceeded;
pub mod pool;
pub mod recorded;

pub use arena::Arenas;
pub use counters::{Counters, Identity, OsCalls};
pub use free_sizes::{FreeClass, FreeSizes};
pub use heap::Heap;
pub use layout::Layout;
pub use ledger::Ledger;
pub use lookup::Lookup;
pub use mimalloc::Mimalloc;
pub use model::{
    Block, BlockId, FORESIGHT, Failure, FailureCause, Holding, Model, Moment, Placed, Region,
    Request, RunState, SegmentId, ThreadRole,
};
pub use page_source::{PageSource, Unlimited};
pub use parameters::BadParameter;
pub use pool::Pool;
pub use recorded::Recorded;
pub use virtual_memory::Virtual;
