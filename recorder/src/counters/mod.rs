//! Counting without a trace: how many calls, how many bytes, how long, by thread and
//! segment, of the frame before this one.
//!
//! Each thread counts into memory of its own, a cache line for each segment, by plain
//! additions; whoever reads adds the threads up. A frame's figures are the difference
//! of two such sums, taken at the frame mark.
//!
//! # Absent on purpose
//!
//! No lock, no atomic operation that other cores have to hear of, no header in or beside
//! a block: which segment a block belongs to stands in [`origins`].

mod frame;
mod origins;
mod stats;
mod thread;

pub(crate) use frame::end as frame_end;
pub use stats::{Counts, SegmentCounts, Stats, frame_stats, thread_stats};
#[cfg(feature = "assert")]
pub(crate) use thread::Paused;
pub(crate) use thread::{
    Counters, current_segment, enter_segment, is_wanted, mine, restore, start,
};

use crate::os::clock;
use heapreel_format::Clock;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};
use std::time::Duration;

/// Ticks of the clock a second, as a float's bits; 0 before counting begins.
static TICKS_PER_SECOND: AtomicU64 = AtomicU64::new(0);

/// Chooses the clock, once.
fn set_up_clock() {
    if TICKS_PER_SECOND.load(Acquire) == 0 {
        let Clock {
            ticks_per_second, ..
        } = clock::set_up();
        TICKS_PER_SECOND.store(ticks_per_second.to_bits(), Release);
    }
}

fn duration(ticks: u64) -> Duration {
    let rate = f64::from_bits(TICKS_PER_SECOND.load(Acquire));
    if rate > 0.0 {
        Duration::from_nanos((ticks as f64 * 1e9 / rate) as u64)
    } else {
        Duration::ZERO
    }
}
