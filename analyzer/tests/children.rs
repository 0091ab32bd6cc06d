//! Programs that make other processes behave as they do without us: the same output, the
//! same exit code; and the trace that is named at the end is the game's.

mod support;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use support::compile;
use support::record::{Recording, assert_sound, info, record_with};
use support::run::{plain, run};
use support::scratch::Scratch;
use support::tally;
use support::undisturbed::{assert_undisturbed, assert_undisturbed_and_sound, last_line};

/// The last line names the trace of `game`, and that trace is whole.
#[track_caller]
fn assert_names_the_game(recording: &Recording, game: &Path) {
    let named = recording.named_trace();
    assert!(named.exists(), "{} in {:?}", named.display(), recording.ran);
    let seen = info(&named, &[]);
    assert_sound(&seen);
    assert!(is_of(&seen, game), "{seen}\n{:?}", recording.ran);
}

/// Whether a trace is of this executable.
fn is_of(info: &serde_json::Value, game: &Path) -> bool {
    let name = game.file_name().expect("a name").to_string_lossy();
    info["executable"]
        .as_str()
        .is_some_and(|executable| executable.ends_with(&*name))
}

fn found(program: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let program_path = std::env::split_paths(&paths)
        .map(|folder| folder.join(program))
        .find(|p| p.exists());
    if program_path.is_none() {
        compile::skipped(&format!("no {program} in the PATH"));
    }
    program_path
}

fn sh(script: &str) -> [String; 2] {
    ["-c".to_owned(), script.to_owned()]
}

#[track_caller]
fn assert_shell_undisturbed(script: &str) -> Recording {
    let arguments = sh(script);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    assert_undisturbed(Path::new("/bin/sh"), &arguments)
}

#[test]
fn a_game_behind_a_shell_script() {
    let Some(game) = compile::c("game.c") else {
        return;
    };
    let script = format!(
        "echo starting; {} 7 200 script; code=$?; echo it said $code; exit $code",
        game.display()
    );
    let recording = assert_shell_undisturbed(&script);
    assert_eq!(recording.ran.code, Some(7));
    assert_names_the_game(&recording, &game);
}

#[test]
fn a_game_behind_env() {
    let (Some(game), Some(env)) = (compile::c("game.c"), found("env")) else {
        return;
    };
    let game_path = game.display().to_string();
    let recording = assert_undisturbed(&env, &["GAME_TEXT=set", &game_path, "4", "200"]);
    assert!(recording.ran.stdout.contains("variable set"));
    assert_names_the_game(&recording, &game);
}

#[test]
fn a_game_behind_a_launcher_that_ends_first() {
    let (Some(game), Some(launcher)) = (compile::c("game.c"), compile::c("launcher.c")) else {
        return;
    };
    let game_path = game.display().to_string();
    let recording = assert_undisturbed(&launcher, &[&game_path, "4", "300", "launched"]);
    assert_eq!(recording.ran.code, Some(0));
    assert_names_the_game(&recording, &game);
}

#[test]
fn the_game_among_helpers_with_more_or_fewer_events() {
    let Some(game) = compile::c("game.c") else {
        return;
    };
    let game_path = game.display();
    let script = format!(
        "ls / | sort | head -1; {game_path} 0 20; {game_path} 3 400 main; ls / | wc -l > /dev/null"
    );
    let recording = assert_shell_undisturbed(&script);
    assert_names_the_game(&recording, &game);
}

/// Each way to make a process, from a program whose threads allocate meanwhile; so many
/// traces come of it, those of processes that did little left out.
#[track_caller]
fn assert_way_undisturbed(way: &str, traces: RangeInclusive<usize>) {
    let (Some(game), Some(processes)) = (compile::c("game.c"), compile::c("processes.c")) else {
        return;
    };
    let recording = assert_undisturbed_and_sound(&processes, &[way, &game.display().to_string()]);
    let found = recording.scratch.traces().len();
    assert!(
        traces.contains(&found),
        "{found} traces {:?}",
        recording.ran
    );
}

/// Traces of the program and of each program that its twelve children became.
const WITH_PROGRAMS: RangeInclusive<usize> = 13..=13;
const ALONE: RangeInclusive<usize> = 1..=1;

#[test]
fn fork_with_threads_running() {
    assert_way_undisturbed("fork", ALONE);
}

#[test]
fn forks_of_forks() {
    assert_way_undisturbed("two-forks", ALONE);
}

#[test]
fn fork_on_another_thread_than_the_first() {
    assert_way_undisturbed("fork-on-a-thread", ALONE);
}

#[test]
fn fork_without_handlers() {
    assert_way_undisturbed("raw-fork", ALONE);
    assert_way_undisturbed("raw-fork-alone", ALONE);
}

#[test]
fn fork_and_exec() {
    assert_way_undisturbed("fork-exec", WITH_PROGRAMS);
}

/// `execle` takes any number of arguments and is not passed through us: the one child whose
/// environment it sets is not recorded.
#[test]
fn the_exec_family() {
    assert_way_undisturbed("exec-family", 12..=12);
}

#[test]
fn vfork_and_exec() {
    assert_way_undisturbed("vfork", WITH_PROGRAMS);
}

#[test]
fn vfork_and_exit() {
    assert_way_undisturbed("vfork-exit", ALONE);
}

