//! What a process has is as it was: descriptors, threads, signals, errno, the layout of its
//! blocks, the depth of its stacks. A program prints them; recorded or not, it must print the
//! same.

mod support;

use support::record::record;
use support::run::plain;
use support::undisturbed::assert_undisturbed_and_sound;
use support::{compile, number};

#[track_caller]
fn assert_same(mode: &str) {
    let Some(program) = compile::c_with("undisturbed.c", &["-lm"]) else {
        return;
    };
    assert_undisturbed_and_sound(&program, &[mode]);
}

#[test]
fn descriptors_threads_and_signals() {
    assert_same("state");
}

#[test]
fn a_program_that_closes_every_descriptor() {
    assert_same("close");
}

#[test]
fn a_namespace_only_for_one_thread() {
    assert_same("unshare");
}

#[test]
fn errno() {
    assert_same("errno");
}

/// Each function that stands before the program's, where it succeeds and where it fails.
#[test]
fn errno_of_every_function() {
    let Some(program) = compile::cpp("errno.cpp") else {
        return;
    };
    let recording = assert_undisturbed_and_sound(&program, &[]);
    assert_eq!(
        recording.ran.stdout.lines().count(),
        57,
        "none was left out"
    );
}

#[test]
fn the_layout_of_blocks() {
    assert_same("layout");
}

/// The first blocks of a program lie where they lie without us: nothing was allocated from
/// its heap before it began.
#[test]
fn the_layout_of_the_first_blocks() {
    assert_same("first");
    let Some(program) = compile::cpp("first_blocks.cpp") else {
        return;
    };
    assert_undisturbed_and_sound(&program, &[]);
}

/// What a call writes below its caller, beyond what the allocator alone writes: 1 KiB as a
/// rule, and 4 KiB where something is new, but for a thread's first call (docs/recorder.md).
#[track_caller]
fn assert_stack_is_left(whose: &str, first_call: u64) {
    let Some(program) = compile::c_with("painted.c", &["-Wl,-z,now"]) else {
        return;
    };
    let alone = plain(&program, &[whose]).json_lines().remove(0);
    let recording = record(&program, &[whose]);
    assert_eq!(recording.ran.code, Some(0), "{:?}", recording.ran);
    let recorded = recording.ran.json_lines().remove(0);
    let ours = |key| number(&recorded, key).saturating_sub(number(&alone, key));
    assert!(ours("usual") <= 1024, "{recorded} instead of {alone}");
    for (key, limit) in [("first", first_call), ("unmet", 4096), ("most", 4096)] {
        assert!(ours(key) <= limit, "{key}: {recorded} instead of {alone}");
    }
    assert!(ours("first") > 0, "the recorder was there");
}

#[test]
fn the_stack_of_a_coroutine_of_16_kib() {
    assert_stack_is_left("coroutine", 4096);
}

#[test]
fn the_stack_of_a_thread() {
    assert_stack_is_left("thread", 4096);
}

/// A whole recording begins in the child's first call.
#[test]
fn the_stack_of_a_coroutine_in_a_forked_child() {
    assert_stack_is_left("child", 5120);
}
