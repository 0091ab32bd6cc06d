//! Allocations before main and after it, in the destructors of threads and of the whole
//! process, and by threads that nobody waits for: no crash, the same output, the same end, and
//! every call seen to the very last.

mod support;

use support::record::{Recording, info};
use support::undisturbed::{assert_undisturbed_and_sound, last_line};
use support::{compile, number};

#[track_caller]
fn ended_by(way_to_end: &str) -> Option<Recording> {
    let program = compile::cpp("early_late.cpp")?;
    let recording = assert_undisturbed_and_sound(&program, &[way_to_end]);
    assert_everything_seen_until_main_is_done(&recording);
    Some(recording)
}

/// The earliest block was allocated before any other library's constructor ran; 20 threads
/// ended with 4 rounds of key destructors each.
#[track_caller]
fn assert_everything_seen_until_main_is_done(recording: &Recording) {
    let unknown = number(&recording.info(), "unknown_releases");
    assert_eq!(unknown, 0, "a release whose allocation was not seen");
    let until_main_is_done = info(&recording.trace, &["--to", "@\"main done\""]);
    // Counted by hand in early_late.cpp: 50 blocks a churn, one churn before main, and on
    // each of 20 threads one by the thread's object and one in each of 4 rounds.
    let reallocations = 50 * (1 + 20 * 5);
    assert_eq!(
        number(&until_main_is_done, "reallocations"),
        reallocations,
        "{until_main_is_done}"
    );
}

/// The program says at its last instruction how often it has called realloc.
#[track_caller]
fn assert_seen_to_the_end(way_to_end: &str) {
    let Some(recording) = ended_by(way_to_end) else {
        return;
    };
    let said = number(&last_line(&recording), "reallocations");
    assert_eq!(number(&recording.info(), "reallocations"), said);
}

#[test]
fn main_returns() {
    assert_seen_to_the_end("return");
}

#[test]
fn exit_is_called() {
    assert_seen_to_the_end("exit");
}

#[test]
fn quick_exit_is_called() {
    assert_seen_to_the_end("quick_exit");
}

#[test]
fn underscore_exit_is_called() {
    assert_seen_to_the_end("_exit");
}

#[test]
fn another_thread_exits() {
    assert_seen_to_the_end("thread-exit");
}

#[test]
fn main_leaves_by_pthread_exit_while_others_work() {
    assert_seen_to_the_end("main-leaves");
}

/// How far they came when the process ended nobody can say.
#[test]
fn threads_outlive_main() {
    ended_by("abandoned");
}

#[test]
fn the_program_aborts() {
    assert_seen_to_the_end("abort");
}
