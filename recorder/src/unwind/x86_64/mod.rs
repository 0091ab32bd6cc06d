//! Unwinding on x86-64: registers, rules, how a rule is made and kept, and the
//! walk that applies them.

mod cache;
mod compile;
mod expression;
mod front;
mod known;
mod program;
mod regs;
mod rule;
mod step;
mod walk;

pub(crate) use cache::{forget_modules, generation};
pub(crate) use known::KnownStack;
#[cfg(test)]
pub(super) use program::rule_at;
pub(crate) use regs::{Regs, here};
use rule::Rule;
#[cfg(test)]
pub(super) use rule::{Base, FpFrom, Special};
pub(crate) use step::Frame;
pub(crate) use walk::{second_caller, walk, walk_from};
