//! Call sites: backtraces grouped by the function to blame.

use super::clock::Times;
use super::naming::{Function, Naming};
use super::recording::CostModel;
use super::values::{Site, SiteStack};
use crate::facts::Facts;
use crate::replay::Dense;
use heapreel_format::{StackId, Trace};
use std::collections::BTreeMap;

/// Backtraces that are shown of one call site.
const STACKS_OF_A_SITE: usize = 8;

/// All call sites of a trace.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    /// In order of their names.
    pub(crate) rows: Vec<Site>,
    /// For each position of a backtrace the index of its call site.
    of_stack: Vec<u32>,
}

/// What makes two backtraces one call site.
type Identity = (String, String, String);

impl Sites {
    /// The call site of a backtrace, by its position; `None` without a backtrace.
    pub(crate) fn of(&self, stack: u32) -> Option<u32> {
        if stack == 0 {
            None
        } else {
            self.of_stack.get(stack as usize).copied()
        }
    }

    /// The call site of a backtrace, "(no backtrace)" included.
    pub(crate) fn of_any(&self, stack: u32) -> u32 {
        self.of_stack.get(stack as usize).copied().unwrap_or(0)
    }

    /// The name of a call site.
    pub(crate) fn name(&self, site: u32) -> String {
        self.rows
            .get(site as usize)
            .map_or_else(String::new, |row| row.name.clone())
    }

    /// Groups the backtraces of a trace.
    pub(crate) fn new(
        trace: &Trace,
        dense: &Dense,
        facts: &Facts,
        times: &Times,
        cost: &CostModel,
    ) -> Sites {
        let mut naming = Naming::new(trace);
        let mut groups: BTreeMap<Identity, Vec<(u32, Option<String>)>> = BTreeMap::new();
        for (position, id) in dense.stacks.iter().enumerate() {
            let function = blamed(trace, &mut naming, *id);
            let place = function.place.clone();
            let identity = (function.short, function.full, function.module.to_string());
            groups
                .entry(identity)
                .or_default()
                .push((position as u32, place));
        }
        let mut sites = Sites {
            rows: Vec::new(),
            of_stack: vec![0; dense.stacks.len()],
        };
        for (identity, stacks) in groups {
            let used = stacks.iter().any(|(at, _)| is_used(facts, *at));
            if !used && identity.0 == NO_BACKTRACE {
                continue;
            }
            let index = sites.rows.len() as u32;
            stacks
                .iter()
                .for_each(|(at, _)| sites.of_stack[*at as usize] = index);
            sites.rows.push(site(identity, &stacks, facts, times, cost));
            let row = sites.rows.last_mut().expect("just pushed");
            row.stacks = samples(trace, dense, facts, &mut naming, &stacks);
        }
        sites
    }
}

/// The site of events without a backtrace.
pub(crate) const NO_BACKTRACE: &str = "(no backtrace)";

fn blamed(trace: &Trace, naming: &mut Naming<'_>, id: StackId) -> Function {
    let stack = trace.definitions().stacks.get(&id);
    stack
        .and_then(|stack| naming.blamed(stack))
        .unwrap_or_else(|| Function::named(NO_BACKTRACE))
}

fn is_used(facts: &Facts, stack: u32) -> bool {
    let facts = &facts.ledger.stacks[stack as usize];
    facts.allocations + facts.reallocations + facts.failed + facts.frees + facts.live_blocks > 0
}

fn site(
    (name, function, module): Identity,
    stacks: &[(u32, Option<String>)],
    facts: &Facts,
    times: &Times,
    cost: &CostModel,
) -> Site {
    let mut site = Site {
        name,
        function,
        module,
        place: common_place(stacks),
        ..Site::default()
    };
    let mut ticks = 0u64;
    let mut slowest = 0;
    for (at, _) in stacks {
        let of = &facts.ledger.stacks[*at as usize];
        let (peak_bytes, peak_blocks) = facts.ledger.at_peak(*at as usize);
        site.allocations = site.allocations.saturating_add(of.allocations);
        site.reallocations = site.reallocations.saturating_add(of.reallocations);
        site.failed = site.failed.saturating_add(of.failed);
        site.requested_bytes = site.requested_bytes.saturating_add(of.requested_bytes);
        site.frees = site.frees.saturating_add(of.frees);
        site.foreign_frees = site.foreign_frees.saturating_add(of.foreign_frees);
        site.temporary = site.temporary.saturating_add(of.temporary);
        site.live_bytes = site.live_bytes.saturating_add(of.live_bytes);
        site.live_blocks = site.live_blocks.saturating_add(of.live_blocks);
        site.peak_bytes = site.peak_bytes.saturating_add(peak_bytes);
        site.peak_blocks = site.peak_blocks.saturating_add(peak_blocks);
        ticks = ticks.saturating_add(of.ticks);
        slowest = slowest.max(of.slowest);
    }
    let calls = site.allocations + site.reallocations + site.failed + site.frees;
    site.allocator_nanos = cost.allocator_nanos(times, ticks, calls);
    site.slowest_nanos = times.nanos(slowest);
    site
}

/// The source line, where all backtraces agree.
fn common_place(stacks: &[(u32, Option<String>)]) -> Option<String> {
    let (_, first) = stacks.first()?;
    stacks
        .iter()
        .all(|(_, place)| place == first)
        .then(|| first.clone())
        .flatten()
}

fn samples(
    trace: &Trace,
    dense: &Dense,
    facts: &Facts,
    naming: &mut Naming<'_>,
    stacks: &[(u32, Option<String>)],
) -> Vec<SiteStack> {
    let calls = |at: u32| {
        let of = &facts.ledger.stacks[at as usize];
        of.allocations + of.reallocations + of.failed
    };
    let mut positions: Vec<u32> = stacks
        .iter()
        .map(|(at, _)| *at)
        .filter(|at| is_used(facts, *at))
        .collect();
    positions.sort_by_key(|at| (std::cmp::Reverse(calls(*at)), *at));
    positions.truncate(STACKS_OF_A_SITE);
    let shown = positions.into_iter().filter_map(|at| {
        let id = dense.stacks[at as usize];
        let stack = trace.definitions().stacks.get(&id)?;
        let of = &facts.ledger.stacks[at as usize];
        Some(SiteStack {
            id: id.0,
            entry: stack.entry.name().to_owned(),
            calls: calls(at),
            requested_bytes: of.requested_bytes,
            live_bytes: of.live_bytes,
            live_blocks: of.live_blocks,
            frames: naming.frames(stack),
            cut: stack.cut,
        })
    });
    shown.collect()
}
