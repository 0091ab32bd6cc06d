//! A C or C++ program reads its own counters through heapreel.h, whether it is recorded or
//! not: it knows what it did and ends with 1 where a figure is another one.

mod support;

use std::path::Path;
use std::process::Command;
use support::compile;
use support::preload::library;
use support::record::{assert_sound, record_with};
use support::run::{plain, run};

fn assert_counts(program: &Path) {
    let ran = plain(program, &["none"]);
    assert_eq!(ran.code, Some(0), "without the library: {ran:?}");
    for (mode, variable) in [("none", "0"), ("variable", "1"), ("call", "")] {
        let mut command = Command::new(program);
        command.arg(mode).env("LD_PRELOAD", library());
        let ran = run(command.env("HEAPREEL_COUNT", variable));
        assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{mode}: {ran:?}");
    }
    for (mode, options) in [
        ("none", &["--no-symbols"][..]),
        ("call", &["--no-symbols"]),
        ("variable", &["--no-symbols", "--count"]),
        (
            "variable",
            &["--no-symbols", "--count", "--free-backtraces"],
        ),
    ] {
        let recording = record_with(options, program, &[mode]);
        let ran = &recording.ran;
        assert_eq!(ran.code, Some(0), "recorded, {mode} {options:?}: {ran:?}");
        assert_sound(&recording.info());
    }
}

#[test]
fn a_c_program_reads_its_counters() {
    if let Some(program) = compile::c("counters.c") {
        assert_counts(&program);
    }
}

/// Linked for a fixed address it finds the library as well, and its `stderr`.
#[test]
fn a_c_program_at_a_fixed_address_reads_its_counters() {
    if let Some(program) = compile::c_with("counters.c", &["-no-pie", "-fno-pie"]) {
        assert_counts(&program);
    }
}

#[test]
fn a_cpp_program_reads_its_counters() {
    if let Some(program) = compile::cpp("counters.cpp") {
        assert_counts(&program);
    }
}
