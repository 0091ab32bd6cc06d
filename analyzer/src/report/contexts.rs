//! What memory is for: contexts as a tree and one by one.

use super::document::{Document, Table};
use super::summary::{head, trouble};
use crate::analysis::contexts::{NO_CONTEXT, label};
use crate::units::{bytes, count, plural};
use crate::{Analysis, ContextSums, ContextUse};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// By which figure contexts are ordered, greatest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContextSort {
    /// Live bytes, then the most that were live.
    #[default]
    Live,
    /// The most bytes that were live at once.
    Peak,
    /// Bytes asked for.
    Bytes,
    /// Allocations and reallocations.
    Allocations,
    /// How often they were entered.
    Instances,
}

/// How contexts are to be shown.
#[derive(Clone, Debug, Default)]
pub struct ContextsShown {
    /// In which order.
    pub sort: ContextSort,
    /// At most so many, with those around them.
    pub limit: usize,
    /// Each by itself instead of as a tree.
    pub flat: bool,
    /// Only contexts of this kind were asked for.
    pub kind: Option<String>,
    /// The moment that was asked for, as a person wrote it; the trace's end without one.
    pub moment: Option<String>,
}

impl ContextSort {
    fn key(self, instances: u64, sums: &ContextSums) -> [Reverse<u64>; 3] {
        let calls = sums.allocations + sums.reallocations;
        let by = match self {
            ContextSort::Live => sums.live_bytes,
            ContextSort::Peak => sums.peak_bytes,
            ContextSort::Bytes => sums.requested_bytes,
            ContextSort::Allocations => calls,
            ContextSort::Instances => instances,
        };
        [by, sums.peak_bytes, sums.requested_bytes].map(Reverse)
    }
}

/// Contexts with what was done in them.
pub fn contexts_document(analysis: &Analysis, shown: &ContextsShown) -> Document {
    let mut document = Document::default();
    head(&mut document, analysis, "heapreel contexts");
    trouble(&mut document, &analysis.health);
    let Some(root) = analysis.contexts.first() else {
        nothing(&mut document);
        return document;
    };
    let what = match &shown.kind {
        Some(kind) => format!("Contexts of kind {kind}"),
        None => "Contexts".to_owned(),
    };
    let when = shown
        .moment
        .as_ref()
        .map_or_else(String::new, |moment| format!(" up to {moment}"));
    document.section(&format!("{what}{when}"));
    document.line(format!(
        "{}, entered {}; {} of {} live bytes are for {}.",
        plural(named(analysis).count() as u64, "context"),
        plural(named(analysis).map(|it| it.instances).sum(), "time"),
        bytes(root.total.live_bytes.saturating_sub(root.own.live_bytes)),
        bytes(root.total.live_bytes),
        if shown.kind.is_some() {
            "one of these"
        } else {
            "one of them"
        },
    ));
    if analysis.health.contexts_cut > 0 {
        document.line(format!(
            "A context was not entered {}: the recorder's table was full, and what was done there counts for the one around.",
            plural(analysis.health.contexts_cut, "time")
        ));
    }
    let more = if shown.flat {
        flat(&mut document, analysis, shown)
    } else {
        tree(&mut document, analysis, shown)
    };
    if more > 0 {
        document.line(format!(
            "and {} more; --limit 0 shows all",
            count(more as u64)
        ));
    }
    document
}

/// The contexts that hold or held most, for a report on everything.
pub(crate) fn main_contexts(document: &mut Document, analysis: &Analysis, limit: usize) {
    if analysis.contexts.is_empty() {
        return;
    }
    document.section("Contexts, each with all that are within it");
    let mut rows: Vec<&ContextUse> = named(analysis).collect();
    rows.sort_by_key(|it| (ContextSort::Live.key(it.instances, &it.total), &it.path));
    let mut table = columns("live at end");
    for it in rows.iter().take(limit) {
        row(&mut table, it.path.clone(), it, &it.total);
    }
    document.table(table);
    if rows.len() > limit {
        document.line(format!(
            "and {} more; heapreel contexts shows all",
            count((rows.len() - limit) as u64)
        ));
    }
}

fn nothing(document: &mut Document) {
    document.section("Contexts");
    document.line(
        "This trace has none. A game tells what its memory is for where it loads, spawns or computes something: \
         in Rust `let _asset = heapreel::context!(\"asset\", name);`, in C++ `HEAPREEL_CONTEXT(\"asset\", \"%s\", name);`, \
         in C `HEAPREEL_CONTEXT_BEGIN` and `HEAPREEL_CONTEXT_END`.",
    );
    document.line("docs/recorder.md has more, and what it costs.");
}

