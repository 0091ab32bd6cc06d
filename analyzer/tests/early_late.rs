//! Allocations before main and after it, in the destructors of threads and of the whole
//! process, and by threads that nobody waits for: no crash, the same output, the same end.

mod support;

use support::compile;
use support::number;
use support::record::{assert_sound, record};
use support::run::plain;

#[track_caller]
fn assert_undisturbed(way_to_end: &str) {
    let Some(program) = compile::cpp("early_late.cpp") else {
        return;
    };
    let alone = plain(&program, &[way_to_end]);
    let recording = record(&program, &[way_to_end]);
    let ran = &recording.ran;
    assert_eq!(ran.stdout, alone.stdout, "{ran:?}");
    assert_eq!(ran.shell_code(), alone.shell_code(), "{ran:?}");
    let info = recording.info();
    assert_sound(&info);
    assert_everything_seen(&recording, number(&info, "unknown_releases"));
}

/// The earliest block was allocated before any other library's constructor ran; 20 threads
/// ended with 4 rounds of key destructors each.
#[track_caller]
fn assert_everything_seen(recording: &support::record::Recording, unknown: u64) {
    assert_eq!(unknown, 0, "a release whose allocation was not seen");
    let until_main_is_done = support::record::info(&recording.trace, &["--to", "@\"main done\""]);
    // Counted by hand in early_late.cpp: 50 blocks a churn, one churn before main, and on
    // each of 20 threads one by the thread's object and one in each of 4 rounds.
    let reallocations = 50 * (1 + 20 * 5);
    assert_eq!(
        number(&until_main_is_done, "reallocations"),
        reallocations,
        "{until_main_is_done}"
    );
}

#[test]
fn main_returns() {
    assert_undisturbed("return");
}

#[test]
fn exit_is_called() {
    assert_undisturbed("exit");
}

#[test]
fn quick_exit_is_called() {
    assert_undisturbed("quick_exit");
}

#[test]
fn underscore_exit_is_called() {
    assert_undisturbed("_exit");
}

#[test]
fn another_thread_exits() {
    assert_undisturbed("thread-exit");
}

#[test]
fn threads_outlive_main() {
    assert_undisturbed("abandoned");
}

#[test]
fn the_program_aborts() {
    assert_undisturbed("abort");
}
