//! Documents of a trace that was replayed through models.

use super::document::{Block, Document, Table};
use crate::units::{bytes, count, nanos, percent, plural};
use crate::what_if::{Cause, Compared, ExcessRow, FailureRow, ModelReport, PerFrame, Replayed};

/// Rows that are listed of failures and times over a budget.
const LISTED: usize = 10;

/// What each model made of a trace.
pub fn replay_document(replayed: &Replayed) -> Document {
    let mut document = Document::default();
    let fed = &replayed.fed;
    document.blocks.push(Block::Title(format!(
        "{}: {} in {}, {}",
        replayed.trace,
        plural(fed.events, "event"),
        nanos(fed.nanos),
        match fed.frames {
            0 => "no frame marks: all is one frame".to_owned(),
            frames => plural(frames, "frame"),
        }
    )));
    for remark in &replayed.remarks {
        document.line(remark.clone());
    }
    for model in &replayed.models {
        add_model(&mut document, model);
    }
    document
}

fn add_model(document: &mut Document, model: &ModelReport) {
    document.section(&model.model);
    document.line(model.fidelity);
    let end = &model.end;
    document.facts([
        (
            "most requested",
            format!(
                "{} in {}",
                bytes(model.peak_requested),
                plural(model.peak_blocks, "block")
            ),
        ),
        ("most held", bytes(model.peak_held)),
        (
            "waste",
            format!(
                "{} of what is held when most is requested, {} in the mean",
                percent(model.waste_at_peak),
                percent(model.mean_waste)
            ),
        ),
        (
            "at the end",
            format!(
                "{} requested, {} used, {} held, {} reserved",
                bytes(end.requested),
                bytes(end.used),
                bytes(end.held),
                bytes(end.reserved)
            ),
        ),
    ]);
    add_calls(document, model);
    add_waste(document, model);
    add_segments(document, model);
    add_heaps(document, model);
    add_own(document, model);
    add_failures(document, model);
    add_exceeded(document, model);
}

fn add_calls(document: &mut Document, model: &ModelReport) {
    let (tally, end) = (&model.tally, &model.end);
    document.facts([
        (
            "calls",
            format!(
                "{}, {}, {}; {} left the fast path, {} of other threads' blocks",
                plural(tally.allocations, "allocation"),
                plural(tally.reallocations, "reallocation"),
                plural(tally.frees, "free"),
                count(end.slow),
                plural(end.foreign_frees, "free")
            ),
        ),
        (
            "system calls",
            format!(
                "{}: {} reserve, {} commit, {} decommit, {} release; {} before the first frame",
                count(end.os.all()),
                count(end.os.reserve),
                count(end.os.commit),
                count(end.os.decommit),
                count(end.os.release),
                count(model.start_up_os_calls)
            ),
        ),
        ("  a frame", told(&model.os_calls, count)),
        ("cleared a frame", told(&model.zeroed, bytes)),
    ]);
    if let (Some(mapping), Some(rate)) = (&model.mapping, model.lru_hit_rate) {
        document.facts([(
            "runs kept mapped",
            format!(
                "{} of {} wanted runs were still mapped ({}); {} maps, {} unmaps",
                count(mapping.hits),
                count(mapping.hits + mapping.misses),
                percent(rate),
                count(mapping.maps),
                count(mapping.unmaps)
            ),
        )]);
    }
}

fn told(calls: &PerFrame, number: impl Fn(u64) -> String) -> String {
    if calls.worst.is_empty() {
        return "none".to_owned();
    }
    let worst = calls.worst.iter();
    let worst = worst.map(|it| format!("{} in {}", number(it.value), it.frame));
    let mean = match calls.mean {
        mean if mean < 1024.0 => format!("{mean:.1}"),
        mean => number(mean as u64),
    };
    format!(
        "{mean} in the mean; the worst frames: {}",
        worst.collect::<Vec<_>>().join(", ")
    )
}

fn add_waste(document: &mut Document, model: &ModelReport) {
    let end = &model.end;
    let mut table = Table::new(["<held and not requested, at the end", "bytes", "of held"]);
    for cause in &model.waste {
        let share = cause.bytes as f64 / end.held.max(1) as f64;
        table.row([cause.cause.clone(), bytes(cause.bytes), percent(share)]);
    }
    document.table(table);
}

fn add_segments(document: &mut Document, model: &ModelReport) {
    let mut table = Table::new([
        "<segment",
        "requested",
        "used",
        "held",
        "reserved",
        "most used",
        "budget",
    ]);
    for row in &model.segments {
        table.row([
            row.name.clone(),
            bytes(row.end.requested),
            bytes(row.end.used),
            bytes(row.end.held),
            bytes(row.end.reserved),
            bytes(row.peak_used),
            row.budget.map_or("-".to_owned(), bytes),
        ]);
    }
    document.table(table);
}

fn add_heaps(document: &mut Document, model: &ModelReport) {
    if model.heaps.is_empty() {
        return;
    }
    let queued: u64 = model.heaps.iter().map(|heap| heap.queued).sum();
    let most = model.heaps.iter().map(|heap| heap.queued_peak).max();
    document.facts([
        (
            "heaps",
            format!(
                "{} of threads, {} left by threads that are gone",
                count(model.heaps.len() as u64 - model.abandoned_heaps),
                count(model.abandoned_heaps)
            ),
        ),
        (
            "release queues",
            format!(
                "{} wait at the end, {} at most in one heap",
                plural(queued, "block"),
                count(most.unwrap_or(0))
            ),
        ),
    ]);
}

