//! Runs programs under `heapreel record` and asks `heapreel info` about the trace.

use super::run::{Ran, run};
use super::scratch::Scratch;
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program under test.
pub fn heapreel() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heapreel"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_ours(name)) {
        command.env_remove(name);
    }
    command
}

/// Settings that whoever runs the tests may have in his environment.
fn is_ours(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("HEAPREEL_") && name != "HEAPREEL_PRELOAD_LIB"
}

/// A finished recording in a folder of its own.
pub struct Recording {
    pub scratch: Scratch,
    /// The main process's trace, whether or not it came to be.
    pub trace: PathBuf,
    pub ran: Ran,
}

/// Records `program` into `t.hreel` in a new folder; symbols are of no use here.
pub fn record<A: AsRef<OsStr>>(program: &Path, arguments: &[A]) -> Recording {
    record_with(&["--no-symbols"], program, arguments)
}

/// As [`record`], with these options of `heapreel record`.
pub fn record_with<A: AsRef<OsStr>>(
    options: &[&str],
    program: &Path,
    arguments: &[A],
) -> Recording {
    let scratch = Scratch::new();
    let trace = scratch.join("t.hreel");
    let mut command = record_command(&trace, options, program);
    let ran = run(command.args(arguments));
    Recording {
        scratch,
        trace,
        ran,
    }
}

/// `heapreel record` up to the program's name.
pub fn record_command(trace: &Path, options: &[&str], program: &Path) -> Command {
    let mut command = heapreel();
    command
        .arg("record")
        .args(options)
        .arg("-o")
        .arg(trace)
        .arg("--")
        .arg(program);
    command
}

impl Recording {
    /// What `heapreel info --json` says of the main trace.
    #[track_caller]
    pub fn info(&self) -> Value {
        info(&self.trace, &[])
    }

    /// The same of the events between two marks.
    #[track_caller]
    pub fn info_between(&self, from: &str, to: &str) -> Value {
        info(
            &self.trace,
            &between(from, to).each_ref().map(String::as_str),
        )
    }

    /// As [`info_between`](Self::info_between), of a trace that may have its faults.
    #[track_caller]
    pub fn info_between_at_any_rate(&self, from: &str, to: &str) -> Value {
        let range = between(from, to);
        info_at_any_rate(&self.trace, &range.each_ref().map(String::as_str)).1
    }

    /// The trace that the last line names.
    #[track_caller]
    pub fn named_trace(&self) -> PathBuf {
        let last = self.ran.stderr.lines().last().unwrap_or_default();
        let names = |word: &str| {
            let word = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '/' && c != '.');
            word.ends_with(".hreel").then(|| PathBuf::from(word))
        };
        let named = last.split_whitespace().find_map(names);
        named.unwrap_or_else(|| panic!("no trace is named in the last line of {}", self.ran.stderr))
    }
}

/// The options that mean the stretch between two marks.
fn between(from: &str, to: &str) -> [String; 4] {
    let [from, to] = [from, to].map(|mark| format!("@{mark:?}"));
    ["--from".to_owned(), from, "--to".to_owned(), to]
}

/// `heapreel info TRACE --json` with more options; it must find nothing wrong.
#[track_caller]
pub fn info(trace: &Path, options: &[&str]) -> Value {
    let (ran, info) = info_at_any_rate(trace, options);
    assert_eq!(
        ran.code,
        Some(0),
        "info of {}: {}",
        trace.display(),
        ran.stderr
    );
    info
}

/// As [`info`], of a trace that may have its faults.
#[track_caller]
pub fn info_at_any_rate(trace: &Path, options: &[&str]) -> (Ran, Value) {
    let ran = run(heapreel()
        .arg("info")
        .arg(trace)
        .arg("--json")
        .args(options));
    let info = serde_json::from_str(&ran.stdout);
    let info = info.unwrap_or_else(|error| panic!("{error} in {ran:?}"));
    (ran, info)
}

/// What must hold of every trace here, whatever the program did.
#[track_caller]
pub fn assert_sound(info: &Value) {
    for key in [
        "lost_events",
        "missing_records",
        "unreadable_records",
        "order_anomalies",
    ] {
        assert_eq!(super::number(info, key), 0, "{key} in {info}");
    }
}
