//! SIGKILL loses nothing: a program is killed at instants that only a seed knows, and
//! every call that it says had returned is in the trace.
//! `HEAPREEL_TEST_KILLS=50` is the long form.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::killme::{Returned, assert_nothing_lost, kill_at, remove_spill_of};
use support::record::{info, record_command};
use support::run::Ran;
use support::scratch::Scratch;
use support::{compile, setting};

/// A number of calls for the kill to wait for: any order of magnitude up to 10^5.
fn kill_after(kill: u64) -> u64 {
    let mut state = (kill + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    state ^= state >> 29;
    state = state.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    state ^= state >> 32;
    (state >> 20) % (2 << (state % 17))
}

/// How the program ended, in the trace's words.
fn ended(trace: &Path) -> String {
    info(trace, &[])["ended"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn page_in(scratch: &Scratch) -> PathBuf {
    scratch.join("page")
}

#[test]
fn under_the_wrapper() {
    let Some(program) = compile::c("killme.c") else {
        return;
    };
    for kill in 0..setting("HEAPREEL_TEST_KILLS", 5) {
        let scratch = Scratch::new();
        let (page, trace) = (page_in(&scratch), scratch.join("t.hreel"));
        let mut command = record_command(&trace, &["--no-symbols"], &program);
        command
            .arg(&page)
            .arg(kill.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut runner = command.spawn().expect("heapreel starts");
        kill_at(kill_after(kill), &page, &mut runner);
        let output = runner.wait_with_output().expect("heapreel ends");
        let ran = Ran::of(&output);
        assert_eq!(ran.shell_code(), 137, "kill {kill}: {ran:?}");
        assert_nothing_lost(Returned::read(&page), &trace);
        assert!(
            ended(&trace).contains("signal 9"),
            "ended: {}",
            ended(&trace)
        );
    }
}

/// Nobody is left to drain, or to see how the program ended: the reader finds the rest in the
/// spill that stayed behind.
#[test]
fn without_a_wrapper() {
    let program = compile::example("killme");
    for kill in 0..setting("HEAPREEL_TEST_KILLS", 5) {
        let scratch = Scratch::new();
        let (page, trace) = (page_in(&scratch), scratch.join("t.hreel"));
        let mut command = Command::new(&program);
        command
            .arg(&page)
            .arg(kill.to_string())
            .env("HEAPREEL_OUT", &trace);
        let mut game = command
            .stdout(Stdio::null())
            .spawn()
            .expect("the example starts");
        kill_at(kill_after(kill), &page, &mut game);
        game.wait().expect("the example ends");
        let returned = Returned::read(&page);
        assert_nothing_lost(returned, &trace);
        assert!(!ended(&trace).contains("exit"), "ended: {}", ended(&trace));
        remove_spill_of(returned.process);
    }
}
