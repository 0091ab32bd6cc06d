//! What is asked about a module and what is answered.

use std::fmt;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

/// One module as the trace describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleFile<'a> {
    /// Its path as the loader knew it.
    pub path: &'a str,
    /// GNU build-id; empty where the module has none, and then no file can be verified.
    pub build_id: &'a [u8],
}

/// One function at an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResolvedFrame {
    /// Its name, demangled and in full; [`super::short_name`] shortens it for tables.
    pub function: String,
    /// Path of the source file as the compiler saw it.
    pub file: Option<String>,
    /// Line from 1: of the call for all but the first frame, which has the line of
    /// the address itself.
    pub line: Option<u32>,
}

/// Where to look for files and for how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// Further folders with binaries or debug files. Files directly in them are found
    /// by build-id under any name.
    pub search: Vec<PathBuf>,
    /// Roots of separate debug files, `/usr/lib/debug` by default.
    pub debug_roots: Vec<PathBuf>,
    /// After this instant no further address is begun. Opening a module is one step
    /// that is not interrupted: with a very large one the end comes that much later.
    pub deadline: Option<Instant>,
    /// When recording ended. A file that was changed later and has no build-id to
    /// vouch for it is not used. `None` trusts it.
    pub recorded_until: Option<SystemTime>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            search: Vec::new(),
            debug_roots: vec![PathBuf::from("/usr/lib/debug")],
            deadline: None,
            recorded_until: None,
        }
    }
}

/// The names of one module's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedModule {
    /// One entry for each address asked for, in the same order: the innermost inlined
    /// function first, the real function last; empty where nothing is known.
    pub frames: Vec<Vec<ResolvedFrame>>,
    /// Where the names came from, or why there are none.
    pub outcome: ModuleOutcome,
    /// Addresses that were not looked up because the deadline had passed.
    pub skipped: usize,
}

/// Why no file was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoFileReason {
    /// The kernel's own code in every process (`linux-vdso.so.1`).
    Vdso,
    /// Memory that never was a file: `[anon]`, `/memfd:…`, an empty name.
    Anonymous,
    /// The file had been deleted or replaced when it was recorded.
    Deleted,
    /// It is not there any more.
    Missing,
}

/// Where a module's names came from, or why there are none.
///
/// `verified` says that the file has the trace's build-id; where it is false, the trace
/// has none and the file of that path was taken on trust.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModuleOutcome {
    /// Names from debug information.
    Resolved {
        /// The module's file, or its debug file where only that was found.
        file: PathBuf,
        /// The separate debug file.
        debug_file: Option<PathBuf>,
        /// Source lines were found, not only functions.
        has_lines: bool,
        /// The build-id was compared.
        verified: bool,
    },
    /// Names from symbol tables only: no inlined functions, no lines.
    SymbolTableOnly {
        /// The module's file.
        file: PathBuf,
        /// The separate debug file, if one gave symbols.
        debug_file: Option<PathBuf>,
        /// The file is stripped: only what it exports has a name.
        exported_only: bool,
        /// Why debug information that is there could not be used.
        damage: Option<String>,
        /// The build-id was compared.
        verified: bool,
    },
    /// A stripped file without any names: functions are told apart by their start.
    StartsOnly {
        /// The module's file.
        file: PathBuf,
        /// The build-id was compared.
        verified: bool,
    },
    /// There is no file to look into.
    NoFile {
        /// Why.
        reason: NoFileReason,
    },
    /// The file is another build than the one that was recorded; it was not used.
    BuildIdDiffers {
        /// The file.
        file: PathBuf,
        /// Build-id in the trace.
        expected: Vec<u8>,
        /// Build-id of the file; empty if it has none.
        found: Vec<u8>,
    },
    /// The trace has no build-id for it and the file was changed after the recording;
    /// it was not used.
    ChangedSince {
        /// The file.
        file: PathBuf,
    },
    /// The file is there and could not be read.
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why, as a lowercase fragment.
        cause: String,
    },
}

impl ModuleOutcome {
    /// Names are missing or incomplete; the text of `Display` then says why.
    pub fn is_incomplete(&self) -> bool {
        !matches!(
            self,
            ModuleOutcome::Resolved {
                has_lines: true,
                verified: true,
                ..
            }
        )
    }
}

impl fmt::Display for ModuleOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModuleOutcome::Resolved {
                file,
                debug_file,
                has_lines,
                verified,
            } => {
                write!(f, "names from {:?}", debug_file.as_ref().unwrap_or(file))?;
                if !has_lines {
                    f.write_str(", which has no lines")?;
                }
                write_trust(f, *verified)
            }
            ModuleOutcome::SymbolTableOnly {
                file,
                debug_file,
                exported_only,
                damage,
                verified,
            } => {
                let source = debug_file.as_ref().unwrap_or(file);
                match damage {
                    Some(cause) => write!(f, "{source:?} has damaged debug information ({cause})")?,
                    None if *exported_only => {
                        write!(f, "{source:?} is stripped: only exported names")?
                    }
                    None => write!(
                        f,
                        "{source:?} has no debug information: names without lines"
                    )?,
                }
                write_trust(f, *verified)
            }
            ModuleOutcome::StartsOnly { file, verified } => {
                write!(f, "{file:?} is stripped: no names")?;
                write_trust(f, *verified)
            }
            ModuleOutcome::NoFile { reason } => f.write_str(match reason {
                NoFileReason::Vdso => "code of the kernel, not a file",
                NoFileReason::Anonymous => "memory, not a file",
                NoFileReason::Deleted => "deleted or replaced while it was in use",
                NoFileReason::Missing => "the file is not there any more",
            }),
            ModuleOutcome::BuildIdDiffers {
                file,
                expected,
                found,
            } => write!(
                f,
                "{file:?} is another build than the one recorded (build-id {}, recorded {})",
                Hex(found),
                Hex(expected)
            ),
            ModuleOutcome::ChangedSince { file } => {
                write!(
                    f,
                    "{file:?} has no build-id and was changed after the recording"
                )
            }
            ModuleOutcome::Unreadable { file, cause } => write!(f, "{file:?}: {cause}"),
        }
    }
}

fn write_trust(f: &mut fmt::Formatter<'_>, verified: bool) -> fmt::Result {
    f.write_str(if verified {
        ""
    } else {
        " (not verified: recorded without a build-id)"
    })
}

/// A build-id as tools print it.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
