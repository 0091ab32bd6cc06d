//! Models of allocators: what a run would have looked like in another heap.
//!
//! A [`Model`] is fed one call at a time, in the trace's order, and answers with simulated
//! addresses and [`Counters`]. It knows neither traces nor files nor other models; where a
//! model takes memory in pages it does so through the [`PageSource`] that it is given.
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
    Block, BlockId, Failure, FailureCause, Model, Moment, Placed, Region, Request, RunState,
    SegmentId, ThreadRole,
};
pub use page_source::{PageSource, Unlimited};
pub use parameters::BadParameter;
pub use pool::Pool;
pub use recorded::Recorded;
pub use virtual_memory::Virtual;
