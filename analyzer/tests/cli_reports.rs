//! The commands that look at a trace, as a user meets them.

use heapreel_analyzer::testing::Game;
use heapreel_format::testing::TraceBuilder;
use heapreel_format::{Definition, Entry, NameId};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

fn run(arguments: &[&str], trace: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heapreel"));
    command
        .arg(arguments[0])
        .arg(trace)
        .args(&arguments[1..])
        .output()
        .expect("heapreel runs")
}

#[track_caller]
fn stdout(arguments: &[&str], trace: &Path) -> String {
    let output = run(arguments, trace);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    assert_eq!(stderr, "", "{arguments:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[track_caller]
fn json(arguments: &[&str], trace: &Path) -> Value {
    let text = stdout(arguments, trace);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn file(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("t.hreel");
    std::fs::write(&path, bytes).expect("a file in it");
    (folder, path)
}

fn game() -> (TempDir, PathBuf) {
    file(
        &Game {
            leak_one_in: 40,
            ..Game::default()
        }
        .bytes(),
    )
}

/// Two visits to a level: two blocks are left by the first, one by the second.
fn visits() -> (TempDir, PathBuf) {
    let name = |id, text: &'static str| Definition::Name {
        id: NameId(id),
        text: text.into(),
    };
    let bytes = TraceBuilder::new()
        .define(name(1, "level loaded"))
        .define(name(2, "level left"))
        .stack(1, Entry::Malloc, &[0x1001])
        .alloc(1, 2_000, 2_010, 0x1000, 10, 1)
        .mark(1, 3_000, 1)
        .alloc(1, 3_100, 3_110, 0x2000, 20, 1)
        .alloc(1, 3_200, 3_210, 0x3000, 30, 1)
        .free(1, 3_300, 3_310, 0x1000)
        .mark(1, 4_000, 2)
        .mark(1, 5_000, 1)
        .alloc(1, 5_100, 5_110, 0x4000, 40, 1)
        .mark(1, 6_000, 2)
        .free(1, 6_500, 6_510, 0x4000)
        .bytes();
    file(&bytes)
}

#[test]
fn info_has_every_key_that_scripts_rely_on() {
    let (_folder, trace) = game();
    let info = json(&["info", "--json"], &trace);
    for key in [
        "events",
        "allocations",
        "reallocations",
        "deallocations",
        "failed_allocations",
        "unknown_releases",
        "lost_events",
        "order_anomalies",
        "threads",
        "frames",
        "stacks",
        "requested_bytes",
        "live_blocks",
        "live_bytes",
        "missing_records",
        "from_spill",
        "duration_nanos",
        "pid",
    ] {
        assert!(info[key].is_u64(), "{key} in {info}");
    }
    assert_eq!(info["ended"], "exit 0");
    let sum: u64 = [
        "allocations",
        "reallocations",
        "deallocations",
        "failed_allocations",
    ]
    .iter()
    .map(|key| info[key].as_u64().expect("a number"))
    .sum();
    assert_eq!(info["events"], sum);
    assert_eq!(info["events"], 10_000);
    assert_eq!(info["frames"], 9);
    assert!(info["calls_by_entry"]["malloc"].is_u64());
}

#[test]
fn a_window_between_marks_counts_only_what_lies_in_it() {
    let (_folder, trace) = visits();
    let window =
        |from: &str, to: &str| json(&["info", "--json", "--from", from, "--to", to], &trace);
    let first = window("@\"level loaded\"", "@\"level left\"");
    assert_eq!(
        (&first["allocations"], &first["deallocations"]),
        (&2.into(), &1.into())
    );
    assert_eq!(
        (&first["requested_bytes"], &first["live_bytes"]),
        (&50.into(), &50.into())
    );
    let second = window("@level loaded#2", "@\"level left\"#2");
    assert_eq!(
        (&second["allocations"], &second["deallocations"]),
        (&1.into(), &0.into())
    );
    let time = window("2.05us", "3us");
    assert_eq!(
        (&time["allocations"], &time["deallocations"]),
        (&2.into(), &1.into())
    );
}

#[test]
fn leaks_of_a_window_are_those_allocated_in_it() {
    let (_folder, trace) = visits();
    let whole = json(&["leaks", "--json"], &trace);
    assert_eq!(
        (&whole["blocks"], &whole["bytes"], &whole["word"]),
        (&2.into(), &50.into(), &"leaked".into())
    );
    let second = json(
        &[
            "leaks",
            "--json",
            "--from",
            "@level loaded#2",
            "--to",
            "@level left#2",
        ],
        &trace,
    );
    assert_eq!(
        (&second["blocks"], &second["bytes"]),
        (&1.into(), &40.into())
    );
    // By time as by mark, also within one batch of events.
    let by_time = json(&["leaks", "--json", "--from", "4us", "--to", "5us"], &trace);
    assert_eq!(
        (&by_time["blocks"], &by_time["bytes"]),
        (&1.into(), &40.into())
    );
}

#[test]
fn an_unknown_mark_suggests_the_nearest() {
    let (_folder, trace) = visits();
    let output = run(&["info", "--from", "@\"level loadde\""], &trace);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr.ends_with("has no mark \"level loadde\"; did you mean \"level loaded\"?\n"),
        "{stderr}"
    );
    let output = run(&["leaks", "--from", "@\"level loaded\"#3"], &trace);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.contains("the mark was set 2 time(s)"), "{stderr}");
}

