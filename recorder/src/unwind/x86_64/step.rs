//! From one stack frame to its caller.
//!
//! Each step reads only from the stack pointer up to where memory is known to
//! be mapped, and each stack frame must lie above the last one, so that a walk
//! over garbage ends and never faults. The one exception to the rising order is
//! a signal handler's frame, whose caller may be on another stack.

#![expect(unsafe_code, reason = "reads the stack")]

use core::arch::asm;
use core::hint::select_unpredictable;

use super::cache;
use super::compile::compile;
use super::front::{self, Plain};
use super::regs::Regs;
use super::rule::{Base, FpFrom, General, Rule, SignalFrame, Special};
use crate::unwind::End;
use crate::unwind::linux::{Reach, StackBounds, locate, module_of};

/// How often one walk may go on to another stack.
const STACK_CHANGES: u32 = 8;

/// A stack frame while its function waits for a call to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Where the call returns to. One less lies in the instruction that is running:
    /// a frame that a signal interrupted has no call, and stands here with the
    /// address behind the first byte of the interrupted instruction.
    pub ra: u64,
    /// Stack pointer once the call has returned.
    pub sp: u64,
    /// Frame pointer (`rbp`), whatever the code uses it for.
    pub fp: u64,
}

/// Where a frame's caller was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// The return address stood right below the caller's stack pointer, and this is
    /// where the frame pointer was saved; [`Link::PASSED_ON`] or [`Link::SPECIAL`].
    pub fp_at: u64,
    /// The stack frame's own frame pointer was read.
    pub reads_fp: bool,
}

impl Link {
    /// As `fp_at`: the function leaves the frame pointer alone.
    pub const PASSED_ON: u64 = 0;
    /// As `fp_at`: by a rule that reads anything else.
    pub const SPECIAL: u64 = 1;
}

/// Where a walk has got to.
///
/// PERF: whatever needs its address works on a copy, so that it can stay in registers.
#[derive(Clone, Copy)]
pub(super) struct Cursor {
    /// The stack frame.
    pub at: Frame,
    reach: Reach,
    epoch: u64,
    stack_changes: u32,
}

impl Cursor {
    /// A walk that begins at `at`; none where no stack is mapped.
    #[inline(always)]
    pub fn new(at: Frame, bounds: &mut StackBounds) -> Option<Cursor> {
        let reach = locate(at.sp, bounds)?;
        Some(Cursor {
            at,
            reach,
            epoch: cache::epoch(cache::generation()),
            stack_changes: 0,
        })
    }

    /// Whether this is the thread's own stack, all of which stays mapped.
    #[inline(always)]
    pub fn on_own_stack(&self) -> bool {
        !self.reach.can_grow
    }

    /// Whether no walk ever leads on from here: code without a caller by its rule.
    #[cold]
    pub fn is_outermost(self) -> bool {
        cache::find(self.at.ra.wrapping_sub(1), self.epoch) == Some(Rule::OUTERMOST)
    }

    /// Goes on from another frame of the same stack.
    #[inline(always)]
    pub fn move_to(&mut self, at: Frame) {
        self.at = at;
    }

    /// Goes to the caller. Where there is none, stays.
    #[inline(always)]
    pub fn step(&mut self, bounds: &mut StackBounds) -> Result<Link, End> {
        let pc = self.at.ra.wrapping_sub(1);
        let Some(rule) = front::find(pc) else {
            let mut copy = *self;
            let link = copy.step_by_table(pc, bounds);
            *self = copy;
            return link;
        };
        self.plain_step(rule)
    }

    #[inline(always)]
    fn plain_step(&mut self, rule: Plain) -> Result<Link, End> {
        let Frame { sp, fp, .. } = self.at;
        let base = if rule.is_from_fp() { fp } else { sp };
        let cfa = base.wrapping_add(rule.cfa_offset());
        let fp_at = cfa.wrapping_sub(rule.slot_below_cfa());
        // The CFA rises by at least the return address. `sp` is an address
        // of mapped memory, so that 8 more is no overflow.
        if cfa < sp.wrapping_add(8) || fp_at.wrapping_sub(sp) > cfa - 8 - sp {
            return Err(End::BadStack);
        }
        if cfa > self.reach.limit {
            let mut reach = self.reach;
            if !reach.grow(cfa) {
                return Err(End::BadStack);
            }
            self.reach = reach;
        }
        // SAFETY: `sp <= fp_at <= cfa - 8` was just checked, and all from
        // `sp` to `limit >= cfa` is mapped.
        let (ra, saved) = unsafe { (read(cfa - 8), read(fp_at)) };
        // PERF: which functions save the frame pointer has no pattern that a
        // branch predictor could learn.
        let is_saved = rule.has_saved_fp();
        if ra == 0 {
            return Err(End::Outermost);
        }
        self.at = Frame {
            ra,
            sp: cfa,
            fp: select_unpredictable(is_saved, saved, fp),
        };
        Ok(Link {
            fp_at: select_unpredictable(is_saved, fp_at, Link::PASSED_ON),
            reads_fp: rule.is_from_fp(),
        })
    }

