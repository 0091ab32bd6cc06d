//! Every address that a model gives, one a line: to compare with the real allocator's.

use super::call::{Call, CallKind};
use super::replay::Watch;
use super::run::Run;
use heapreel_models::{Mimalloc, Model, Placed};
use std::any::Any;
use std::io::{self, Write};

/// How a model's addresses are told, so that they do not hang on where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Modulo the size of a segment.
    Modulo(u64),
    /// From the first address on.
    From(u64),
    /// As they are.
    Absolute,
}

impl Shape {
    fn of(self, address: u64) -> u64 {
        match self {
            Shape::Modulo(bytes) => address % bytes,
            Shape::From(base) => address.wrapping_sub(base),
            Shape::Absolute => address,
        }
    }
}

/// Writes a line for each allocation and reallocation: the address in hexadecimal, or `-`
/// for one that failed. Every so many events, threads' exits included, a line `# N` has
/// the bytes held, of mimalloc its own statistic.
pub struct Placements<W: Write + Send> {
    out: W,
    every: Option<u64>,
    seen: u64,
    error: Option<io::Error>,
}

impl<W: Write + Send> Placements<W> {
    /// Writes to `out`, with a line `#` every so many events.
    pub fn new(out: W, every: Option<u64>) -> Placements<W> {
        Placements {
            out,
            every,
            seen: 0,
            error: None,
        }
    }

    /// Ends the writing.
    ///
    /// # Errors
    ///
    /// The first one that writing met.
    pub fn finish(mut self) -> io::Result<W> {
        match self.error {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.out),
        }
    }

    fn write(&mut self, run: &Run, call: &Call, placed: Option<Placed>) -> io::Result<()> {
        match (call.kind, placed) {
            (_, Some(placed)) => writeln!(self.out, "{:x}", run.shape().of(placed.address))?,
            (CallKind::Allocate | CallKind::AllocateZeroed | CallKind::Reallocate, None) => {
                writeln!(self.out, "-")?;
            }
            _ => {}
        }
        self.seen += u64::from(call.is_event());
        let due = |every: u64| self.seen.is_multiple_of(every.max(1));
        if call.is_event() && self.every.is_some_and(due) {
            writeln!(self.out, "# {}", statistic(run.ledger().model()))?;
        }
        Ok(())
    }
}

impl<W: Write + Send> Watch for Placements<W> {
    fn after(&mut self, run: &Run, call: &Call, placed: Option<Placed>) {
        if self.error.is_none() {
            self.error = self.write(run, call, placed).err();
        }
    }

    fn done(&self) -> bool {
        self.error.is_some()
    }
}

/// What the real one reports as committed, where there is a real one that was asked.
fn statistic(model: &dyn Model) -> u64 {
    let any: &dyn Any = model;
    match any.downcast_ref::<Mimalloc>() {
        Some(mimalloc) => mimalloc.statistic(),
        None => model.held(),
    }
}
