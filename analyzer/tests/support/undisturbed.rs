//! Runs a program alone and recorded, and compares.

use super::record::{Recording, assert_sound, info, record};
use super::run::plain;
use std::path::Path;

/// Recorded, the program says and does what it does alone.
#[track_caller]
pub fn assert_undisturbed(program: &Path, arguments: &[&str]) -> Recording {
    let alone = plain(program, arguments);
    let recording = record(program, arguments);
    let ran = &recording.ran;
    assert_eq!(ran.stdout, alone.stdout, "{arguments:?} {ran:?}");
    assert_eq!(
        ran.shell_code(),
        alone.shell_code(),
        "{arguments:?} {ran:?}"
    );
    recording
}

/// As [`assert_undisturbed`]; and every trace that came of it is whole.
#[track_caller]
pub fn assert_undisturbed_and_sound(program: &Path, arguments: &[&str]) -> Recording {
    let recording = assert_undisturbed(program, arguments);
    let traces = recording.scratch.traces();
    assert!(!traces.is_empty(), "{arguments:?} {:?}", recording.ran);
    for trace in traces {
        assert_sound(&info(&trace, &[]));
    }
    recording
}

/// The line of JSON that a program says last.
#[track_caller]
pub fn last_line(recording: &Recording) -> serde_json::Value {
    let line = recording.ran.stdout.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {:?}", recording.ran))
}
