//! The rules that all threads share: a fixed table without locks.
//!
//! A slot is two words, `check` and `rule`, with `check = key ^ spread(rule)`.
//! A reader that meets two halves of different stores computes a key that is
//! not its own and takes the slot for another's, so no order between the two
//! words is needed and a lost race costs one more compilation.
//!
//! The key holds the generation of loaded modules: after [`forget_modules`]
//! nothing that was stored before is found any more, and such slots are the
//! first to be used again.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::Rule;
use super::front;

/// Slots in the table. At 16 bytes each it takes 2 MiB, of which only the pages
/// in use are ever touched.
const SLOTS: usize = 1 << 17;
/// How many slots from its own a key may stand. They share one or two lines.
const PROBES: usize = 4;
/// User addresses have 47 bits; the rest of a key is the generation.
const PC_BITS: u32 = 47;
/// Odd, so that the product permutes the words (2^64 divided by the golden ratio).
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

struct Slot {
    check: AtomicU64,
    rule: AtomicU64,
}

#[repr(align(64))]
struct Table([Slot; SLOTS + PROBES]);

static TABLE: Table = Table(
    [const {
        Slot {
            check: AtomicU64::new(0),
            rule: AtomicU64::new(0),
        }
    }; SLOTS + PROBES],
);

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// How often modules were unloaded so far.
#[inline(always)]
pub(crate) fn generation() -> u32 {
    // Acquire: whoever sees the new generation also sees the emptied table.
    GENERATION.load(Ordering::Acquire)
}

/// Makes every cached rule unreachable. To be called when `dlclose` returned,
/// and by a program that unmaps code in another way.
pub(crate) fn forget_modules() {
    let next = GENERATION.load(Ordering::Relaxed).wrapping_add(1);
    if next & generation_mask() == 0 {
        empty_the_table();
    }
    GENERATION.fetch_add(1, Ordering::AcqRel);
    front::forget();
}

/// The part of a key that stands for `generation`.
#[inline(always)]
pub(in crate::unwind) fn epoch(generation: u32) -> u64 {
    u64::from(generation & generation_mask()) << PC_BITS
}

/// The rule for `pc`, if one was stored in this epoch.
#[inline(always)]
pub(in crate::unwind) fn find(pc: u64, epoch: u64) -> Option<Rule> {
    let key = pc ^ epoch;
    let home = home(key);
    for slot in &TABLE.0[home..home + PROBES] {
        let rule = slot.rule.load(Ordering::Relaxed);
        let check = slot.check.load(Ordering::Relaxed);
        if check ^ spread(rule) == key {
            return Some(Rule::from_bits(rule));
        }
    }
    None
}

/// Stores the rule for `pc`, in the place of another if it must.
#[cold]
pub(in crate::unwind) fn store(pc: u64, epoch: u64, rule: Rule) {
    if pc >> PC_BITS != 0 {
        return;
    }
    let key = pc ^ epoch;
    let home = home(key);
    let slots = &TABLE.0[home..home + PROBES];
    let slot = slots
        .iter()
        .find(|slot| is_free(slot, epoch))
        .unwrap_or(&slots[(key >> 3) as usize % PROBES]);
    slot.rule.store(rule.bits(), Ordering::Relaxed);
    slot.check
        .store(key ^ spread(rule.bits()), Ordering::Relaxed);
}

fn is_free(slot: &Slot, epoch: u64) -> bool {
    let rule = slot.rule.load(Ordering::Relaxed);
    let key = slot.check.load(Ordering::Relaxed) ^ spread(rule);
    rule == 0 || (key ^ epoch) >> PC_BITS != 0
}

/// Generations wrap after 2^17 unloads: only then can an old key come back.
fn empty_the_table() {
    for slot in &TABLE.0 {
        slot.rule.store(0, Ordering::Relaxed);
        slot.check.store(0, Ordering::Relaxed);
    }
}

#[inline(always)]
fn home(key: u64) -> usize {
    (key.wrapping_mul(SPREAD) >> (64 - SLOTS.trailing_zeros())) as usize
}

#[inline(always)]
fn spread(rule: u64) -> u64 {
    rule.wrapping_mul(SPREAD)
}

const fn generation_mask() -> u32 {
    (1 << (64 - PC_BITS)) - 1
}
