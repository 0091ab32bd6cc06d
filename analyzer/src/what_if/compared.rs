//! Models beside each other, and what changes from the first to the others, in words.

use super::report::{ModelReport, PerFrame, Replayed, WorstFrame};
use crate::units::{bytes, count, plural};
use serde::Serialize;

/// Models of one trace beside each other.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// The trace's file.
    pub trace: String,
    /// A row for each model, in the order asked for.
    pub rows: Vec<ComparedRow>,
    /// What changes from the first model to each of the others, one sentence each.
    pub changes: Vec<String>,
}

/// One model's row. Bytes, unless a field says otherwise.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedRow {
    /// The model.
    pub model: String,
    /// How far it can be trusted.
    pub fidelity: &'static str,
    /// Most bytes held at once.
    pub peak_held: u64,
    /// `1 - requested / held` when most was requested.
    pub waste_at_peak: f64,
    /// The same in the mean over all events.
    pub mean_waste: f64,
    /// Requests to the operating system in a frame, in the mean.
    pub os_calls_a_frame: f64,
    /// The frame with the most of them.
    pub worst_frame: Option<WorstFrame>,
    /// Bytes cleared in a frame, in the mean.
    pub zeroed_a_frame: f64,
    /// Requests that failed.
    pub failures: u64,
    /// Of those, how many for lack of a contiguous range.
    pub no_contiguous: u64,
    /// Times over a budget.
    pub exceeded: u64,
    /// Bytes copied by reallocations.
    pub moved: u64,
    /// `1 - longest free range / free` when the trace ended.
    pub ext_frag: f64,
    /// `1 - requested / used` when the trace ended.
    pub int_frag: f64,
}

/// Puts the models of a replay beside each other.
pub fn compare(replayed: &Replayed) -> Compared {
    let changes = match replayed.models.split_first() {
        Some((first, others)) => others
            .iter()
            .flat_map(|other| changes(first, other))
            .collect(),
        None => Vec::new(),
    };
    Compared {
        trace: replayed.trace.clone(),
        rows: replayed.models.iter().map(row).collect(),
        changes,
    }
}

fn row(model: &ModelReport) -> ComparedRow {
    ComparedRow {
        model: model.model.clone(),
        fidelity: model.fidelity,
        peak_held: model.peak_held,
        waste_at_peak: model.waste_at_peak,
        mean_waste: model.mean_waste,
        os_calls_a_frame: model.os_calls.mean,
        worst_frame: model.os_calls.worst.first().copied(),
        zeroed_a_frame: model.zeroed.mean,
        failures: model.tally.failures,
        no_contiguous: model.tally.no_contiguous,
        exceeded: model.exceeded_count,
        moved: model.end.moved,
        ext_frag: model.fragmentation.ext_frag,
        int_frag: model.fragmentation.int_frag,
    }
}

fn changes(first: &ModelReport, other: &ModelReport) -> Vec<String> {
    let mut sentences = vec![held(first, other)];
    sentences.extend(failures(first, other));
    sentences.extend(os_calls(first, other));
    sentences
}

fn held(first: &ModelReport, other: &ModelReport) -> String {
    let (a, b) = (&first.model, &other.model);
    let (was, is) = (first.peak_held, other.peak_held);
    if was == is {
        return format!("{b} holds {} at most, as {a} does", bytes(is));
    }
    let (by, word) = match is < was {
        true => (was - is, "less"),
        false => (is - was, "more"),
    };
    let percent = by as f64 / was.max(1) as f64 * 100.0;
    format!(
        "{b} holds {} at most, {} ({percent:.0} %) {word} than {a}",
        bytes(is),
        bytes(by)
    )
}

fn failures(first: &ModelReport, other: &ModelReport) -> Option<String> {
    let (was, is) = (first.tally.failures, other.tally.failures);
    let failed = |report: &ModelReport| {
        let failure = report.failures.first()?;
        Some(format!(
            "the first in frame {}: {} of {}, {}, with {} free and {} in the longest range",
            failure.frame,
            bytes(failure.size),
            failure.segment,
            failure.cause,
            bytes(failure.free),
            bytes(failure.largest_free)
        ))
    };
    let requests = |number| plural(number, "request");
    match (was, is) {
        (0, 0) => None,
        (was, 0) => Some(format!(
            "{} fails {}, {} none; {}",
            first.model,
            requests(was),
            other.model,
            failed(first)?
        )),
        (0, is) => Some(format!(
            "{} fails {}, {} none; {}",
            other.model,
            requests(is),
            first.model,
            failed(other)?
        )),
        (was, is) => Some(format!(
            "{} fails {}, {} {}",
            other.model,
            requests(is),
            first.model,
            count(was)
        )),
    }
}

fn os_calls(first: &ModelReport, other: &ModelReport) -> Option<String> {
    let told = |model: &str, calls: &PerFrame| match calls.worst.first() {
        None => format!("{model} never asks the operating system in a frame"),
        Some(worst) => format!(
            "{model} asks it {:.1} times a frame, {} times in frame {}",
            calls.mean,
            count(worst.value),
            worst.frame
        ),
    };
    if first.os_calls.total == other.os_calls.total {
        return None;
    }
    let (mut a, mut b) = (first, other);
    if a.os_calls.total > b.os_calls.total {
        (a, b) = (b, a);
    }
    let sentence = format!(
        "{}; {}",
        told(&a.model, &a.os_calls),
        told(&b.model, &b.os_calls)
    );
    // Who comes first has to say who is asked.
    Some(sentence.replacen("asks it", "asks the operating system", 1))
}
