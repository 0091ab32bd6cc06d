//! The report: findings first, then everything else.

use super::contexts::main_contexts;
use super::document::{Align, Block, Document, Table};
use super::heaps::announced_heaps;
use super::summary::{
    add_contexts, bursts, frame_name, head, is_damaged, mean_nanos, over_budget, per_frame,
    share_of, site_name, trouble,
};
use crate::units::{bytes, count, nanos, percent, plural};
use crate::{Analysis, DriftRow, LatencyTable, LoopAnalysis, Site};
use std::collections::BTreeSet;

/// Call sites, slow calls and frames that a section lists.
const ROWS: usize = 10;

/// Everything that is known of a trace.
pub fn report_document(analysis: &Analysis) -> Document {
    let mut document = Document::default();
    head(&mut document, analysis, "heapreel report");
    trouble(&mut document, &analysis.health);
    findings(&mut document, analysis);
    overview(&mut document, analysis);
    analysis
        .loops
        .iter()
        .for_each(|game_loop| frames(&mut document, analysis, game_loop));
    latency(&mut document, analysis);
    slow_calls(&mut document, analysis);
    drift(&mut document, analysis);
    sites(&mut document, analysis);
    segments(&mut document, analysis);
    announced_heaps(&mut document, analysis, ROWS);
    main_contexts(&mut document, analysis, ROWS);
    leaks(&mut document, analysis);
    growth(&mut document, analysis);
    temporary(&mut document, analysis);
    threads(&mut document, analysis);
    recording(&mut document, analysis);
    health(&mut document, analysis);
    document
}

fn findings(document: &mut Document, analysis: &Analysis) {
    document.section("Findings");
    for finding in &analysis.findings {
        document.blocks.push(Block::Finding(
            finding.severity,
            finding.text.clone(),
            finding.command.clone(),
        ));
    }
    if analysis.findings.is_empty() {
        document.line("Nothing stands out: no spikes, no leaks, no growth, nothing failed.");
    }
}

fn overview(document: &mut Document, analysis: &Analysis) {
    let (trace, totals, peak) = (&analysis.trace, &analysis.totals, &analysis.peak);
    document.section("Overview");
    let frames = match analysis.loops.as_slice() {
        [] => "no frame marks".to_owned(),
        loops => {
            let told = loops
                .iter()
                .map(|l| format!("{} of {}", plural(l.frames.len() as u64, "frame"), l.name));
            told.collect::<Vec<_>>().join(", ")
        }
    };
    let place = peak
        .frame
        .map_or_else(String::new, |frame| format!(", frame {frame}"));
    document.facts([
        ("command", trace.arguments.join(" ")),
        ("allocator", trace.allocator.clone()),
        ("duration", nanos(trace.duration_nanos)),
        ("frames", frames),
        (
            "events",
            format!(
                "{}: {}, {}, {}, {} failed",
                count(totals.events),
                plural(totals.allocations, "allocation"),
                plural(totals.reallocations, "reallocation"),
                plural(totals.deallocations, "deallocation"),
                count(totals.failed_allocations)
            ),
        ),
        ("bytes asked for", bytes(totals.requested_bytes)),
        (
            "time in the allocator",
            format!("{} on all threads", nanos(totals.allocator_nanos)),
        ),
        (
            "high-water mark",
            format!(
                "{} in {} at {}{place}",
                bytes(peak.bytes),
                plural(peak.blocks, "block"),
                nanos(peak.nanos)
            ),
        ),
        (
            "live at the end",
            format!(
                "{} in {}",
                bytes(totals.live_bytes),
                plural(totals.live_blocks, "block")
            ),
        ),
    ]);
}

fn frames(document: &mut Document, analysis: &Analysis, game_loop: &LoopAnalysis) {
    document.section(&format!("Frames of {}", game_loop.name));
    document.line(format!(
        "{}, {}, by {}; {} of them in phases, left out below.",
        plural(game_loop.frames.len() as u64, "frame"),
        game_loop.source,
        game_loop.thread,
        count(game_loop.steady.frames_in_phases)
    ));
    if game_loop.steady.frames == 0 {
        return;
    }
    document.table(per_frame(game_loop));
    document.line(bursts(game_loop));
    spikes(document, analysis, game_loop);
}

