//! Scripts: which program reads them.

use super::find::find;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The kernel looks at no more of a script's first line.
const FIRST_LINE_BYTES: usize = 256;

/// A script's first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The program named there.
    pub interpreter: PathBuf,
    /// What follows it, as the one argument that the kernel makes of it.
    pub argument: Option<OsString>,
}

impl Script {
    /// The file of the program that reads the script; behind `env` the one that env starts.
    pub fn program(&self) -> Option<PathBuf> {
        if self.interpreter.file_name() != Some(OsStr::new("env")) {
            return Some(self.interpreter.clone());
        }
        let argument = self.argument.as_ref()?.to_string_lossy().into_owned();
        let name = argument
            .split_whitespace()
            .find(|word| !word.starts_with('-') && !word.contains('='))?;
        find(OsStr::new(name), std::env::var_os("PATH").as_deref()).ok()
    }
}

/// Reads `#! interpreter argument`.
pub fn parse(bytes: &[u8]) -> Option<Script> {
    let line = bytes.strip_prefix(b"#!")?;
    let line = &line[..line.len().min(FIRST_LINE_BYTES)];
    let line = line.split(|byte| *byte == b'\n').next()?.trim_ascii();
    let split = line.iter().position(|byte| matches!(byte, b' ' | b'\t'));
    let (interpreter, argument) = line.split_at(split.unwrap_or(line.len()));
    if interpreter.is_empty() {
        return None;
    }
    let argument = argument.trim_ascii();
    Some(Script {
        interpreter: Path::new(OsStr::from_bytes(interpreter)).to_owned(),
        argument: (!argument.is_empty()).then(|| OsStr::from_bytes(argument).to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_are_read_as_the_kernel_does() {
        let script = parse(b"#! /bin/sh -e -u\necho").unwrap();
        assert_eq!(script.interpreter, Path::new("/bin/sh"));
        assert_eq!(script.argument, Some("-e -u".into()));
        let script = parse(b"#!/bin/sh").unwrap();
        assert_eq!(script.argument, None);
        assert_eq!(parse(b"#!\n"), None);
        assert_eq!(parse(b"\x7fELF"), None);
    }

    #[test]
    fn env_leads_to_what_it_starts() {
        let script = parse(b"#!/usr/bin/env -S A=b sh -e\n").unwrap();
        let program = script.program().unwrap();
        assert_eq!(program.file_name(), Some(OsStr::new("sh")));
    }
}
