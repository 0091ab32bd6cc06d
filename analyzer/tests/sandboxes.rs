//! Programs that give up what they may do: whoever wrote their filters did not know of a
//! recorder. They go on as without us, and so does the recording, on old threads and new ones.

mod support;

use std::path::{Path, PathBuf};
use support::record::Recording;
use support::undisturbed::{assert_undisturbed_and_sound, last_line};
use support::{compile, record, run, scratch, tally};

fn sandbox() -> Option<PathBuf> {
    compile::c("sandbox.c")
}

/// Whether the kernel lets this program do in `mode` what it wants to.
fn can_be(program: &Path, mode: &str) -> bool {
    let alone = run::plain(program, &[mode]);
    if alone.code != Some(7) {
        compile::skipped(&format!("{mode} is not possible here: {}", alone.stderr));
    }
    alone.code == Some(7)
}

#[track_caller]
fn confined(mode: &str) -> Option<Recording> {
    let program = sandbox()?;
    can_be(&program, mode).then(|| assert_undisturbed_and_sound(&program, &[mode]))
}

#[track_caller]
fn assert_exact(mode: &str) {
    let Some(recording) = confined(mode) else {
        return;
    };
    tally::assert_equal(
        &last_line(&recording),
        &recording.info_between("sandbox begin", "sandbox end"),
    );
}

#[test]
fn no_sandbox_at_all() {
    assert_exact("nothing");
}

/// Open, exec, signals, code pages, and the advice by which buffers are provided.
#[test]
fn a_filter_refuses_calls_with_an_error() {
    assert_exact("denied");
}

/// The recorder is not told, and meets the errors.
#[test]
fn a_filter_that_the_recorder_does_not_see_coming() {
    assert_exact("unseen");
}

#[test]
fn a_filter_kills_whoever_calls_what_is_not_listed() {
    assert_exact("allowed");
}

/// No clock can be read then either: the trace ends there, and says so.
#[test]
fn strict_mode_leaves_nothing_but_write() {
    let Some(recording) = confined("strict") else {
        return;
    };
    let said: Vec<&str> = recording.ran.stderr.lines().collect();
    assert!(said[0].contains("recording has ended"), "{said:?}");
    let until_then = record::info(&recording.trace, &["--to", "@\"sandbox begin\""]);
    // 2,000 blocks, each given back, and the room that they lie in.
    assert_eq!(support::number(&until_then, "allocations"), 2001);
    assert_eq!(support::number(&until_then, "deallocations"), 2001);
}

/// A thread of our own would be killed: recording ends, the trace is whole.
#[test]
fn a_filter_in_a_program_that_drains_itself() {
    let Some(program) = sandbox().filter(|program| can_be(program, "allowed")) else {
        return;
    };
    let scratch = scratch::Scratch::new();
    let helper = record::record_with(
        &["--no-symbols"],
        "/bin/sh".as_ref(),
        &["-c", "echo $LD_PRELOAD"],
    );
    let library = helper.ran.stdout.trim().to_owned();
    let trace = scratch.join("own.hreel");
    let mut command = std::process::Command::new(&program);
    command
        .env("LD_PRELOAD", library)
        .env("HEAPREEL_OUT", &trace);
    let ran = run::run(command.arg("allowed"));
    assert_eq!(ran.stdout, run::plain(&program, &["allowed"]).stdout);
    assert_eq!(ran.shell_code(), 7, "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    assert!(ran.stderr.contains("recording has ended"), "{ran:?}");
    record::assert_sound(&record::info(&trace, &[]));
}

#[test]
fn a_process_that_nobody_may_look_into() {
    assert_exact("private");
}

#[test]
fn limits_that_come_later() {
    assert_exact("limits");
}

#[test]
fn another_root_folder() {
    assert_exact("chroot");
}

#[test]
fn another_user() {
    assert_exact("user");
}
