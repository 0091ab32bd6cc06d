//! A row for each frame and model, for spreadsheets.

use super::feeder::Fed;
use super::report::frame_rows;
use super::run::Run;
use std::io::{self, Write};

/// Titles of the columns.
const HEADER: &str = "model,frame,allocations,reallocations,frees,failures,allocated_bytes,\
freed_bytes,os_calls,zeroed_bytes,moved_bytes,slow_calls,locks,peak_requested,peak_held,requested,\
used,meta,free,held,reserved,blocks";

/// Writes all frames of all runs. Columns from `requested` on are the state at the frame's
/// end, the others what happened in it.
///
/// # Errors
///
/// The sink's.
pub fn write_csv(runs: &[Run], fed: &Fed, mut out: impl Write) -> io::Result<()> {
    writeln!(out, "{HEADER}")?;
    for run in runs {
        for row in frame_rows(run, fed) {
            let (tally, end) = (&row.tally, &row.end);
            let happened = [
                tally.allocations,
                tally.reallocations,
                tally.frees,
                tally.failures,
                tally.allocated_bytes,
                tally.freed_bytes,
                row.os_calls,
                row.zeroed,
                row.moved,
                row.slow,
                row.locks,
                row.peak_requested,
                row.peak_held,
            ];
            let state = [
                end.requested,
                end.used,
                end.meta,
                end.free,
                end.held,
                end.reserved,
                end.blocks,
            ];
            write!(out, "{},{}", run.label(), row.frame)?;
            for number in happened.iter().chain(&state) {
                write!(out, ",{number}")?;
            }
            writeln!(out)?;
        }
    }
    out.flush()
}
