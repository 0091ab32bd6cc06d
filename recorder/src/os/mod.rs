//! What the operating system and the processor give: memory, clock, thread word.

mod linux;

pub(crate) use linux::{clock, confined, count, limits, memory, process, tls};
