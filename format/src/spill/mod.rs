//! The spill: shared memory in which a recorded program leaves its records.
//!
//! One file per process, in shared memory, mapped by the program and by whoever
//! drains it. Its parts, in this order, each at a fixed offset:
//!
//! ```text
//! header    one page: who, how far, how it ended         [Header]
//! info      the trace's FileHeader as a postcard value
//! slots     one per living thread: what it is doing now   [Slot]
//! states    one word per buffer: free, owned, full
//! blocks    definitions, append-only, a block per thread  [BlockHeader]
//! buffers   records, recycled                             [BufferHeader]
//! ```
//!
//! The program stores, the drain loads; whatever the drain may read is whole
//! because it was published by one release store of the number of bytes. A
//! program killed at any instant leaves a spill that reads like a finished one.

mod drain;
mod layout;
mod map;
mod remains;

pub use drain::{Drain, PassStats};
pub use layout::{
    BLOCK_BYTES, BLOCK_COUNT, BLOCK_DATA, BLOCKS_OFFSET, BUFFER_BYTES, BUFFER_COUNT, BUFFER_DATA,
    BUFFERS_OFFSET, BlockHeader, BufferHeader, Header, INFO_BYTES, INFO_OFFSET, SLOT_COUNT,
    SLOTS_OFFSET, SPILL_BYTES, SPILL_MAGIC, STATE_FREE, STATE_FULL, STATE_OWNED, STATES_OFFSET,
    Slot, commit_word, ended_word, split_commit, split_ended,
};
pub use map::{SpillError, SpillMap};
pub use remains::{InFlight, Remains, SpillBuffer};
