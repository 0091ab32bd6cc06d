//! Interns contexts: a parent, a kind and a name are one number.
//!
//! ```text
//! enter   hash of parent, kind, name → the thread's cache → the table → a definition
//!         a record "entered", which also makes the number current in the stream
//! leave   the former number is current; the stream says so before its next event
//! ```
//!
//! A handler that enters a context finds the table as it is: nothing is waited for.

use crate::interning::{Cache, Found, MAX_CACHED, Table};
use crate::os::memory;
use crate::spill::Kept;
use crate::text::cut;
use crate::thread::{self, Level, Thread};
use heapreel_format::{ContextId, Definition};
use std::borrow::Cow;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, Release},
};

/// Contexts that a recording can hold.
pub(crate) const MOST_CONTEXTS: u32 = 1 << 16;
/// Places in the table of all threads: 2 MiB of address space once there is a context.
const PLACES: usize = 2 * MOST_CONTEXTS as usize;
/// Sets in a thread's cache: 4 KiB, for 512 contexts.
const SETS: usize = 64;
/// Longest kind and longest name in bytes; longer ones are cut.
pub(crate) const MAX_TEXT_BYTES: usize = 512;
/// Stands for all that the table has no room for.
const REFUSED: u32 = MAX_CACHED;
const _: () = assert!(MOST_CONTEXTS < REFUSED);

/// A thread's own cache.
pub(crate) type ContextCache = Cache<SETS>;

static TABLE: Table = Table::new();
static NEXT: AtomicU32 = AtomicU32::new(1);

/// Forgets all numbers: a new recording begins in a forked child.
pub(crate) fn forget() {
    TABLE.forget();
    NEXT.store(1, Release);
}

/// Enters the context of this kind and name within the current one, which is given back;
/// `None` where that cannot be.
#[inline]
pub(crate) fn enter(kind: &str, name: &str) -> Option<ContextId> {
    let mut before = None;
    thread::with_mine(|state, level| {
        before = Some(state.place.context);
        state.enter_context(level, cut(kind, MAX_TEXT_BYTES), cut(name, MAX_TEXT_BYTES));
    });
    before
}

/// Makes this context current, which was entered before, here or elsewhere; gives back
/// the one that was.
#[inline]
pub(crate) fn resume(id: ContextId) -> ContextId {
    thread::change_place(|place| place.context = id).context
}

/// The current context of this thread.
pub(crate) fn current() -> ContextId {
    thread::change_place(|_| {}).context
}

impl Thread {
    #[inline(always)]
    fn enter_context(&mut self, level: Level, kind: &str, name: &str) {
        let hash = hash(self.place.context, kind, name);
        let id = match self.contexts.get(hash) {
            Some(id) if level == Level::Main => id,
            _ => self.intern_context(level, hash, kind, name),
        };
        if id == REFUSED {
            self.spill.header().contexts_cut.fetch_add(1, Relaxed);
            return;
        }
        self.place.context = ContextId(id);
        self.publish_entry(level);
    }

    /// A context that this thread does not know.
    #[cold]
    #[inline(never)]
    fn intern_context(&mut self, level: Level, hash: u64, kind: &str, name: &str) -> u32 {
        let id = memory::keeping_errno(|| {
            if !TABLE.set_up(PLACES) {
                return REFUSED;
            }
            match TABLE.find(hash) {
                Found::Known(id) => id,
                Found::New(vacancy) => {
                    let id = self.define_context(level, kind, name).unwrap_or(REFUSED);
                    vacancy.fill(id);
                    id
                }
                Found::Full => REFUSED,
            }
        });
        if level == Level::Main {
            self.contexts.put(hash, id);
        }
        id
    }

    /// Its number, once it is defined; none past the limit, or where the table of
    /// definitions is full.
    fn define_context(&mut self, level: Level, kind: &str, name: &str) -> Option<u32> {
        if NEXT.load(Relaxed) > MOST_CONTEXTS {
            return None;
        }
        let id = NEXT.fetch_add(1, Relaxed);
        let definition = Definition::Context {
            id: ContextId(id),
            parent: self.place.context,
            kind: Cow::Borrowed(kind),
            name: Cow::Borrowed(name),
        };
        let writer = &mut self.halves[level as usize].writer;
        let is_defined = id <= MOST_CONTEXTS
            && writer.publish_within(&self.spill, Kept::ForCallSites, &definition);
        is_defined.then_some(id)
    }
}

/// Odd, its bits like random ones: 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// A hash of everything that tells two contexts apart; never 0.
#[inline(always)]
fn hash(parent: ContextId, kind: &str, name: &str) -> u64 {
    // Spread first: parents and letters differ in the same few bits.
    let parent = (u64::from(parent.0) + 1).wrapping_mul(FACTOR);
    let hash = absorb(parent, kind.as_bytes());
    absorb(hash, name.as_bytes()) | 1
}

/// Takes eight bytes at a time, and the last eight whatever of them was taken before: the
/// length, which goes into the factor, tells how many they are.
#[inline(always)]
fn absorb(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut rest = bytes;
    while let Some((eight, more)) = rest.split_first_chunk::<8>()
        && !more.is_empty()
    {
        hash = fold(hash ^ u64::from_le_bytes(*eight), FACTOR);
        rest = more;
    }
    let length = (bytes.len() as u64) << 1;
    fold(hash ^ last_eight(bytes), 0xD6E8_FEB8_6659_FD93 ^ length)
}

/// The last eight bytes, or all where they are fewer.
#[inline(always)]
fn last_eight(bytes: &[u8]) -> u64 {
    if let Some(eight) = bytes.last_chunk::<8>() {
        return u64::from_le_bytes(*eight);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let half = |four: &[u8; 4]| u64::from(u32::from_le_bytes(*four));
        return half(first) | half(last) << 32;
    }
    // Three at most.
    let at = |index: usize| u64::from(bytes.get(index).copied().unwrap_or(0));
    at(0) | at(1) << 8 | at(2) << 16
}

/// Both halves of the product, one over the other.
#[inline(always)]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn parent_kind_and_name_each_make_another_context() {
        let texts = [
            "",
            "a",
            "b",
            "ab",
            "abc",
            "abcd",
            "aaaaaaa",
            "aaaaaaaa",
            "aaaaaaaaa",
        ];
        let long: Vec<String> = (500..512).map(|length| "x".repeat(length)).collect();
        let texts: Vec<&str> = texts
            .into_iter()
            .chain(long.iter().map(String::as_str))
            .collect();
        let mut seen = HashSet::new();
        for parent in 0..20 {
            for kind in &texts {
                for name in &texts {
                    assert!(
                        seen.insert(hash(ContextId(parent), kind, name)),
                        "{parent} {kind} {name}"
                    );
                }
            }
        }
    }

    #[test]
    fn numbered_names_spread_over_the_cache_and_the_table() {
        let hashes: Vec<u64> = (0..60_000)
            .map(|number| hash(ContextId(3), "entity", &format!("orc_{number}")))
            .collect();
        let distinct: HashSet<u64> = hashes.iter().copied().collect();
        assert_eq!(distinct.len(), hashes.len());
        let mut sets = [0u32; SETS];
        hashes
            .iter()
            .for_each(|hash| sets[(hash >> 2) as usize % SETS] += 1);
        // 937.5 each; six standard deviations are 184.
        assert!(
            sets.iter().all(|count| (750..1_125).contains(count)),
            "{sets:?}"
        );
    }
}
