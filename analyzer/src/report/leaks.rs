//! What was never given back, by call site, with backtraces.

use super::document::{Block, Document};
use super::summary::{backtrace, context_name, head, trouble};
use super::text::shortened;
use crate::units::{bytes, count, nanos, plural};
use crate::{Analysis, LeakSite};

/// Backtraces shown of one call site.
const STACKS: usize = 3;
/// Contexts named of one call site.
const CONTEXTS: usize = 5;

/// Live blocks by call site; the `limit` with most bytes in full.
pub fn leaks_document(analysis: &Analysis, limit: usize) -> Document {
    let mut document = Document::default();
    head(&mut document, analysis, "heapreel leaks");
    trouble(&mut document, &analysis.health);
    let leaks = &analysis.leaks;
    document.section(if leaks.leaked { "Leaked" } else { "Live" });
    document.line(format!(
        "{} in {} from {} {}.",
        bytes(leaks.bytes),
        plural(leaks.blocks, "block"),
        plural(leaks.sites.len() as u64, "call site"),
        leaks.word
    ));
    leaks
        .sites
        .iter()
        .take(limit)
        .for_each(|leak| site(&mut document, analysis, leak));
    if leaks.sites.len() > limit {
        document.section(&format!(
            "and {} more",
            plural((leaks.sites.len() - limit) as u64, "call site")
        ));
        document.line("--limit 0 shows all");
    }
    document
}

/// What a call site's live blocks are for.
fn purposes(document: &mut Document, analysis: &Analysis, leak: &LeakSite) {
    let told = leak.contexts.iter().take(CONTEXTS).map(|share| {
        let name = match context_name(analysis, Some(share.context)).as_str() {
            "-" => "no context".to_owned(),
            name => shortened(name),
        };
        let blocks = plural(share.blocks, "block");
        format!("{name} ({} in {blocks})", bytes(share.bytes))
    });
    let mut told: Vec<String> = told.collect();
    if leak.contexts.len() > CONTEXTS {
        let more = (leak.contexts.len() - CONTEXTS) as u64;
        told.push(format!("and {} more", plural(more, "context")));
    }
    if !told.is_empty() {
        document.line(format!("for {}", told.join(", ")));
    }
}

fn site(document: &mut Document, analysis: &Analysis, leak: &LeakSite) {
    let Some(site) = analysis.sites.get(leak.site as usize) else {
        return;
    };
    let place = site
        .place
        .as_ref()
        .map_or_else(String::new, |place| format!("  {place}"));
    document.section(&format!("{}{place}", site.name));
    let frames = match leak.frames {
        Some((first, last)) if first == last => format!(", frame {first}"),
        Some((first, last)) => format!(", frames {first} to {last}"),
        None => String::new(),
    };
    document.line(format!(
        "{} in {}, allocated from {} to {}{frames}; the site allocated {} in all",
        bytes(leak.bytes),
        plural(leak.blocks, "block"),
        nanos(leak.oldest_nanos),
        nanos(leak.newest_nanos),
        count(site.allocations + site.reallocations)
    ));
    purposes(document, analysis, leak);
    let mut stacks: Vec<_> = site
        .stacks
        .iter()
        .filter(|stack| stack.live_blocks > 0)
        .collect();
    stacks.sort_by_key(|stack| (std::cmp::Reverse(stack.live_bytes), stack.id));
    for stack in stacks.iter().take(STACKS) {
        document.line(format!(
            "{} in {} by {}:",
            bytes(stack.live_bytes),
            plural(stack.live_blocks, "block"),
            stack.entry
        ));
        document.blocks.push(Block::Code(backtrace(stack)));
    }
}
