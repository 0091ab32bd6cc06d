//! Builds the programs in `tests/programs`, each once for its content and flags.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// `-fno-builtin`: the compiler may otherwise remove calls of malloc that it sees through.
const C_FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O2",
    "-g",
    "-Wall",
    "-Wextra",
    "-fno-builtin",
    "-pthread",
];
const CPP_FLAGS: &[&str] = &[
    "-std=c++17",
    "-O2",
    "-g",
    "-Wall",
    "-Wextra",
    "-fno-builtin",
    "-pthread",
];
const RUST_FLAGS: &[&str] = &["--edition", "2024", "-O", "-g"];

/// A C program, or `None` with a line that says why it is skipped.
pub fn c(source: &str) -> Option<PathBuf> {
    c_with(source, &[])
}

/// As [`c`], with more flags and libraries.
pub fn c_with(source: &str, flags: &[&str]) -> Option<PathBuf> {
    build("cc", "no C compiler", source, C_FLAGS, flags)
}

/// A C++ program, or `None` with a line that says why it is skipped.
pub fn cpp(source: &str) -> Option<PathBuf> {
    build("c++", "no C++ compiler", source, CPP_FLAGS, &[])
}

/// A Rust program in a folder of its own, built by plain rustc.
pub fn rust(folder: &str) -> Option<PathBuf> {
    build(
        "rustc",
        "no rustc in the PATH",
        &format!("{folder}/main.rs"),
        RUST_FLAGS,
        &[],
    )
}

/// An example of the recorder's, built by cargo like this test was.
///
/// A test of the whole workspace has built it already; then this only looks.
pub fn example(name: &str) -> PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_heapreel"));
    let profile = binary.parent().expect("a folder of the profile");
    let target = profile.parent().expect("a target directory");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "build",
        "--quiet",
        "--package",
        "heapreel",
        "--example",
        name,
    ]);
    cargo
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let output = cargo.output().expect("cargo runs");
    assert!(
        output.status.success(),
        "{cargo:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    profile.join("examples").join(name)
}

/// Where the sources are.
pub fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

/// Copies a file that is to be executed.
///
/// By a process of its own: while this one holds the copy open for writing, a child that
/// another thread starts just then inherits it, and nobody may execute it (ETXTBSY).
pub fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg(from).arg(to).status();
    assert!(
        status.expect("cp runs").success(),
        "{} is not copied",
        from.display()
    );
}

/// Says on stderr that a test was left out, and why.
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

fn build(
    compiler: &str,
    missing: &str,
    source: &str,
    flags: &[&str],
    more: &[&str],
) -> Option<PathBuf> {
    if Command::new(compiler).arg("--version").output().is_err() {
        skipped(missing);
        return None;
    }
    let path = programs().join(source);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
    std::fs::create_dir_all(&folder).expect("a folder in the target directory");
    let name = source.trim_end_matches("/main.rs").replace(['.', '/'], "_");
    let program = folder.join(format!(
        "{name}-{:016x}",
        content_hash(&path, compiler, flags, more)
    ));
    if !program.exists() {
        compile(
            Command::new(compiler).args(flags).arg(&path),
            more,
            &program,
        );
    }
    Some(program)
}

/// Other tests may build the same program now, so it appears in one step.
fn compile(command: &mut Command, more: &[&str], program: &Path) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let unfinished = program.with_extension(format!("{}-{number}", std::process::id()));
    let output = command
        .arg("-o")
        .arg(&unfinished)
        .args(more)
        .output()
        .expect("the compiler runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed:\n{text}");
    std::fs::rename(&unfinished, program).expect("the finished program gets its name");
}

/// Of the source, everything it may include, and the command line.
fn content_hash(source: &Path, compiler: &str, flags: &[&str], more: &[&str]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (compiler, flags, more).hash(&mut hasher);
    read(source).hash(&mut hasher);
    for other in ["examples/tally/game.rs", "include/heapreel.h"] {
        read(&programs().join("../../../recorder").join(other)).hash(&mut hasher);
    }
    let entries = std::fs::read_dir(programs()).expect("the folder of programs");
    let paths = entries.map(|entry| entry.expect("a folder's entry").path());
    let mut headers: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|e| e == "h"))
        .collect();
    headers.sort();
    for header in headers {
        read(&header).hash(&mut hasher);
    }
    hasher.finish()
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
