//! The usual rules in one word each, packed so that code which lies together shares cache
//! lines: in front of the [table of all rules](super::cache).
//!
//! ```text
//! 63        34 33    30 29          15 14        3 2         1      0
//! ├───────────┼────────┼──────────────┼───────────┼─────────┼──────┤
//! │ pc, from  │ pc,    │ CFA offset,  │ saved fp, │ has     │ from │ 1
//! │ bit 17 on │ 4 bits │ words        │ words     │ saved fp│ fp   │
//! ```
//!
//! The bits of `pc` between those two choose the place, after some turning by the upper
//! ones, so that a word says exactly whose rule it is. Being one word it can be read and
//! replaced without any order.
//!
//! PERF: a walk waits for each rule before it can go on. Spread over one cache line each,
//! the rules of a game are more than the nearest cache holds.

use core::sync::atomic::{AtomicU64, Ordering};

use super::cache;
use super::rule::Rule;

/// Places by bits 4 to 16 of an address: 64 KiB.
const PLACE_BITS: u32 = 13;
const PLACES: usize = 1 << PLACE_BITS;
const LOW_BITS: u32 = 4;
/// An address has 47 bits.
const TAG_BITS: u32 = 47 - PLACE_BITS;
const RULE_BITS: u32 = 64 - TAG_BITS;
const OFFSET_BITS: u32 = 15;
const SLOT_BITS: u32 = 12;

static FRONT: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];

/// A [plain](Rule::is_plain) rule.
#[derive(Clone, Copy)]
pub(super) struct Plain(u64);

impl Plain {
    /// Whether the CFA is counted from the frame pointer.
    #[inline(always)]
    pub fn is_from_fp(self) -> bool {
        self.0 & 2 != 0
    }

    /// Whether the caller's frame pointer was saved.
    #[inline(always)]
    pub fn has_saved_fp(self) -> bool {
        self.0 & 4 != 0
    }

    /// Bytes from the base to the CFA.
    #[inline(always)]
    pub fn cfa_offset(self) -> u64 {
        (self.0 >> (SLOT_BITS + 3) & ((1 << OFFSET_BITS) - 1)) * 8
    }

    /// Bytes from the saved frame pointer, or else the return address, up to the CFA.
    #[inline(always)]
    pub fn slot_below_cfa(self) -> u64 {
        (self.0 >> 3 & ((1 << SLOT_BITS) - 1)) * 8
    }

    /// The rule in this form, if it fits.
    pub fn pack(rule: Rule) -> Option<Plain> {
        if !rule.is_plain() {
            return None;
        }
        let offset = rule.cfa_offset();
        let below = if rule.has_saved_fp() {
            rule.fp_slot().wrapping_neg()
        } else {
            8
        };
        let fits = |value: u64, bits: u32| value.is_multiple_of(8) && value / 8 < 1 << bits;
        if !fits(offset, OFFSET_BITS) || !fits(below, SLOT_BITS) {
            return None;
        }
        let flags = u64::from(rule.has_saved_fp()) << 2 | u64::from(rule.is_from_fp()) << 1 | 1;
        Some(Plain(
            ((offset / 8) << (SLOT_BITS + 3)) | ((below / 8) << 3) | flags,
        ))
    }
}

/// Which place an address has, and what tells it from the others there.
#[inline(always)]
fn place_and_tag(pc: u64) -> (usize, u64) {
    let high = pc >> (LOW_BITS + PLACE_BITS);
    let turned = (pc >> LOW_BITS).wrapping_add(high.wrapping_mul(0x9E5));
    let tag = high << LOW_BITS | pc & ((1 << LOW_BITS) - 1);
    (turned as usize % PLACES, tag)
}

/// The rule for `pc`, if it stands here.
#[inline(always)]
pub(super) fn find(pc: u64) -> Option<Plain> {
    let (place, tag) = place_and_tag(pc);
    let word = FRONT[place].load(Ordering::Relaxed);
    if word >> RULE_BITS == tag && word != 0 {
        Some(Plain(word))
    } else {
        None
    }
}

/// Puts a rule here that was found in `epoch`.
pub(super) fn store(pc: u64, epoch: u64, plain: Plain) {
    let (place, tag) = place_and_tag(pc);
    if tag >> TAG_BITS != 0 {
        return;
    }
    FRONT[place].store(tag << RULE_BITS | plain.0, Ordering::Relaxed);
    if cache::epoch(cache::generation()) != epoch {
        // A library went meanwhile: better no rule than an old one.
        FRONT[place].store(0, Ordering::Relaxed);
    }
}

/// Forgets all rules.
pub(super) fn forget() {
    for place in &FRONT {
        place.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::rule::{Base, FpFrom, General};
    use super::*;

    fn rule(base: Base, offset: i32, fp: Option<i32>) -> Rule {
        Rule::pack(General {
            base,
            offset,
            deref: None,
            ra: -8,
            fp: fp.map(|slot| (FpFrom::Cfa, slot)),
        })
        .unwrap()
    }

    #[test]
    fn plain_rules_say_the_same_here() {
        for base in [Base::Sp, Base::Fp] {
            for offset in [8, 16, 48, 8 * 32_767] {
                for fp in [None, Some(-16), Some(-8), Some(-8 * 4095)] {
                    let rule = rule(base, offset, fp);
                    let plain = Plain::pack(rule).unwrap();
                    assert_eq!(plain.is_from_fp(), rule.is_from_fp());
                    assert_eq!(plain.has_saved_fp(), rule.has_saved_fp());
                    assert_eq!(plain.cfa_offset(), rule.cfa_offset());
                    let below = fp.map_or(8, |slot| -slot as u64);
                    assert_eq!(plain.slot_below_cfa(), below);
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_stays_in_the_table() {
        for (offset, fp) in [
            (-8, None),
            (8 * 32_768, None),
            (12, None),
            (16, Some(-8 * 4096)),
        ] {
            assert!(Plain::pack(rule(Base::Sp, offset, fp)).is_none());
        }
        assert!(Plain::pack(Rule::SIGNAL).is_none());
        assert!(Plain::pack(Rule::OUTERMOST).is_none());
    }

    #[test]
    fn places_and_tags_tell_all_addresses_apart() {
        let near = (0..1 << 18).map(|low| 0x7f12_3450_0000 + low);
        let far = (0..47).map(|bit| 1 << bit);
        let all: std::collections::HashSet<_> = near.chain(far).map(place_and_tag).collect();
        assert_eq!(all.len(), (1 << 18) + 47);
        assert!(place_and_tag((1 << 47) - 1).1 >> TAG_BITS == 0);
    }
}
