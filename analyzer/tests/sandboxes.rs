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

/// The kernel refuses, so nothing has changed.
#[test]
fn a_program_that_asks_which_filters_there_are() {
    assert_as_without_a_filter("asks");
}

#[test]
fn a_filter_that_forbids_nothing_the_recorder_does() {
    assert_as_without_a_filter("harmless");
}

/// Nothing is said, nothing is missing, and a child has a recording of its own.
#[track_caller]
fn assert_as_without_a_filter(mode: &str) {
    let Some(recording) = confined_keeping_all(mode) else {
        return;
    };
    assert!(
        !recording.ran.stderr.contains("recording"),
        "{:?}",
        recording.ran
    );
    let info = recording.info();
    assert_eq!(info["ended"], "exit 7");
    assert_eq!(info["remarks"], serde_json::json!([]));
    tally::assert_equal(
        &last_line(&recording),
        &recording.info_between("sandbox begin", "sandbox end"),
    );
    let child = trace_of_child(&recording);
    assert_eq!(child["ended"], "exit 11");
    let counted = [200, 67, 200].map(Some);
    let recorded = ["allocations", "reallocations", "deallocations"].map(|key| child[key].as_u64());
    assert_eq!(recorded, counted);
}

/// Every process's trace stays, however little is in it.
#[track_caller]
fn confined_keeping_all(mode: &str) -> Option<Recording> {
    let program = sandbox()?;
    can_be(&program, mode)
        .then(|| record::record_with(&["--no-symbols", "--keep-all"], &program, &[mode]))
}

#[track_caller]
fn trace_of_child(recording: &Recording) -> serde_json::Value {
    let parent = recording.info()["pid"].clone();
    let infos = recording
        .scratch
        .traces()
        .into_iter()
        .map(|trace| record::info(&trace, &[]));
    let mut children = infos.filter(|info| info["parent_pid"] == parent);
    children.next().expect("a trace of the child")
}

/// How it went on is a trace of its own, by the same number.
#[test]
fn a_filtered_program_that_replaces_itself() {
    let Some(recording) = confined_keeping_all("replaced") else {
        return;
    };
    let infos = recording
        .scratch
        .traces()
        .into_iter()
        .map(|trace| record::info(&trace, &[]));
    let mut ends: Vec<_> = infos.map(|info| info["ended"].to_string()).collect();
    ends.sort();
    assert_eq!(ends, ["\"exec\"", "\"exit 7\""]);
}

/// Neither a child nor the program that it becomes may begin a recording. Both know, and say so.
#[test]
fn a_filter_that_would_kill_whatever_is_recorded_later() {
    let Some(recording) = confined("deadly") else {
        return;
    };
    let lines = recording.ran.stderr.lines();
    let refusals = lines.filter(|line| line.contains("gave up system calls"));
    assert_eq!(refusals.count(), 2, "{:?}", recording.ran);
    assert_eq!(recording.info()["ended"], "exec");
}

/// Open, exec, signals, code pages, and the advice by which buffers are provided.
#[test]
fn a_filter_refuses_calls_with_an_error() {
    assert_exact("denied");
}

/// By an error or by the knowledge that asking would kill: either way it is said.
#[test]
fn a_child_that_cannot_be_recorded() {
    for mode in ["denied", "allowed"] {
        let Some(recording) = confined(mode) else {
            continue;
        };
        let mut lines = recording.ran.stderr.lines();
        let said = lines.find(|line| line.contains("not recording"));
        assert!(
            said.is_some_and(|line| line.contains("gave up system calls")),
            "{mode}: {:?}",
            recording.ran
        );
    }
}

#[test]
fn what_a_filter_hides_is_in_the_trace() {
    let Some(recording) = confined("allowed") else {
        return;
    };
    let info = recording.info();
    assert_eq!(info["complete"], true, "of its own events: {info}");
    let remarks = info["remarks"].to_string();
    assert!(
        remarks.contains("children that the program forked"),
        "{remarks}"
    );
    assert!(remarks.contains("causes of slow calls"), "{remarks}");
}

/// The program's orderly end later on is not the recording's.
#[test]
fn without_a_clock_recording_ends_and_the_trace_says_so() {
    let Some(recording) = confined("clockless") else {
        return;
    };
    assert!(
        recording.ran.stderr.contains("recording has ended"),
        "{:?}",
        recording.ran
    );
    assert_ended_early(&recording.info());
}

#[track_caller]
fn assert_ended_early(info: &serde_json::Value) {
    assert_eq!(info["ended"], "confined");
    assert_eq!(info["complete"], false);
    assert!(
        info["remarks"].to_string().contains("recording ended when"),
        "{info}"
    );
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
    assert_ended_early(&recording.info());
    let until_then = record::info(&recording.trace, &["--to", "@\"sandbox begin\""]);
    // 2,000 blocks, each given back, and the room that they lie in.
    assert_eq!(support::number(&until_then, "allocations"), 2001);
    assert_eq!(support::number(&until_then, "deallocations"), 2001);
}

/// A thread of our own would be killed: recording ends, the trace is sound.
#[test]
fn a_filter_in_a_program_that_drains_itself() {
    let Some((_scratch, trace, ran)) = drained_by_itself("allowed") else {
        return;
    };
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    assert!(ran.stderr.contains("recording has ended"), "{ran:?}");
    let info = record::info(&trace, &[]);
    record::assert_sound(&info);
    assert_ended_early(&info);
}

#[test]
fn a_harmless_filter_in_a_program_that_drains_itself() {
    let Some((_scratch, trace, ran)) = drained_by_itself("harmless") else {
        return;
    };
    assert_eq!(ran.stderr, "");
    let info = record::info(&trace, &[]);
    record::assert_sound(&info);
    assert_eq!(info["ended"], "exit 7");
    let tally = serde_json::from_str(ran.stdout.lines().last().expect("a tally"));
    let between = ["--from", "@\"sandbox begin\"", "--to", "@\"sandbox end\""];
    tally::assert_equal(&tally.expect("JSON"), &record::info(&trace, &between));
}

/// Runs the program without a wrapper; it must do as it does alone.
#[track_caller]
fn drained_by_itself(mode: &str) -> Option<(scratch::Scratch, PathBuf, run::Ran)> {
    let program = sandbox().filter(|program| can_be(program, mode))?;
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
    let ran = run::run(command.arg(mode));
    assert_eq!(ran.stdout, run::plain(&program, &[mode]).stdout);
    assert_eq!(ran.shell_code(), 7, "{ran:?}");
    Some((scratch, trace, ran))
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
