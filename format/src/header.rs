//! The file header: what program was recorded, on which clock, with which settings.
//!
//! ```text
//!  0  magic      8 bytes  "heapreel"
//!  8  version    u16      a reader of version N reads 1..=N
//! 10  reserved   u16      0
//! 12  length     u32      of the postcard value that follows
//! 16  crc        u32      CRC-32C of that value
//! 20  crc        u32      CRC-32C of the 20 bytes before
//! 24  FileHeader, postcard
//! ```

use crate::error::ReadError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The first bytes of every trace.
pub const MAGIC: [u8; 8] = *b"heapreel";

/// A version of the trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FormatVersion(pub u16);

/// The version that this crate writes.
pub const FORMAT_VERSION: FormatVersion = FormatVersion(1);

impl FormatVersion {
    /// Whether a reader of version `reader` understands a file of this version.
    ///
    /// # Errors
    ///
    /// [`ReadError::Version`], which names both.
    pub fn check_readable_by(self, reader: FormatVersion) -> Result<(), ReadError> {
        if self.0 >= 1 && self <= reader {
            Ok(())
        } else {
            Err(ReadError::Version { file: self, reader })
        }
    }
}

impl fmt::Display for FormatVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What ties a spill to its trace: 16 random bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TraceId(pub [u8; 16]);

/// Where ticks come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClockSource {
    /// The processor's time stamp counter, invariant and used by the kernel.
    #[default]
    Tsc,
    /// CLOCK_MONOTONIC, in nanoseconds.
    Monotonic,
    /// One counter for all threads: order only, no time.
    Counter,
}

/// The recording's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// Where ticks come from.
    pub source: ClockSource,
    /// How many low bits of the source were dropped to make a tick.
    pub shift: u8,
    /// Ticks in a second.
    pub ticks_per_second: f64,
    /// The tick when recording started.
    pub start: u64,
    /// CLOCK_MONOTONIC at that tick, in nanoseconds.
    pub start_monotonic_nanos: u64,
    /// Nanoseconds since 1970 (UTC) at that tick.
    pub start_unix_nanos: u64,
}

impl Clock {
    /// A number of ticks as nanoseconds.
    #[inline]
    pub fn nanos(&self, ticks: u64) -> f64 {
        ticks as f64 * 1e9 / self.ticks_per_second
    }

    /// The time of a key since recording started, in nanoseconds; negative before it.
    #[inline]
    pub fn nanos_since_start(&self, key: u64) -> f64 {
        (key as i64).wrapping_sub(self.start as i64) as f64 * 1e9 / self.ticks_per_second
    }
}

/// The program that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessFacts {
    /// Process id.
    pub pid: u32,
    /// Its parent's process id.
    pub parent_pid: u32,
    /// Path of the executable.
    pub executable: String,
    /// The command line.
    pub arguments: Vec<String>,
    /// The folder it was started in.
    pub folder: String,
    /// Bytes of an OS page.
    pub page_size: u32,
    /// The allocator beneath the recorder: "glibc 2.36", "mimalloc", "System" …
    pub allocator: String,
    /// Kernel and processor, for people.
    pub machine: String,
}

/// What the recorder was asked to record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// heapreel's version.
    pub recorder: String,
    /// It recorded as a preload library, not as a crate.
    pub preload: bool,
    /// Backtraces of allocations were taken.
    pub backtraces: bool,
    /// Backtraces of deallocations were taken.
    pub free_backtraces: bool,
    /// Calls were timed.
    pub latency: bool,
    /// Usable sizes were recorded.
    pub usable_sizes: bool,
    /// Deepest backtrace, in stack frames.
    pub depth: u32,
    /// Calls slower than this carry a cause, in nanoseconds.
    pub slow_call_nanos: u64,
}

/// The file header.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileHeader {
    /// Ties a spill to this trace.
    pub id: TraceId,
    /// The recording's clock.
    pub clock: Clock,
    /// The program.
    pub process: ProcessFacts,
    /// What was asked for.
    pub settings: Settings,
    /// Where the spill lies while the program runs; empty where there is none.
    pub spill: String,
}

/// How a recording came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// The program returned or called `exit` with this status.
    Exit(i32),
    /// The program was ended by this signal.
    Signal(i32),
    /// The program replaced itself by another one.
    Exec,
    /// The program ended, and nothing tells how.
    Unknown,
    /// The game stopped the recording and went on.
    Stopped,
    /// `heapreel record` ended while the program went on.
    RecorderLeft,
    /// The program gave up what it takes to record, as the clock, and went on.
    Confined,
}

