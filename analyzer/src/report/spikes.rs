//! Frames over budget, with who is to blame.

use super::document::{Block, Document, Table};
use super::summary::{add_contexts, frame_name, head, over_budget, site_name, trouble};
use crate::place::FrameRange;
use crate::units::{bytes, count, nanos, percent, plural};
use crate::{Analysis, CallCause, LoopAnalysis, Spike, Verdict};

/// Slow calls that are listed for the frames.
const SLOW_CALLS: usize = 20;

/// The spikes of one loop; those of `range` where one is given.
pub fn spikes_document(
    analysis: &Analysis,
    game_loop: &LoopAnalysis,
    range: Option<&FrameRange>,
) -> Document {
    let mut document = Document::default();
    head(&mut document, analysis, "heapreel spikes");
    trouble(&mut document, &analysis.health);
    let spikes = &game_loop.spikes;
    document.section(&format!("Spikes of {}", game_loop.name));
    document.line(told(game_loop, range));
    if spikes.count > 0 {
        document.line(format!(
            "{} explained by allocation, {} partly, {} not, {} cannot be told. \
             Of {} that they take over the median frame, the allocator explains {} ({}).",
            count(spikes.explained),
            count(spikes.partly),
            count(spikes.not_explained),
            count(spikes.cannot_tell),
            nanos(spikes.excess_nanos),
            nanos(spikes.allocator_excess_nanos),
            percent(spikes.allocator_excess_nanos as f64 / spikes.excess_nanos.max(1) as f64)
        ));
    }
    document.line(coincidence(game_loop));
    if analysis.trace.latency {
        document.line(slow_frames(game_loop, analysis.trace.slow_call_nanos));
    }
    spikes
        .worst
        .iter()
        .for_each(|spike| frame(&mut document, analysis, spike));
    slow_calls(&mut document, analysis, game_loop);
    document
}

fn told(game_loop: &LoopAnalysis, range: Option<&FrameRange>) -> String {
    let which = range.map_or_else(String::new, |range| format!(" in frames {range}"));
    format!(
        "{}{which} {}, of {}; the median takes {} without the recorder's share.",
        plural(game_loop.spikes.count, "frame"),
        over_budget(game_loop),
        plural(game_loop.frames.len() as u64, "frame"),
        nanos(game_loop.steady.net_nanos.p50)
    )
}

/// Do peaks in count and in time coincide?
fn coincidence(game_loop: &LoopAnalysis) -> String {
    let test = &game_loop.spikes.coincidence;
    let (Some(correlation), Some(common)) = (test.rank_correlation, test.common_share) else {
        return "Whether frames with many calls are the long ones cannot be told: too few frames, or they do not vary.".to_owned();
    };
    let word = match correlation {
        c if c >= 0.5 => "Frames with more calls take longer",
        c if c >= 0.2 => "Frames with more calls tend to take longer",
        c if c > -0.2 => "The number of calls says nothing about a frame's time",
        _ => "Frames with more calls take less time",
    };
    format!(
        "{word}: rank correlation {correlation:.2} over {}; {} of the longest 5 % are among the 5 % with most calls (by chance {}).",
        plural(test.frames, "frame"),
        percent(common),
        percent(test.chance_share)
    )
}

/// Do slow calls and long frames coincide?
fn slow_frames(game_loop: &LoopAnalysis, slow_call_nanos: u64) -> String {
    let spikes = &game_loop.spikes;
    format!(
        "A call of more than {} is in {} of {}, and in {} of the {} over budget.",
        nanos(slow_call_nanos),
        count(spikes.frames_with_slow_calls),
        plural(game_loop.steady.frames, "frame"),
        count(spikes.spikes_with_slow_calls),
        count(spikes.count)
    )
}

