//! `.eh_frame_hdr` and `.eh_frame`, read from a loaded module.
//!
//! Nothing here trusts the bytes: all reads are checked against the segment
//! they lie in, and every loop ends with its input. The formats are those of
//! the Linux Standard Base, "Exception Frames", and DWARF 5, section 6.4.

mod entry;
mod reader;
mod table;

pub(super) use entry::{Entry, entry_at};
#[cfg(test)]
pub(super) use reader::Encoding;
pub(super) use reader::{Reader, Section};
pub(super) use table::find_entry;
