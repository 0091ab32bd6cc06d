//! What `heapreel record` owes the program that it wraps, and whoever started it.

mod support;

use heapreel_format::{Ended, Trace};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::compile;
use support::record::{heapreel, record, record_command, record_with};
use support::run::{Ran, run, send_signal};
use support::scratch::Scratch;

fn game() -> Option<PathBuf> {
    compile::c("game.c")
}

/// A shell that waits for a line: a program that runs as long as a test wants.
const WAITS: &str = "echo ready; read line; exit 5";

/// Starts `command` with pipes, and returns when it has said "ready".
fn started(command: &mut Command) -> (Child, BufReader<std::process::ChildStdout>) {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("heapreel starts");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    (child, out)
}

#[test]
fn exit_code_and_output_are_the_programs_own() {
    let Some(game) = game() else { return };
    let plain = run(Command::new(&game).args(["7", "30", "text with spaces"]));
    let recording = record(&game, &["7", "30", "text with spaces"]);
    assert_eq!(recording.ran.code, Some(7));
    assert_eq!(recording.ran.stdout, plain.stdout);
    assert_eq!(recording.named_trace(), recording.trace);
}

#[test]
fn a_program_that_a_signal_ended_gives_the_shells_code() {
    let recording = record(Path::new("/bin/sh"), &["-c", "kill -SEGV $$"]);
    assert_eq!(recording.ran.code, Some(128 + 11));
    let trace = Trace::open(&recording.trace).unwrap();
    assert_eq!(trace.health().ended, Some(Ended::Signal(11)));
}

#[test]
fn how_a_grandchild_ended_is_known() {
    let Some(game) = game() else { return };
    // 200 frames are 16,000 events: the game's trace is the main one.
    let script = format!("{} 3 200; exit 9", game.display());
    let recording = record(Path::new("/bin/sh"), &["-c", &script]);
    assert_eq!(recording.ran.code, Some(9));
    let trace = Trace::open(&recording.trace).unwrap();
    assert!(trace.header().process.executable.contains("game"));
    assert_eq!(trace.health().ended, Some(Ended::Exit(3)));
}

#[test]
fn a_signal_sent_to_the_wrapper_reaches_the_program() {
    let scratch = Scratch::new();
    let trace = scratch.join("t.hreel");
    let mut command = record_command(&trace, &["--no-symbols"], Path::new("/bin/sh"));
    let (child, mut out) =
        started(command.args(["-c", "trap 'exit 6' TERM; echo ready; read line; exit 5"]));
    send_signal("TERM", &child.id().to_string());
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    let ended = Ran::of(&child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(6), "{}", ended.stderr);
    assert_eq!(
        Trace::open(&trace).unwrap().health().ended,
        Some(Ended::Exit(6))
    );
}

#[test]
fn a_killed_wrapper_leaves_program_and_trace() {
    let scratch = Scratch::new();
    let path = scratch.join("t.hreel");
    let mut command = record_command(&path, &["--no-symbols"], Path::new("/bin/sh"));
    let (mut child, mut out) = started(command.args(["-c", &format!("{WAITS}; echo never")]));
    wait_for(&path);
    // Waiting would close the pipe, and the program would read its end.
    let stdin = child.stdin.take();
    child.kill().unwrap();
    child.wait().unwrap();
    // The program still runs: its end of the pipe is open, and it reads its line.
    let running = Trace::open(&path).unwrap();
    assert!(running.health().running);
    drop(stdin);
    out.read_to_string(&mut String::new()).unwrap();
    let spill = PathBuf::from(&running.header().spill);
    assert!(spill.exists());
    wait_until_gone(running.header().process.pid);
    let whole = scratch.join("whole.hreel");
    let mut recover = heapreel();
    recover
        .arg("recover")
        .arg(&path)
        .arg("-o")
        .arg(&whole)
        .arg("--remove-spill");
    let ran = run(&mut recover);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!spill.exists() && !spill.parent().unwrap().exists());
    let trace = Trace::open(&whole).unwrap();
    assert_eq!(trace.health().ended, Some(Ended::Exit(5)));
    assert_eq!(
        (trace.health().missing_records, trace.health().lost_events),
        (0, 0)
    );
    assert!(!trace.chunks().is_empty());
}

/// The wrapper creates the trace a moment after the program has started.
fn wait_for(path: &Path) {
    while Trace::open(path).is_err() {
        std::thread::yield_now();
    }
}

/// Orphans of a killed wrapper are reaped by somebody else.
fn wait_until_gone(pid: u32) {
    let stat = format!("/proc/{pid}/stat");
    while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z")) {
        std::thread::yield_now();
    }
}

