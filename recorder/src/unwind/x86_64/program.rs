//! Runs call frame instructions up to one address and makes a rule of the row.
//!
//! Only what a rule can say is followed: the CFA and where `rbp`, `rsp` and the
//! return address are found. Other registers' instructions are read and left.

use super::expression::{Value, evaluate};
use super::rule::{Base, FpFrom, General, Rule, SignalFrame};
use crate::unwind::eh_frame::{Entry, Reader};

/// DWARF's number of `rbp`.
const FP: u64 = 6;
/// DWARF's number of `rsp`.
const SP: u64 = 7;
/// How many rows `DW_CFA_remember_state` may stack up. Compilers need one,
/// hand-written code two or three.
const DEPTH: usize = 6;

/// How the canonical frame address is computed.
#[derive(Clone, Copy)]
enum Cfa<'a> {
    Unknown,
    Register(u64, i64),
    Expression(Reader<'a>),
}

/// Where the caller's value of a register is.
#[derive(Clone, Copy)]
enum Saved<'a> {
    /// Still in the register; also what no instruction has spoken about.
    Same,
    /// Lost.
    Undefined,
    /// In memory, at CFA + n.
    At(i64),
    /// In memory, where the expression says.
    AtExpression(Reader<'a>),
    /// In a form that a rule does not hold.
    Elsewhere,
}

/// The unwind row of one address.
#[derive(Clone, Copy)]
struct Row<'a> {
    cfa: Cfa<'a>,
    fp: Saved<'a>,
    sp: Saved<'a>,
    ra: Saved<'a>,
}

/// The rule of `entry` for the instruction at `pc`.
pub(in crate::unwind) fn rule_at(entry: &Entry<'_>, pc: u64) -> Rule {
    let Some(row) = row_at(entry, pc) else {
        return Rule::UNSUPPORTED;
    };
    let rule = if entry.is_signal {
        signal_rule(&row, pc)
    } else {
        call_rule(&row, pc)
    };
    rule.unwrap_or(Rule::UNSUPPORTED)
}

fn call_rule(row: &Row<'_>, pc: u64) -> Option<Rule> {
    let ra = match row.ra {
        Saved::Undefined => return Some(Rule::OUTERMOST),
        Saved::At(offset) => offset.try_into().ok()?,
        _ => return None,
    };
    let (base, offset, deref) = match row.cfa {
        Cfa::Register(SP, offset) => (Base::Sp, offset, None),
        Cfa::Register(FP, offset) => (Base::Fp, offset, None),
        Cfa::Expression(code) => match evaluate(code, pc)? {
            Value::Based(base, offset) => (base, offset, None),
            Value::Loaded(base, inner, outer) => (base, inner, Some(outer.try_into().ok()?)),
            Value::Number(_) => return None,
        },
        Cfa::Register(..) | Cfa::Unknown => return None,
    };
    let fp = match row.fp {
        // A lost frame pointer is kept as it is: no row of the callers that
        // is right can depend on it.
        Saved::Same | Saved::Undefined => None,
        Saved::At(offset) => Some((FpFrom::Cfa, offset.try_into().ok()?)),
        Saved::AtExpression(code) => match evaluate(code, pc)? {
            Value::Based(Base::Fp, offset) => Some((FpFrom::Fp, offset.try_into().ok()?)),
            // Relative to a CFA that is counted from the stack pointer too.
            Value::Based(Base::Sp, slot) if base == Base::Sp && deref.is_none() => {
                Some((FpFrom::Cfa, slot.checked_sub(offset)?.try_into().ok()?))
            }
            _ => return None,
        },
        Saved::Elsewhere => return None,
    };
    Rule::pack(General {
        base,
        offset: offset.try_into().ok()?,
        deref,
        ra,
        fp,
    })
}

/// The kernel's layout is fixed; the row must say the same.
fn signal_rule(row: &Row<'_>, pc: u64) -> Option<Rule> {
    let is_at = |saved: Saved<'_>, offset: u64| match saved {
        Saved::AtExpression(code) => {
            evaluate(code, pc) == Some(Value::Based(Base::Sp, offset as i64))
        }
        _ => false,
    };
    let Cfa::Expression(cfa) = row.cfa else {
        return None;
    };
    let is_usual = evaluate(cfa, pc) == Some(Value::Loaded(Base::Sp, SignalFrame::SP as i64, 0))
        && is_at(row.ra, SignalFrame::IP)
        && is_at(row.fp, SignalFrame::FP);
    is_usual.then_some(Rule::SIGNAL)
}

/// Runs the instructions of `entry` that apply at `pc`.
fn row_at<'a>(entry: &Entry<'a>, pc: u64) -> Option<Row<'a>> {
    let row = Row {
        cfa: Cfa::Unknown,
        fp: Saved::Same,
        sp: Saved::Same,
        ra: Saved::Same,
    };
    let mut machine = Machine {
        entry,
        location: entry.start,
        row,
        initial: row,
        remembered: [row; DEPTH],
        depth: 0,
    };
    machine.run(entry.initial, u64::MAX)?;
    machine.initial = machine.row;
    machine.location = entry.start;
    machine.run(entry.program, pc)?;
    Some(machine.row)
}

