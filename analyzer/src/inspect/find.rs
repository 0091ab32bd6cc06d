//! Finds the file that a command's first word means, as execvp does.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Why a command cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotRunnable {
    /// There is no such file.
    NotFound,
    /// There is one, and it may not be executed.
    NotExecutable(PathBuf),
    /// It is a folder.
    Folder(PathBuf),
}

/// The file that `command` means, looked for in `path` (the variable PATH) where it
/// names no folder.
///
/// # Errors
///
/// [`NotRunnable`] says what stands in the way.
pub fn find(command: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, NotRunnable> {
    if command.is_empty() {
        return Err(NotRunnable::NotFound);
    }
    if command.as_bytes().contains(&b'/') {
        return runnable(Path::new(command));
    }
    let path = path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    let mut refused = NotRunnable::NotFound;
    for folder in std::env::split_paths(path) {
        match runnable(&folder.join(command)) {
            Err(NotRunnable::NotExecutable(path)) => refused = NotRunnable::NotExecutable(path),
            Err(_) => {}
            found => return found,
        }
    }
    Err(refused)
}

fn runnable(path: &Path) -> Result<PathBuf, NotRunnable> {
    let facts = std::fs::metadata(path).map_err(|_| NotRunnable::NotFound)?;
    if facts.is_dir() {
        return Err(NotRunnable::Folder(path.to_owned()));
    }
    if facts.permissions().mode() & 0o111 == 0 {
        return Err(NotRunnable::NotExecutable(path.to_owned()));
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    fn file(folder: &Path, name: &str, mode: u32) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, "x").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn the_first_executable_in_the_path_wins() {
        let first = tempfile::tempdir().unwrap();
        let second = tempfile::tempdir().unwrap();
        file(first.path(), "game", 0o644);
        let game = file(second.path(), "game", 0o755);
        let path = std::env::join_paths([first.path(), second.path()]).unwrap();
        assert_eq!(find(OsStr::new("game"), Some(&path)), Ok(game));
    }

    #[test]
    fn what_stands_in_the_way_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let plain = file(folder.path(), "plain", 0o644);
        let path = folder.path().as_os_str();
        assert_eq!(
            find(OsStr::new("none"), Some(path)),
            Err(NotRunnable::NotFound)
        );
        let refused = Err(NotRunnable::NotExecutable(plain.clone()));
        assert_eq!(find(OsStr::new("plain"), Some(path)), refused);
        assert_eq!(find(plain.as_os_str(), None), refused);
        let itself = folder.path().to_owned();
        assert_eq!(find(path, None), Err(NotRunnable::Folder(itself)));
    }
}
