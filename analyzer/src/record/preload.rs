//! Where the recorder that is loaded into programs comes from.
//!
//! In this order: `--preload-lib`, the variable `HEAPREEL_PRELOAD_LIB`, the file
//! `libheapreel_preload.so` beside this program, and the one that was built into it.
//! The last is written out once, to a path named after its content.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Its name beside this program.
pub const FILE_NAME: &str = "libheapreel_preload.so";

/// The library that the build script made; empty where there is none.
static EMBEDDED: &[u8] = include_bytes!(env!("HEAPREEL_EMBEDDED_PRELOAD"));

/// The game of `heapreel demo`, made likewise.
static SKIRMISH: &[u8] = include_bytes!(env!("HEAPREEL_EMBEDDED_SKIRMISH"));

/// Why there is no library to load.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PreloadError {
    /// The named file is not there.
    #[error("{path}: {source}; name the recorder's library, {FILE_NAME}", path = path.display())]
    Unreadable {
        /// The path that was named.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The loader takes a path apart at spaces and colons.
    #[error("{path}: the loader cannot take a path with a space or colon; copy it elsewhere", path = .0.display())]
    Unloadable(PathBuf),
    /// This program was built without it.
    #[error("this heapreel was built without the recorder's library; name it by --preload-lib")]
    NotEmbedded,
    /// No folder takes it.
    #[error("no folder takes the recorder's library ({0}); name one that does by XDG_CACHE_HOME")]
    NoPlace(io::Error),
}

/// The library's path. `beside` is a folder to write it to where all others refuse.
///
/// # Errors
///
/// [`PreloadError`].
pub fn library(named: Option<&Path>, beside: &Path) -> Result<PathBuf, PreloadError> {
    let variable = std::env::var_os("HEAPREEL_PRELOAD_LIB").map(PathBuf::from);
    let named = named.map(Path::to_owned);
    let named = named.or(variable.filter(|path| !path.as_os_str().is_empty()));
    if let Some(path) = named {
        return loadable(&path);
    }
    if let Some(path) = beside_this_program().filter(|path| serves(path)) {
        // A folder with a space in its name is none of the user's doing.
        if let Ok(path) = loadable(&path) {
            return Ok(path);
        }
        let bytes = fs::read(&path).map_err(|source| PreloadError::Unreadable { path, source })?;
        return written(&bytes, beside);
    }
    if EMBEDDED.is_empty() {
        return Err(PreloadError::NotEmbedded);
    }
    written(EMBEDDED, beside)
}

/// The demo's game as a program that can be run; `None` where it was not built in.
///
/// # Errors
///
/// [`PreloadError::NoPlace`].
pub fn skirmish(beside: &Path) -> Result<Option<PathBuf>, PreloadError> {
    if SKIRMISH.is_empty() {
        return Ok(None);
    }
    // Its name shows in traces, so only the folder is named after the content.
    let folder = format!("skirmish-{:016x}", content_hash(SKIRMISH));
    written_to_any(SKIRMISH, &folder, "skirmish", 0o755, beside).map(Some)
}

fn loadable(path: &Path) -> Result<PathBuf, PreloadError> {
    let unreadable = |source| PreloadError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let path = fs::canonicalize(path).map_err(unreadable)?;
    if splits(&path) {
        return Err(PreloadError::Unloadable(path));
    }
    Ok(path)
}

/// LD_PRELOAD is a list split at spaces and colons, and nothing quotes them.
fn splits(path: &Path) -> bool {
    let is_separator = |byte: &u8| matches!(byte, b':' | b' ' | b'\t' | b'\n');
    path.as_os_str().as_bytes().iter().any(is_separator)
}

fn beside_this_program() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let library = program.parent()?.join(FILE_NAME);
    // In cargo's own folder lies whatever was built last, perhaps of another day and
    // without optimisation; cargo puts a `.d` file beside what it builds.
    (EMBEDDED.is_empty() || !library.with_extension("d").exists()).then_some(library)
}

/// A file in a release folder serves. One that cargo has put beside this program is of
/// another profile, perhaps of another day, and the one built in is neither.
fn serves(path: &Path) -> bool {
    let is_cargos = path.with_extension("d").exists();
    path.is_file() && (EMBEDDED.is_empty() || !is_cargos)
}

