//! The walk itself.
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
use super::regs::Regs;
use super::rule::{Base, FpFrom, General, Rule, SignalFrame, Special};
use crate::unwind::linux::{Reach, StackBounds, locate, module_of};
use crate::unwind::{End, Walk};

/// How often one walk may go on to another stack.
const STACK_CHANGES: u32 = 8;

/// Where a walk has got to.
#[derive(Clone, Copy)]
struct Cursor {
    /// Address of an instruction of the stack frame: for a return address, the
    /// last byte of the call.
    pc: u64,
    sp: u64,
    fp: u64,
    reach: Reach,
    stack_changes: u32,
}

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
    let epoch = cache::epoch(cache::generation());
    let Some(mut reach) = locate(regs.sp, bounds) else {
        return Walk {
            len: 0,
            ended: End::BadStack,
        };
    };
    let Regs {
        ip: mut pc,
        mut sp,
        mut fp,
    } = regs;
    let mut stack_changes = 0;
    let mut len = 0;
    let ended = loop {
        let Some(slot) = out.get_mut(len) else {
            break End::Full;
        };
        let rule = match cache::find(pc, epoch) {
            Some(rule) => rule,
            None => learn(pc, epoch),
        };
        if rule.is_plain() {
            let base = if rule.is_from_fp() { fp } else { sp };
            let cfa = base.wrapping_add(rule.cfa_offset());
            let fp_at = if rule.has_saved_fp() {
                cfa.wrapping_add(rule.fp_slot())
            } else {
                cfa.wrapping_sub(8)
            };
            // The CFA rises by at least the return address. `sp` is an address
            // of mapped memory, so that 8 more is no overflow.
            if cfa < sp.wrapping_add(8) || fp_at.wrapping_sub(sp) > cfa - 8 - sp {
                break End::BadStack;
            }
            if cfa > reach.limit && !reach.grow(cfa) {
                break End::BadStack;
            }
            // SAFETY: `sp <= fp_at <= cfa - 8` was just checked, and all from
            // `sp` to `limit >= cfa` is mapped.
            let (ra, saved) = unsafe { (read(cfa - 8), read(fp_at)) };
            // PERF: which functions save the frame pointer has no pattern that a
            // branch predictor could learn.
            fp = select_unpredictable(rule.has_saved_fp(), saved, fp);
            sp = cfa;
            if ra == 0 {
                break End::Outermost;
            }
            *slot = ra;
            pc = ra.wrapping_sub(1);
        } else {
            let mut cursor = Cursor {
                pc,
                sp,
                fp,
                reach,
                stack_changes,
            };
            match special_step(rule, &mut cursor, bounds) {
                Ok(()) => {}
                Err(end) => break end,
            }
            Cursor {
                pc,
                sp,
                fp,
                reach,
                stack_changes,
            } = cursor;
            *slot = pc.wrapping_add(1);
        }
        len += 1;
    };
    Walk { len, ended }
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

#[cold]
#[inline(never)]
fn special_step(rule: Rule, cursor: &mut Cursor, bounds: &mut StackBounds) -> Result<(), End> {
    match rule.special() {
        Special::Outermost => Err(End::Outermost),
        Special::Signal => cursor.leave_signal(bounds),
        Special::General(general) => cursor.leave_call(general),
        // The ABI has a zero mark the outermost stack frame. It is needed for the
        // loader's entry, which has no unwind information.
        Special::NoCfi if cursor.fp == 0 => Err(End::Outermost),
        Special::NoCfi => cursor.follow_frame_pointer().ok_or(End::NoCfi),
        Special::Unsupported => cursor.follow_frame_pointer().ok_or(End::Unsupported),
    }
}

impl Cursor {
    fn leave_call(&mut self, general: General) -> Result<(), End> {
        let base = match general.base {
            Base::Sp => self.sp,
            Base::Fp => self.fp,
        };
        let at = add(base, general.offset);
        let cfa = match general.deref {
            None => at,
            Some(more) => add(self.load(at)?, more),
        };
        let fp = match general.fp {
            None => self.fp,
            Some((FpFrom::Cfa, slot)) => self.load(add(cfa, slot))?,
            Some((FpFrom::Fp, slot)) => self.load(add(self.fp, slot))?,
        };
        let ra = self.load(add(cfa, general.ra))?;
        self.rise(cfa)?;
        self.fp = fp;
        self.return_to(ra)
    }

    /// Restores what the kernel saved when it called the handler.
    fn leave_signal(&mut self, bounds: &mut StackBounds) -> Result<(), End> {
        let fp = self.load(self.sp.wrapping_add(SignalFrame::FP))?;
        let sp = self.load(self.sp.wrapping_add(SignalFrame::SP))?;
        let ip = self.load(self.sp.wrapping_add(SignalFrame::IP))?;
        let is_same_stack = sp > self.sp && sp < self.reach.limit;
        if !is_same_stack {
            self.stack_changes += 1;
            if self.stack_changes > STACK_CHANGES {
                return Err(End::BadStack);
            }
            self.reach = locate(sp, bounds).ok_or(End::BadStack)?;
        }
        self.sp = sp;
        self.fp = fp;
        self.pc = ip;
        if ip == 0 { Err(End::Outermost) } else { Ok(()) }
    }

    /// Without unwind information: takes the frame pointer for one if the words
    /// it points to look like a saved frame pointer and a return address.
    fn follow_frame_pointer(&mut self) -> Option<()> {
        if !self.fp.is_multiple_of(8) {
            return None;
        }
        let cfa = self.fp.checked_add(16)?;
        let fp = self.load(self.fp).ok()?;
        let ra = self.load(self.fp.wrapping_add(8)).ok()?;
        module_of(ra.wrapping_sub(1))
            .filter(|module| module.headers.is_code(ra.wrapping_sub(1)))?;
        self.rise(cfa).ok()?;
        self.fp = fp;
        self.return_to(ra).ok()
    }

    fn rise(&mut self, cfa: u64) -> Result<(), End> {
        if cfa <= self.sp {
            return Err(End::BadStack);
        }
        self.sp = cfa;
        Ok(())
    }

    fn return_to(&mut self, ra: u64) -> Result<(), End> {
        if ra == 0 {
            return Err(End::Outermost);
        }
        self.pc = ra.wrapping_sub(1);
        Ok(())
    }

    /// The word at `address`, if that is on the stack and not below its pointer.
    fn load(&mut self, address: u64) -> Result<u64, End> {
        let end = address.checked_add(8).ok_or(End::BadStack)?;
        if address < self.sp || (end > self.reach.limit && !self.reach.grow(end)) {
            return Err(End::BadStack);
        }
        // SAFETY: all from `sp` to `limit` is mapped, and the word lies there.
        Ok(unsafe { read(address) })
    }
}

fn add(address: u64, offset: i32) -> u64 {
    address.wrapping_add(i64::from(offset) as u64)
}

/// # Safety
/// The eight bytes at `address` must be mapped and readable.
#[inline(always)]
unsafe fn read(address: u64) -> u64 {
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
