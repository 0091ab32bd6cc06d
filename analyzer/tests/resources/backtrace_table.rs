//! The table of backtraces is full: a new one is its innermost call site, marked and counted.

use crate::case::succeed;
use crate::support::compile;
use crate::support::record::record_with;
use heapreel_format::{StackDef, StackId, Trace};
use std::collections::HashMap;

const BACKTRACES: usize = 20_000;

#[test]
fn past_the_limit_a_backtrace_is_its_call_site() {
    let Some(program) = compile::c("backtraces.c") else {
        return;
    };
    let options = ["--no-symbols", "--table-memory", "256KiB"];
    let recording = record_with(&options, &program, &[BACKTRACES.to_string()]);
    assert_eq!(recording.ran.code, Some(0), "{:?}", recording.ran);
    let trace = Trace::open(&recording.trace).unwrap();
    let uses = uses_of_backtraces(&trace);
    let stacks = &trace.definitions().stacks;
    let leaf = leaf_address(stacks, &uses);
    let is_of_leaf = |id: &StackId| {
        stacks
            .get(id)
            .is_some_and(|s| s.frames.first() == Some(&leaf))
    };
    let (cut, whole): (Vec<_>, Vec<_>) = uses
        .keys()
        .filter(|id| is_of_leaf(id))
        .partition(|id| stacks[id].frames.len() == 1);
    // Each allocation has a backtrace, whole or not.
    let counted: usize = cut.iter().chain(&whole).map(|id| uses[id]).sum();
    assert_eq!(counted, 2 * BACKTRACES);
    assert_eq!(cut.len(), 1, "one call site, defined once");
    assert!(stacks[&cut[0]].cut);
    // A whole one has 20 steps down and the way from main; 256 KiB hold a few thousand.
    assert!((1_000..8_000).contains(&whole.len()), "{}", whole.len());
    for id in whole {
        assert_eq!(
            uses[&id], 2,
            "each number of backtrace was allocated from twice"
        );
    }
    assert!(trace.health().stacks_cut >= (BACKTRACES - uses.len()) as u64);
    assert_told(&recording.trace);
}

/// How many allocations each backtrace has.
fn uses_of_backtraces(trace: &Trace) -> HashMap<StackId, usize> {
    let mut uses = HashMap::new();
    for entry in trace.chunks() {
        let events = trace.decode(entry).unwrap().events;
        for event in events.iter().filter(|event| event.size > 0) {
            *uses.entry(event.stack).or_insert(0) += 1;
        }
    }
    uses
}

/// The call site that nearly all allocations have.
fn leaf_address(stacks: &HashMap<StackId, StackDef>, uses: &HashMap<StackId, usize>) -> u64 {
    let mut sites: HashMap<u64, usize> = HashMap::new();
    for (id, count) in uses {
        let innermost = stacks.get(id).and_then(|stack| stack.frames.first());
        *sites.entry(*innermost.unwrap_or(&0)).or_default() += count;
    }
    let most = sites.into_iter().max_by_key(|(_, count)| *count);
    most.expect("allocations").0
}

fn assert_told(trace: &std::path::Path) {
    let report = succeed(&["info", &trace.display().to_string()]);
    assert!(
        report.stdout.contains("cut to their call site"),
        "{report:?}"
    );
}
