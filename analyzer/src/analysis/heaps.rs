//! Heaps that the game announced, with names.

use super::naming::Naming;
use super::values::*;
use crate::facts::{HeapFacts, HeapLedger};
use crate::units::plural;
use heapreel_format::{HeapId, HeapKind, Trace};
use std::collections::BTreeMap;

/// Call sites of a heap that are kept.
const SITES: usize = 64;
/// A reset is usual where this share of all resets came after as many frames …
const USUAL_SHARE: f64 = 0.8;
/// … and it did so this often.
const USUAL_RESETS: u64 = 3;

/// A kind's name.
pub(crate) fn kind_name(kind: HeapKind) -> &'static str {
    match kind {
        HeapKind::General => "general",
        HeapKind::Pool => "pool",
        HeapKind::Arena => "arena",
        HeapKind::Gpu => "gpu",
        HeapKind::FileMapped => "file-mapped",
    }
}

/// All heaps in the order in which they were announced. `when` tells nanoseconds and frame.
pub(crate) fn heaps(
    trace: &Trace,
    ledger: &HeapLedger,
    when: impl Fn(u64) -> (u64, Option<u64>),
) -> Vec<HeapUse> {
    let mut naming = Naming::new(trace);
    let positions: BTreeMap<HeapId, u32> = ledger.heaps.keys().copied().zip(0..).collect();
    let defined = &trace.definitions().heaps;
    let value = |(id, facts): (&HeapId, &HeapFacts)| {
        let (name, kind, parent, _) = defined.get(id).cloned().unwrap_or_else(|| {
            let name = format!("heap {}", id.0);
            (name, HeapKind::General, HeapId(0), 0)
        });
        HeapUse {
            name: name.replace(char::is_control, " "),
            kind: kind_name(kind).to_owned(),
            parent: positions.get(&parent).copied(),
            forgotten_resets: forgotten(facts, ledger.frames),
            sites: sites(trace, facts, &mut naming),
            ..figures(facts, &when)
        }
    };
    ledger.heaps.iter().map(value).collect()
}

fn figures(facts: &HeapFacts, when: &impl Fn(u64) -> (u64, Option<u64>)) -> HeapUse {
    let (peak_nanos, peak_frame) = when(facts.peak_key);
    let misuse = facts.misuse;
    HeapUse {
        budget_bytes: facts.budget,
        held_bytes: facts.ranges.values().sum(),
        live_bytes: facts.live_bytes,
        live_blocks: facts.blocks.len() as u64,
        peak_bytes: facts.peak_bytes,
        peak_nanos,
        peak_frame,
        allocations: facts.allocations,
        reallocations: facts.reallocations,
        deallocations: facts.frees,
        resets: facts.resets,
        requested_bytes: facts.requested_bytes,
        over_budget: facts.over.map(|(key, bytes)| {
            let (nanos, frame) = when(key);
            OverBudget {
                bytes,
                nanos,
                frame,
            }
        }),
        destroyed: facts.destroyed.map(|(key, bytes, blocks)| HeapEnd {
            nanos: when(key).0,
            left_bytes: bytes,
            left_blocks: blocks,
        }),
        unknown_blocks: misuse.unknown_blocks,
        given_twice: misuse.given_twice,
        outside_ranges: misuse.outside,
        after_end: misuse.after_end,
        ranges: facts
            .ranges
            .iter()
            .map(|(address, length)| HeapRange {
                address: *address,
                bytes: *length,
            })
            .collect(),
        ..HeapUse::default()
    }
}

