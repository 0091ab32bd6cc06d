//! Counting in one instruction, which no signal handler can come into the middle of.
#![expect(unsafe_code, reason = "an instruction that no atomic type has")]

use std::arch::asm;
use std::sync::atomic::AtomicU64;

/// Adds to a counter that only the calling thread changes; others may read it.
///
/// PERF: without `lock` it costs what an addition costs.
#[inline(always)]
pub(crate) fn add(counter: &AtomicU64, more: u64) {
    // SAFETY: one aligned addition to memory that may be changed through a shared reference.
    // Other threads see the old value or the new one: an aligned word is stored at once.
    unsafe {
        asm!(
            "add qword ptr [{counter}], {more}",
            counter = in(reg) counter.as_ptr(),
            more = in(reg) more,
            options(nostack),
        );
    }
}
