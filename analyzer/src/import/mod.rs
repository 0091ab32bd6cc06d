//! Traces from other sources than the recorder.
//!
//! What such a source does not tell is made up and marked as such: the header's process is
//! called after the source, and its clock counts events and knows no time.

mod ops;
mod streams;
mod trace;

pub use ops::{BadLine, Form, Op, OpKind, Ops, parse_ops};
pub use trace::{Imported, write_ops};