/// All but what is outside of any, and those in which nothing happened.
fn named(analysis: &Analysis) -> impl Iterator<Item = &ContextUse> {
    analysis.contexts.iter().skip(1).filter(|it| is_used(it))
}

fn is_used(it: &ContextUse) -> bool {
    it.instances > 0 || it.total != ContextSums::default()
}

fn columns(live: &str) -> Table {
    Table::new([
        "<context",
        "instances",
        "allocations",
        "bytes",
        "an instance",
        "peak",
        live,
        "blocks",
    ])
}

fn row(table: &mut Table, name: String, it: &ContextUse, sums: &ContextSums) {
    let mean = it.mean_bytes.map(|mean| bytes(mean.round() as u64));
    table.row([
        name,
        if it.parent.is_some() {
            count(it.instances)
        } else {
            "-".to_owned()
        },
        count(sums.allocations + sums.reallocations),
        bytes(sums.requested_bytes),
        mean.unwrap_or_else(|| "-".to_owned()),
        bytes(sums.peak_bytes),
        bytes(sums.live_bytes),
        count(sums.live_blocks),
    ]);
}

fn flat(document: &mut Document, analysis: &Analysis, shown: &ContextsShown) -> usize {
    document.line("What was done in each and in none within it; an instance with what is within.");
    let mut rows: Vec<&ContextUse> = analysis.contexts.iter().filter(|it| is_used(it)).collect();
    rows.sort_by_key(|it| (shown.sort.key(it.instances, &it.own), &it.path));
    let mut table = columns("live");
    for it in rows.iter().take(shown.limit) {
        row(&mut table, it.path.clone(), it, &it.own);
    }
    document.table(table);
    rows.len().saturating_sub(shown.limit)
}

fn tree(document: &mut Document, analysis: &Analysis, shown: &ContextsShown) -> usize {
    document.line("Each with all that are within it; --flat shows each by itself.");
    let contexts = &analysis.contexts;
    let key = |at: &usize| {
        let it = &contexts[*at];
        (shown.sort.key(it.instances, &it.total), *at)
    };
    let mut ranked: Vec<usize> = (1..contexts.len())
        .filter(|at| is_used(&contexts[*at]))
        .collect();
    ranked.sort_by_key(key);
    let more = ranked.len().saturating_sub(shown.limit);
    let mut chosen = BTreeSet::new();
    for at in ranked.into_iter().take(shown.limit) {
        let mut around = Some(at);
        while let Some(at) = around.filter(|at| chosen.insert(*at)) {
            around = contexts[at].parent.map(|parent| parent as usize);
        }
    }
    let mut within: Vec<Vec<usize>> = vec![Vec::new(); contexts.len()];
    for at in chosen.iter().filter(|at| **at > 0) {
        let parent = contexts[*at].parent.unwrap_or(0) as usize;
        within[parent].push(*at);
    }
    within.iter_mut().for_each(|within| within.sort_by_key(key));
    let mut table = columns("live");
    row(
        &mut table,
        "(all)".to_owned(),
        &contexts[0],
        &contexts[0].total,
    );
    branch(&mut table, contexts, &within, 0, "");
    row(
        &mut table,
        NO_CONTEXT.to_owned(),
        &contexts[0],
        &contexts[0].own,
    );
    document.table(table);
    more
}

/// The rows of all within a context, which is at most 64 deep.
fn branch(
    table: &mut Table,
    contexts: &[ContextUse],
    within: &[Vec<usize>],
    at: usize,
    indent: &str,
) {
    let last = within[at].last();
    for inner in &within[at] {
        let it = &contexts[*inner];
        let (mark, beneath) = if Some(inner) == last {
            ("└ ", "  ")
        } else {
            ("├ ", "│ ")
        };
        // The outermost ones need no lines to hang on.
        let (name, deeper) = if at == 0 {
            (label(&it.kind, &it.name), " ".to_owned())
        } else {
            let name = format!("{indent}{mark}{}", label(&it.kind, &it.name));
            (name, format!("{indent}{beneath}"))
        };
        row(table, name, it, &it.total);
        branch(table, contexts, within, *inner, &deeper);
    }
}