fn frame(document: &mut Document, analysis: &Analysis, spike: &Spike) {
    document
        .blocks
        .push(Block::Section(format!("Frame {}", spike.frame)));
    document.line(format!(
        "{} from {} on, {} without the recorder's share, {} over the median; {} in {} of the allocator, {} over the median: {}.",
        nanos(spike.duration_nanos),
        nanos(spike.start_nanos),
        nanos(spike.net_nanos),
        nanos(spike.excess_nanos),
        nanos(spike.allocator_nanos),
        plural(spike.calls, "call"),
        nanos(spike.allocator_excess_nanos),
        verdict(spike)
    ));
    if spike.verdict == Verdict::NotExplained {
        document.line(not_explained(spike));
    }
    let mut table = Table::new(["<call site", "calls", "bytes", "time", "slowest"]);
    for site in &spike.sites {
        table.row([
            site_name(analysis, Some(site.site)),
            count(site.calls),
            bytes(site.bytes),
            nanos(site.nanos),
            nanos(site.slowest_nanos),
        ]);
    }
    let sites = spike.sites.iter();
    add_contexts(&mut table, analysis, sites.map(|site| site.context));
    document.table(table);
}

/// What even all calls of the loop's thread, and the slowest of them, are of a frame's excess.
fn not_explained(spike: &Spike) -> String {
    let of_excess = |nanos: u64| percent(nanos as f64 / spike.excess_nanos.max(1) as f64);
    let slowest = spike.sites.iter().map(|site| site.slowest_nanos).max();
    let slowest = slowest.map_or_else(String::new, |slowest| {
        format!(
            ", the slowest one, {}, is {}",
            nanos(slowest),
            of_excess(slowest)
        )
    });
    format!(
        "Allocation does not explain this frame: all its calls together are {} of what it takes \
         over the median{slowest}.",
        of_excess(spike.allocator_nanos)
    )
}

/// The slowest calls that lie in the listed frames.
fn slow_calls(document: &mut Document, analysis: &Analysis, game_loop: &LoopAnalysis) {
    let within = |nanos: u64| {
        game_loop.spikes.worst.iter().any(|spike| {
            (spike.start_nanos..=spike.start_nanos + spike.duration_nanos).contains(&nanos)
        })
    };
    let mut table = Table::new([
        "took",
        "frame",
        "<operation",
        "size",
        "<thread",
        "<call site",
        "<met meanwhile, at most",
    ]);
    let calls = || {
        let calls = analysis.slow_calls.iter();
        calls.filter(|call| within(call.nanos)).take(SLOW_CALLS)
    };
    for call in calls() {
        table.row([
            nanos(call.duration_nanos),
            frame_name(call.frame),
            call.operation.clone(),
            bytes(call.bytes),
            call.thread.clone(),
            site_name(analysis, call.site),
            cause(call.cause.as_ref()),
        ]);
    }
    add_contexts(&mut table, analysis, calls().map(|call| call.context));
    if !table.rows.is_empty() {
        document.section("Slow calls in these frames");
        document.table(table);
    }
}

/// A verdict with its share.
pub(crate) fn verdict(spike: &Spike) -> String {
    match spike.verdict {
        Verdict::Explained => format!("explained ({})", percent(spike.share)),
        Verdict::Partly => format!("partly explained ({})", percent(spike.share)),
        Verdict::NotExplained => format!("not explained ({})", percent(spike.share)),
        Verdict::CannotTell => "cannot tell".to_owned(),
    }
}

/// What a thread met around a slow call.
pub(crate) fn cause(cause: Option<&CallCause>) -> String {
    let Some(cause) = cause else {
        return "-".to_owned();
    };
    let parts = [
        (cause.major_faults, "page fault with I/O"),
        (cause.minor_faults, "page fault"),
        (cause.voluntary_switches, "wait"),
        (cause.involuntary_switches, "interruption"),
    ];
    let met: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| plural(u64::from(*count), what))
        .collect();
    if met.is_empty() {
        "nothing".to_owned()
    } else {
        format!("{} in {}", met.join(", "), nanos(cause.interval_nanos))
    }
}