/// Resets that came at least one turn later than they always do.
fn forgotten(facts: &HeapFacts, frames: u64) -> Option<ForgottenResets> {
    let gaps = facts.gaps.iter().filter(|(frames, _)| **frames > 0);
    let all: u64 = gaps.clone().map(|(_, gap)| gap.count).sum();
    let (usual, gap) = gaps.clone().max_by_key(|(_, gap)| gap.count)?;
    if gap.count < USUAL_RESETS || (gap.count as f64) < USUAL_SHARE * all as f64 {
        return None;
    }
    let late = gaps.filter(|(frames, _)| **frames >= 2 * usual);
    let missing = |frames: u64| frames / usual - 1;
    let mut count: u64 = late
        .clone()
        .map(|(frames, gap)| missing(*frames) * gap.count)
        .sum();
    let mut after = late.map(|(_, gap)| gap.first_after).min();
    // Since the last one, too.
    if let Some(last) = facts.last_reset
        && facts.used_since_reset
        && frames - last >= 2 * usual
    {
        count += missing(frames - last);
        after = Some(after.map_or(last, |first| first.min(last)));
    }
    Some(ForgottenResets {
        count,
        first_frame: after? + usual,
        usual_frames: *usual,
    })
}

fn sites(trace: &Trace, facts: &HeapFacts, naming: &mut Naming<'_>) -> Vec<HeapSite> {
    let mut by_name: BTreeMap<(String, Option<String>), HeapSite> = BTreeMap::new();
    for (stack, calls) in &facts.calls {
        let definition = trace.definitions().stacks.get(stack);
        let blamed = definition.and_then(|stack| naming.blamed(stack));
        let (name, place) = blamed.map_or_else(
            || ("no backtrace".to_owned(), None),
            |function| (function.short, function.place),
        );
        let site = by_name.entry((name.clone(), place.clone())).or_default();
        (site.name, site.place) = (name, place);
        site.calls += calls.calls;
        site.requested_bytes = site.requested_bytes.saturating_add(calls.requested_bytes);
        site.live_bytes = site.live_bytes.saturating_add(calls.live_bytes);
        site.live_blocks += calls.live_blocks;
    }
    let mut sites: Vec<HeapSite> = by_name.into_values().collect();
    sites.sort_by_key(|site| {
        let weight = (site.live_bytes, site.requested_bytes);
        (std::cmp::Reverse(weight), site.name.clone())
    });
    sites.truncate(SITES);
    sites
}

/// What was said of a heap that cannot be.
pub(crate) fn misuse(heap: &HeapUse) -> Option<String> {
    let told = [
        (
            heap.unknown_blocks,
            "given back or changed that it did not have",
        ),
        (heap.given_twice, "handed out where one was live"),
        (heap.outside_ranges, "outside of its ranges"),
    ];
    let mut faults: Vec<String> = told
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{} {what}", plural(*number, "block")))
        .collect();
    if heap.after_end > 0 {
        faults.push(format!("{} after its end", plural(heap.after_end, "call")));
    }
    (!faults.is_empty()).then(|| faults.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Gap;

    fn with_gaps(gaps: &[(u64, u64, u64)]) -> HeapFacts {
        let gaps = gaps.iter().map(|(frames, count, first_after)| {
            let gap = Gap {
                count: *count,
                first_after: *first_after,
            };
            (*frames, gap)
        });
        HeapFacts {
            gaps: gaps.collect(),
            last_reset: Some(100),
            ..HeapFacts::default()
        }
    }

    #[test]
    fn a_late_reset_among_regular_ones_was_forgotten() {
        let found = forgotten(&with_gaps(&[(1, 90, 1), (2, 1, 7), (4, 1, 40)]), 101);
        let expected = ForgottenResets {
            count: 1 + 3,
            first_frame: 8,
            usual_frames: 1,
        };
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn an_arena_that_is_reset_whenever_it_is_full_forgets_nothing() {
        let irregular = with_gaps(&[(3, 5, 1), (4, 6, 4), (9, 3, 8)]);
        assert_eq!(forgotten(&irregular, 101), None);
        assert_eq!(forgotten(&with_gaps(&[(1, 99, 1)]), 101), None);
    }

    #[test]
    fn resets_that_stop_were_forgotten_from_there_on() {
        let mut facts = with_gaps(&[(2, 50, 0)]);
        facts.used_since_reset = true;
        let found = forgotten(&facts, 110).expect("forgotten");
        assert_eq!((found.count, found.first_frame), (4, 102));
        facts.used_since_reset = false;
        assert_eq!(forgotten(&facts, 110), None);
    }
}
