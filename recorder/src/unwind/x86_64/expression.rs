//! DWARF expressions, evaluated as far as a rule can hold the result.
//!
//! Instead of numbers the stack holds [values](Value) that may still depend on
//! one register and one word of memory. That covers what compilers and
//! assembler files emit: procedure linkage tables (`rsp + 8`, more in the
//! second half of a stub), realigned stacks (`[rbp - 8]`), saved stack pointers
//! (`[rsp + n] + m`) and signal frames.

use super::rule::Base;
use crate::unwind::eh_frame::Reader;

/// What an expression came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// A number.
    Number(u64),
    /// base + offset
    Based(Base, i64),
    /// [base + inner] + outer
    Loaded(Base, i64, i64),
}

/// Deepest stack of values; compilers need three.
const DEPTH: usize = 8;

struct Stack {
    values: [Value; DEPTH],
    len: usize,
}

/// Evaluates `code`, in which the instruction pointer is `ip`.
pub(super) fn evaluate(mut code: Reader<'_>, ip: u64) -> Option<Value> {
    let mut stack = Stack {
        values: [Value::Number(0); DEPTH],
        len: 0,
    };
    while !code.is_at_end() {
        step(&mut code, &mut stack, ip)?;
    }
    stack.pop()
}

fn step(code: &mut Reader<'_>, stack: &mut Stack, ip: u64) -> Option<()> {
    let op = code.u8()?;
    match op {
        0x08..=0x11 => stack.push(Value::Number(constant(code, op)?)),
        // DW_OP_lit0 … lit31
        0x30..=0x4f => stack.push(Value::Number(u64::from(op - 0x30))),
        // DW_OP_breg0 … breg31
        0x70..=0x8f => {
            let offset = code.sleb()?;
            stack.push(register(u64::from(op - 0x70), offset, ip)?)
        }
        // DW_OP_bregx
        0x92 => {
            let (number, offset) = (code.uleb()?, code.sleb()?);
            stack.push(register(number, offset, ip)?)
        }
        // DW_OP_dup, drop, over, swap
        0x12 => stack.push(stack.peek(0)?),
        0x13 => stack.pop().map(|_| ()),
        0x14 => stack.push(stack.peek(1)?),
        0x16 => {
            let (top, below) = (stack.pop()?, stack.pop()?);
            stack.push(top)?;
            stack.push(below)
        }
        // DW_OP_deref
        0x06 => {
            let value = load(stack.pop()?)?;
            stack.push(value)
        }
        // DW_OP_plus_uconst
        0x23 => {
            let value = add(stack.pop()?, code.uleb()?)?;
            stack.push(value)
        }
        // DW_OP_nop
        0x96 => Some(()),
        _ => {
            let (right, left) = (stack.pop()?, stack.pop()?);
            stack.push(combine(op, left, right)?)
        }
    }
}

/// `DW_OP_const1u` … `DW_OP_consts`
fn constant(code: &mut Reader<'_>, op: u8) -> Option<u64> {
    Some(match op {
        0x08 => u64::from(code.u8()?),
        0x09 => i64::from(code.u8()? as i8) as u64,
        0x0a => u64::from(code.u16()?),
        0x0b => i64::from(code.u16()? as i16) as u64,
        0x0c => u64::from(code.u32()?),
        0x0d => i64::from(code.u32()? as i32) as u64,
        0x0e | 0x0f => code.u64()?,
        0x10 => code.uleb()?,
        _ => code.sleb()? as u64,
    })
}

fn register(number: u64, offset: i64, ip: u64) -> Option<Value> {
    match number {
        6 => Some(Value::Based(Base::Fp, offset)),
        7 => Some(Value::Based(Base::Sp, offset)),
        16 => Some(Value::Number(ip.wrapping_add(offset as u64))),
        _ => None,
    }
}

fn load(value: Value) -> Option<Value> {
    match value {
        Value::Based(base, offset) => Some(Value::Loaded(base, offset, 0)),
        _ => None,
    }
}

