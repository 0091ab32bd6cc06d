//! Unwinding on x86-64: registers, rules, how a rule is made and kept, and the
//! walk that applies them.

mod cache;
mod compile;
mod expression;
mod program;
mod regs;
mod rule;
mod walk;

pub(crate) use cache::{forget_modules, generation};
#[cfg(test)]
pub(super) use program::rule_at;
pub(crate) use regs::{Regs, here};
use rule::Rule;
#[cfg(test)]
pub(super) use rule::{Base, FpFrom, Special};
pub(crate) use walk::walk;
