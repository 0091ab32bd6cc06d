//! Compares a program's own count with what was recorded of it.

use super::number;
use serde_json::Value;
use std::collections::BTreeMap;

/// The sums that a tally and `heapreel info` both have.
pub const SUMS: [&str; 5] = [
    "allocations",
    "reallocations",
    "deallocations",
    "failed_allocations",
    "requested_bytes",
];

/// Every sum that the program printed must be the trace's, to the unit.
#[track_caller]
pub fn assert_equal(tally: &Value, info: &Value) {
    for key in SUMS.into_iter().filter(|key| tally.get(*key).is_some()) {
        assert_eq!(
            number(info, key),
            number(tally, key),
            "{key}\nprogram: {tally}\ntrace: {info}"
        );
    }
}

/// The calls of each entry point, by the trace's names.
#[track_caller]
pub fn assert_entries_equal(tally: &Value, info: &Value) {
    let mut expected = BTreeMap::new();
    for (name, calls) in tally["entries"]
        .as_object()
        .expect("a tally by entry point")
    {
        *expected.entry(entry_name(name)).or_insert(0) += calls.as_u64().expect("a count");
    }
    for (name, calls) in expected {
        assert_eq!(
            calls_of(info, &name),
            calls,
            "{name}\nprogram: {tally}\ntrace: {info}"
        );
    }
}

/// Successful and failed calls of one entry point; one that was never called may be absent.
pub fn calls_of(info: &Value, entry: &str) -> u64 {
    info["calls_by_entry"][entry].as_u64().unwrap_or(0)
}

/// The programs name each overload of operator new and delete; a trace keeps the sized and
/// nothrow forms with the plain ones.
pub fn entry_name(call: &str) -> String {
    let mut words = call.split(' ');
    let first = words.next().unwrap_or_default();
    let aligned = if words.any(|word| word == "aligned") {
        " (aligned)"
    } else {
        ""
    };
    match first {
        "new" | "new[]" | "delete" | "delete[]" => format!("operator {first}{aligned}"),
        "free_aligned_sized" => "free_sized".to_owned(),
        other => other.to_owned(),
    }
}
