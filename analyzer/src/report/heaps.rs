//! Heaps that the game announced.

use super::document::{Document, Table};
use crate::analysis::heaps::misuse;
use crate::units::{bytes, count, percent};
use crate::{Analysis, HeapUse};

/// Adds what a report on everything says of heaps; nothing where a trace has none.
pub(crate) fn announced_heaps(document: &mut Document, analysis: &Analysis, limit: usize) {
    let (gpu, heaps): (Vec<_>, Vec<_>) = analysis.heaps.iter().partition(|it| it.kind == "gpu");
    if !heaps.is_empty() {
        document.section("Heaps that the game announced");
        document.line(
            "Their blocks lie in memory that the allocator, or another heap, gave them: they are \
             within the figures above and add nothing to them.",
        );
        tables(document, analysis, &heaps, limit);
    }
    if !gpu.is_empty() {
        document.section("Memory of the graphics processor");
        document.line("As the game announced it; part of no other figure in this report.");
        tables(document, analysis, &gpu, limit);
    }
}

fn tables(document: &mut Document, analysis: &Analysis, heaps: &[&HeapUse], limit: usize) {
    let mut rows = heaps.to_vec();
    // In the order in which they were announced where they took as much.
    rows.sort_by_key(|heap| std::cmp::Reverse(heap.peak_bytes));
    let mut table = Table::new([
        "<heap",
        "<kind",
        "<within",
        "holds",
        "peak",
        "budget",
        "used",
        "live at end",
        "blocks",
        "allocations",
        "resets",
    ]);
    for heap in rows.iter().take(limit) {
        table.row(row(analysis, heap));
    }
    document.table(table);
    and_more(document, rows.len(), limit);
    for heap in &rows {
        if let Some(faults) = misuse(heap) {
            document.line(format!("{} was told what cannot be: {faults}.", heap.name));
        }
    }
    sites(document, &rows, limit);
}

fn row(analysis: &Analysis, heap: &HeapUse) -> [String; 11] {
    let or_dash = |known: bool, text: String| if known { text } else { "-".to_owned() };
    let parent = heap
        .parent
        .and_then(|index| analysis.heaps.get(index as usize));
    let share = heap.peak_bytes as f64 / heap.budget_bytes.max(1) as f64;
    [
        heap.name.clone(),
        heap.kind.clone(),
        parent.map_or_else(|| "-".to_owned(), |parent| parent.name.clone()),
        or_dash(heap.held_bytes > 0, bytes(heap.held_bytes)),
        bytes(heap.peak_bytes),
        or_dash(heap.budget_bytes > 0, bytes(heap.budget_bytes)),
        or_dash(heap.budget_bytes > 0, percent(share)),
        bytes(heap.live_bytes),
        count(heap.live_blocks),
        count(heap.allocations),
        count(heap.resets),
    ]
}

fn sites(document: &mut Document, heaps: &[&HeapUse], limit: usize) {
    let mut rows: Vec<_> = heaps
        .iter()
        .flat_map(|heap| heap.sites.iter().map(move |site| (heap, site)))
        .filter(|(_, site)| site.calls > 0 || site.live_blocks > 0)
        .collect();
    if rows.is_empty() {
        return;
    }
    rows.sort_by_key(|(_, site)| std::cmp::Reverse((site.live_bytes, site.requested_bytes)));
    let mut table = Table::new([
        "<call site",
        "<heap",
        "live at end",
        "blocks",
        "calls",
        "bytes",
        "<place",
    ]);
    for (heap, site) in rows.iter().take(limit) {
        table.row([
            site.name.clone(),
            heap.name.clone(),
            bytes(site.live_bytes),
            count(site.live_blocks),
            count(site.calls),
            bytes(site.requested_bytes),
            site.place.clone().unwrap_or_default(),
        ]);
    }
    document.table(table);
    and_more(document, rows.len(), limit);
}

fn and_more(document: &mut Document, rows: usize, limit: usize) {
    if rows > limit {
        document.line(format!(
            "and {} more; --json has all",
            count((rows - limit) as u64)
        ));
    }
}
