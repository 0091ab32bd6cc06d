//! Programs that bring their own allocator: recorded where their calls can be seen, and
//! told so in one clear line where they cannot.

mod support;

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use support::record::{assert_sound, record};
use support::run::plain;
use support::scratch::Scratch;
use support::{compile, number, tally};

/// Debian's names; other distributions keep the libraries elsewhere.
const LIBRARY_FOLDERS: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
];

/// The tally of tally.c with another malloc below: the preload library stands in front of
/// it, and the counts are as exact as with glibc's.
fn assert_exact_over(library: &str, package: &str) {
    let installed = LIBRARY_FOLDERS
        .iter()
        .map(|folder| Path::new(folder).join(library))
        .find(|p| p.exists());
    let Some(installed) = installed else {
        return compile::skipped(&format!("{library} is not installed (Debian: {package})"));
    };
    let Some(program) = compile::c_with("tally.c", &[&installed.display().to_string()]) else {
        return;
    };
    let alone = plain(&program, &["1", "100"]);
    assert_eq!(alone.code, Some(0), "{alone:?}");
    let recording = record(&program, &["3", "2000", "1"]);
    assert_eq!(recording.ran.code, Some(0), "{:?}", recording.ran);
    let count = recording.ran.json_lines().remove(0);
    tally::assert_equal(&count, &recording.info_between("tally begin", "tally end"));
    assert_sound(&recording.info());
}

#[test]
fn linked_with_jemalloc() {
    assert_exact_over("libjemalloc.so.2", "libjemalloc2");
}

#[test]
fn linked_with_mimalloc() {
    assert_exact_over("libmimalloc.so.2", "libmimalloc2.0");
}

#[test]
fn malloc_within_the_executable() {
    let Some(program) = compile::c("own_malloc.c") else {
        return;
    };
    let alone = plain::<&str>(&program, &[]);
    let recording = record::<&str>(&program, &[]);
    let ran = &recording.ran;
    assert_eq!(
        (&ran.stdout, ran.code),
        (&alone.stdout, alone.code),
        "{ran:?}"
    );
    let name = program.file_name().expect("a name").to_string_lossy();
    let lines: Vec<&str> = ran
        .stderr
        .lines()
        .filter(|line| line.contains("malloc"))
        .collect();
    assert_eq!(lines.len(), 1, "one line says why nothing is seen: {ran:?}");
    assert!(lines[0].contains(&*name), "it names the provider: {ran:?}");
}

/// The blocks come from malloc all the same, each once.
#[test]
fn operator_new_within_the_executable() {
    let Some(program) = compile::cpp("own_new.cpp") else {
        return;
    };
    let recording = record::<&str>(&program, &[]);
    assert_eq!(recording.ran.code, Some(8), "{:?}", recording.ran);
    let count = recording.ran.json_lines().remove(0);
    let seen = recording.info_between("own begin", "own end");
    tally::assert_equal(&count, &seen);
    assert_eq!(
        tally::calls_of(&seen, "malloc"),
        number(&count, "allocations"),
        "{seen}"
    );
    assert_sound(&recording.info());
}

/// Refused before it is started: nothing of its own is printed.
#[track_caller]
fn assert_refused(program: &Path, word: &str) {
    let recording = record::<&str>(program, &[]);
    let ran = &recording.ran;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert_eq!(ran.stdout, "", "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    assert!(
        ran.stderr.starts_with("heapreel: ") && ran.stderr.contains(word),
        "{ran:?}"
    );
    assert!(recording.scratch.traces().is_empty());
}

#[test]
fn a_statically_linked_program() {
    let Some(program) = compile::c_with("hello.c", &["-static"]) else {
        return;
    };
    assert_refused(&program, "static");
}

#[test]
fn a_setuid_program() {
    let Some(program) = compile::c("hello.c") else {
        return;
    };
    let scratch = Scratch::new();
    let copy = scratch.join("hello");
    std::fs::copy(&program, &copy).expect("a copy");
    if chown(&copy, Some(65534), None).is_err() {
        return compile::skipped("only root can give a file to another user");
    }
    std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o4755)).expect("the mode is set");
    assert_refused(&copy, "set-user-ID");
}
