//! Frames as a table and as CSV.

use super::document::{Document, Table};
use super::summary::{bursts, head, over_budget, per_frame, trouble};
use crate::units::{bytes, count, nanos, plural};
use crate::{Analysis, FrameRow, LoopAnalysis};
use std::fmt::Write;

/// What frames are sorted by; all but the number put the greatest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameSort {
    /// In the order they happened.
    #[default]
    Number,
    /// Duration less the recorder's share.
    Time,
    /// Allocations and reallocations.
    Allocations,
    /// Deallocations.
    Deallocations,
    /// Bytes asked for.
    Bytes,
    /// Time in the allocator on the loop's thread.
    Allocator,
    /// The slowest call.
    Slowest,
}

impl FrameSort {
    /// Sorts rows; equal ones stay in order.
    pub fn sort(self, rows: &mut [FrameRow]) {
        let key: fn(&FrameRow) -> u64 = match self {
            FrameSort::Number => return,
            FrameSort::Time => |row| row.net_nanos,
            FrameSort::Allocations => |row| row.allocations + row.reallocations,
            FrameSort::Deallocations => |row| row.deallocations,
            FrameSort::Bytes => |row| row.requested_bytes,
            FrameSort::Allocator => |row| row.allocator_nanos,
            FrameSort::Slowest => |row| row.slowest_call_nanos,
        };
        rows.sort_by_key(|row| std::cmp::Reverse(key(row)));
    }
}

/// A table of frames that were chosen from a loop.
pub fn frames_document(
    analysis: &Analysis,
    game_loop: &LoopAnalysis,
    rows: &[FrameRow],
    left_out: usize,
) -> Document {
    let mut document = Document::default();
    head(&mut document, analysis, "heapreel frames");
    trouble(&mut document, &analysis.health);
    document.section(&format!("Frames of {}", game_loop.name));
    document.line(format!(
        "{}, {}, by {}. Frames {} are marked !, frames in phases ~.",
        plural(game_loop.frames.len() as u64, "frame"),
        game_loop.source,
        game_loop.thread,
        over_budget(game_loop)
    ));
    let mut table = Table::new([
        "frame",
        "<",
        "time",
        "recording",
        "in the allocator",
        "allocs",
        "reallocs",
        "frees",
        "bytes",
        "slowest",
        "temporary",
        "live at end",
    ]);
    for row in rows {
        let sign = if row.spike {
            "!"
        } else if row.in_phase {
            "~"
        } else {
            ""
        };
        table.row([
            row.number.to_string(),
            sign.to_owned(),
            nanos(row.duration_nanos),
            nanos(row.recorder_nanos),
            nanos(row.allocator_nanos),
            count(row.allocations),
            count(row.reallocations),
            count(row.deallocations),
            bytes(row.requested_bytes),
            nanos(row.slowest_call_nanos),
            count(row.temporary),
            bytes(row.live_bytes),
        ]);
    }
    document.table(table);
    if left_out > 0 {
        document.line(format!(
            "and {} more; --limit 0 shows all, --csv and --json too",
            count(left_out as u64)
        ));
    }
    if game_loop.steady.frames > 0 {
        document.section("Outside of phases");
        document.table(per_frame(game_loop));
        document.line(bursts(game_loop));
    }
    document
}

/// Frames as CSV: durations in nanoseconds, sizes in bytes.
pub fn frames_csv(rows: &[FrameRow]) -> String {
    let mut csv = String::from(
        "frame,start_nanos,duration_nanos,recorder_nanos,net_nanos,allocations,reallocations,deallocations,failed,\
         requested_bytes,freed_bytes,allocator_nanos,all_threads_allocator_nanos,slowest_call_nanos,temporary,\
         foreign_frees,live_bytes,live_blocks,peak_bytes,in_phase,spike\n",
    );
    for row in rows {
        let figures = [
            row.number,
            row.start_nanos,
            row.duration_nanos,
            row.recorder_nanos,
            row.net_nanos,
            row.allocations,
            row.reallocations,
            row.deallocations,
            row.failed,
            row.requested_bytes,
            row.freed_bytes,
            row.allocator_nanos,
            row.all_threads_allocator_nanos,
            row.slowest_call_nanos,
            row.temporary,
            row.foreign_frees,
            row.live_bytes,
            row.live_blocks,
            row.peak_bytes,
        ];
        figures
            .iter()
            .for_each(|figure| _ = write!(csv, "{figure},"));
        _ = writeln!(csv, "{},{}", row.in_phase, row.spike);
    }
    csv
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_a_title_for_every_figure() {
        let csv = frames_csv(&[FrameRow {
            number: 7,
            spike: true,
            ..FrameRow::default()
        }]);
        let lines: Vec<_> = csv.lines().collect();
        assert_eq!(lines[0].split(',').count(), lines[1].split(',').count());
        assert!(
            lines[1].starts_with("7,0,") && lines[1].ends_with(",false,true"),
            "{csv}"
        );
    }

    #[test]
    fn the_greatest_come_first_and_equals_keep_their_order() {
        let row = |number, net_nanos| FrameRow {
            number,
            net_nanos,
            ..FrameRow::default()
        };
        let mut rows = [row(0, 5), row(1, 9), row(2, 9)];
        FrameSort::Time.sort(&mut rows);
        assert_eq!(rows.map(|row| row.number), [1, 2, 0]);
    }
}
