//! What a trace holds.

use super::document::{Document, Table};
use super::summary::{head, trouble};
use crate::units::{bytes, count, nanos, plural};
use crate::{Analysis, HealthFacts};

/// What a trace holds and how complete it is.
pub fn info_document(analysis: &Analysis) -> Document {
    let (trace, totals, health) = (&analysis.trace, &analysis.totals, &analysis.health);
    let mut document = Document::default();
    head(&mut document, analysis, "heapreel info");
    trouble(&mut document, health);
    document.section("Program");
    document.facts([
        ("executable", trace.executable.clone()),
        ("command", trace.arguments.join(" ")),
        ("folder", trace.folder.clone()),
        (
            "process",
            format!("{} (child of {})", trace.pid, trace.parent_pid),
        ),
        ("allocator", trace.allocator.clone()),
        ("machine", trace.machine.clone()),
        (
            "recorded by",
            format!(
                "heapreel {}, {}",
                trace.recorder,
                if trace.preload {
                    "preloaded"
                } else {
                    "as a crate"
                }
            ),
        ),
    ]);
    if let Some(why) = &trace.clip {
        document.section("Clip");
        document.facts([("made because", why.clone())]);
    }
    document.section("Trace");
    document.facts([
        ("file", format!("{}, {}", trace.file, bytes(trace.bytes))),
        ("duration", nanos(trace.duration_nanos)),
        (
            "ended",
            health
                .ended
                .clone()
                .unwrap_or_else(|| "not known".to_owned()),
        ),
        ("events", count(totals.events)),
        (
            "allocations",
            format!(
                "{}, {} of them zeroed",
                count(totals.allocations),
                count(totals.zeroed_allocations)
            ),
        ),
        ("reallocations", count(totals.reallocations)),
        ("deallocations", count(totals.deallocations)),
        ("failed requests", count(totals.failed_allocations)),
        ("bytes asked for", bytes(totals.requested_bytes)),
        (
            "live at the end",
            format!(
                "{} in {}",
                bytes(totals.live_bytes),
                plural(totals.live_blocks, "block")
            ),
        ),
        ("threads", count(analysis.threads.len() as u64)),
        ("frames", count(totals.frames)),
        ("backtraces", count(trace.stacks)),
        (
            "function names",
            if trace.has_symbols {
                "in the trace"
            } else {
                "none; add them with `heapreel symbols`"
            }
            .to_owned(),
        ),
    ]);
    calls(&mut document, analysis);
    marks(&mut document, analysis);
    health_section(&mut document, health);
    document
}

fn calls(document: &mut Document, analysis: &Analysis) {
    document.section("Calls by entry point");
    let mut calls: Vec<_> = analysis.totals.calls_by_entry.iter().collect();
    calls.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), name.as_str()));
    let mut table = Table::new(["<entry", "calls", "of unknown blocks"]);
    for (name, calls) in calls {
        let unknown = analysis
            .health
            .unknown_releases
            .get(name)
            .copied()
            .unwrap_or(0);
        table.row([name.clone(), count(*calls), count(unknown)]);
    }
    document.table(table);
}

fn marks(document: &mut Document, analysis: &Analysis) {
    if analysis.marks.is_empty() {
        return;
    }
    document.section("Marks");
    let mut table = Table::new(["<mark", "at", "frame"]);
    for mark in analysis.marks.iter().take(40) {
        let place = if mark.occurrence == 1 {
            String::new()
        } else {
            format!("#{}", mark.occurrence)
        };
        table.row([
            format!("@{:?}{place}", mark.name),
            nanos(mark.nanos),
            super::summary::frame_name(mark.frame),
        ]);
    }
    document.table(table);
    if analysis.marks.len() > 40 {
        document.line(format!(
            "and {} more",
            count(analysis.marks.len() as u64 - 40)
        ));
    }
}

fn health_section(document: &mut Document, health: &HealthFacts) {
    document.section("Health");
    document.facts([
        (
            "complete",
            if health.complete { "yes" } else { "no" }.to_owned(),
        ),
        ("lost events", count(health.lost_events)),
        ("missing records", count(health.missing_records)),
        ("damaged parts", count(health.damaged_parts)),
        ("faults of order", count(health.order_anomalies)),
        ("from the spill", plural(health.from_spill, "record")),
        ("releases in flight", count(health.in_flight)),
        ("backtraces cut", count(health.stacks_cut)),
    ]);
    if health.contexts_cut > 0 {
        document.facts([("contexts not entered", count(health.contexts_cut))]);
    }
    if health.unwinds_checked > 0 {
        document.facts([
            ("unwinds checked", count(health.unwinds_checked)),
            ("unwinds differing", count(health.unwinds_differing)),
        ]);
    }
    health
        .remarks
        .iter()
        .for_each(|remark| document.line(remark.clone()));
}
