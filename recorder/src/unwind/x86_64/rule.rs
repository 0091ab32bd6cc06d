//! How to get from one stack frame to its caller, in one word.
//!
//! ```text
//! 63            32 31             16 15           8 7        0
//! ├───────────────┼─────────────────┼──────────────┼──────────┤
//! │ CFA offset    │ fp slot, words  │ words, see   │ kind and │
//! │ i32, bytes    │ i16             │ below, i8    │ flags    │
//! ```
//!
//! With `base` the stack pointer or, with [`FROM_FP`], the frame pointer:
//!
//! ```text
//! plain     cfa = base + offset             ra = [cfa - 8]
//! general   cfa = base + offset             ra = [cfa + 8 * words]
//!  DEREF    cfa = [base + offset] + 8*words ra = [cfa - 8]
//! both      sp' = cfa
//!           fp' = fp, or with SAVED_FP [cfa + 8 * slot],
//!                     or with SLOT_FROM_FP too [fp + 8 * slot]
//! signal    ip', sp', fp' stand in the context that sp points to
//! ```

/// The base is the frame pointer.
const FROM_FP: u64 = 1 << 0;
/// The caller's frame pointer stands in a slot.
const SAVED_FP: u64 = 1 << 1;
/// The fast case.
const PLAIN: u64 = 1 << 2;
/// The slow cases, below.
const GENERAL: u64 = 1 << 3;
const DEREF: u64 = 1 << 4;
const SLOT_FROM_FP: u64 = 1 << 5;
/// Rules without operands: the kind is all.
const SIGNAL: u64 = 1 << 6;
const OUTERMOST: u64 = 2 << 6;
const UNSUPPORTED: u64 = 3 << 6;
const OPERANDLESS: u64 = 3 << 6;
/// No rule because there is no unwind information.
const NO_CFI: u64 = UNSUPPORTED | FROM_FP;

/// The rule for one address. Never zero, so that an empty slot is none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::unwind) struct Rule(u64);

/// The register that a CFA or a slot is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::unwind) enum Base {
    /// `rsp`
    Sp,
    /// `rbp`
    Fp,
}

/// A rule taken apart, for all but the plain ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::unwind) enum Special {
    /// Plain and general rules.
    General(General),
    /// A stack frame the kernel made to call a signal handler.
    Signal,
    /// No caller.
    Outermost,
    /// Unwind information that is not understood.
    Unsupported,
    /// No unwind information.
    NoCfi,
}

/// The operands of a plain or general rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::unwind) struct General {
    /// What the CFA is counted from.
    pub base: Base,
    /// Added to the base, in bytes.
    pub offset: i32,
    /// The CFA is the word at base + offset, plus this many bytes.
    pub deref: Option<i32>,
    /// Where the return address stands, in bytes from the CFA.
    pub ra: i32,
    /// Where the caller's frame pointer stands, in bytes from the CFA (`Sp`
    /// stands for it here) or from the frame pointer.
    pub fp: Option<(FpFrom, i32)>,
}

/// What a frame pointer's slot is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::unwind) enum FpFrom {
    /// The CFA.
    Cfa,
    /// The frame pointer itself.
    Fp,
}

/// Offsets from the stack pointer in a signal's stack frame: `ucontext` lies
/// there, and `mcontext` 40 bytes into it (asm/sigcontext.h of the kernel).
pub(in crate::unwind) struct SignalFrame;

impl SignalFrame {
    /// Saved `rbp`.
    pub const FP: u64 = 120;
    /// Saved `rsp`.
    pub const SP: u64 = 160;
    /// Saved `rip`.
    pub const IP: u64 = 168;
}

impl Rule {
    /// No caller.
    pub const OUTERMOST: Self = Self(OUTERMOST);
    /// A signal handler's return.
    pub const SIGNAL: Self = Self(SIGNAL);
    /// Not understood.
    pub const UNSUPPORTED: Self = Self(UNSUPPORTED);
    /// No unwind information.
    pub const NO_CFI: Self = Self(NO_CFI);

    /// The rule stored as `bits`.
    #[inline(always)]
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// As stored.
    #[inline(always)]
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Packs `general`, as a plain rule where it is one; none if it does not fit.
    pub fn pack(general: General) -> Option<Self> {
        let offset = u64::from(general.offset as u32) << 32;
        let base = match general.base {
            Base::Sp => 0,
            Base::Fp => FROM_FP,
        };
        let (fp_flags, slot) = match general.fp {
            None => (0, 0),
            Some((FpFrom::Cfa, bytes)) => (SAVED_FP, words::<i16>(bytes)?),
            Some((FpFrom::Fp, bytes)) => (SAVED_FP | SLOT_FROM_FP, words::<i16>(bytes)?),
        };
        let slot = u64::from(slot as u16) << 16;
        let (kind, count) = match general.deref {
            Some(_) if general.ra != -8 => return None,
            Some(bytes) => (GENERAL | DEREF, words::<i8>(bytes)?),
            None if Self::is_plain_shape(general) => (PLAIN, 0),
            None => (GENERAL, words::<i8>(general.ra)?),
        };
        let count = u64::from(count as u8) << 8;
        Some(Self(offset | slot | count | fp_flags | base | kind))
    }

