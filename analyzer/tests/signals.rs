//! Control flow that a recorder may disturb or be disturbed by: signal handlers that
//! allocate or jump away, stacks that are not the thread's own, exceptions.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use support::record::{Recording, assert_sound, info_at_any_rate, record};
use support::run::plain;
use support::undisturbed::{assert_undisturbed_and_sound, last_line};
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

#[test]
fn the_process_timer_of_1_khz_allocates() {
    assert_counts_unchanged_by("itimer", "300");
}

/// A stack of 16 KiB above a closed page.
#[test]
fn a_timer_of_1_khz_allocates_on_the_alternate_stack() {
    assert_counts_unchanged_by("alternate", "300");
}

#[test]
fn a_timer_of_1_khz_allocates_on_any_of_four_threads() {
    assert_counts_unchanged_by("threads", "300");
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
fn threads_on_the_smallest_stacks() {
    assert_exact_on_stack("minimal");
}

#[test]
fn deep_recursion() {
    assert_exact_on_stack("deep");
}

#[test]
fn stack_frames_of_unknown_size() {
    assert_exact_on_stack("alloca");
}

/// Each request that was refused in the end is one failed allocation, however often the
/// program's handler was asked.
#[track_caller]
fn assert_refusals_seen(mode: &str) {
    let Some(program) = compile::cpp("exceptions.cpp") else {
        return;
    };
    let recording = assert_undisturbed_and_sound(&program, &[mode]);
    tally::assert_equal(&last_line(&recording), &recording.info());
}

#[test]
fn exceptions() {
    assert_refusals_seen("throw");
}

#[test]
fn exceptions_through_more_stack_frames_than_a_backtrace_has() {
    assert_refusals_seen("far");
}

#[test]
fn exceptions_on_many_threads() {
    assert_refusals_seen("threads");
}

#[test]
fn bad_alloc_of_each_form_of_operator_new() {
    assert_refusals_seen("bad_alloc");
}

#[test]
fn a_new_handler_throws() {
    assert_refusals_seen("handler");
}

#[test]
fn a_new_handler_gives_a_reserve_back() {
    assert_refusals_seen("reserve");
}

#[test]
fn a_new_handler_throws_within_a_form_that_does_not() {
    assert_refusals_seen("nothrow");
}

#[test]
fn jumps_over_stack_frames() {
    assert_refusals_seen("longjmp");
}
