//! Writes a trace, chunk by chunk.

use crate::chunk::{self, ChunkBase, ChunkHeader, ChunkKind};
use crate::definition::{Definition, ThreadId};
use crate::error::WriteError;
use crate::header::{Ended, FileHeader};
use crate::kill_point::{self, KillPoint};
use crate::rare::LiveBlock;
use crate::symbols::SymbolTable;
use serde::Serialize;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

/// Symbols are cut into chunks of about this many addresses.
const SYMBOLS_IN_A_CHUNK: usize = 4096;
const BLOCKS_IN_A_CHUNK: usize = 16384;

/// A trace file that always ends at a whole chunk: a write that fails half way is
/// taken back.
#[derive(Debug)]
pub struct TraceFile {
    file: File,
    good: u64,
}

impl TraceFile {
    /// Appends to `file` from its current end on.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn new(mut file: File) -> io::Result<TraceFile> {
        let good = file.seek(SeekFrom::End(0))?;
        Ok(TraceFile { file, good })
    }

    /// Bytes that were written whole.
    pub fn length(&self) -> u64 {
        self.good
    }
}

impl TraceFile {
    /// For a test that kills between the two. The file header goes out alone and is less
    /// than a page, of which the kernel writes all or nothing before it looks for SIGKILL.
    #[cold]
    fn write_in_halves(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (first, second) = bytes.split_at(bytes.len() / 2);
        self.file.write_all(first)?;
        kill_point::reach(KillPoint::DrainHalfAppended);
        self.file.write_all(second)?;
        self.good += bytes.len() as u64;
        Ok(bytes.len())
    }
}

impl Write for TraceFile {
    /// Writes all of `bytes` or nothing of it.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if is_removed(&self.file)? {
            let gone = "the file was removed while it was written";
            return Err(io::Error::new(io::ErrorKind::NotFound, gone));
        }
        if kill_point::is_armed(KillPoint::DrainHalfAppended) && self.good > 0 {
            return self.write_in_halves(bytes);
        }
        if let Err(error) = self.file.write_all(bytes) {
            self.file.set_len(self.good)?;
            self.file.seek(SeekFrom::Start(self.good))?;
            return Err(error);
        }
        self.good += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether the file has no name any more: what is written to it nobody will find.
#[cfg(unix)]
fn is_removed(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    Ok(file.metadata()?.nlink() == 0)
}

/// A file that is open cannot be removed here.
#[cfg(not(unix))]
fn is_removed(_file: &File) -> io::Result<bool> {
    Ok(false)
}

/// Writes chunks to a sink; whole chunks only, at [`TraceWriter::flush`].
pub struct TraceWriter<W: Write> {
    sink: W,
    pending: Vec<u8>,
    /// Bytes of the header, at the front of what is pending, until it is written: nothing
    /// behind it could be read without it.
    header: usize,
    payload: Vec<u8>,
    /// Chunks of a thread that are yet to be written as they are.
    plain: HashMap<ThreadId, u32>,
}

/// A thread's chunk that packing makes smaller by less than a part in so many…
const WORTHWHILE: usize = 6;
/// … tells that its next ones are not worth the time either.
///
/// PERF: addresses and times of a busy game are as good as random: packing them took a
/// fifth of the drain's time to save 6 %. A quieter game's shrink by a quarter.
const LEFT_PLAIN: u32 = 15;

impl<W: Write> TraceWriter<W> {
    /// Begins a trace: the header goes out with the first flush.
    pub fn new(sink: W, header: &FileHeader) -> Self {
        let pending = header.to_bytes();
        TraceWriter {
            sink,
            header: pending.len(),
            pending,
            payload: Vec::new(),
            plain: HashMap::new(),
        }
    }

    /// Continues a trace whose header and whole chunks are already in `sink`.
    pub fn resume(sink: W) -> Self {
        TraceWriter {
            sink,
            pending: Vec::new(),
            header: 0,
            payload: Vec::new(),
            plain: HashMap::new(),
        }
    }