#[test]
fn what_cannot_run_is_told_in_one_line_with_the_shells_code() {
    let scratch = Scratch::new();
    let plain = scratch.join("plain");
    std::fs::write(&plain, "text").unwrap();
    let cases: &[(&str, i32, &str)] = &[
        ("no-such-program", 127, "not found in PATH"),
        ("./no-such-program", 127, "no such file"),
        (plain.to_str().unwrap(), 126, "not executable"),
        (scratch.path().to_str().unwrap(), 126, "is a folder"),
    ];
    for (program, code, text) in cases {
        let ran = run(heapreel()
            .args(["record", program])
            .current_dir(scratch.path()));
        assert_eq!(ran.code, Some(*code), "{program}: {}", ran.stderr);
        assert!(ran.stderr.contains(text), "{program}: {}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    }
    assert!(scratch.traces().is_empty());
}

#[test]
fn a_static_program_is_refused_and_can_be_run_anyway() {
    let Some(program) = compile::c_with("hello.c", &["-static"]) else {
        return;
    };
    let recording = record(&program, &[] as &[&str]);
    assert_eq!(recording.ran.code, Some(2));
    assert!(
        recording.ran.stderr.contains("statically linked"),
        "{}",
        recording.ran.stderr
    );
    assert_eq!(recording.ran.stdout, "");
    let plain = run(&mut Command::new(&program));
    let recording = record_with(&["--anyway"], &program, &[] as &[&str]);
    assert_eq!(
        (recording.ran.code, &recording.ran.stdout),
        (plain.code, &plain.stdout)
    );
    assert!(
        recording.ran.stderr.contains("nothing was recorded"),
        "{}",
        recording.ran.stderr
    );
}

#[test]
fn a_folder_that_takes_no_trace_does_not_stop_the_program() {
    let Some(game) = game() else { return };
    let mut command = record_command(Path::new("/proc/t.hreel"), &[], &game);
    let ran = run(command.args(["4", "30"]));
    assert_eq!(ran.code, Some(4));
    assert!(ran.stdout.starts_with("game: 30 frames"), "{}", ran.stdout);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("runs on and is not recorded"),
        "{}",
        ran.stderr
    );
}

#[test]
fn an_existing_trace_is_refused_before_anything_runs() {
    let Some(game) = game() else { return };
    let scratch = Scratch::new();
    let trace = scratch.join("t.hreel");
    std::fs::write(&trace, "precious").unwrap();
    let ran = run(record_command(&trace, &[], &game).args(["0", "30"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.contains("--force"), "{}", ran.stderr);
    let ran = run(record_command(&trace, &["--force", "--no-symbols"], &game).args(["0", "30"]));
    assert_eq!(ran.code, Some(0));
    assert!(Trace::open(&trace).is_ok());
    assert_eq!(scratch.traces(), [trace]);
}

#[test]
fn only_programs_that_were_asked_for_are_recorded() {
    let Some(game) = game() else { return };
    let script = format!("{} 0 200; ls / > /dev/null", game.display());
    let recording = record_with(
        &["--no-symbols", "--only", "ga*"],
        Path::new("/bin/sh"),
        &["-c", &script],
    );
    assert_eq!(
        recording.scratch.traces(),
        std::slice::from_ref(&recording.trace)
    );
    let trace = Trace::open(&recording.trace).unwrap();
    assert!(trace.header().process.executable.contains("game"));
    let recording = record_with(&["--only", "nothing"], &game, &["3"]);
    assert_eq!(recording.ran.code, Some(3));
    assert!(
        recording.ran.stderr.contains("--only nothing"),
        "{}",
        recording.ran.stderr
    );
}

#[test]
fn clocks_are_compared_and_threads_have_names() {
    let Some(game) = game() else { return };
    let recording = record(&game, &["0", "200"]);
    let trace = Trace::open(&recording.trace).unwrap();
    assert!(!trace.definitions().clock_pairs.is_empty());
    let threads = &trace.definitions().threads;
    assert_eq!(threads.len(), 1);
}

#[test]
fn doctor_says_what_will_be_seen() {
    let Some(game) = game() else { return };
    let ran = run(heapreel().args(["doctor", "--json"]).arg(&game));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let answer: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(answer["recordable"], true);
    let Some(program) = compile::c_with("hello.c", &["-static"]) else {
        return;
    };
    let ran = run(heapreel().arg("doctor").arg(&program));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("statically"), "{}", ran.stdout);
}
