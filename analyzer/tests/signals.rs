//! Control flow that a recorder may disturb or be disturbed by: signal handlers that
//! allocate or jump away, stacks that are not the thread's own, exceptions, libraries that
//! come and go.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use support::record::{Recording, assert_sound, info_at_any_rate, record};
use support::run::plain;
use support::{compile, number, tally};

/// Recorded, a program must end as it does alone.
#[track_caller]
fn recorded(program: &Path, arguments: &[&str]) -> Recording {
    let recording = record(program, arguments);
    let ran = &recording.ran;
    assert_eq!(
        ran.shell_code(),
        plain(program, arguments).shell_code(),
        "{ran:?}"
    );
    assert_sound(&recording.info());
    recording
}

/// signals.c, on top of the malloc of libbump, which a handler may enter at any instant.
fn signals() -> Option<PathBuf> {
    let library = compile::c_with("libbump.c", &["-shared", "-fPIC"])?;
    compile::c_with("signals.c", &[&library.display().to_string()])
}

/// Handlers that return change no count.
#[track_caller]
fn assert_counts_unchanged_by(mode: &str, runs: &str) {
    let Some(program) = signals() else { return };
    let recording = recorded(&program, &[mode, runs]);
    let count = recording.ran.json_lines().remove(0);
    tally::assert_equal(
        &count,
        &recording.info_between("signals begin", "signals end"),
    );
}

#[test]
fn a_timer_of_1_khz_allocates() {
    assert_counts_unchanged_by("timer", "300");
}

/// An event of a handler that interrupted a handler within the recorder may be lost; then it
/// is counted, so that found and lost together are what happened.
#[test]
fn a_handler_interrupts_a_handler() {
    let Some(program) = signals() else { return };
    let (count, whole, seen) = counted(&program, "nested", "2000");
    let lost = number(&whole, "lost_events");
    assert_eq!(
        events(&seen) + lost,
        events(&count),
        "program: {count}\ntrace: {seen}"
    );
    assert!(lost * 20 <= events(&count), "{lost} of {}", events(&count));
}

/// A call that a handler left by siglongjmp may or may not have happened, and what was being
/// noted of it may be lost: one for each jump.
#[test]
fn a_handler_jumps_away_from_anywhere() {
    let Some(program) = signals() else { return };
    let (count, whole, seen) = counted(&program, "jump", "500");
    let jumps = number(&count, "jumps");
    let lost = number(&whole, "lost_events") + number(&whole, "missing_records");
    assert!(
        lost <= jumps,
        "{lost} lost events\nprogram: {count}\ntrace: {seen}"
    );
    let (said, found) = (events(&count), events(&seen));
    assert!(
        (said - lost..=said + jumps).contains(&found),
        "program: {count}\ntrace: {seen}"
    );
}

/// What the program counted, the whole trace, and the part of it between the marks.
#[track_caller]
fn counted(program: &Path, mode: &str, runs: &str) -> (Value, Value, Value) {
    let recording = record(program, &[mode, runs]);
    assert_eq!(recording.ran.code, Some(0), "{:?}", recording.ran);
    let whole = info_at_any_rate(&recording.trace, &[]).1;
    assert_eq!(number(&whole, "order_anomalies"), 0, "{whole}");
    let seen = recording.info_between_at_any_rate("signals begin", "signals end");
    (recording.ran.json_lines().remove(0), whole, seen)
}

fn events(counts: &Value) -> u64 {
    ["allocations", "reallocations", "deallocations"]
        .iter()
        .map(|key| number(counts, key))
        .sum()
}

#[track_caller]
fn assert_exact_on_stack(mode: &str) {
    let Some(program) = compile::c("stacks.c") else {
        return;
    };
    let recording = recorded(&program, &[mode]);
    let count = recording.ran.json_lines().remove(0);
    tally::assert_equal(
        &count,
        &recording.info_between("stacks begin", "stacks end"),
    );
}

#[test]
fn coroutines_on_16_kib_stacks() {
    assert_exact_on_stack("coroutine");
}

#[test]
fn a_handler_on_the_alternate_stack() {
    assert_exact_on_stack("altstack");
}

#[test]
fn deep_recursion() {
    assert_exact_on_stack("deep");
}

#[test]
fn stack_frames_of_unknown_size() {
    assert_exact_on_stack("alloca");
}

#[test]
fn exceptions_and_jumps() {
    let Some(program) = compile::cpp("exceptions.cpp") else {
        return;
    };
    for mode in ["throw", "bad_alloc", "handler", "longjmp", "threads"] {
        let recording = recorded(&program, &[mode]);
        assert_eq!(
            recording.ran.stdout,
            plain(&program, &[mode]).stdout,
            "{mode}"
        );
    }
}

/// The blocks that the library's last visits left are all there is.
#[test]
fn a_library_is_loaded_a_thousand_times() {
    let Some(library) = compile::c_with("plugin.c", &["-shared", "-fPIC"]) else {
        return;
    };
    let Some(program) = compile::c("reload.c") else {
        return;
    };
    let recording = recorded(&program, &[&library.display().to_string(), "1000"]);
    let live = number(&recording.info(), "live_bytes");
    assert!(
        (64 * 70007..64 * 70007 + 1_000_000).contains(&live),
        "{live} live bytes"
    );
}
