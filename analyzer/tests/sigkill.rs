//! SIGKILL loses nothing: a program is killed at instants that only a seed knows, and
//! every call that it says had returned is in the trace.
//!
//! It says so in a shared page, which outlives it. Each number there is stored after its
//! call has returned, so the truth is at most one call per thread ahead.
//! `HEAPREEL_TEST_KILLS=50` is the long form.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::record::{assert_sound, info, record_command};
use support::run::{Ran, send_signal};
use support::scratch::Scratch;
use support::{compile, number, setting};

const THREADS: u64 = 8;
/// The largest request, as in the programs.
const LARGEST: u64 = 16 + 200_000;

/// The page's numbers, summed over the threads.
#[derive(Clone, Copy, Debug, Default)]
struct Returned {
    process: u64,
    allocations: u64,
    reallocations: u64,
    deallocations: u64,
    requested_bytes: u64,
}

impl Returned {
    fn read(page: &Path) -> Self {
        let bytes = std::fs::read(page).unwrap_or_default();
        let at = |offset: usize| {
            let eight = bytes
                .get(offset..offset + 8)
                .and_then(|b| b.try_into().ok());
            u64::from_le_bytes(eight.unwrap_or_default())
        };
        let mut sum = Self {
            process: at(0),
            ..Self::default()
        };
        for thread in 0..THREADS as usize {
            let first = 4096 + 128 * thread;
            sum.allocations += at(first);
            sum.reallocations += at(first + 8);
            sum.deallocations += at(first + 16);
            sum.requested_bytes += at(first + 24);
        }
        sum
    }

    fn calls(&self) -> u64 {
        self.allocations + self.reallocations + self.deallocations
    }
}

/// A recorder without a wrapper leaves its spill in shared memory when it is killed.
fn remove_spill_of(process: u64) {
    let entries = std::fs::read_dir("/dev/shm")
        .into_iter()
        .flatten()
        .flatten();
    for entry in entries.filter(|entry| is_spill_of(&entry.file_name().to_string_lossy(), process))
    {
        let _ = std::fs::remove_file(entry.path());
    }
}

fn is_spill_of(name: &str, process: u64) -> bool {
    name.starts_with(&format!("heapreel-{process}-")) && name.ends_with(".spill")
}

/// A number of calls for the kill to wait for: any order of magnitude up to 10^5.
fn kill_after(kill: u64) -> u64 {
    let mut state = (kill + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    state ^= state >> 29;
    state = state.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    state ^= state >> 32;
    (state >> 20) % (2 << (state % 17))
}

/// Looks at the page until so many calls have returned, then kills the program.
fn kill_at(calls: u64, page: &Path, runner: &mut Child) {
    let hangs_at = Instant::now() + Duration::from_secs(60);
    loop {
        let returned = Returned::read(page);
        if returned.process != 0 && returned.calls() >= calls {
            return send_signal("KILL", &returned.process.to_string());
        }
        let ended = runner.try_wait().expect("the child's state");
        assert!(ended.is_none(), "ended by itself: {ended:?}");
        assert!(Instant::now() < hangs_at, "no progress: {returned:?}");
        std::thread::yield_now();
    }
}

/// All that had returned is there, and at most one call per thread more.
#[track_caller]
fn assert_nothing_lost(returned: Returned, trace: &Path) {
    assert_sound(&info(trace, &[]));
    let seen = info(trace, &["--from", "@\"work begin\""]);
    let context = format!("program: {returned:?}\ntrace: {seen}");
    let mut ahead = 0;
    for (key, said) in [
        ("allocations", returned.allocations),
        ("reallocations", returned.reallocations),
        ("deallocations", returned.deallocations),
    ] {
        assert!(number(&seen, key) >= said, "{key} are missing\n{context}");
        ahead += number(&seen, key) - said;
    }
    assert!(ahead <= THREADS, "{ahead} events too many\n{context}");
    let bytes = number(&seen, "requested_bytes");
    let most = returned.requested_bytes + THREADS * LARGEST;
    assert!(
        (returned.requested_bytes..=most).contains(&bytes),
        "requested bytes\n{context}"
    );
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
