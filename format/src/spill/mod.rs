//! The spill: shared memory in which a recorded program leaves its records.
//!
//! One file per process, in shared memory, mapped by the program and by whoever
//! drains it. Its parts, in this order; how many buffers and blocks there are, the header says:
//!
//! ```text
//! header    one page: who, how far, how it ended         [Header]
//! info      the trace's FileHeader as a postcard value
//! slots     one per living thread: what it is doing now   [Slot]
//! states    one word per buffer: free, owned, full
//! buffers   records, recycled                             [BufferHeader]
//! blocks    definitions, append-only, a block per thread  [BlockHeader]
//! ```
//!
//! The program stores, the drain loads; whatever the drain may read is whole
//! because it was published by one release store of the number of bytes. A
//! program killed at any instant leaves a spill that reads like a finished one.
//!
//! No count covers a part before the kernel has provided its pages: storing to one that
//! is not provided, or even reading it, ends a process where shared memory is full.

mod drain;
mod layout;
mod map;
mod remains;

pub use drain::{Drain, PassStats};
pub use layout::{
    BLOCK_BYTES, BLOCK_DATA, BUFFER_BYTES, BUFFER_DATA, BUFFERS_OFFSET, BlockHeader, BufferHeader,
    Capacity, Header, INFO_BYTES, INFO_OFFSET, MOST_BLOCKS, MOST_BUFFERS, SLOT_COUNT, SLOTS_OFFSET,
    SPILL_MAGIC, STATE_FREE, STATE_FULL, STATE_OWNED, STATES_OFFSET, Slot, commit_word, ended_word,
    split_commit, split_ended,
};
pub use map::{SpillError, SpillMap};
pub use remains::{InFlight, Remains, SpillBuffer};