    /// The same by the table of all rules.
    #[cold]
    #[inline(never)]
    fn step_by_table(&mut self, pc: u64, bounds: &mut StackBounds) -> Result<Link, End> {
        let known = cache::find(pc, self.epoch);
        let rule = known.unwrap_or_else(|| learn(pc, self.epoch));
        let Some(plain) = Plain::pack(rule) else {
            return self.special_step(rule, bounds);
        };
        // Not every rule may be kept: only one that the table has.
        if known.is_some() {
            front::store(pc, self.epoch, plain);
        }
        self.plain_step(plain)
    }

    fn special_step(&mut self, rule: Rule, bounds: &mut StackBounds) -> Result<Link, End> {
        match rule.special() {
            Special::Outermost => Err(End::Outermost),
            Special::Signal => self.leave_signal(bounds),
            Special::General(general) => self.leave_call(general),
            // The ABI has a zero mark the outermost stack frame. It is needed for the
            // loader's entry, which has no unwind information.
            Special::NoCfi if self.at.fp == 0 => Err(End::Outermost),
            Special::NoCfi => self.follow_frame_pointer().ok_or(End::NoCfi),
            Special::Unsupported => self.follow_frame_pointer().ok_or(End::Unsupported),
        }
        .map(|()| Link {
            fp_at: Link::SPECIAL,
            reads_fp: true,
        })
    }

    fn leave_call(&mut self, general: General) -> Result<(), End> {
        let Frame { sp, fp, .. } = self.at;
        let base = match general.base {
            Base::Sp => sp,
            Base::Fp => fp,
        };
        let at = add(base, general.offset);
        let cfa = match general.deref {
            None => at,
            Some(more) => add(self.load(at)?, more),
        };
        let fp = match general.fp {
            None => fp,
            Some((FpFrom::Cfa, slot)) => self.load(add(cfa, slot))?,
            Some((FpFrom::Fp, slot)) => self.load(add(fp, slot))?,
        };
        let ra = self.load(add(cfa, general.ra))?;
        self.return_to(ra, cfa, fp)
    }

    /// Restores what the kernel saved when it called the handler.
    fn leave_signal(&mut self, bounds: &mut StackBounds) -> Result<(), End> {
        let from = self.at.sp;
        let fp = self.load(from.wrapping_add(SignalFrame::FP))?;
        let sp = self.load(from.wrapping_add(SignalFrame::SP))?;
        let ip = self.load(from.wrapping_add(SignalFrame::IP))?;
        let is_same_stack = sp > from && sp < self.reach.limit;
        if !is_same_stack {
            self.stack_changes += 1;
            if self.stack_changes > STACK_CHANGES {
                return Err(End::BadStack);
            }
            self.reach = locate(sp, bounds).ok_or(End::BadStack)?;
        }
        if ip == 0 {
            return Err(End::Outermost);
        }
        self.at = Frame {
            ra: ip.wrapping_add(1),
            sp,
            fp,
        };
        Ok(())
    }

    /// Without unwind information: takes the frame pointer for one if the words
    /// it points to look like a saved frame pointer and a return address.
    fn follow_frame_pointer(&mut self) -> Option<()> {
        let at = self.at.fp;
        if !at.is_multiple_of(8) {
            return None;
        }
        let cfa = at.checked_add(16)?;
        let fp = self.load(at).ok()?;
        let ra = self.load(at.wrapping_add(8)).ok()?;
        module_of(ra.wrapping_sub(1))
            .filter(|module| module.headers.is_code(ra.wrapping_sub(1)))?;
        self.return_to(ra, cfa, fp).ok()
    }

    fn return_to(&mut self, ra: u64, cfa: u64, fp: u64) -> Result<(), End> {
        if cfa <= self.at.sp {
            return Err(End::BadStack);
        }
        if ra == 0 {
            return Err(End::Outermost);
        }
        self.at = Frame { ra, sp: cfa, fp };
        Ok(())
    }

    /// The word at `address`, if that is on the stack and not below its pointer.
    fn load(&mut self, address: u64) -> Result<u64, End> {
        let end = address.checked_add(8).ok_or(End::BadStack)?;
        if address < self.at.sp || (end > self.reach.limit && !self.reach.grow(end)) {
            return Err(End::BadStack);
        }
        // SAFETY: all from `sp` to `limit` is mapped, and the word lies there.
        Ok(unsafe { read(address) })
    }
}

impl From<Regs> for Frame {
    /// The frame of a function that runs, as if it waited at this instruction.
    #[inline(always)]
    fn from(regs: Regs) -> Frame {
        Frame {
            ra: regs.ip.wrapping_add(1),
            sp: regs.sp,
            fp: regs.fp,
        }
    }
}

#[cold]
#[inline(never)]
fn learn(pc: u64, epoch: u64) -> Rule {
    let (rule, may_keep) = compile(pc);
    if may_keep {
        cache::store(pc, epoch, rule);
    }
    rule
}

fn add(address: u64, offset: i32) -> u64 {
    address.wrapping_add(i64::from(offset) as u64)
}

/// # Safety
/// The eight bytes at `address` must be mapped and readable.
#[inline(always)]
pub(super) unsafe fn read(address: u64) -> u64 {
    let word;
    // SAFETY: by the caller's promise. An instruction of our own, because the
    // compiler has no notion of memory that other functions' frames lie in; any
    // address, aligned or not, is fine for it.
    unsafe {
        asm!(
            "mov {word}, qword ptr [{address}]",
            address = in(reg) address,
            word = out(reg) word,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    word
}
