//! Which modules were defined: numbers for those met in backtraces.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Relaxed},
};

/// Modules that a recording can name.
const MODULES: usize = 4096;

/// Start address and generation of each module met, in the order met.
static MET: [AtomicU64; MODULES] = [const { AtomicU64::new(0) }; MODULES];

/// A number for the module at `start`, from 1, the first time it is met in a
/// generation; `None` when it was met before or the table is full.
pub(crate) fn number(start: u64, generation: u32) -> Option<u32> {
    // Modules begin at pages: the low bits have room for the generation.
    let key = start | u64::from(generation & 0xfff) | 1 << 63;
    for (index, place) in MET.iter().enumerate() {
        let seen = place.load(Relaxed);
        if seen == key {
            return None;
        }
        if seen == 0 {
            match place.compare_exchange(0, key, AcqRel, Relaxed) {
                Ok(_) => return Some(index as u32 + 1),
                Err(other) if other == key => return None,
                Err(_) => {}
            }
        }
    }
    None
}

/// Forgets all modules: a new recording begins in a forked child.
pub(crate) fn forget() {
    for place in &MET {
        place.store(0, Relaxed);
    }
}
