//! Definitions, of which a clip gets those that it needs.

use super::CLIP_MARK;
use crate::definition::{Definition, NameId, StackId};
use crate::error::WriteError;
use crate::varint;
use crate::writer::{TraceWriter, encode_definition};
use std::collections::{HashMap, HashSet};
use std::io::Write;

/// Definitions go into chunks of about this size.
const CHUNK_BYTES: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Store {
    /// Encoded, each with its length before it.
    stacks: HashMap<StackId, Box<[u8]>>,
    others: Vec<Box<[u8]>>,
    clip_names: HashMap<NameId, String>,
}

impl Store {
    /// Takes a chunk's payload; `None` where it makes no sense.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Option<()> {
        let mut at = 0;
        while at < bytes.len() {
            let length = usize::try_from(varint::read(bytes, &mut at)?).ok()?;
            let body = bytes.get(at..at.checked_add(length)?)?;
            at += length;
            let definition: Definition<'_> = postcard::from_bytes(body).ok()?;
            self.keep(&definition)?;
        }
        Some(())
    }

    fn keep(&mut self, definition: &Definition<'_>) -> Option<()> {
        let mut encoded = Vec::new();
        encode_definition(definition, &mut encoded).ok()?;
        match definition {
            Definition::Stack { id, .. } => {
                self.stacks.insert(*id, encoded.into());
                return Some(());
            }
            Definition::Name { id, text } => {
                if let Some(name) = text.strip_prefix(CLIP_MARK) {
                    self.clip_names.insert(*id, name.to_owned());
                }
            }
            // Of the whole recording: a clip's records count from its own beginning.
            Definition::ThreadTotals { .. } | Definition::Dropped { .. } => return Some(()),
            Definition::Module { .. }
            | Definition::Generation { .. }
            | Definition::Thread { .. }
            | Definition::ThreadName { .. }
            | Definition::ThreadRole { .. }
            | Definition::Segment { .. }
            | Definition::Context { .. }
            | Definition::Loop { .. }
            | Definition::Heap { .. }
            | Definition::ClockPair { .. }
            | Definition::Calibration { .. }
            | Definition::StacksCut { .. }
            | Definition::InFlight { .. }
            | Definition::UnwindCheck { .. }
            | Definition::Confined { .. }
            | Definition::ContextsCut { .. }
            | Definition::Clip { .. } => {}
        }
        self.others.push(encoded.into());
        Some(())
    }

    /// What follows "clip: " in a name.
    pub(super) fn clip_name(&self, name: NameId) -> Option<&str> {
        self.clip_names.get(&name).map(String::as_str)
    }

    /// Writes all definitions but backtraces that are not `needed`.
    pub(super) fn write<W: Write>(
        &self,
        needed: &HashSet<StackId>,
        writer: &mut TraceWriter<W>,
    ) -> Result<(), WriteError> {
        let mut stacks: Vec<_> = needed.iter().copied().collect();
        stacks.sort_unstable();
        let stacks = stacks.iter().filter_map(|id| self.stacks.get(id));
        let mut part = Vec::new();
        for encoded in self.others.iter().chain(stacks) {
            part.extend_from_slice(encoded);
            if part.len() >= CHUNK_BYTES {
                writer.encoded_definitions(&part, 0)?;
                part.clear();
            }
        }
        writer.encoded_definitions(&part, 0)
    }
}
