//! The help, and the examples at its end, which must work as they stand there.

mod support;

use heapreel_format::testing::TraceBuilder;
use heapreel_format::{Definition, Entry, NameId};
use std::path::Path;
use std::process::Command;
use support::compile;
use support::record::heapreel;
use support::run::{Ran, run};
use support::scratch::Scratch;

const COMMANDS: &[&str] = &[
    "record", "trend", "demo", "doctor", "report", "view", "info", "frames", "spikes", "leaks",
    "contexts", "overrun", "sharing", "frag", "symbols", "recover", "import", "replay", "compare",
    "sweep",
];

fn help(command: &str) -> String {
    let ran = run(heapreel().args([command, "--help"]));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{command}");
    ran.stdout
}

/// The lines below "Examples:".
fn examples(help: &str) -> Vec<String> {
    let (_, examples) = help.split_once("Examples:\n").expect("examples");
    examples
        .lines()
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect()
}

/// Runs a line as a person would type it, in `folder`.
fn typed(line: &str, folder: &Path) -> Ran {
    let program = Path::new(env!("CARGO_BIN_EXE_heapreel"));
    let quoted = format!("'{}'", program.display());
    let line = line.replacen("heapreel", &quoted, 1);
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).current_dir(folder);
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HEAPREEL_"))
    {
        shell.env_remove(name);
    }
    run(&mut shell)
}

/// What examples speak of: a trace with 4,400 frames between two marks, and a game.
fn furnished() -> Option<Scratch> {
    let game = compile::c("game.c")?;
    let scratch = Scratch::new();
    furnish_trace("", &scratch);
    compile::copy(&game, &scratch.join("mygame"));
    std::fs::write(scratch.join("list.txt"), "a 0 1 100\nf 0 1\n").unwrap();
    std::fs::create_dir_all(scratch.join("build/unstripped")).unwrap();
    // Written by a process of its own, as `compile::copy` does and for its reason.
    let script = r"printf '#!/bin/sh\nexec ./mygame 0 200\n' >start.sh && chmod +x start.sh";
    let mut written = Command::new("sh");
    written.args(["-c", script]).current_dir(scratch.path());
    assert!(written.status().unwrap().success());
    Some(scratch)
}

/// `record` makes the trace that the other commands read.
fn furnish_trace(command: &str, scratch: &Scratch) {
    let path = scratch.join("run.hreel");
    let _ = std::fs::remove_file(&path);
    if command != "record" {
        std::fs::write(path, trace()).unwrap();
    }
}

fn trace() -> Vec<u8> {
    let name = |id, text: &'static str| Definition::Name {
        id: NameId(id),
        text: text.into(),
    };
    let mut trace = TraceBuilder::new()
        .define(name(1, "level loaded"))
        .define(name(2, "level left"))
        .stack(1, Entry::Malloc, &[0x5000_1234, 0x5000_0100])
        .mark(1, 1_500, 1);
    let mut at = 2_000;
    for frame in 0..4_400u64 {
        let block = 0x7f00_0000 + frame % 7 * 4096;
        trace = trace
            .alloc(1, at, at + 50, block, 24, 1)
            .free(1, at + 100, at + 130, block);
        at += 1_000_000;
        trace = trace.frame_mark(1, at, 0);
    }
    trace.mark(1, at + 10, 2).bytes()
}

#[test]
fn each_command_has_two_examples_that_work() {
    let Some(scratch) = furnished() else { return };
    for command in COMMANDS {
        let lines = examples(&help(command));
        assert!(lines.len() >= 2, "{command}: {lines:?}");
        for line in lines {
            furnish_trace(command, &scratch);
            assert!(line.starts_with(&format!("heapreel {command}")), "{line}");
            // The viewer is a program of its own, and has tests of its own.
            if *command != "view" {
                let ran = typed(&line, scratch.path());
                assert_eq!(ran.code, Some(0), "{line}\n{}{}", ran.stdout, ran.stderr);
            }
        }
    }
}

#[test]
fn the_first_page_names_every_command() {
    let page = run(heapreel().arg("--help")).stdout;
    for command in COMMANDS {
        assert!(
            page.contains(&format!("\n  {command} ")),
            "{command} in {page}"
        );
    }
    for group in ["Capture", "Look", "Find", "What if", "Move"] {
        assert!(page.contains(&format!("\n{group}\n")), "{group} in {page}");
    }
    let without = run(&mut heapreel());
    assert_eq!((without.code, without.stderr), (Some(2), page));
}

#[test]
fn mistakes_are_one_line() {
    for words in [
        &["recrod", "x"][..],
        &["record"],
        &["record", "--depth", "deep", "x"],
        &["report"],
        &["frames", "x.hreel", "--nonsense"],
        &["info", "nothing.hreel"],
        &["nothing.hreel"],
        &["recover", "nothing.hreel"],
        &["symbols", "nothing.hreel"],
        &["import", "--from", "ops", "nothing.txt", "-o", "x.hreel"],
        &["replay", "nothing.hreel", "--model", "heap"],
        &["compare", "nothing.hreel"],
        &["sweep", "nothing.hreel"],
    ] {
        let ran = run(heapreel().args(words));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{words:?}");
        assert!(
            ran.stderr.starts_with("heapreel: "),
            "{words:?}: {}",
            ran.stderr
        );
        assert_eq!(ran.stderr.lines().count(), 1, "{words:?}: {}", ran.stderr);
    }
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let Some(scratch) = furnished() else { return };
    for command in ["frames run.hreel", "doctor --json ./mygame", "--help"] {
        let ran = typed(&format!("heapreel {command} | true"), scratch.path());
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{command}");
    }
}
