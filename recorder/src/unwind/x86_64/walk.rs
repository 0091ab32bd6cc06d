//! A whole walk, from the innermost stack frame to the outermost.

use super::regs::Regs;
use super::step::{Cursor, Frame};
use crate::unwind::linux::StackBounds;
use crate::unwind::{End, Walk};

/// Writes return addresses, innermost first, from the one that the stack frame
/// of `regs` returns to, and says how many and why no more.
///
/// Each written address minus one lies in the instruction that was running: for
/// a stack frame that a signal interrupted, which has no call, the address
/// behind the first byte of the interrupted instruction is written.
///
/// `regs` must be those of a function that has not returned, of this thread, or
/// of the context that a signal handler of this thread was given; with any other
/// values the result means nothing. Each thread has its own `bounds`.
pub(crate) fn walk(regs: Regs, bounds: &mut StackBounds, out: &mut [u64]) -> Walk {
    Cursor::new(Frame::from(regs), bounds).map_or(NO_STACK, |cursor| on_from(cursor, bounds, out))
}

/// The same from a frame that waits for a call to return: its own return address is
/// the first.
pub(crate) fn walk_from(innermost: Frame, bounds: &mut StackBounds, out: &mut [u64]) -> Walk {
    let (Some(cursor), Some((first, rest))) =
        (Cursor::new(innermost, bounds), out.split_first_mut())
    else {
        return NO_STACK;
    };
    *first = innermost.ra;
    let outer = on_from(cursor, bounds, rest);
    Walk {
        len: outer.len + 1,
        ..outer
    }
}

const NO_STACK: Walk = Walk {
    len: 0,
    ended: End::BadStack,
};

#[inline(always)]
fn on_from(mut cursor: Cursor, bounds: &mut StackBounds, out: &mut [u64]) -> Walk {
    let mut len = 0;
    let ended = loop {
        let Some(place) = out.get_mut(len) else {
            break End::Full;
        };
        match cursor.step(bounds) {
            Ok(_) => *place = cursor.at.ra,
            Err(end) => break end,
        }
        len += 1;
    };
    Walk { len, ended }
}

/// The frame that waits for the call of the function that waits for the call of the
/// one that `regs` are of: two steps out.
#[inline(always)]
pub(crate) fn second_caller(regs: Regs, bounds: &mut StackBounds) -> Option<Frame> {
    let mut cursor = Cursor::new(Frame::from(regs), bounds)?;
    cursor.step(bounds).ok()?;
    cursor.step(bounds).ok()?;
    Some(cursor.at)
}