/// Folders that may take the file, best first.
fn places(beside: &Path) -> Vec<PathBuf> {
    let variable = |name| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    // A home that does not exist, as services have it, is not made.
    let home = variable("HOME").filter(|home| home.is_dir());
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(home?.join(".cache")));
    let mut places = Vec::new();
    places.extend(cache.map(|cache| cache.join("heapreel")));
    places.extend(variable("XDG_RUNTIME_DIR").map(|runtime| runtime.join("heapreel")));
    // Shared by all users: a folder of this user's own, which others cannot write to.
    let user = rustix::process::getuid().as_raw();
    places.push(std::env::temp_dir().join(format!("heapreel-{user}")));
    places.extend(fs::canonicalize(beside));
    places
}

fn written(bytes: &[u8], beside: &Path) -> Result<PathBuf, PreloadError> {
    let name = format!("libheapreel_preload-{:016x}.so", content_hash(bytes));
    written_to_any(bytes, "", &name, 0o644, beside)
}

fn content_hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

fn written_to_any(
    bytes: &[u8],
    folder: &str,
    name: &str,
    mode: u32,
    beside: &Path,
) -> Result<PathBuf, PreloadError> {
    let mut refused = io::Error::from(io::ErrorKind::NotFound);
    for place in places(beside).into_iter().filter(|place| !splits(place)) {
        match write_to(&place.join(folder), name, bytes, mode) {
            Ok(path) => return Ok(path),
            Err(error) => refused = error,
        }
    }
    Err(PreloadError::NoPlace(refused))
}

/// The file in `place`: there already and whole, or written in one step.
fn write_to(place: &Path, name: &str, bytes: &[u8], mode: u32) -> io::Result<PathBuf> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(place)?;
    let owner = fs::metadata(place)?.uid();
    let user = rustix::process::geteuid().as_raw();
    if owner != user || !allows_exec(place)? {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let path = place.join(name);
    if fs::read(&path).is_ok_and(|there| there == bytes) {
        return Ok(path);
    }
    let unfinished = place.join(format!("{name}.{}", std::process::id()));
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(mode);
    let written = options
        .open(&unfinished)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&unfinished, &path));
    if written.is_err() {
        _ = fs::remove_file(&unfinished);
    }
    written.map(|()| path)
}

/// Whether programs and libraries may be loaded from there.
fn allows_exec(place: &Path) -> io::Result<bool> {
    let facts = rustix::fs::statvfs(place)?;
    Ok(!facts.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_once_and_mended_when_damaged() {
        let place = tempfile::tempdir().unwrap();
        let path = write_to(place.path(), "lib-1.so", b"content", 0o644).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"content");
        let first = fs::metadata(&path).unwrap();
        write_to(place.path(), "lib-1.so", b"content", 0o644).unwrap();
        let second = fs::metadata(&path).unwrap();
        use std::os::unix::fs::MetadataExt;
        assert_eq!(first.ino(), second.ino());
        fs::write(&path, b"cont").unwrap();
        write_to(place.path(), "lib-1.so", b"content", 0o644).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"content");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_library_that_cargo_left_there_does_not_serve() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(FILE_NAME);
        assert!(!serves(&path));
        fs::write(&path, "x").unwrap();
        assert!(serves(&path));
        fs::write(place.path().join("libheapreel_preload.d"), "x").unwrap();
        assert_eq!(serves(&path), EMBEDDED.is_empty());
    }

    #[test]
    fn paths_that_the_loader_would_split_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("my lib.so");
        fs::write(&path, "x").unwrap();
        assert!(matches!(loadable(&path), Err(PreloadError::Unloadable(_))));
        let missing = place.path().join("none.so");
        assert!(matches!(
            loadable(&missing),
            Err(PreloadError::Unreadable { .. })
        ));
    }

    #[test]
    fn a_place_below_a_file_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, "x").unwrap();
        assert!(write_to(&file.join("deeper"), "l.so", b"x", 0o644).is_err());
    }
}