fn add(value: Value, number: u64) -> Option<Value> {
    let number = number as i64;
    Some(match value {
        Value::Number(other) => Value::Number(other.wrapping_add(number as u64)),
        Value::Based(base, offset) => Value::Based(base, offset.checked_add(number)?),
        Value::Loaded(base, inner, outer) => Value::Loaded(base, inner, outer.checked_add(number)?),
    })
}

fn combine(op: u8, left: Value, right: Value) -> Option<Value> {
    match (op, left, right) {
        (0x22, value, Value::Number(number)) | (0x22, Value::Number(number), value) => {
            add(value, number)
        }
        (0x1c, value, Value::Number(number)) => add(value, number.wrapping_neg()),
        (_, Value::Number(left), Value::Number(right)) => {
            compute(op, left, right).map(Value::Number)
        }
        _ => None,
    }
}

/// Operations on numbers; comparisons are signed, as DWARF has them.
fn compute(op: u8, left: u64, right: u64) -> Option<u64> {
    let (signed_left, signed_right) = (left as i64, right as i64);
    let shift = u32::try_from(right).ok();
    Some(match op {
        0x1a => left & right,
        0x1e => left.wrapping_mul(right),
        0x21 => left | right,
        0x27 => left ^ right,
        0x24 => left.checked_shl(shift?).unwrap_or(0),
        0x25 => left.checked_shr(shift?).unwrap_or(0),
        0x29 => u64::from(left == right),
        0x2a => u64::from(signed_left >= signed_right),
        0x2b => u64::from(signed_left > signed_right),
        0x2c => u64::from(signed_left <= signed_right),
        0x2d => u64::from(signed_left < signed_right),
        0x2e => u64::from(left != right),
        _ => return None,
    })
}

impl Stack {
    fn push(&mut self, value: Value) -> Option<()> {
        *self.values.get_mut(self.len)? = value;
        self.len += 1;
        Some(())
    }

    fn pop(&mut self) -> Option<Value> {
        let value = self.peek(0)?;
        self.len -= 1;
        Some(value)
    }

    fn peek(&self, depth: usize) -> Option<Value> {
        let at = self.len.checked_sub(depth + 1)?;
        self.values.get(at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unwind::eh_frame::Section;

    fn value(bytes: &[u8], ip: u64) -> Option<Value> {
        let section = Section { bytes, address: 0 };
        evaluate(section.reader_at(0).unwrap(), ip)
    }

    #[test]
    fn a_linkage_stub_depends_on_its_half() {
        // breg7 8, breg16 0, lit15, and, lit11, ge, lit3, shl, plus
        let code = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        assert_eq!(value(&code, 0x100a), Some(Value::Based(Base::Sp, 8)));
        assert_eq!(value(&code, 0x100b), Some(Value::Based(Base::Sp, 16)));
    }

    #[test]
    fn saved_stack_pointers_are_loaded() {
        // breg6 -8, deref
        assert_eq!(
            value(&[0x76, 0x78, 0x06], 0),
            Some(Value::Loaded(Base::Fp, -8, 0))
        );
        // breg7 152, deref, plus_uconst 8
        assert_eq!(
            value(&[0x77, 0x98, 0x01, 0x06, 0x23, 8], 0),
            Some(Value::Loaded(Base::Sp, 152, 8))
        );
    }

    #[test]
    fn what_a_rule_cannot_hold_is_none() {
        assert_eq!(value(&[], 0), None);
        assert_eq!(value(&[0x22], 0), None);
        assert_eq!(value(&[0x73, 0], 0), None, "rbx");
        assert_eq!(value(&[0x76, 0, 0x06, 0x06], 0), None, "two loads");
        assert_eq!(value(&[0x30; 9], 0), None, "too deep");
        assert_eq!(value(&[0x76, 0, 0x77, 0, 0x22], 0), None, "two bases");
    }

    #[test]
    fn any_bytes_end_without_a_fault() {
        let mut state = 1_u64;
        for _ in 0..200_000 {
            let mut bytes = [0; 12];
            for byte in &mut bytes {
                state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                *byte = (state >> 56) as u8;
            }
            value(&bytes, state);
        }
    }
}