    /// The plain step checks only that the CFA rises and that a slot is not
    /// below the stack pointer; that a slot ends at or below the CFA is checked
    /// here.
    fn is_plain_shape(general: General) -> bool {
        general.ra == -8
            && match general.fp {
                None => true,
                Some((FpFrom::Cfa, slot)) => slot <= -8,
                Some((FpFrom::Fp, _)) => false,
            }
    }

    /// Whether the plain step applies.
    #[inline(always)]
    pub fn is_plain(self) -> bool {
        self.0 & PLAIN != 0
    }

    /// Whether the CFA is counted from the frame pointer.
    #[inline(always)]
    pub fn is_from_fp(self) -> bool {
        self.0 & FROM_FP != 0
    }

    /// Whether the caller's frame pointer was saved.
    #[inline(always)]
    pub fn has_saved_fp(self) -> bool {
        self.0 & SAVED_FP != 0
    }

    /// Bytes from the base to the CFA, to be added wrapping.
    #[inline(always)]
    pub fn cfa_offset(self) -> u64 {
        ((self.0 as i64) >> 32) as u64
    }

    /// Bytes from the CFA to the saved frame pointer, to be added wrapping.
    #[inline(always)]
    pub fn fp_slot(self) -> u64 {
        (i64::from((self.0 >> 16) as i16) * 8) as u64
    }

    /// The rule taken apart.
    pub fn special(self) -> Special {
        match self.0 & OPERANDLESS {
            SIGNAL => Special::Signal,
            OUTERMOST => Special::Outermost,
            UNSUPPORTED if self.0 == NO_CFI => Special::NoCfi,
            UNSUPPORTED => Special::Unsupported,
            _ if self.0 & (PLAIN | GENERAL) == 0 => Special::Unsupported,
            _ => Special::General(self.general()),
        }
    }

    fn general(self) -> General {
        let count = i32::from((self.0 >> 8) as i8) * 8;
        let is_deref = self.0 & DEREF != 0;
        General {
            base: if self.is_from_fp() {
                Base::Fp
            } else {
                Base::Sp
            },
            offset: (self.0 >> 32) as i32,
            deref: is_deref.then_some(count),
            ra: if is_deref || self.is_plain() {
                -8
            } else {
                count
            },
            fp: self.has_saved_fp().then(|| {
                let from = if self.0 & SLOT_FROM_FP != 0 {
                    FpFrom::Fp
                } else {
                    FpFrom::Cfa
                };
                (from, self.fp_slot() as i32)
            }),
        }
    }
}

impl core::fmt::Debug for Rule {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.special().fmt(f)
    }
}

fn words<T: TryFrom<i32>>(bytes: i32) -> Option<T> {
    (bytes % 8 == 0).then_some(bytes / 8)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roundtrip(general: General) -> Rule {
        let rule = Rule::pack(general).unwrap();
        assert_eq!(rule.special(), Special::General(general));
        rule
    }

    #[test]
    fn usual_rules_are_plain() {
        let pushed = General {
            base: Base::Sp,
            offset: 48,
            deref: None,
            ra: -8,
            fp: Some((FpFrom::Cfa, -16)),
        };
        let rule = roundtrip(pushed);
        assert!(rule.is_plain() && !rule.is_from_fp() && rule.has_saved_fp());
        assert_eq!(rule.cfa_offset(), 48);
        assert_eq!(rule.fp_slot(), (-16_i64) as u64);
        let framed = General {
            base: Base::Fp,
            offset: 16,
            ..pushed
        };
        assert!(roundtrip(framed).is_from_fp());
        let untouched = General { fp: None, ..pushed };
        assert!(!roundtrip(untouched).has_saved_fp());
    }

    #[test]
    fn unusual_rules_are_general() {
        let realigned = General {
            base: Base::Fp,
            offset: -8,
            deref: Some(0),
            ra: -8,
            fp: Some((FpFrom::Fp, 0)),
        };
        assert!(!roundtrip(realigned).is_plain());
        let above = General {
            base: Base::Sp,
            offset: 1 << 20,
            deref: None,
            ra: -8,
            fp: Some((FpFrom::Cfa, 0)),
        };
        assert!(!roundtrip(above).is_plain());
        let odd = General {
            ra: -64,
            fp: None,
            ..above
        };
        assert!(!roundtrip(odd).is_plain());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let general = General {
            base: Base::Sp,
            offset: 8,
            deref: None,
            ra: -8,
            fp: None,
        };
        let far = Some((FpFrom::Cfa, -8 * 40_000));
        assert_eq!(Rule::pack(General { fp: far, ..general }), None);
        assert_eq!(Rule::pack(General { ra: -4, ..general }), None);
        let both = General {
            deref: Some(8),
            ra: -16,
            ..general
        };
        assert_eq!(Rule::pack(both), None);
    }

    #[test]
    fn kinds_without_operands_are_told_apart() {
        assert_eq!(Rule::SIGNAL.special(), Special::Signal);
        assert_eq!(Rule::OUTERMOST.special(), Special::Outermost);
        assert_eq!(Rule::UNSUPPORTED.special(), Special::Unsupported);
        assert_eq!(Rule::NO_CFI.special(), Special::NoCfi);
        for rule in [
            Rule::SIGNAL,
            Rule::OUTERMOST,
            Rule::UNSUPPORTED,
            Rule::NO_CFI,
        ] {
            assert!(!rule.is_plain());
        }
    }
}
