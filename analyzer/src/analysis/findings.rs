//! The sentences at the top of a report: at most five, worst first.
//!
//! Each kind has a threshold below which it stays silent; they stand here, and
//! docs/reading-a-report.md repeats them.

use super::growing;
use super::loops::BUDGET_GIVEN;
use super::values::*;
use crate::units::{bytes, count, nanos, percent, plural};

/// Findings that are shown.
pub const MAX_FINDINGS: usize = 5;
/// Call sites that are named for one spike.
pub const SITES_OF_A_SPIKE: usize = 5;
/// Calls per frame in steady state are a finding from this median on …
pub const STEADY_CALLS: u64 = 1_000;
/// … or where the median frame spends this share of its time in the allocator.
pub const STEADY_ALLOCATOR_SHARE: f64 = 0.05;
/// A call site leaks if it holds this many blocks at the end …
pub const LEAK_BLOCKS: u64 = 32;
/// … or this many bytes. Blocks from before the first frame mark do not count.
pub const LEAK_BYTES: u64 = 128 << 10;
/// Drift is a finding where it takes this share of the last tenth's frames more than before.
pub const DRIFT_SHARE: f64 = 0.005;
/// Spikes are a finding from this many on.
pub const MIN_SPIKES: u64 = 1;

/// Placeholder of the trace's file in commands.
const FILE: &str = "TRACE";

/// A finding with its weight among those of equal severity.
type Weighed = (f64, Finding);

/// All findings of an analysis, worst first.
pub(crate) fn findings(analysis: &Analysis) -> Vec<Finding> {
    let mut all: Vec<Weighed> = Vec::new();
    all.extend(untrusted(analysis));
    all.extend(failed(analysis));
    for game_loop in &analysis.loops {
        all.extend(explained_spikes(analysis, game_loop));
        all.extend(unexplained_spikes(game_loop));
        all.extend(steady_calls(analysis, game_loop));
    }
    all.extend(leaks(analysis));
    all.extend(growth(analysis));
    all.extend(drift(analysis));
    for heap in &analysis.heaps {
        all.extend(heap_misused(heap));
        all.extend(heap_over_budget(heap));
        all.extend(heap_not_reset(heap));
        all.extend(heap_left_blocks(heap));
    }
    all.sort_by(|a, b| b.1.severity.cmp(&a.1.severity).then(b.0.total_cmp(&a.0)));
    all.truncate(MAX_FINDINGS);
    all.into_iter().map(|(_, finding)| finding).collect()
}

