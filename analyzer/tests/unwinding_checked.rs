//! The debug mode that compares each backtrace with a whole unwind, on all the programs that
//! do what a stack can suffer: no difference.

mod support;

use std::path::PathBuf;
use support::plugins::plugins;
use support::record::{info, record_command};
use support::run::run;
use support::scratch::Scratch;
use support::{compile, number};

/// Each run's backtraces agree, and there were some.
#[track_caller]
fn assert_no_difference(program: Option<PathBuf>, runs: &[&[&str]]) {
    let Some(program) = program else { return };
    for arguments in runs {
        let scratch = Scratch::new();
        let mut command = record_command(&scratch.join("t.hreel"), &["--no-symbols"], &program);
        command.env("HEAPREEL_CHECK_UNWINDING", "1");
        let ran = run(command.args(*arguments));
        let mut checked = 0;
        for trace in scratch.traces() {
            let seen = info(&trace, &[]);
            checked += number(&seen, "unwinds_checked");
            let differing = number(&seen, "unwinds_differing");
            assert_eq!(differing, 0, "{} {arguments:?}", program.display());
        }
        assert!(
            checked > 50,
            "{checked} of {} {arguments:?}: {ran:?}",
            program.display()
        );
    }
}

#[test]
fn stacks_of_every_kind() {
    let modes: [&[&str]; 5] = [
        &["coroutine"],
        &["altstack"],
        &["deep"],
        &["alloca"],
        &["minimal"],
    ];
    assert_no_difference(compile::c("stacks.c"), &modes);
    let painted = compile::c_with("painted.c", &["-Wl,-z,now"]);
    assert_no_difference(painted, &[&["coroutine"], &["thread"], &["child"]]);
}

#[test]
fn exceptions_and_jumps() {
    let modes: [&[&str]; 8] = [
        &["throw"],
        &["far"],
        &["bad_alloc"],
        &["handler"],
        &["reserve"],
        &["nothrow"],
        &["longjmp"],
        &["threads"],
    ];
    assert_no_difference(compile::cpp("exceptions.cpp"), &modes);
}

#[test]
fn handlers_at_any_instruction() {
    let program = compile::c_with("libbump.c", &["-shared", "-fPIC"])
        .and_then(|bump| compile::c_with("signals.c", &[&bump.display().to_string()]));
    let modes: [&[&str]; 6] = [
        &["timer", "60"],
        &["itimer", "60"],
        &["alternate", "60"],
        &["threads", "60"],
        &["nested", "500"],
        &["jump", "200"],
    ];
    assert_no_difference(program, &modes);
}

#[test]
fn before_main_and_after_it() {
    let modes: [&[&str]; 8] = [
        &["return"],
        &["exit"],
        &["quick_exit"],
        &["_exit"],
        &["thread-exit"],
        &["main-leaves"],
        &["abandoned"],
        &["abort"],
    ];
    assert_no_difference(compile::cpp("early_late.cpp"), &modes);
}

#[test]
fn processes_of_every_kind() {
    let Some(game) = compile::c("game.c") else {
        return;
    };
    let game = game.display().to_string();
    let ways = [
        "fork",
        "two-forks",
        "fork-on-a-thread",
        "raw-fork",
        "vfork",
        "vfork-missing",
        "clone",
        "spawn",
        "spawn-with-actions",
        "exec-family",
        "exec",
        "system",
    ];
    for way in ways {
        assert_no_difference(compile::c("processes.c"), &[&[way, &game]]);
    }
    let modes: [&[&str]; 3] = [&["loop"], &["range"], &["from"]];
    assert_no_difference(compile::c("daemon.c"), &modes);
}

#[test]
fn sandboxes() {
    let modes: [&[&str]; 6] = [
        &["harmless"],
        &["denied"],
        &["unseen"],
        &["allowed"],
        &["strict"],
        &["private"],
    ];
    assert_no_difference(compile::c("sandbox.c"), &modes);
}

#[test]
fn libraries_that_come_and_go() {
    let Some(plugins) = plugins() else { return };
    let folder = plugins.folder.display().to_string();
    let program = || Some(plugins.program.clone());
    assert_no_difference(program(), &[&["runpath", &folder]]);
    plugins.both();
    for mode in ["same", "swap", "deep", "namespace"] {
        assert_no_difference(program(), &[&[mode, &folder]]);
    }
}

#[test]
fn every_function() {
    assert_no_difference(compile::cpp("errno.cpp"), &[&[]]);
    assert_no_difference(compile::c("every_entry.c"), &[&[]]);
    assert_no_difference(compile::cpp("every_entry.cpp"), &[&[]]);
    assert_no_difference(compile::c("tally.c"), &[&["2", "500", "1"]]);
    assert_no_difference(compile::cpp("tally.cpp"), &[&["2", "500", "1"]]);
    assert_no_difference(compile::rust("tally_rs"), &[&["2", "500", "1"]]);
}