fn spikes(document: &mut Document, analysis: &Analysis, game_loop: &LoopAnalysis) {
    let spikes = &game_loop.spikes;
    if spikes.count == 0 {
        document.line(format!("No frame {}.", over_budget(game_loop)));
        return;
    }
    document.line(format!(
        "{} {}: {} explained by allocation, {} partly, {} not, {} cannot be told; \
         the allocator explains {} of their excess.",
        plural(spikes.count, "frame"),
        over_budget(game_loop),
        count(spikes.explained),
        count(spikes.partly),
        count(spikes.not_explained),
        count(spikes.cannot_tell),
        percent(spikes.allocator_excess_nanos as f64 / spikes.excess_nanos.max(1) as f64)
    ));
    let mut table = Table::new([
        "frame",
        "time",
        "over the median",
        "in the allocator",
        "calls",
        "<explained",
        "<most of it from",
    ]);
    for spike in spikes.worst.iter().take(ROWS) {
        table.row([
            spike.frame.to_string(),
            nanos(spike.duration_nanos),
            nanos(spike.excess_nanos),
            nanos(spike.allocator_nanos),
            count(spike.calls),
            super::spikes::verdict(spike),
            site_name(analysis, spike.sites.first().map(|site| site.site)),
        ]);
    }
    let sites = spikes.worst.iter().map(|spike| spike.sites.first());
    add_contexts(&mut table, analysis, sites.map(|site| site?.context));
    document.table(table);
}

fn latency(document: &mut Document, analysis: &Analysis) {
    if !analysis.trace.latency {
        document.section("Latency");
        document.line("Calls were not timed.");
        return;
    }
    document.section("Latency by size class (percentiles at most 6.25 % too high)");
    let mut table = Table::new([
        "<operation",
        "<size",
        "calls",
        "mean",
        "p50",
        "p99",
        "p99.9",
        "max",
    ]);
    for row in &analysis.latency {
        table.row([
            row.operation.clone(),
            row.size_class.clone(),
            count(row.count),
            nanos(row.mean_nanos),
            nanos(row.p50_nanos),
            nanos(row.p99_nanos),
            nanos(row.p999_nanos),
            nanos(row.max_nanos),
        ]);
    }
    document.table(table);
    histogram(document, &analysis.latency);
}

/// Calls by power of two of latency, a column for each operation and size class.
fn histogram(document: &mut Document, tables: &[LatencyTable]) {
    let used: Vec<&LatencyTable> = tables.iter().filter(|table| table.count > 0).collect();
    let from: BTreeSet<u64> = used
        .iter()
        .flat_map(|table| &table.histogram)
        .map(|bucket| bucket.from_nanos)
        .collect();
    let title = |table: &&LatencyTable| {
        let operation = table
            .operation
            .trim_end_matches("ation")
            .replace("dealloc", "free");
        (
            format!("{operation} {}", table.size_class.trim_start_matches("to ")),
            Align::Right,
        )
    };
    let header = std::iter::once(("from".to_owned(), Align::Right)).chain(used.iter().map(title));
    let mut histogram = Table {
        header: header.collect(),
        rows: Vec::new(),
    };
    for from in from {
        let cell = |table: &&LatencyTable| {
            let bucket = table
                .histogram
                .iter()
                .find(|bucket| bucket.from_nanos == from);
            bucket
                .filter(|bucket| bucket.count > 0)
                .map_or_else(String::new, |bucket| count(bucket.count))
        };
        let row = std::iter::once(nanos(from)).chain(used.iter().map(cell));
        histogram.rows.push(row.collect());
    }
    document.line("Calls by latency, each row up to twice its beginning, clock overhead included:");
    document.table(histogram);
}

fn slow_calls(document: &mut Document, analysis: &Analysis) {
    if analysis.slow_calls.is_empty() {
        return;
    }
    document.section("Slowest calls");
    let mut table = Table::new([
        "took",
        "at",
        "frame",
        "<operation",
        "size",
        "<thread",
        "<call site",
        "<met meanwhile, at most",
    ]);
    for call in analysis.slow_calls.iter().take(ROWS) {
        table.row([
            nanos(call.duration_nanos),
            nanos(call.nanos),
            frame_name(call.frame),
            call.operation.clone(),
            bytes(call.bytes),
            call.thread.clone(),
            site_name(analysis, call.site),
            super::spikes::cause(call.cause.as_ref()),
        ]);
    }
    let calls = analysis.slow_calls.iter();
    add_contexts(&mut table, analysis, calls.map(|call| call.context));
    document.table(table);
}

