//! Each allocation entry point, called once from C, C++ and Rust, is seen once, by its
//! name and with its size; calls that fail are counted as such and lose no block.
//!
//! The programs put two marks round each step and say at their end what the trace must
//! show between them.

mod support;

use serde_json::Value;
use std::path::Path;
use support::record::{Recording, assert_sound, record};
use support::run::plain;
use support::{compile, number, tally};

fn assert_each_step_seen_once(program: &Path) {
    let alone = plain::<&str>(program, &[]);
    assert_eq!(alone.code, Some(0), "{alone:?}");
    let recording = record::<&str>(program, &[]);
    assert_eq!(recording.ran.code, Some(0), "{:?}", recording.ran);
    assert_sound(&recording.info());
    let wrong: Vec<String> = recording
        .ran
        .json_lines()
        .iter()
        .filter_map(|step| fault_of(step, &recording))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is wrong with one step, if anything.
fn fault_of(step: &Value, recording: &Recording) -> Option<String> {
    let at = number(step, "step");
    let seen = recording.info_between(&format!("step {at}"), &format!("step {at} end"));
    let mut faults: Vec<String> = tally::SUMS
        .into_iter()
        .filter_map(|key| Some((key, step[key].as_u64()?))) // -1 says that any number will do
        .filter(|(key, expected)| number(&seen, key) != *expected)
        .map(|(key, expected)| format!("{key} {} instead of {expected}", number(&seen, key)))
        .collect();
    let net = number(&seen, "allocations") as i64 - number(&seen, "deallocations") as i64;
    if Some(net) != step["net_blocks"].as_i64() {
        faults.push(format!(
            "{net} blocks more instead of {}",
            step["net_blocks"]
        ));
    }
    let entry = step["entry"]
        .as_str()
        .filter(|entry| !entry.is_empty())
        .map(tally::entry_name);
    if let Some(entry) = entry.filter(|entry| tally::calls_of(&seen, entry) != 1) {
        faults.push(format!(
            "not one call of {entry} in {}",
            seen["calls_by_entry"]
        ));
    }
    let list = faults.join(", ");
    (!faults.is_empty()).then(|| format!("step {at}, {}: {list}", step["name"]))
}

#[test]
fn from_c() {
    let Some(program) = compile::c("every_entry.c") else {
        return;
    };
    assert_each_step_seen_once(&program);
}

#[test]
fn from_cpp() {
    let Some(program) = compile::cpp("every_entry.cpp") else {
        return;
    };
    assert_each_step_seen_once(&program);
}

#[test]
fn from_rust() {
    let Some(program) = compile::rust("every_entry_rs") else {
        return;
    };
    assert_each_step_seen_once(&program);
}
