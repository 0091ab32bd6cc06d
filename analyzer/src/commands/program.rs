//! Finding the program that a command line names, for `record` and `doctor`.

use crate::exit_code;
use crate::failure::Failure;
use crate::inspect::{Kind, NotRunnable, Program, find};
use std::ffi::OsStr;
use std::path::PathBuf;

/// The file behind a command's first word.
///
/// # Errors
///
/// One line, with the exit code that shells use: 127 not found, 126 not executable.
pub fn locate(command: &OsStr) -> anyhow::Result<PathBuf> {
    let name = command.to_string_lossy();
    find(command, std::env::var_os("PATH").as_deref()).map_err(|why| match why {
        NotRunnable::NotFound if name.contains('/') => {
            Failure::error(exit_code::NOT_FOUND, format!("{name}: no such file"))
        }
        NotRunnable::NotFound => Failure::error(
            exit_code::NOT_FOUND,
            format!("{name}: not found in PATH; for a file here write ./{name}"),
        ),
        NotRunnable::NotExecutable(path) => Failure::error(
            exit_code::CANNOT_EXECUTE,
            format!("{0}: is not executable; chmod +x {0}", path.display()),
        ),
        NotRunnable::Folder(path) => Failure::error(
            exit_code::CANNOT_EXECUTE,
            format!("{}: is a folder; name the program in it", path.display()),
        ),
    })
}

/// Files that no kernel would run, as traces and empty files.
///
/// # Errors
///
/// One line, exit code 126.
pub fn refuse_what_cannot_run(program: &Program) -> anyhow::Result<()> {
    let runs = match program.kind {
        Kind::Elf(_) | Kind::Script(_) => true,
        Kind::Unknown => is_text(&program.path),
    };
    if runs {
        return Ok(());
    }
    let message = format!("{}: is no program of this system", program.path.display());
    Err(Failure::error(exit_code::CANNOT_EXECUTE, message))
}

/// Shells read a text without `#!` as a script, and so do we.
fn is_text(path: &std::path::Path) -> bool {
    use std::io::Read;
    let mut first = [0u8; 256];
    let length = std::fs::File::open(path)
        .and_then(|mut file| file.read(&mut first))
        .unwrap_or(0);
    length > 0 && !first[..length].contains(&0)
}