/// Puts the file's name into the commands.
pub(crate) fn complete_commands(analysis: &mut Analysis) {
    let file = quoted(&analysis.trace.file);
    for finding in &mut analysis.findings {
        finding.command = finding.command.replacen(FILE, &file, 1);
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./+:=@%,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn finding(kind: &str, severity: Severity, text: String, command: String) -> Finding {
    Finding {
        kind: kind.to_owned(),
        severity,
        text,
        command,
        frame: None,
    }
}

/// The trace cannot be trusted: damaged, cut, events missing, order broken.
fn untrusted(analysis: &Analysis) -> Option<Weighed> {
    let health = &analysis.health;
    let faulty = health.damaged_parts
        + health.missing_records
        + health.lost_events
        + health.unreadable_records
        + health.order_anomalies
        > 0;
    let remark = health.remarks.first()?;
    if !(faulty || health.cut) {
        return None;
    }
    let text = format!("this trace is not complete, its figures are lower bounds: {remark}");
    Some((
        100.0,
        finding(
            "untrusted",
            Severity::Error,
            text,
            format!("heapreel info {FILE}"),
        ),
    ))
}

fn failed(analysis: &Analysis) -> Option<Weighed> {
    let failed = analysis.totals.failed_allocations;
    if failed == 0 {
        return None;
    }
    let worst = analysis
        .sites
        .iter()
        .max_by_key(|site| (site.failed, std::cmp::Reverse(&site.name)))?;
    let whose = if worst.failed == 0 {
        String::new()
    } else {
        format!(", {} of them from {}", count(worst.failed), worst.name)
    };
    let text = format!("{} failed{whose}", plural(failed, "request"));
    Some((
        50.0,
        finding(
            "failed",
            Severity::Error,
            text,
            format!("heapreel info {FILE}"),
        ),
    ))
}

fn explained_spikes(analysis: &Analysis, game_loop: &LoopAnalysis) -> Option<Weighed> {
    let spikes = &game_loop.spikes;
    if spikes.explained + spikes.partly < MIN_SPIKES {
        return None;
    }
    let told = |spike: &&Spike| matches!(spike.verdict, Verdict::Explained | Verdict::Partly);
    let worst = spikes
        .worst
        .iter()
        .filter(told)
        .max_by_key(|spike| (spike.allocator_excess_nanos, std::cmp::Reverse(spike.frame)))?;
    let mut text = format!(
        "{} {} took {}; ",
        frame_word(game_loop),
        worst.frame,
        nanos(worst.duration_nanos)
    );
    match worst.sites.first() {
        Some(site) => text.push_str(&format!(
            "{} of it in {} from {}",
            nanos(site.nanos),
            plural(site.calls, "call"),
            analysis.sites[site.site as usize].name
        )),
        None => text.push_str(&format!(
            "{} of it in {} of the allocator",
            nanos(worst.allocator_nanos),
            plural(worst.calls, "call")
        )),
    }
    let others = spikes.explained + spikes.partly - 1;
    if others > 0 {
        text.push_str(&format!("; {} more like it", plural(others, "frame")));
    }
    let share = worst.allocator_excess_nanos as f64 / worst.net_nanos.max(1) as f64;
    let command = format!(
        "heapreel spikes {FILE} --frames {}{}{}",
        worst.frame,
        budget_option(game_loop),
        loop_option(game_loop)
    );
    let mut finding = finding("spikes_explained", Severity::Warning, text, command);
    finding.frame = Some((game_loop.name.clone(), worst.frame));
    Some((40.0 + share, finding))
}

fn unexplained_spikes(game_loop: &LoopAnalysis) -> Option<Weighed> {
    let spikes = &game_loop.spikes;
    if spikes.not_explained < MIN_SPIKES {
        return None;
    }
    let worst = spikes
        .worst
        .iter()
        .find(|spike| spike.verdict == Verdict::NotExplained)?;
    let text = format!(
        "{} of {} {} not explained by allocation: {} {} took {}, {} of it in the allocator",
        count(spikes.not_explained),
        plural(spikes.count, "spike frame"),
        if spikes.not_explained == 1 {
            "is"
        } else {
            "are"
        },
        frame_word(game_loop),
        worst.frame,
        nanos(worst.duration_nanos),
        nanos(worst.allocator_nanos),
    );
    let command = format!(
        "heapreel spikes {FILE}{}{}",
        budget_option(game_loop),
        loop_option(game_loop)
    );
    let mut finding = finding("spikes_not_explained", Severity::Warning, text, command);
    finding.frame = Some((game_loop.name.clone(), worst.frame));
    Some((
        40.0 + spikes.not_explained as f64 / spikes.count as f64,
        finding,
    ))
}

fn steady_calls(analysis: &Analysis, game_loop: &LoopAnalysis) -> Option<Weighed> {
    let steady = &game_loop.steady;
    let (calls, time) = (steady.allocations.p50, steady.allocator_nanos.p50);
    let share = time as f64 / steady.net_nanos.p50.max(1) as f64;
    if steady.frames == 0 || calls == 0 || (calls < STEADY_CALLS && share < STEADY_ALLOCATOR_SHARE)
    {
        return None;
    }
    let busiest = analysis.sites.iter().max_by_key(|site| {
        (
            site.allocations + site.reallocations,
            std::cmp::Reverse(&site.name),
        )
    })?;
    let text = format!(
        "the median {} makes {} and spends {} ({}) in the allocator; most come from {}",
        frame_word(game_loop),
        plural(calls, "allocation"),
        nanos(time),
        percent(share),
        busiest.name,
    );
    let command = format!(
        "heapreel frames {FILE} --sort allocations{}",
        loop_option(game_loop)
    );
    Some((
        10.0 + share,
        finding("calls_per_frame", Severity::Warning, text, command),
    ))
}

fn leaks(analysis: &Analysis) -> Option<Weighed> {
    let leaks = &analysis.leaks;
    // Only what came after the first frame mark: start-up's singletons are no leak.
    let leaking =
        |site: &&LeakSite| site.later_blocks >= LEAK_BLOCKS || site.later_bytes >= LEAK_BYTES;
    let mut sites: Vec<_> = leaks.sites.iter().filter(leaking).collect();
    sites.sort_by_key(|site| (std::cmp::Reverse(site.later_bytes), site.site));
    let blocks: u64 = sites.iter().map(|site| site.later_blocks).sum();
    let size: u64 = sites.iter().map(|site| site.later_bytes).sum();
    let worst = sites.first()?;
    let name = &worst.name;
    let whose = match sites.len() as u64 {
        1 => format!("all from {name}"),
        count => format!(
            "from {}, most from {name}: {} in {}",
            plural(count, "call site"),
            bytes(worst.later_bytes),
            plural(worst.later_blocks, "block")
        ),
    };
    let (word, severity) = if leaks.leaked {
        ("were never given back", Severity::Warning)
    } else {
        (leaks.word.as_str(), Severity::Note)
    };
    let word = if leaks.leaked {
        word.to_owned()
    } else {
        format!("were {word}")
    };
    let text = format!(
        "{} in {} {word}, {whose}",
        bytes(size),
        plural(blocks, "block")
    );
    let share = size as f64 / analysis.peak.bytes.max(1) as f64;
    Some((
        20.0 + share,
        finding("leaks", severity, text, format!("heapreel leaks {FILE}")),
    ))
}

fn growth(analysis: &Analysis) -> Option<Weighed> {
    let worst = analysis.growth.first()?;
    let mut text = format!(
        "{} rises steadily, from {} to {} ({} a second)",
        analysis.sites[worst.site as usize].name,
        bytes(worst.from_bytes),
        bytes(worst.to_bytes),
        bytes(worst.bytes_per_second.round() as u64),
    );
    let others = analysis.growth.len() as u64 - 1;
    if others > 0 {
        text.push_str(&format!("; {} more grow", plural(others, "call site")));
    }
    let gained = (worst.to_bytes - worst.from_bytes) as f64 / analysis.peak.bytes.max(1) as f64;
    debug_assert!(worst.to_bytes >= growing::MIN_BYTES);
    Some((
        15.0 + gained,
        finding(
            "growth",
            Severity::Warning,
            text,
            format!("heapreel leaks {FILE}"),
        ),
    ))
}

fn of_heap(kind: &str, weight: f64, severity: Severity, text: String) -> Option<Weighed> {
    let command = format!("heapreel report {FILE}");
    Some((weight, finding(kind, severity, text, command)))
}

fn heap_misused(heap: &HeapUse) -> Option<Weighed> {
    let faults = super::heaps::misuse(heap)?;
    let text = format!("the heap {} was told what cannot be: {faults}", heap.name);
    of_heap("heap_misused", 40.0, Severity::Error, text)
}

fn heap_over_budget(heap: &HeapUse) -> Option<Weighed> {
    let over = heap.over_budget?;
    let when = over.frame.map_or_else(
        || format!("at {}", nanos(over.nanos)),
        |frame| format!("in frame {frame}"),
    );
    let text = format!(
        "the heap {} took {} of its budget of {}, first over it {when}",
        heap.name,
        bytes(heap.peak_bytes),
        bytes(heap.budget_bytes)
    );
    let share = heap.peak_bytes as f64 / heap.budget_bytes.max(1) as f64;
    of_heap(
        "heap_over_budget",
        30.0 + share.min(9.0),
        Severity::Warning,
        text,
    )
}

fn heap_not_reset(heap: &HeapUse) -> Option<Weighed> {
    let forgotten = heap.forgotten_resets?;
    let turn = match forgotten.usual_frames {
        1 => "each frame".to_owned(),
        frames => format!("every {}", plural(frames, "frame")),
    };
    let text = format!(
        "the heap {} is reset {turn}, but {} missing, the first in frame {}",
        heap.name,
        match forgotten.count {
            1 => "1 reset is".to_owned(),
            resets => format!("{} resets are", count(resets)),
        },
        forgotten.first_frame
    );
    of_heap("heap_not_reset", 25.0, Severity::Warning, text)
}

/// A heap whose blocks go back one by one and which ended with some. An arena's need not.
fn heap_left_blocks(heap: &HeapUse) -> Option<Weighed> {
    let end = heap.destroyed?;
    if heap.kind == "arena" || heap.kind == "file-mapped" || end.left_blocks == 0 {
        return None;
    }
    let text = format!(
        "the heap {} was destroyed with {} of {} in it",
        heap.name,
        plural(end.left_blocks, "block"),
        bytes(end.left_bytes)
    );
    of_heap("heap_left_blocks", 18.0, Severity::Warning, text)
}

fn drift(analysis: &Analysis) -> Option<Weighed> {
    let frames = analysis.drift.frame_time?;
    let whole = frames.last_mean_nanos * frames.last_calls as f64;
    let worst = analysis.drift.sites.iter().find(|row| row.drifts)?;
    let share = worst.added_nanos() / whole;
    let site = analysis.sites.get(worst.site? as usize)?;
    if share < DRIFT_SHARE {
        return None;
    }
    let text = format!(
        "a call of {} costs {} in the last tenth of frames, {} in the first: {:.1} times as much",
        site.name,
        nanos(worst.last_mean_nanos.round() as u64),
        nanos(worst.first_mean_nanos.round() as u64),
        worst.factor()
    );
    Some((
        12.0 + share,
        finding(
            "drift",
            Severity::Warning,
            text,
            format!("heapreel report {FILE}"),
        ),
    ))
}

fn frame_word(game_loop: &LoopAnalysis) -> String {
    if game_loop.name == "main" {
        "frame".to_owned()
    } else {
        format!("{} frame", game_loop.name)
    }
}

/// The budget that the user gave: without it the command would judge by another one.
fn budget_option(game_loop: &LoopAnalysis) -> String {
    if game_loop.budget_source != BUDGET_GIVEN {
        return String::new();
    }
    let (value, unit) = match game_loop.budget_nanos {
        nanos if nanos.is_multiple_of(1_000_000) => (nanos / 1_000_000, "ms"),
        nanos if nanos.is_multiple_of(1_000) => (nanos / 1_000, "us"),
        nanos => (nanos, "ns"),
    };
    format!(" --budget {value}{unit}")
}

fn loop_option(game_loop: &LoopAnalysis) -> String {
    if game_loop.name == "main" {
        String::new()
    } else {
        format!(" --loop {}", quoted(&game_loop.name))
    }
}
