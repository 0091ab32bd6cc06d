//! Walks compared with those of the `backtrace` crate, on stacks of every kind.

#![allow(
    unsafe_code,
    reason = "signals, stacks of our own, hand-written code; none of it in builds without the test harness"
)]

mod calls;
mod compare;
mod coroutine;
mod garbage;
mod handmade;
mod known;
mod modules;
mod parser;
mod signals;
mod through;