struct Machine<'e, 'a> {
    entry: &'e Entry<'a>,
    location: u64,
    row: Row<'a>,
    /// The row that `DW_CFA_restore` goes back to.
    initial: Row<'a>,
    remembered: [Row<'a>; DEPTH],
    depth: usize,
}

impl<'a> Machine<'_, 'a> {
    /// Runs `code` to its end or until it speaks of addresses behind `pc`.
    fn run(&mut self, mut code: Reader<'a>, pc: u64) -> Option<()> {
        while !code.is_at_end() && self.location <= pc {
            self.step(&mut code)?;
        }
        Some(())
    }

    fn step(&mut self, code: &mut Reader<'a>) -> Option<()> {
        let op = code.u8()?;
        let operand = u64::from(op & 0x3f);
        match op {
            0x40..=0x7f => self.advance(operand),
            0x80..=0xbf => {
                let offset = self.factored(code)?;
                self.save(operand, Saved::At(offset));
            }
            0xc0..=0xff => self.restore(operand),
            0x00 => {}
            0x01 => self.location = code.pointer(self.entry.encoding, 0)?,
            0x02 => self.advance(u64::from(code.u8()?)),
            0x03 => self.advance(u64::from(code.u16()?)),
            0x04 => self.advance(u64::from(code.u32()?)),
            0x0a => self.remember()?,
            0x0b => self.recall()?,
            0x0c..=0x0f | 0x12 | 0x13 => self.define_cfa(op, code)?,
            // DW_CFA_GNU_args_size: for the caller's clean-up only.
            0x2e => {
                code.uleb()?;
            }
            _ => self.define_register(op, code)?,
        }
        Some(())
    }

    fn define_cfa(&mut self, op: u8, code: &mut Reader<'a>) -> Option<()> {
        self.row.cfa = match op {
            0x0c => Cfa::Register(code.uleb()?, code.uleb()?.try_into().ok()?),
            0x12 => Cfa::Register(code.uleb()?, self.factored_signed(code)?),
            0x0f => Cfa::Expression(block(code)?),
            // The others change one half of what must be a register and an offset.
            _ => {
                let Cfa::Register(register, offset) = self.row.cfa else {
                    return None;
                };
                match op {
                    0x0d => Cfa::Register(code.uleb()?, offset),
                    0x0e => Cfa::Register(register, code.uleb()?.try_into().ok()?),
                    _ => Cfa::Register(register, self.factored_signed(code)?),
                }
            }
        };
        Some(())
    }

    fn define_register(&mut self, op: u8, code: &mut Reader<'a>) -> Option<()> {
        let register = code.uleb()?;
        let saved = match op {
            0x05 => Saved::At(self.factored(code)?),
            0x06 => {
                self.restore(register);
                return Some(());
            }
            0x07 => Saved::Undefined,
            0x08 => Saved::Same,
            0x09 => {
                code.uleb()?;
                Saved::Elsewhere
            }
            0x10 => Saved::AtExpression(block(code)?),
            0x11 => Saved::At(self.factored_signed(code)?),
            // DW_CFA_val_offset, val_offset_sf, val_expression
            0x14 | 0x15 => {
                code.uleb()?;
                Saved::Elsewhere
            }
            0x16 => {
                block(code)?;
                Saved::Elsewhere
            }
            // DW_CFA_GNU_negative_offset_extended
            0x2f => Saved::At(self.factored(code)?.checked_neg()?),
            _ => return None,
        };
        self.save(register, saved);
        Some(())
    }

    fn advance(&mut self, delta: u64) {
        let delta = delta.saturating_mul(self.entry.code_alignment);
        self.location = self.location.saturating_add(delta);
    }

    fn save(&mut self, register: u64, saved: Saved<'a>) {
        if let Some(slot) = slot(&mut self.row, register, self.entry.return_address) {
            *slot = saved;
        }
    }

    fn restore(&mut self, register: u64) {
        let ra = self.entry.return_address;
        if let Some(initial) = slot(&mut self.initial, register, ra).map(|saved| *saved) {
            self.save(register, initial);
        }
    }

    fn remember(&mut self) -> Option<()> {
        *self.remembered.get_mut(self.depth)? = self.row;
        self.depth += 1;
        Some(())
    }

    fn recall(&mut self) -> Option<()> {
        self.depth = self.depth.checked_sub(1)?;
        self.row = *self.remembered.get(self.depth)?;
        Some(())
    }

    fn factored(&self, code: &mut Reader<'a>) -> Option<i64> {
        let offset = i64::try_from(code.uleb()?).ok()?;
        offset.checked_mul(self.entry.data_alignment)
    }

    fn factored_signed(&self, code: &mut Reader<'a>) -> Option<i64> {
        code.sleb()?.checked_mul(self.entry.data_alignment)
    }
}

fn slot<'r, 'a>(row: &'r mut Row<'a>, register: u64, ra: u64) -> Option<&'r mut Saved<'a>> {
    match register {
        FP => Some(&mut row.fp),
        SP => Some(&mut row.sp),
        _ if register == ra => Some(&mut row.ra),
        _ => None,
    }
}

fn block<'a>(code: &mut Reader<'a>) -> Option<Reader<'a>> {
    let len = code.uleb()?;
    code.split(len)
}
