//! What traces are called.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Longest part of a program's name that goes into a trace's name, in bytes.
const NAME_BYTES: usize = 64;
/// A name that is taken gets a number; more than this many are never tried.
const NUMBERS: u32 = 10_000;

/// Why no trace can be written as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NamingError {
    /// The file is there already.
    #[error("{path}: exists already; choose another name or add --force", path = .0.display())]
    Exists(PathBuf),
    /// A folder has this name.
    #[error("{path}: is a folder; name a file in it", path = .0.display())]
    IsFolder(PathBuf),
    /// The folder to write into is not there.
    #[error("{path}: there is no such folder; make it first", path = .0.display())]
    NoFolder(PathBuf),
}

/// How traces are named: `-o FILE`, `-o PATTERN`, or neither.
#[derive(Clone, Debug)]
pub struct Naming {
    folder: PathBuf,
    /// Of the name or pattern.
    stem: String,
    extension: String,
    /// The main trace is to have this very name in the end.
    main: Option<PathBuf>,
    is_pattern: bool,
    start_unix: u64,
}

impl Naming {
    /// Names for `output` as given behind `-o`, for a recording that starts `start_unix`
    /// seconds after 1970.
    ///
    /// # Errors
    ///
    /// [`NamingError`]; a file that exists is accepted with `force`.
    pub fn new(output: Option<&Path>, force: bool, start_unix: u64) -> Result<Naming, NamingError> {
        let Some(output) = output else {
            return Ok(Naming {
                folder: PathBuf::new(),
                stem: "heapreel".to_owned(),
                extension: "hreel".to_owned(),
                main: None,
                is_pattern: false,
                start_unix,
            });
        };
        let text = |part: Option<&std::ffi::OsStr>| {
            part.map(|p| p.to_string_lossy().into_owned())
                .unwrap_or_default()
        };
        let name = text(output.file_name());
        let is_pattern = ["%p", "%e", "%t"].iter().any(|p| name.contains(p));
        let folder = output.parent().map(Path::to_owned).unwrap_or_default();
        if output.is_dir() || name.is_empty() {
            return Err(NamingError::IsFolder(output.to_owned()));
        }
        if !folder.as_os_str().is_empty() && !folder.is_dir() {
            return Err(NamingError::NoFolder(folder));
        }
        if !is_pattern && !force && output.symlink_metadata().is_ok() {
            return Err(NamingError::Exists(output.to_owned()));
        }
        let extension = text(output.extension());
        let stem = if extension.is_empty() {
            name
        } else {
            text(output.file_stem())
        };
        Ok(Naming {
            folder,
            stem,
            extension,
            main: (!is_pattern).then(|| output.to_owned()),
            is_pattern,
            start_unix,
        })
    }

    /// Where traces go.
    pub fn folder(&self) -> &Path {
        if self.folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            &self.folder
        }
    }

    /// The name that the main trace is to have; `None` where names come from a pattern
    /// or were not chosen.
    pub fn main(&self) -> Option<&Path> {
        self.main.as_deref()
    }

    /// Creates the file for a process's trace; never opens one that is there.
    ///
    /// The first process (`is_root`) gets the main trace's name if it is free: most
    /// recordings have no other, and then the name is right from the start.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn create(&self, pid: u32, program: &str, is_root: bool) -> io::Result<(PathBuf, File)> {
        if let Some(main) = self.main.as_ref().filter(|_| is_root)
            && let Ok(file) = create_new(main)
        {
            return Ok((main.clone(), file));
        }
        for number in 1..NUMBERS {
            let path = self.path(pid, program, number);
            match create_new(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(file) => return Ok((path, file)),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// A name that is not taken, for a trace that has to make way.
    pub fn free(&self, pid: u32, program: &str) -> Option<PathBuf> {
        (1..NUMBERS)
            .map(|number| self.path(pid, program, number))
            .find(|path| path.symlink_metadata().is_err())
    }

    fn path(&self, pid: u32, program: &str, number: u32) -> PathBuf {
        let program = plain(program);
        let mut name = if self.is_pattern {
            expand(&self.stem, pid, &program, self.start_unix)
        } else {
            format!("{}.{pid}.{program}", self.stem)
        };
        if number > 1 {
            name.push_str(&format!(".{number}"));
        }
        let extension = expand(&self.extension, pid, &program, self.start_unix);
        if !extension.is_empty() {
            name = format!("{name}.{extension}");
        }
        self.folder.join(name)
    }
}

fn create_new(path: &Path) -> io::Result<File> {
    File::options().append(true).create_new(true).open(path)
}

fn expand(pattern: &str, pid: u32, program: &str, start_unix: u64) -> String {
    let mut text = String::new();
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        match (c, rest.as_str().chars().next()) {
            ('%', Some('p')) => text.push_str(&pid.to_string()),
            ('%', Some('e')) => text.push_str(program),
            ('%', Some('t')) => text.push_str(&start_unix.to_string()),
            ('%', Some('%')) => text.push('%'),
            _ => {
                text.push(c);
                continue;
            }
        }
        rest.next();
    }
    text
}

