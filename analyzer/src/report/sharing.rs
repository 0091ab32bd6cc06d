//! Cache lines that threads share, and what blocks touch.

use super::document::{Block, Document, Table};
use crate::sharing::{Locality, Sharing, Spread};
use crate::units::{bytes, count, nanos, percent, plural};

/// Shared lines and locality, at most `limit` rows of each.
pub fn sharing_document(sharing: &Sharing, limit: usize) -> Document {
    let mut document = Document::default();
    let title = format!("heapreel sharing of {}", sharing.trace);
    document.blocks.push(Block::Title(title));
    document.line(format!(
        "Model {}, frame {}, {} after the recording began; {} of {} in {}.",
        sharing.model,
        sharing.frame,
        nanos(sharing.nanos),
        bytes(sharing.all.bytes),
        plural(sharing.all.blocks, "live block"),
        plural(sharing.all.units[0].touched, "cache line"),
    ));
    if sharing.all.blocks == 0 {
        document.line("No block is live at this moment: choose another one with --frame or --at.");
        return document;
    }
    shared(&mut document, sharing, limit);
    locality(&mut document, sharing, limit);
    document
}

fn shared(document: &mut Document, sharing: &Sharing, limit: usize) {
    document.section("False sharing: cache lines with blocks of different threads");
    let lines = sharing.all.units[0].touched;
    document.line(match sharing.shared_lines {
        0 => format!(
            "None: no line of {} has live blocks of two threads.",
            bytes(sharing.line)
        ),
        some => format!(
            "{} of {} with live blocks ({}). Who allocated a block is known, who writes to it is \
             not: where both threads do so often, each waits for the other's line. Blocks that are \
             aligned to {} lie in lines of their own.",
            count(some),
            plural(lines, "line"),
            percent(some as f64 / lines.max(1) as f64),
            bytes(sharing.line)
        ),
    });
    let mut table = Table::new([
        "lines",
        "first at",
        "<thread",
        "<call site",
        "bytes",
        "<thread",
        "<call site",
        "bytes",
    ]);
    for row in sharing.shared.iter().take(limit) {
        table.row([
            count(row.lines),
            format!("{:#x}", row.first),
            row.one.thread.clone(),
            row.one.site.clone(),
            count(row.one.bytes),
            row.other.thread.clone(),
            row.other.site.clone(),
            count(row.other.bytes),
        ]);
    }
    document.table(table);
    more(document, sharing.shared.len(), limit);
}

fn locality(document: &mut Document, sharing: &Sharing, limit: usize) {
    document.section("Locality: what live blocks touch, / what they would without gaps");
    let mut table = Table::new([
        "<call site",
        "blocks",
        "bytes",
        "lines",
        "lines a block",
        "4 KiB pages",
        "64 KiB",
        "2 MiB",
    ]);
    let new = Some(&sharing.new_in_frame).filter(|new| new.blocks > 0);
    let rows = std::iter::once(&sharing.all).chain(new);
    for of in rows.chain(sharing.sites.iter().take(limit)) {
        table.row(row(of));
    }
    document.table(table);
    more(document, sharing.sites.len(), limit);
    document.line(
        "A proxy for misses of caches and of the TLB: how often what is touched, a trace of \
         allocations does not tell.",
    );
}

fn row(of: &Locality) -> [String; 8] {
    let told = |spread: &Spread| format!("{} / {}", count(spread.touched), count(spread.packed));
    let [lines, small, medium, large] = &of.units;
    [
        of.name.clone(),
        count(of.blocks),
        bytes(of.bytes),
        told(lines),
        format!("{:.2}", of.lines_a_block),
        told(small),
        told(medium),
        told(large),
    ]
}

fn more(document: &mut Document, rows: usize, limit: usize) {
    if rows > limit {
        document.line(format!(
            "and {} more; --limit 0 shows all, --json too",
            count((rows - limit) as u64)
        ));
    }
}