/// The last tenth of frames against the first: all calls, and the call sites that drift.
fn drift(document: &mut Document, analysis: &Analysis) {
    let drift = &analysis.drift;
    if drift.frames == 0 {
        return;
    }
    document.section("Drift: the last tenth of frames against the first");
    let mut table = Table::new([
        "<what",
        "many first",
        "many last",
        "cost first",
        "cost last",
        "change",
        "noise",
        "<",
    ]);
    let mut line = |name: &str, row: &DriftRow| {
        let change = row.last_mean_nanos - row.first_mean_nanos;
        let sign = if change < 0.0 { "-" } else { "+" };
        table.row([
            name.to_owned(),
            count(row.first_calls),
            count(row.last_calls),
            mean_nanos(row.first_mean_nanos),
            mean_nanos(row.last_mean_nanos),
            format!("{sign}{}", mean_nanos(change.abs())),
            mean_nanos(row.noise_nanos),
            if row.drifts {
                format!("{:.1} times", row.factor())
            } else {
                String::new()
            },
        ]);
    };
    let all = [
        ("frames", &drift.frame_time),
        ("allocations", &drift.allocations),
        ("deallocations", &drift.deallocations),
    ];
    for (name, row) in all {
        row.iter().for_each(|row| line(name, row));
    }
    let drifting: Vec<_> = drift.sites.iter().filter(|row| row.drifts).collect();
    for row in drifting.iter().take(ROWS) {
        line(&site_name(analysis, row.site), row);
    }
    document.table(table);
    let told = match drifting.len() as u64 {
        _ if !analysis.trace.latency => "Calls were not timed.".to_owned(),
        0 => "No call site costs more or less than at the beginning beyond its noise.".to_owned(),
        sites => format!("{} changed beyond the noise.", plural(sites, "call site")),
    };
    document.line(told);
}

fn sites(document: &mut Document, analysis: &Analysis) {
    let by = |document: &mut Document, title: &str, key: fn(&Site) -> u64| {
        let mut sites: Vec<&Site> = analysis.sites.iter().filter(|site| key(site) > 0).collect();
        sites.sort_by_key(|site| std::cmp::Reverse(key(site)));
        document.section(title);
        let mut table = Table::new([
            "<call site",
            "calls",
            "bytes",
            "time",
            "slowest",
            "at the peak",
            "live at end",
        ]);
        for site in sites.iter().take(ROWS) {
            table.row([
                site.name.clone(),
                count(site.allocations + site.reallocations),
                bytes(site.requested_bytes),
                nanos(site.allocator_nanos),
                nanos(site.slowest_nanos),
                bytes(site.peak_bytes),
                bytes(site.live_bytes),
            ]);
        }
        document.table(table);
    };
    by(document, "Call sites by count", |site| {
        site.allocations + site.reallocations
    });
    by(document, "Call sites by bytes asked for", |site| {
        site.requested_bytes
    });
    by(document, "Call sites by time in the allocator", |site| {
        site.allocator_nanos
    });
    by(
        document,
        "Call sites by bytes held at the high-water mark",
        |site| site.peak_bytes,
    );
}

fn segments(document: &mut Document, analysis: &Analysis) {
    document.section("Segments");
    let mut table = Table::new([
        "<segment",
        "peak",
        "budget",
        "used",
        "live at end",
        "allocations",
    ]);
    for segment in &analysis.segments {
        let budget = segment.budget_bytes;
        let (told, used) = match budget {
            0 => ("none".to_owned(), "-".to_owned()),
            _ => (
                bytes(budget),
                percent(segment.peak_bytes as f64 / budget as f64),
            ),
        };
        table.row([
            segment.name.clone(),
            bytes(segment.peak_bytes),
            told,
            used,
            bytes(segment.live_bytes),
            count(segment.allocations),
        ]);
    }
    document.table(table);
}

fn leaks(document: &mut Document, analysis: &Analysis) {
    let leaks = &analysis.leaks;
    document.section(if leaks.leaked {
        "Leaks: live at the end"
    } else {
        "Live when the trace ends"
    });
    document.line(format!(
        "{} in {} {}.",
        bytes(leaks.bytes),
        plural(leaks.blocks, "block"),
        leaks.word
    ));
    let mut table = Table::new([
        "<call site",
        "blocks",
        "bytes",
        "oldest",
        "newest",
        "<frames",
    ]);
    for site in leaks.sites.iter().take(ROWS) {
        table.row([
            site_name(analysis, Some(site.site)),
            count(site.blocks),
            bytes(site.bytes),
            nanos(site.oldest_nanos),
            nanos(site.newest_nanos),
            site.frames.map_or_else(
                || "-".to_owned(),
                |(first, last)| format!("{first} to {last}"),
            ),
        ]);
    }
    let most = leaks.sites.iter().map(|site| site.contexts.first());
    add_contexts(&mut table, analysis, most.map(|share| Some(share?.context)));
    document.table(table);
}

