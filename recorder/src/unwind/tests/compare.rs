//! One backtrace taken twice.

use crate::unwind::{End, Regs, StackBounds, Walk, here, init, walk};

/// A backtrace of ours.
pub(super) struct Ours {
    pub addresses: Vec<u64>,
    pub ended: End,
}

/// Walks from `regs` with fresh bounds.
pub(super) fn ours_from(regs: Regs, limit: usize) -> Ours {
    init();
    let mut out = vec![0; limit];
    let mut bounds = StackBounds::EMPTY;
    let first = walk(regs, &mut bounds, &mut out);
    let again = {
        let mut out = vec![0; limit];
        let again = walk(regs, &mut bounds, &mut out);
        out.truncate(again.len);
        (again, out)
    };
    let Walk { len, ended } = first;
    out.truncate(len);
    assert_eq!(again, (first, out.clone()), "cold and warm walks differ");
    Ours {
        addresses: out,
        ended,
    }
}

/// Asserts that both backtraces of the caller are equal and whole; gives ours.
#[inline(always)]
pub(super) fn assert_same_here() -> Vec<u64> {
    let ours = ours_from(here(), 4096);
    let theirs = theirs();
    assert_eq!(ours.ended, End::Outermost);
    assert_same(&ours.addresses, &theirs);
    ours.addresses
}

/// Asserts that ours is the outer end of theirs, which has more inner frames.
pub(super) fn assert_same(ours: &[u64], theirs: &[u64]) {
    assert!(ours.len() >= 2, "too short: {ours:x?}");
    assert!(
        theirs.ends_with(ours) && theirs.len() <= ours.len() + 12,
        "ours {ours:x?}\ntheirs {theirs:x?}"
    );
}

/// All return addresses as the `backtrace` crate has them. For a stack frame
/// that a signal interrupted it gives the instruction itself.
#[inline(never)]
pub(super) fn theirs() -> Vec<u64> {
    let mut all = Vec::new();
    backtrace::trace(|frame| {
        // The caller of a thread's start is shown as zero.
        let ip = frame.ip() as u64;
        all.extend((ip != 0).then_some(ip));
        true
    });
    all
}
