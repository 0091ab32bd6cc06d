//! Programs that bring their own allocator: recorded where their calls can be seen, and
//! told so in one clear line where they cannot.

mod support;

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use support::record::{Recording, assert_sound, record};
use support::run::plain;
use support::scratch::Scratch;
use support::undisturbed::{assert_undisturbed, assert_undisturbed_and_sound};
use support::{compile, number, tally};

/// Debian's names; other distributions keep the libraries elsewhere.
const LIBRARY_FOLDERS: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
];

fn installed(library: &str, package: &str) -> Option<PathBuf> {
    let paths = LIBRARY_FOLDERS.map(|folder| Path::new(folder).join(library));
    let found = paths.into_iter().find(|path| path.exists());
    if found.is_none() {
        compile::skipped(&format!("{library} is not installed (Debian: {package})"));
    }
    found
}

/// The tally of tally.c with another malloc below: the preload library stands in front of
/// it, and the counts are as exact as with glibc's.
fn assert_exact_over(library: &str, package: &str) {
    let Some(installed) = installed(library, package) else {
        return;
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

/// The whole allocator within the executable, which hands its malloc to every library: one
/// line says that nothing is seen, and the program is as it was.
fn assert_told_of_static(library: &str, package: &str) {
    let Some(archive) = installed(library, package) else {
        return;
    };
    let archive = archive.display().to_string();
    let flags = [
        "-Wl,--whole-archive",
        &archive,
        "-Wl,--no-whole-archive",
        "-lm",
        "-lstdc++",
    ];
    let Some(program) = compile::c_with("game.c", &flags) else {
        return;
    };
    let recording = assert_undisturbed(&program, &["6", "100", "own"]);
    assert_named_as_provider(&recording, &program);
}

#[test]
fn jemalloc_within_the_executable() {
    assert_told_of_static("libjemalloc.a", "libjemalloc-dev");
}

#[test]
fn mimalloc_within_the_executable() {
    assert_told_of_static("libmimalloc.a", "none; build it from source");
}

#[test]
fn malloc_within_the_executable() {
    let Some(program) = compile::c("own_malloc.c") else {
        return;
    };
    let recording = assert_undisturbed(&program, &[]);
    assert_named_as_provider(&recording, &program);
}

/// As browsers start their processes: by /proc/self/exe.
#[test]
fn malloc_within_an_executable_started_by_a_link() {
    let Some(program) = compile::c("own_malloc.c") else {
        return;
    };
    let scratch = Scratch::new();
    let link = scratch.join("link");
    std::os::unix::fs::symlink(&program, &link).expect("a link");
    let recording = assert_undisturbed(&link, &[]);
    assert_named_as_provider(&recording, &program);
}

#[track_caller]
fn assert_named_as_provider(recording: &Recording, program: &Path) {
    let ran = &recording.ran;
    let name = program.file_name().expect("a name").to_string_lossy();
    let lines = ran.stderr.lines().filter(|line| line.contains("malloc,"));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 1, "one line says why nothing is seen: {ran:?}");
    assert!(lines[0].contains(&*name), "it names the provider: {ran:?}");
}

/// Its own calls go nowhere where they could be seen; what the C library asks for by itself
/// is seen, and is not all.
#[track_caller]
fn assert_told_of_hidden(flags: &[&str], word: &str) {
    let Some(program) = compile::c_with("own_malloc.c", flags) else {
        return;
    };
    let recording = assert_undisturbed_and_sound(&program, &[]);
    let said = recording.ran.stderr.lines();
    let said: Vec<&str> = said
        .filter(|line| line.contains("not in the trace"))
        .collect();
    assert_eq!(said.len(), 1, "{:?}", recording.ran);
    assert!(said[0].contains(word), "{said:?}");
}

#[test]
fn a_hidden_malloc_within_the_executable() {
    assert_told_of_hidden(&["-fvisibility=hidden"], "linked into the program");
}

#[test]
fn a_hidden_malloc_within_an_executable_without_names() {
    assert_told_of_hidden(&["-fvisibility=hidden", "-s"], "asks no library for memory");
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
    compile::copy(&program, &copy);
    if chown(&copy, Some(65534), None).is_err() {
        return compile::skipped("only root can give a file to another user");
    }
    std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o4755)).expect("the mode is set");
    assert_refused(&copy, "set-user-ID");
}
