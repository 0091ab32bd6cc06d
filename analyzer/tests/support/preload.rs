//! The recorder's library, for programs that run without a wrapper.

use super::record::heapreel;
use super::run::run;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Its path: the one that was named, or else where the program under test has put the one
/// that it carries.
pub fn library() -> PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(find).clone()
}

fn find() -> PathBuf {
    if let Some(named) = std::env::var_os("HEAPREEL_PRELOAD_LIB").filter(|v| !v.is_empty()) {
        return PathBuf::from(named);
    }
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    written_to(&cache.join("heapreel"), |command| {
        command.env("XDG_CACHE_HOME", &cache)
    })
    .expect("the library in the cache")
}

/// The library that recording a program leaves in `folder`, in an environment that `set`
/// completes; the newest, where older builds left theirs.
pub fn written_to(
    folder: &Path,
    set: impl FnOnce(&mut std::process::Command) -> &mut std::process::Command,
) -> Option<PathBuf> {
    let scratch = super::scratch::Scratch::new();
    let mut command = heapreel();
    command
        .args(["record", "--no-symbols", "-o"])
        .arg(scratch.join("t.hreel"))
        .args(["--", "/bin/sh", "-c", ":"]);
    let ran = run(set(&mut command));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let libraries = entries.filter(|e| e.path().extension().is_some_and(|e| e == "so"));
    let newest = libraries.max_by_key(|entry| entry.metadata().and_then(|m| m.modified()).ok());
    newest.map(|entry| entry.path())
}
