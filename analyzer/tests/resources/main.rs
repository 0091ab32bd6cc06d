//! What runs out, is missing or stands in the way never changes what a program computes: its
//! output, its exit code and what it sees of its own limits are the same as without us. One
//! line says why the recording suffers, and the trace accounts for every event.

#[path = "../support/mod.rs"]
mod support;

mod backtrace_table;
mod case;
mod disk;
mod in_the_way;
mod limits;
mod shared_memory;
mod wrapper_gone;
