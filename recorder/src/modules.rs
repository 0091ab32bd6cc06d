//! Which modules were defined: numbers for those met in backtraces.
//!
//! A library that is unloaded leaves its addresses to others. So what counts is which
//! module was met *last* at an address: the same one again needs no new definition.

use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Places where modules may begin.
const PLACES: usize = 4096;

/// Start address of each module met, in the order met; 0 is none yet.
static STARTS: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];
/// What was met there last: a hash of its path and build-id.
static LAST: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];
static NEXT: AtomicU32 = AtomicU32::new(1);

/// A number for the module at `start` if it is not the one that was met there last;
/// else, or when all places are taken, `None`.
///
/// Two threads that meet it at once may both define it: equal definitions are harmless.
pub(crate) fn number(start: u64, path: &str, build_id: &[u8]) -> Option<u32> {
    let identity = identity(path, build_id);
    for (place, last) in STARTS.iter().zip(&LAST) {
        let mut seen = place.load(Acquire);
        if seen == 0 {
            seen = match place.compare_exchange(0, start, AcqRel, Acquire) {
                Ok(_) => start,
                Err(other) => other,
            };
        }
        if seen == start {
            let is_new = last.swap(identity, AcqRel) != identity;
            return is_new.then(|| NEXT.fetch_add(1, Relaxed));
        }
    }
    None
}

/// FNV-1a over path and build-id; never 0.
fn identity(path: &str, build_id: &[u8]) -> u64 {
    let bytes = path.bytes().chain([0]).chain(build_id.iter().copied());
    bytes.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    }) | 1
}

/// Forgets all modules: a new recording begins in a forked child.
pub(crate) fn forget() {
    for (place, last) in STARTS.iter().zip(&LAST) {
        place.store(0, Relaxed);
        last.store(0, Relaxed);
    }
    NEXT.store(1, Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_at_an_address_is_defined() {
        assert_eq!(number(0x7000, "/a.so", &[1]), Some(1));
        assert_eq!(number(0x7000, "/a.so", &[1]), None);
        assert_eq!(number(0x9000, "/b.so", &[2]), Some(2));
        // Reloaded a thousand times at the same place: still the same module.
        assert!((0..1000).all(|_| number(0x7000, "/a.so", &[1]).is_none()));
        // Rebuilt between two loads.
        assert_eq!(number(0x7000, "/a.so", &[3]), Some(3));
        assert_eq!(number(0x7000, "/a.so", &[1]), Some(4));
    }
}
