//! Parts that several reports share.

use super::document::{Block, Document, Table};
use crate::units::{bytes, count, mean, nanos, percent, plural};
use crate::{Analysis, Bursts, Distribution, HealthFacts, LoopAnalysis, SiteStack};

/// The title line and the program.
pub(crate) fn head(document: &mut Document, analysis: &Analysis, what: &str) {
    let trace = &analysis.trace;
    let program = trace.executable.rsplit('/').next().unwrap_or("?");
    document.blocks.push(Block::Title(format!(
        "{what} of {}",
        display_file(&trace.file, program)
    )));
}

fn display_file(file: &str, program: &str) -> String {
    if file.is_empty() {
        program.to_owned()
    } else {
        format!("{file} ({program})")
    }
}

/// What is missing from a trace, where something is; these lines come first.
pub(crate) fn trouble(document: &mut Document, health: &HealthFacts) {
    if is_damaged(health) {
        document.section("This trace is not complete");
        health
            .remarks
            .iter()
            .for_each(|remark| document.line(remark.clone()));
        document.line("Figures below cover what could be read: they are lower bounds.");
    }
}

/// The file is damaged, or ends too early.
pub(crate) fn is_damaged(health: &HealthFacts) -> bool {
    health.damaged_parts + health.missing_records + health.unreadable_records > 0 || health.cut
}

/// One row of a distribution.
pub(crate) fn distribution(
    table: &mut Table,
    name: &str,
    of: &Distribution,
    show: fn(u64) -> String,
    show_mean: fn(f64) -> String,
) {
    table.row([
        name.to_owned(),
        show_mean(of.mean),
        show(of.p50),
        show(of.p95),
        show(of.p99),
        show(of.max),
        of.max_frame.to_string(),
    ]);
}

/// Per-frame figures of a loop in steady state.
pub(crate) fn per_frame(game_loop: &LoopAnalysis) -> Table {
    let steady = &game_loop.steady;
    let mut table = Table::new(["<per frame", "mean", "p50", "p95", "p99", "max", "in frame"]);
    distribution(
        &mut table,
        "time",
        &steady.duration_nanos,
        nanos,
        mean_nanos,
    );
    distribution(
        &mut table,
        "less recording",
        &steady.net_nanos,
        nanos,
        mean_nanos,
    );
    distribution(
        &mut table,
        "in the allocator",
        &steady.allocator_nanos,
        nanos,
        mean_nanos,
    );
    distribution(&mut table, "allocations", &steady.allocations, count, mean);
    distribution(
        &mut table,
        "deallocations",
        &steady.deallocations,
        count,
        mean,
    );
    distribution(
        &mut table,
        "bytes asked for",
        &steady.requested_bytes,
        bytes,
        mean_bytes,
    );
    table
}

/// Whether blocks go back in bursts, and how that compares with how they come.
pub(crate) fn bursts(game_loop: &LoopAnalysis) -> String {
    let (frees, allocations) = (
        &game_loop.steady.free_bursts,
        &game_loop.steady.allocation_bursts,
    );
    format!(
        "Deallocations come {}: the 1 % of frames with most of them hold {}, variance/mean is {:.1}, {} without any. \
         The busiest frame over the median one: {}, {}.",
        if frees.fano_factor > 10.0 {
            "in bursts"
        } else {
            "evenly"
        },
        percent(frees.share_of_top_percent),
        frees.fano_factor,
        plural(frees.frames_without, "frame"),
        over_median("deallocations", frees),
        over_median("allocations", allocations),
    )
}

fn over_median(what: &str, bursts: &Bursts) -> String {
    match bursts.max_over_median {
        Some(times) => format!("{what} {} times", mean(times)),
        None => format!("{what}, of which the median has none"),
    }
}

pub(crate) fn mean_nanos(value: f64) -> String {
    nanos(value.round() as u64)
}

fn mean_bytes(value: f64) -> String {
    bytes(value.round() as u64)
}

/// Lines of a backtrace.
pub(crate) fn backtrace(stack: &SiteStack) -> Vec<String> {
    let mut lines: Vec<String> = stack
        .frames
        .iter()
        .map(|frame| match &frame.place {
            Some(place) => format!("{}  {place}", frame.function),
            None => frame.function.clone(),
        })
        .collect();
    if stack.cut {
        lines.push("… (outer stack frames are missing)".to_owned());
    }
    if lines.is_empty() {
        lines.push("(no backtrace)".to_owned());
    }
    lines
}

/// The name of a call site by its index.
pub(crate) fn site_name(analysis: &Analysis, site: Option<u32>) -> String {
    let known = site.and_then(|site| analysis.sites.get(site as usize));
    known.map_or_else(|| "-".to_owned(), |site| site.name.clone())
}

/// What something was for, by the context's index.
pub(crate) fn context_name(analysis: &Analysis, context: Option<u32>) -> String {
    let known = context.and_then(|context| analysis.contexts.get(context as usize));
    let named = known.filter(|context| context.parent.is_some());
    named.map_or_else(|| "-".to_owned(), |context| context.path.clone())
}

/// A column that tells what each row is for, where the trace has contexts.
pub(crate) fn add_contexts(
    table: &mut Table,
    analysis: &Analysis,
    contexts: impl Iterator<Item = Option<u32>>,
) {
    if !analysis.contexts.is_empty() {
        table.column("<for", contexts.map(|it| context_name(analysis, it)));
    }
}

/// A frame's number, or that it lies outside of frames.
pub(crate) fn frame_name(frame: Option<u64>) -> String {
    frame.map_or_else(|| "-".to_owned(), |frame| frame.to_string())
}

/// `of` in words of a share, such as "12 of 40 (30 %)".
pub(crate) fn share_of(part: u64, whole: u64) -> String {
    format!(
        "{} of {} ({})",
        count(part),
        count(whole),
        percent(part as f64 / whole.max(1) as f64)
    )
}

/// What a frame must not exceed: "over 25.0 ms (…)" or "with more than 500 allocations".
pub(crate) fn over_budget(game_loop: &LoopAnalysis) -> String {
    match game_loop.budget_nanos {
        u64::MAX => format!("with {}", game_loop.budget_source),
        budget => format!("over {} ({})", nanos(budget), game_loop.budget_source),
    }
}
