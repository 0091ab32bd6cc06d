//! Files that commands write.

use anyhow::{Context, bail};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

/// Refuses an output that is the input, or that exists and is not to be replaced.
///
/// # Errors
///
/// One line that says which.
pub fn refuse_to_overwrite(input: &Path, output: &Path, force: bool) -> anyhow::Result<()> {
    let name = output.display();
    let is_itself =
        output.exists() && fs::canonicalize(output).ok() == fs::canonicalize(input).ok();
    if is_itself {
        bail!("{name}: is the file to be read; name another one by -o");
    }
    if output.exists() && !force {
        bail!("{name}: exists already; choose another name by -o or add --force");
    }
    Ok(())
}

/// Writes a file that appears in one step: a disk that fills up leaves no half of one.
///
/// # Errors
///
/// What `write` or the operating system says.
pub fn write_whole<T>(
    output: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut name = output.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let unfinished = output.with_file_name(name);
    let written = write_to(&unfinished, write).and_then(|written| {
        fs::rename(&unfinished, output)?;
        Ok(written)
    });
    if written.is_err() {
        _ = fs::remove_file(&unfinished);
    }
    written.with_context(|| output.display().to_string())
}

fn write_to<T>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut sink = BufWriter::new(File::create(path)?);
    let written = write(&mut sink)?;
    sink.flush()?;
    Ok(written)
}
