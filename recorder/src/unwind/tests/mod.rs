//! Walks compared with those of the `backtrace` crate, on stacks of every kind.

#![expect(unsafe_code, reason = "signals, stacks of our own, hand-written code")]

mod calls;
mod compare;
