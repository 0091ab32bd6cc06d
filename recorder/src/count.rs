//! Switching the counting on, from within a Rust game.
#![expect(
    unsafe_code,
    reason = "asks the global allocator for a byte, to see who it is"
)]

use crate::watch::Watch;
use crate::{counters, switch};
use std::alloc::Layout;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Counts what all threads do from now on, without a trace: see
/// [`frame_stats`](crate::frame_stats) and [`thread_stats`](crate::thread_stats). Counting
/// goes on until the program ends, whether it is recorded or not.
///
/// False where nothing can be counted: [`Recorder`](crate::Recorder) is not this program's
/// global allocator, or the kernel gives no memory to count in.
pub fn count() -> bool {
    static IS_GLOBAL: AtomicBool = AtomicBool::new(false);
    if IS_GLOBAL.load(Relaxed) {
        return true;
    }
    if !counters::start() {
        return false;
    }
    let is_global = is_global_allocator();
    IS_GLOBAL.store(is_global, Relaxed);
    if !is_global {
        switch::count(false);
    }
    is_global
}

/// Whether a byte asked of the global allocator is seen here.
fn is_global_allocator() -> bool {
    let Some(counters) = counters::mine() else {
        return false;
    };
    let mut watch = Watch::new();
    watch.over(counters, || {
        let layout = Layout::new::<u8>();
        // SAFETY: of one byte, given back as it was taken.
        unsafe {
            let block = std::hint::black_box(std::alloc::alloc(layout));
            if !block.is_null() {
                std::alloc::dealloc(block, layout);
            }
        }
    });
    watch.calls > 0
}