fn growth(document: &mut Document, analysis: &Analysis) {
    if analysis.growth.is_empty() {
        return;
    }
    document.section("Growth: live bytes that rise steadily");
    let mut table = Table::new(["<call site", "from", "to", "a second", "rising"]);
    for growth in analysis.growth.iter().take(ROWS) {
        table.row([
            site_name(analysis, Some(growth.site)),
            bytes(growth.from_bytes),
            bytes(growth.to_bytes),
            bytes(growth.bytes_per_second.round() as u64),
            percent(growth.rising_share),
        ]);
    }
    document.table(table);
}

fn temporary(document: &mut Document, analysis: &Analysis) {
    document.section("Lifetimes");
    let temporary = &analysis.temporary;
    match (temporary.blocks, temporary.share) {
        (Some(blocks), Some(share)) => document.line(format!(
            "{} ({}) died within the frame that allocated them, {} in all.",
            plural(blocks, "block"),
            percent(share),
            bytes(temporary.bytes)
        )),
        _ => document.line("Temporary allocations cannot be told without frames."),
    }
    let mut sites: Vec<&Site> = analysis
        .sites
        .iter()
        .filter(|site| site.temporary > 0)
        .collect();
    sites.sort_by_key(|site| std::cmp::Reverse(site.temporary));
    let mut table = Table::new(["<call site", "temporary", "of its allocations"]);
    for site in sites.iter().take(ROWS) {
        let share = site.temporary as f64 / site.allocations.max(1) as f64;
        table.row([site.name.clone(), count(site.temporary), percent(share)]);
    }
    document.table(table);
    let foreign = &analysis.foreign_frees;
    document.line(format!(
        "{} ({}) were given back by another thread than allocated them.",
        plural(foreign.count, "block"),
        percent(foreign.share)
    ));
}

fn threads(document: &mut Document, analysis: &Analysis) {
    document.section("Threads");
    let mut table = Table::new([
        "<thread",
        "<role",
        "allocations",
        "deallocations",
        "of others' blocks",
        "bytes",
        "in the allocator",
    ]);
    let mut threads: Vec<_> = analysis.threads.iter().collect();
    threads.sort_by_key(|thread| {
        (
            std::cmp::Reverse(thread.allocations + thread.reallocations + thread.deallocations),
            thread.id,
        )
    });
    for thread in threads.iter().take(2 * ROWS) {
        table.row([
            thread.name.clone(),
            thread.role.clone(),
            count(thread.allocations + thread.reallocations),
            count(thread.deallocations),
            count(thread.foreign_frees),
            bytes(thread.requested_bytes),
            nanos(thread.allocator_nanos),
        ]);
    }
    document.table(table);
    if threads.len() > 2 * ROWS {
        document.line(format!(
            "and {} more",
            count((threads.len() - 2 * ROWS) as u64)
        ));
    }
}

fn recording(document: &mut Document, analysis: &Analysis) {
    let cost = &analysis.recording;
    document.section("What recording cost");
    if cost.source == "unknown" {
        document.line("The trace does not say.");
        return;
    }
    document.line(format!(
        "{} in all, on all threads ({} of the duration): {:.0} ns for each allocation, {:.0} ns for each deallocation, \
         and {:.0} ns of each measured latency, by {}.",
        nanos(cost.total_nanos),
        percent(cost.share_of_duration),
        cost.per_acquisition_nanos,
        cost.per_release_nanos,
        cost.clock_nanos,
        match cost.source.as_str() {
            "samples" => format!("{} during the run", plural(cost.sampled_events, "sample")),
            other => format!("{other} at its start"),
        }
    ));
}

fn health(document: &mut Document, analysis: &Analysis) {
    let health = &analysis.health;
    document.section("The trace's health");
    let ended = health.ended.as_deref().unwrap_or("not known");
    let unknown: u64 = health.unknown_releases.values().sum();
    document.facts([
        ("ended", ended.to_owned()),
        (
            "complete",
            if health.complete { "yes" } else { "no" }.to_owned(),
        ),
        ("lost events", count(health.lost_events)),
        ("missing records", count(health.missing_records)),
        ("faults of order", count(health.order_anomalies)),
        (
            "blocks from before the recording",
            format!(
                "{} deallocated or reallocated",
                share_of(
                    unknown,
                    analysis.totals.deallocations + analysis.totals.reallocations
                )
            ),
        ),
    ]);
    if !is_damaged(health) {
        health
            .remarks
            .iter()
            .for_each(|remark| document.line(remark.clone()));
    }
}