    /// Adds records of one thread's stream. `records` holds `count` whole records
    /// relative to `base`; `first_number` is the first one's number in the stream.
    ///
    /// # Errors
    ///
    /// [`WriteError::TooLarge`] above 16 MiB of records.
    #[allow(
        clippy::too_many_arguments,
        reason = "these are the chunk header's fields"
    )]
    pub fn events(
        &mut self,
        thread: ThreadId,
        nested: bool,
        first_number: u64,
        count: u32,
        last_key: u64,
        base: ChunkBase,
        records: &[u8],
    ) -> Result<(), WriteError> {
        let header = ChunkHeader {
            nested,
            thread,
            count,
            first_number,
            first_key: base.key,
            last_key,
            ..ChunkHeader::new(ChunkKind::Events)
        };
        self.payload.clear();
        self.payload = postcard::to_extend(&base, std::mem::take(&mut self.payload))
            .map_err(|_| WriteError::TooLarge)?;
        self.payload.extend_from_slice(records);
        let plain = self.plain.entry(thread).or_default();
        let try_to_pack = *plain == 0;
        *plain = plain.saturating_sub(1);
        let saved = self.pack(header, try_to_pack)?;
        if try_to_pack && saved < self.payload.len() / WORTHWHILE {
            self.plain.insert(thread, LEFT_PLAIN);
        }
        Ok(())
    }

    /// Adds definitions that are already encoded: each behind its length as varint.
    ///
    /// # Errors
    ///
    /// [`WriteError::TooLarge`] above 16 MiB.
    pub fn encoded_definitions(&mut self, encoded: &[u8], count: u32) -> Result<(), WriteError> {
        self.payload.clear();
        self.payload.extend_from_slice(encoded);
        self.pack(
            ChunkHeader {
                count,
                ..ChunkHeader::new(ChunkKind::Definitions)
            },
            true,
        )?;
        Ok(())
    }

    /// Adds definitions.
    ///
    /// # Errors
    ///
    /// [`WriteError::TooLarge`] above 16 MiB.
    pub fn definitions(&mut self, definitions: &[Definition<'_>]) -> Result<(), WriteError> {
        let mut encoded = Vec::new();
        for definition in definitions {
            encode_definition(definition, &mut encoded)?;
        }
        self.encoded_definitions(&encoded, definitions.len() as u32)
    }

    /// Promises that no later events chunk holds a key before `key`.
    ///
    /// # Errors
    ///
    /// None today; the signature leaves room for sinks that refuse.
    pub fn watermark(&mut self, key: u64) -> Result<(), WriteError> {
        self.payload.clear();
        self.pack(
            ChunkHeader {
                first_key: key,
                ..ChunkHeader::new(ChunkKind::Watermark)
            },
            false,
        )?;
        Ok(())
    }

    /// Adds symbols.
    ///
    /// # Errors
    ///
    /// [`WriteError::TooLarge`] where a single name is above 16 MiB.
    pub fn symbols(&mut self, table: &SymbolTable) -> Result<(), WriteError> {
        let mut remarks = table.remarks.clone();
        if table.addresses.is_empty() {
            return self.value(
                ChunkKind::Symbols,
                0,
                &SymbolTable {
                    remarks,
                    ..SymbolTable::default()
                },
            );
        }
        for addresses in table.addresses.chunks(SYMBOLS_IN_A_CHUNK) {
            let part = part_of(table, addresses, std::mem::take(&mut remarks));
            self.value(ChunkKind::Symbols, addresses.len() as u32, &part)?;
        }
        Ok(())
    }

    /// Adds the blocks that were live when the trace begins.
    ///
    /// # Errors
    ///
    /// None beyond those of [`TraceWriter::events`].
    pub fn snapshot(&mut self, blocks: &[LiveBlock]) -> Result<(), WriteError> {
        for part in blocks.chunks(BLOCKS_IN_A_CHUNK) {
            self.value(ChunkKind::Snapshot, part.len() as u32, &part)?;
        }
        Ok(())
    }

    /// Says how the recording ended.
    ///
    /// # Errors
    ///
    /// None beyond those of [`TraceWriter::events`].
    pub fn end(&mut self, ended: Ended) -> Result<(), WriteError> {
        self.value(ChunkKind::End, 1, &ended)
    }

    /// Bytes that wait for the next flush.
    pub fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    /// Hands all whole chunks to the sink in one write.
    ///
    /// # Errors
    ///
    /// The sink's; what was pending is then dropped, all but the file's header, so that
    /// the next flush begins at a chunk's start. The sink has to take back what it wrote
    /// of it.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        let written = self
            .sink
            .write_all(&self.pending)
            .and_then(|()| self.sink.flush());
        if written.is_ok() {
            self.header = 0;
        }
        self.pending.truncate(self.header);
        Ok(written?)
    }

    /// Flushes and gives the sink back.
    ///
    /// # Errors
    ///
    /// As [`TraceWriter::flush`].
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.flush()?;
        Ok(self.sink)
    }

    /// The sink.
    pub fn sink_mut(&mut self) -> &mut W {
        &mut self.sink
    }

    fn value(
        &mut self,
        kind: ChunkKind,
        count: u32,
        value: &impl Serialize,
    ) -> Result<(), WriteError> {
        self.payload.clear();
        self.payload = postcard::to_extend(value, std::mem::take(&mut self.payload))
            .map_err(|_| WriteError::TooLarge)?;
        self.pack(
            ChunkHeader {
                count,
                ..ChunkHeader::new(kind)
            },
            true,
        )?;
        Ok(())
    }

    /// Gives the bytes that packing saved.
    fn pack(&mut self, header: ChunkHeader, try_to_pack: bool) -> Result<usize, WriteError> {
        if self.payload.len() > chunk::MAX_RAW_BYTES as usize {
            return Err(WriteError::TooLarge);
        }
        Ok(chunk::pack(
            header,
            &self.payload,
            try_to_pack,
            &mut self.pending,
        ))
    }
}

/// Appends one definition behind its length as varint.
pub(crate) fn encode_definition(
    definition: &Definition<'_>,
    out: &mut Vec<u8>,
) -> Result<(), WriteError> {
    let body = postcard::to_allocvec(definition).map_err(|_| WriteError::TooLarge)?;
    let length = postcard::to_allocvec(&(body.len() as u64)).map_err(|_| WriteError::TooLarge)?;
    out.extend_from_slice(&length);
    out.extend_from_slice(&body);
    Ok(())
}

/// The part of a symbol table that `addresses` need, with strings of its own.
fn part_of(
    table: &SymbolTable,
    addresses: &[(u32, u64, Vec<crate::symbols::SymbolFrame>)],
    remarks: Vec<(u32, String)>,
) -> SymbolTable {
    let mut part = SymbolTable {
        remarks,
        ..SymbolTable::default()
    };
    let mut numbers = std::collections::HashMap::new();
    let mut keep = |index: u32| {
        *numbers.entry(index).or_insert_with(|| {
            part.strings.push(table.string(index).to_owned());
            (part.strings.len() - 1) as u32
        })
    };
    for (generation, address, frames) in addresses {
        let frames = frames
            .iter()
            .map(|frame| crate::symbols::SymbolFrame {
                function: keep(frame.function),
                file: frame.file.map(&mut keep),
                line: frame.line,
            })
            .collect();
        part.addresses.push((*generation, *address, frames));
    }
    part
}