#[test]
fn frames_come_as_table_csv_and_json() {
    let (_folder, trace) = game();
    let csv = stdout(&["frames", "--csv", "--frames", "2..5"], &trace);
    let numbers: Vec<_> = csv
        .lines()
        .skip(1)
        .map(|line| line.split(',').next().expect("a cell"))
        .collect();
    assert_eq!(numbers, ["2", "3", "4"]);
    let rows = json(
        &["frames", "--json", "--sort", "allocations", "--limit", "3"],
        &trace,
    );
    let counts: Vec<_> = rows["frames"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| row["allocations"].as_u64())
        .collect();
    assert_eq!(counts.len(), 3);
    assert!(counts.is_sorted_by(|a, b| a >= b), "{counts:?}");
    assert!(stdout(&["frames", "--frames", "last"], &trace).contains("Frames of main"));
}

#[test]
fn no_command_colours_what_is_no_terminal() {
    let (_folder, trace) = game();
    for command in ["info", "report", "frames", "spikes", "leaks"] {
        let text = stdout(&[command], &trace);
        assert!(!text.contains('\x1b') && text.ends_with('\n'), "{command}");
        assert_eq!(text, stdout(&[command], &trace), "{command}");
    }
    assert!(stdout(&["report", "--markdown"], &trace).starts_with("# heapreel report"));
    assert!(json(&["report", "--json"], &trace)["loops"][0]["frames"].is_array());
}

#[test]
fn a_trace_without_frames_says_so() {
    let (_folder, trace) = visits();
    let output = run(&["frames"], &trace);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.contains("has no frame marks"), "{stderr}");
}

#[test]
fn spikes_over_a_count_are_those_over_it() {
    let (_folder, trace) = game();
    let all = json(&["frames", "--json"], &trace);
    let calls = |row: &Value| {
        row["allocations"].as_u64().unwrap_or(0) + row["reallocations"].as_u64().unwrap_or(0)
    };
    let mut counts: Vec<u64> = all["frames"]
        .as_array()
        .expect("rows")
        .iter()
        .map(calls)
        .collect();
    counts.sort_unstable();
    let most = counts[counts.len() - 3];
    let over = counts.iter().filter(|count| **count > most).count();
    let spikes = json(&["spikes", "--json", "--count", &most.to_string()], &trace);
    assert_eq!(spikes["count"], over as u64);
}