/// What only one model tells.
fn add_own(document: &mut Document, model: &ModelReport) {
    let mut table = Table::new([
        "arena of thread",
        "capacity",
        "p50",
        "p99",
        "most",
        "recommended",
    ]);
    for arena in &model.arenas {
        table.row([
            count(u64::from(arena.thread)),
            bytes(arena.capacity),
            bytes(arena.p50),
            bytes(arena.p99),
            bytes(arena.max),
            bytes(arena.recommended),
        ]);
    }
    document.table(table);
    if let Some(escapes) = model.escapes {
        document.line(format!(
            "{} outlived the frame that allocated them: their pointers dangle in an arena",
            plural(escapes, "block")
        ));
    }
    if let Some(pool) = &model.pool {
        document.line(format!(
            "{} of {} objects at most; {} made room for another; the next power of two is {}",
            count(u64::from(pool.peak)),
            count(u64::from(pool.capacity)),
            count(pool.recycled),
            count(u64::from(pool.next_power_of_two))
        ));
    }
    let mut table = Table::new([
        "<instance",
        "requests",
        "failed",
        "given away",
        "most used",
        "used",
        "held",
        "<mostly lost to",
    ]);
    for row in &model.instances {
        table.row([
            row.name.clone(),
            count(row.traffic.routed),
            count(row.traffic.failures),
            count(row.traffic.given_away),
            bytes(row.peak_used),
            bytes(row.end.used),
            bytes(row.end.held),
            main_cause(&row.waste),
        ]);
    }
    document.table(table);
}

/// The cause that costs the most.
fn main_cause(waste: &[Cause]) -> String {
    let most = waste.iter().max_by_key(|it| it.bytes);
    most.map_or_else(
        || "-".to_owned(),
        |it| format!("{}: {}", it.cause, bytes(it.bytes)),
    )
}

fn add_failures(document: &mut Document, model: &ModelReport) {
    let tally = &model.tally;
    if tally.failures == 0 {
        document.line("no request failed");
        return;
    }
    document.line(format!(
        "{} failed: {} no contiguous range, {} exhausted, {} over budget, {} too large; their blocks \
         would have held {} more at most",
        plural(tally.failures, "request"),
        count(tally.no_contiguous),
        count(tally.exhausted),
        count(tally.over_budget),
        count(tally.too_large),
        bytes(model.peak_phantom_bytes)
    ));
    let mut table = Table::new([
        "frame", "<segment", "wanted", "<cause", "free", "longest", "<who",
    ]);
    for failure in model.failures.iter().take(LISTED) {
        table.row([
            failure.frame.to_string(),
            failure.segment.clone(),
            bytes(failure.size),
            failure.cause.to_owned(),
            bytes(failure.free),
            bytes(failure.largest_free),
            failure.site.clone(),
        ]);
    }
    document.table(table);
    if let Some(first) = model.failures.first() {
        add_free_sizes(document, first);
    }
}

fn add_free_sizes(document: &mut Document, failure: &FailureRow) {
    let mut table = Table::new(["free ranges at the first failure", "how many", "bytes"]);
    for class in &failure.free_sizes {
        let to = match class.to {
            0 => "16 EiB".to_owned(),
            to => bytes(to),
        };
        table.row([
            format!("{} to {to}", bytes(class.from)),
            count(u64::from(class.ranges)),
            bytes(class.bytes),
        ]);
    }
    document.table(table);
}

fn add_exceeded(document: &mut Document, model: &ModelReport) {
    if model.exceeded_count == 0 {
        return;
    }
    document.line(format!(
        "budgets were exceeded {}",
        plural(model.exceeded_count, "time")
    ));
    let mut table = Table::new(["<segment", "budget", "most", "from frame", "for"]);
    let mut worst: Vec<&ExcessRow> = model.exceeded.iter().collect();
    worst.sort_by_key(|row| std::cmp::Reverse(row.peak - row.budget));
    for excess in worst.into_iter().take(LISTED) {
        let lasted = match excess.until_nanos {
            Some(until) => nanos(until - excess.from_nanos),
            None => "to the end".to_owned(),
        };
        table.row([
            excess.segment.clone(),
            bytes(excess.budget),
            bytes(excess.peak),
            excess.from_frame.to_string(),
            lasted,
        ]);
    }
    document.table(table);
}

/// Models beside each other.
pub fn compare_document(compared: &Compared) -> Document {
    let mut document = Document::default();
    document.blocks.push(Block::Title(format!(
        "{}: models beside each other",
        compared.trace
    )));
    let mut table = Table::new([
        "<model",
        "most held",
        "waste",
        "mean",
        "OS calls/frame",
        "worst frame",
        "cleared/frame",
        "failed",
        "over budget",
        "moved",
        "ext_frag",
        "int_frag",
    ]);
    for row in &compared.rows {
        let worst = row.worst_frame;
        table.row([
            row.model.clone(),
            bytes(row.peak_held),
            percent(row.waste_at_peak),
            percent(row.mean_waste),
            format!("{:.2}", row.os_calls_a_frame),
            worst.map_or("-".to_owned(), |it| format!("{} in {}", it.value, it.frame)),
            bytes(row.zeroed_a_frame as u64),
            count(row.failures),
            count(row.exceeded),
            bytes(row.moved),
            format!("{:.2}", row.ext_frag),
            format!("{:.2}", row.int_frag),
        ]);
    }
    document.table(table);
    document.line(
        "waste: 1 - requested/held when most is requested, and in the mean over all events; \
         ext_frag: 1 - longest/free, int_frag: 1 - requested/used, both at the end",
    );
    if !compared.changes.is_empty() {
        document.section("What changes");
        compared
            .changes
            .iter()
            .for_each(|change| document.line(change.clone()));
    }
    document
}