/// A program's name as part of a file's name.
pub fn plain(program: &str) -> String {
    let program = program.strip_suffix(" (deleted)").unwrap_or(program);
    let name = program.rsplit('/').next().unwrap_or_default();
    let mut plain = String::new();
    for c in name.chars() {
        let c = if c.is_control() || c.is_whitespace() {
            '_'
        } else {
            c
        };
        if plain.len() + c.len_utf8() > NAME_BYTES {
            break;
        }
        plain.push(c);
    }
    if plain.is_empty() {
        "unknown".to_owned()
    } else {
        plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naming(folder: &Path, name: &str) -> Naming {
        Naming::new(Some(&folder.join(name)), false, 1_700_000_000).unwrap()
    }

    fn name(path: &Path) -> &str {
        path.file_name().unwrap().to_str().unwrap()
    }

    #[test]
    fn the_first_process_gets_the_name_and_others_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let naming = naming(folder.path(), "run.hreel");
        let (path, _) = naming.create(7, "/bin/sh", true).unwrap();
        assert_eq!(name(&path), "run.hreel");
        let (path, _) = naming.create(8, "/opt/My Game (deleted)", false).unwrap();
        assert_eq!(name(&path), "run.8.My_Game.hreel");
        // The same process after an exec, while the name is still taken.
        let (path, _) = naming.create(7, "/opt/game", true).unwrap();
        assert_eq!(name(&path), "run.7.game.hreel");
    }

    #[test]
    fn without_a_name_all_are_alike() {
        let naming = Naming::new(None, false, 0).unwrap();
        assert_eq!(naming.main(), None);
        assert_eq!(
            naming.path(7, "/bin/sh", 1),
            Path::new("heapreel.7.sh.hreel")
        );
    }

    #[test]
    fn patterns_are_filled_in_and_never_overwrite() {
        let folder = tempfile::tempdir().unwrap();
        let naming = naming(folder.path(), "%e-%t-%p-100%%.hreel");
        let (path, _) = naming.create(7, "/bin/game", true).unwrap();
        assert_eq!(name(&path), "game-1700000000-7-100%.hreel");
        let (path, _) = naming.create(7, "/bin/game", true).unwrap();
        assert_eq!(name(&path), "game-1700000000-7-100%.2.hreel");
    }

    #[test]
    fn what_is_there_is_refused_beforehand() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("old.hreel");
        std::fs::write(&file, "old").unwrap();
        let refused = |path: &Path, force| Naming::new(Some(path), force, 0).err();
        assert!(matches!(
            refused(&file, false),
            Some(NamingError::Exists(_))
        ));
        assert!(refused(&file, true).is_none());
        assert!(matches!(
            refused(folder.path(), true),
            Some(NamingError::IsFolder(_))
        ));
        let nowhere = folder.path().join("none/run.hreel");
        assert!(matches!(
            refused(&nowhere, true),
            Some(NamingError::NoFolder(_))
        ));
    }

    #[test]
    fn an_old_file_is_kept_until_the_end_even_when_forced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("old.hreel");
        std::fs::write(&file, "old").unwrap();
        let naming = Naming::new(Some(&file), true, 0).unwrap();
        let (path, _) = naming.create(7, "game", true).unwrap();
        assert_eq!(name(&path), "old.7.game.hreel");
        assert_eq!(std::fs::read(&file).unwrap(), b"old");
    }
}
