//! What can go wrong with a whole file. Damage to a part of one is no error but
//! [`Health`](crate::Health).

use crate::header::{FORMAT_VERSION, FormatVersion};
use std::io;

/// Why a file cannot be read at all. Messages are fragments to be put behind the
/// file's name; each tells what to do where something can be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system refused.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The path is a folder.
    #[error("is a folder; name the .hreel file in it")]
    Folder,
    /// Zero bytes.
    #[error("is empty; the recording did not begin")]
    Empty,
    /// The magic is missing.
    #[error("is not a heapreel trace")]
    NotATrace,
    /// A later or impossible version.
    #[error("has trace format version {file}, this heapreel reads up to version {reader}; {}", version_advice(*file))]
    Version {
        /// The file's version.
        file: FormatVersion,
        /// The reader's version.
        reader: FormatVersion,
    },
    /// The file ends within its header.
    #[error("ends after {length} bytes, within its header; no event can be read")]
    HeaderCut {
        /// The file's length in bytes.
        length: u64,
    },
    /// The header's checksum or contents are wrong.
    #[error("has a damaged header; no event can be read")]
    HeaderDamaged,
    /// One chunk's checksum or contents are wrong.
    #[error("has a damaged chunk at byte {offset}")]
    ChunkDamaged {
        /// Where the chunk begins.
        offset: u64,
    },
}

fn version_advice(file: FormatVersion) -> &'static str {
    if file > FORMAT_VERSION {
        "install a newer heapreel"
    } else {
        "the file is damaged"
    }
}

/// Why a trace could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The operating system refused.
    #[error("cannot be written: {0}")]
    Io(#[from] io::Error),
    /// A value too large for its field.
    #[error("a record is too large for the format")]
    TooLarge,
}

impl WriteError {
    /// The file was removed while it was written: nobody will ever read it.
    pub fn file_is_gone(&self) -> bool {
        matches!(self, WriteError::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}
