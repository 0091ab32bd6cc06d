//! What can be said of a program before it runs: what kind of file it is, and what
//! of its memory a recorder that is loaded beside it will see.

mod allocator;
mod elf;
mod find;
mod privilege;
mod prologues;
mod script;

pub use allocator::{OwnAllocator, known_by_library};
pub use elf::Elf;
#[cfg(test)]
pub use elf::FrameCalls;
pub use find::{NotRunnable, find};
pub use privilege::Privilege;
pub use script::Script;

use std::io;
use std::path::{Path, PathBuf};

/// What the kernel would do with a file that is executed.
#[derive(Debug)]
pub enum Kind {
    /// It is machine code.
    Elf(Box<Elf>),
    /// Another program reads it.
    Script(Script),
    /// No format of Linux's; shells read such files as scripts of theirs.
    Unknown,
}

/// A program as it lies on disk.
#[derive(Debug)]
pub struct Program {
    /// Its file.
    pub path: PathBuf,
    /// What kind of file that is.
    pub kind: Kind,
    /// Rights that it gains when it starts, which make the loader ignore LD_PRELOAD.
    pub privilege: Option<Privilege>,
}

impl Program {
    /// Looks at the file at `path` without running it.
    ///
    /// # Errors
    ///
    /// The operating system's, where it cannot be read.
    pub fn inspect(path: &Path) -> io::Result<Program> {
        let file = std::fs::File::open(path)?;
        let privilege = privilege::of(&file);
        let bytes = Contents::of(&file)?;
        let bytes = bytes.as_ref();
        let kind = if bytes.starts_with(b"#!") {
            script::parse(bytes).map_or(Kind::Unknown, Kind::Script)
        } else if bytes.starts_with(b"\x7fELF") {
            Kind::Elf(Box::new(elf::inspect(bytes)))
        } else {
            Kind::Unknown
        };
        Ok(Program {
            path: path.to_owned(),
            kind,
            privilege,
        })
    }

    /// The program that runs in the end: a script's interpreter, its interpreter's, …
    ///
    /// `None` where this one is not a script, or its interpreter cannot be read.
    pub fn interpreter(&self) -> Option<Program> {
        // The kernel follows at most five.
        let mut last = self.next_interpreter()?;
        for _ in 0..4 {
            match last.next_interpreter() {
                Some(next) => last = next,
                None => break,
            }
        }
        Some(last)
    }

    fn next_interpreter(&self) -> Option<Program> {
        let path = match &self.kind {
            Kind::Script(script) => script.program()?,
            Kind::Unknown => PathBuf::from("/bin/sh"),
            Kind::Elf(_) => return None,
        };
        Program::inspect(&path).ok()
    }
}

/// A file's bytes: mapped where possible, so that a game of gigabytes costs nothing.
enum Contents {
    Mapped(memmap2::Mmap),
    Read(Vec<u8>),
}

impl Contents {
    fn of(file: &std::fs::File) -> io::Result<Contents> {
        #[expect(unsafe_code, reason = "mapping a file needs it")]
        // SAFETY: the bytes are only read, never held beyond `inspect`. A program
        // file that somebody truncates in that moment ends this process with
        // SIGBUS, before anything was started; linkers replace files instead.
        let mapped = unsafe { memmap2::Mmap::map(file) };
        match mapped {
            Ok(map) => Ok(Contents::Mapped(map)),
            Err(_) => {
                let mut bytes = Vec::new();
                io::Read::read_to_end(&mut io::BufReader::new(file), &mut bytes)?;
                Ok(Contents::Read(bytes))
            }
        }
    }
}

impl AsRef<[u8]> for Contents {
    fn as_ref(&self) -> &[u8] {
        match self {
            Contents::Mapped(map) => map,
            Contents::Read(bytes) => bytes,
        }
    }
}
