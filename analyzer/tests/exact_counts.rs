//! Counts are exact: programs that count their own calls, on eight threads that come and
//! go and free each other's blocks, against what the trace says happened between the
//! same two marks.
//!
//! `HEAPREEL_TEST_RUNS=20` is the long form.

mod support;

use serde_json::Value;
use std::path::Path;
use support::record::{Recording, assert_sound, info, record};
use support::{compile, number, setting, tally};

fn seeds() -> impl Iterator<Item = u64> {
    1..=setting("HEAPREEL_TEST_RUNS", 3)
}

/// The program's own count and the trace of one run.
fn run_once(program: &Path, seed: u64) -> (Value, Recording) {
    let recording = record(program, &["5", "2000", &seed.to_string()]);
    assert_eq!(recording.ran.code, Some(0), "{:?}", recording.ran);
    let count = recording.ran.json_lines().remove(0);
    (count, recording)
}

/// Between the marks the trace has what the program counted, in sum and by entry point.
fn assert_counts(program: &Path) {
    for seed in seeds() {
        let (count, recording) = run_once(program, seed);
        let info = recording.info_between("tally begin", "tally end");
        tally::assert_equal(&count, &info);
        tally::assert_entries_equal(&count, &info);
        assert_sound(&recording.info());
    }
}

#[test]
fn a_c_program() {
    let Some(program) = compile::c("tally.c") else {
        return;
    };
    assert_counts(&program);
}

#[test]
fn a_cpp_program() {
    let Some(program) = compile::cpp("tally.cpp") else {
        return;
    };
    assert_counts(&program);
}

/// Below malloc, std's `System` reallocates an over-aligned block by copying it.
#[test]
fn a_rust_program_under_the_preload_library() {
    let Some(program) = compile::rust("tally_rs") else {
        return;
    };
    for seed in seeds() {
        let (count, recording) = run_once(&program, seed);
        let copies = number(&count, "reallocations_by_copy");
        let info = recording.info_between("tally begin", "tally end");
        for (key, expected) in [
            ("allocations", number(&count, "allocations") + copies),
            ("reallocations", number(&count, "reallocations") - copies),
            ("deallocations", number(&count, "deallocations") + copies),
            ("failed_allocations", number(&count, "failed_allocations")),
            ("requested_bytes", number(&count, "requested_bytes")),
        ] {
            assert_eq!(
                number(&info, key),
                expected,
                "{key}\nprogram: {count}\ntrace: {info}"
            );
        }
        assert_sound(&recording.info());
    }
}

/// The crate records by itself, without any wrapper.
#[test]
fn a_rust_program_with_the_recorder_inside() {
    let program = compile::example("tally");
    for seed in seeds() {
        let scratch = support::scratch::Scratch::new();
        let trace = scratch.join("t.hreel");
        let ran = support::run::run(
            std::process::Command::new(&program)
                .args(["5", "2000", &seed.to_string()])
                .env("HEAPREEL_OUT", &trace),
        );
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let count = ran.json_lines().remove(0);
        let between = ["--from", "@\"tally begin\"", "--to", "@\"tally end\""];
        tally::assert_equal(&count, &info(&trace, &between));
        assert_sound(&info(&trace, &[]));
    }
}

/// Linked at a fixed address, where a missing function is easily settled as null for good.
#[test]
fn a_c_program_at_a_fixed_address() {
    let Some(program) = compile::c_with("tally.c", &["-no-pie", "-fno-pie"]) else {
        return;
    };
    let (count, recording) = run_once(&program, 1);
    let info = recording.info_between("tally begin", "tally end");
    tally::assert_equal(&count, &info);
}

/// Small blocks that pass from thread to thread at once after they were freed: no address is
/// ever live twice. `HEAPREEL_TEST_STEPS=2500000` makes about 50 million events of it.
#[test]
fn order_across_threads() {
    let Some(program) = compile::c("order.c") else {
        return;
    };
    let steps = setting("HEAPREEL_TEST_STEPS", 50_000).to_string();
    let recording = record(&program, &[&steps]);
    assert_eq!(recording.ran.code, Some(0), "{:?}", recording.ran);
    let count = recording.ran.json_lines().remove(0);
    tally::assert_equal(&count, &recording.info_between("order begin", "order end"));
    assert_sound(&recording.info());
}