impl Ended {
    /// Whether the program had the chance to give back what it held.
    pub fn orderly(self) -> bool {
        matches!(self, Ended::Exit(_) | Ended::Stopped)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Exit(status) => write!(f, "exit status {status}"),
            Ended::Signal(number) => write!(f, "killed by signal {number}{}", signal_name(*number)),
            Ended::Exec => write!(f, "replaced by another program (exec)"),
            Ended::Unknown => write!(f, "ended, nobody saw how"),
            Ended::Stopped => write!(f, "recording stopped by the program"),
            Ended::RecorderLeft => write!(f, "recording ended before the program did"),
            Ended::Confined => write!(
                f,
                "recording ended when the program gave up what it takes to record"
            ),
        }
    }
}

/// Linux's names of the signals that end programs (signal(7), x86 numbering).
fn signal_name(number: i32) -> &'static str {
    match number {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        14 => " (SIGALRM)",
        15 => " (SIGTERM)",
        24 => " (SIGXCPU)",
        25 => " (SIGXFSZ)",
        _ => "",
    }
}

const PREFACE_BYTES: usize = 24;
/// Far more than any command line; keeps a stranger's length from costing memory.
const MAX_HEADER_BYTES: usize = 4 << 20;

impl FileHeader {
    /// The bytes that begin a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let body = postcard::to_allocvec(self).unwrap_or_default();
        let mut bytes = Vec::with_capacity(PREFACE_BYTES + body.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.0.to_le_bytes());
        bytes.extend_from_slice(&0u16.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes
    }

    /// Reads the header at the start of `source`; returns it with the offset behind it.
    pub(crate) fn read(
        source: &impl crate::reader::ReadAt,
    ) -> Result<(FileHeader, u64), ReadError> {
        let length = source.length();
        if length == 0 {
            return Err(ReadError::Empty);
        }
        let mut preface = [0u8; PREFACE_BYTES];
        let got = PREFACE_BYTES.min(length as usize);
        source.read_exact_at(&mut preface[..got], 0)?;
        if preface[..got.min(8)] != MAGIC[..got.min(8)] {
            return Err(ReadError::NotATrace);
        }
        if got < PREFACE_BYTES {
            return Err(ReadError::HeaderCut { length });
        }
        let word = |at: usize| {
            u32::from_le_bytes([
                preface[at],
                preface[at + 1],
                preface[at + 2],
                preface[at + 3],
            ])
        };
        // The version comes first: only it may be trusted in a file of another version.
        let version = FormatVersion(u16::from_le_bytes([preface[8], preface[9]]));
        if word(20) != crc32c::crc32c(&preface[..20]) {
            return Err(ReadError::HeaderDamaged);
        }
        version.check_readable_by(FORMAT_VERSION)?;
        if preface[10..12] != [0, 0] {
            return Err(ReadError::HeaderDamaged);
        }
        let body_length = word(12) as usize;
        if body_length > MAX_HEADER_BYTES {
            return Err(ReadError::HeaderDamaged);
        }
        let end = (PREFACE_BYTES + body_length) as u64;
        if end > length {
            return Err(ReadError::HeaderCut { length });
        }
        let mut body = vec![0u8; body_length];
        source.read_exact_at(&mut body, PREFACE_BYTES as u64)?;
        if crc32c::crc32c(&body) != word(16) {
            return Err(ReadError::HeaderDamaged);
        }
        let header: FileHeader =
            postcard::from_bytes(&body).map_err(|_| ReadError::HeaderDamaged)?;
        let rate = header.clock.ticks_per_second;
        if !(rate.is_finite() && rate >= 1.0) {
            return Err(ReadError::HeaderDamaged);
        }
        Ok((header, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_named() {
        let error = FormatVersion(9)
            .check_readable_by(FORMAT_VERSION)
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("version 9") && text.contains("version 1"),
            "{text}"
        );
        assert!(FormatVersion(1).check_readable_by(FormatVersion(3)).is_ok());
        assert!(
            FormatVersion(0)
                .check_readable_by(FormatVersion(3))
                .is_err()
        );
    }

    #[test]
    fn header_comes_back() {
        let header = crate::testing::header();
        let bytes = header.to_bytes();
        let (read, end) = FileHeader::read(&bytes.as_slice()).unwrap();
        assert_eq!(read, header);
        assert_eq!(end as usize, bytes.len());
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = crate::testing::header().to_bytes();
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(FileHeader::read(&bad.as_slice()).is_err(), "bit {bit}");
        }
    }
}