#[test]
fn vfork_and_an_exec_that_fails() {
    assert_way_undisturbed("vfork-missing", ALONE);
}

#[test]
fn clone_as_runtimes_do_it() {
    assert_way_undisturbed("clone", WITH_PROGRAMS);
}

#[test]
fn posix_spawn() {
    assert_way_undisturbed("spawn", WITH_PROGRAMS);
}

#[test]
fn posix_spawn_with_actions_attributes_and_an_environment() {
    assert_way_undisturbed("spawn-with-actions", WITH_PROGRAMS);
}

#[test]
fn exec_in_place() {
    // The threads may not have done much yet.
    assert_way_undisturbed("exec", 1..=2);
}

#[test]
fn system() {
    assert_way_undisturbed("system", WITH_PROGRAMS);
}

#[test]
fn popen() {
    assert_way_undisturbed("popen", WITH_PROGRAMS);
}

/// Whatever it closes, the daemon writes into its own file alone and is recorded to its end.
#[track_caller]
fn assert_daemon_recorded(how: &str) {
    let Some(program) = compile::c("daemon.c") else {
        return;
    };
    let recording = assert_undisturbed_and_sound(&program, &[how]);
    assert!(
        recording
            .ran
            .stdout
            .contains("launcher 11, daemon 13, 3000 lines intact"),
        "{:?}",
        recording.ran
    );
    tally::assert_equal(
        &last_line(&recording),
        &recording.info_between("daemon begin", "daemon end"),
    );
}

#[test]
fn a_daemon_that_closes_one_descriptor_after_the_other() {
    assert_daemon_recorded("loop");
}

#[test]
fn a_daemon_that_closes_a_range_of_descriptors() {
    assert_daemon_recorded("range");
}

#[test]
fn a_daemon_that_closes_all_from_the_first_descriptor() {
    assert_daemon_recorded("from");
}

#[test]
fn programs_nobody_here_wrote() {
    let source = compile::programs().join("hello.c").display().to_string();
    for (program, script) in [
        ("ldd", format!("ldd /bin/sh | {WITHOUT_ADDRESSES}")),
        ("bash", "bash -c 'for i in 1 2 3; do echo $i; done | while read n; do echo got $n; done; exit 6'".to_owned()),
        ("python3", "python3 -c 'import subprocess, sys; print(subprocess.run([\"echo\", \"hi\"]).returncode); sys.exit(5)'".to_owned()),
        ("gcc", format!("gcc -O1 -S -o - {source} | grep -c main")),
        ("find", "find /usr/share/doc -maxdepth 1 -type d -print0 | xargs -0 -n 50 echo | cksum".to_owned()),
    ] {
        if found(program).is_some() {
            let recording = assert_shell_undisturbed(&script);
            assert_eq!(recording.ran.code, plain("/bin/sh".as_ref(), &sh(&script)).code);
        }
    }
}

/// Where a library lies differs from run to run.
const WITHOUT_ADDRESSES: &str = "sed 's/0x[0-9a-f]*//'";

/// What else is preloaded is listed, ours is not.
#[test]
fn the_libraries_that_the_loader_lists() {
    for preload in ["libm.so.6", "libm.so.6:$LD_PRELOAD", "$LD_PRELOAD", ""] {
        let script = format!(
            "LD_PRELOAD={preload} LD_TRACE_LOADED_OBJECTS=1 /bin/sh -c 'not run' | {WITHOUT_ADDRESSES}"
        );
        let recording = assert_shell_undisturbed(&script);
        assert!(recording.ran.stdout.contains("libc.so.6"));
    }
}

#[test]
fn without_children_only_the_first_process_is_recorded() {
    let Some(game) = compile::c("game.c") else {
        return;
    };
    let script = format!("{} 3 400; exit 9", game.display());
    let recording = record_with(
        &["--no-symbols", "--no-children"],
        "/bin/sh".as_ref(),
        &sh(&script),
    );
    assert_eq!(recording.ran.code, Some(9), "{:?}", recording.ran);
    for trace in recording.scratch.traces() {
        let seen = info(&trace, &[]);
        assert!(!is_of(&seen, &game), "{seen}");
    }
}

#[test]
fn only_the_programs_asked_for_are_recorded() {
    let (Some(game), Some(launcher)) = (compile::c("game.c"), compile::c("launcher.c")) else {
        return;
    };
    let name = game
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let arguments = [game.display().to_string(), "4".to_owned(), "300".to_owned()];
    let recording = record_with(
        &["--no-symbols", "--only", &format!("{}*", &name[..6])],
        &launcher,
        &arguments,
    );
    let traces = recording.scratch.traces();
    assert_eq!(traces.len(), 1, "{traces:?} {:?}", recording.ran);
    assert!(is_of(&info(&traces[0], &[]), &game));
}

/// A command that does not exist: one line, and what a shell would say.
#[test]
fn a_command_that_is_not_there() {
    let scratch = Scratch::new();
    let missing = scratch.join("no such program");
    let mut command = support::record::record_command(&scratch.join("t.hreel"), &[], &missing);
    let ran = run(&mut command);
    assert!(matches!(ran.code, Some(2 | 127)), "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    assert!(ran.stderr.contains("no such program"), "{ran:?}");
    assert!(scratch.traces().is_empty());
}
