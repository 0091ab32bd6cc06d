//! Every address that a model gives, one a line: to compare with the real allocator's.

use super::call::{Call, CallKind};
use super::replay::Watch;
use super::run::Run;
use heapreel_models::{Model, Placed};
use std::io::{self, Write};

/// Writes a line for each allocation and reallocation: the address in hexadecimal, or `-`
/// for one that failed. Addresses stand in the form that compares with the real
/// allocator's. Every so many events, threads' exits included, a line `#` has what the real
/// allocator tells of itself, of models without one the bytes held.
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
            (_, Some(placed)) => writeln!(
                self.out,
                "{:x}",
                run.ledger().model().comparable(placed.address)
            )?,
            (CallKind::Allocate | CallKind::AllocateZeroed | CallKind::Reallocate, None) => {
                writeln!(self.out, "-")?;
            }
            _ => {}
        }
        self.seen += u64::from(call.is_event());
        let due = |every: u64| self.seen.is_multiple_of(every.max(1));
        if call.is_event() && self.every.is_some_and(due) {
            writeln!(self.out, "# {}", figures(run.ledger().model()))?;
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

/// What the real one tells of itself, where there is a real one that was asked.
fn figures(model: &dyn Model) -> String {
    let figures = match model.real_figures() {
        figures if figures.is_empty() => vec![model.held()],
        figures => figures,
    };
    let figures: Vec<_> = figures.iter().map(u64::to_string).collect();
    figures.join(" ")
}
