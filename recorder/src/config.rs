//! What to record and where to: by builder methods or environment variables.

use heapreel_format::spill::Capacity;
use std::path::PathBuf;
use std::time::Duration;

/// What to record, and where to. Every switch is a method here, a variable
/// `HEAPREEL_…` and a flag of `heapreel record`.
///
/// ```
/// use heapreel::Config;
///
/// let config = Config::new("level1.hreel").depth(32).free_backtraces(true);
/// # let _ = config;
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) output: PathBuf,
    pub(crate) session: Option<PathBuf>,
    pub(crate) backtraces: bool,
    pub(crate) free_backtraces: bool,
    pub(crate) latency: bool,
    pub(crate) depth: u32,
    pub(crate) slow_call: Duration,
    pub(crate) children: bool,
    pub(crate) buffer_memory: u64,
    pub(crate) table_memory: u64,
    pub(crate) check_unwinding: bool,
    pub(crate) count: bool,
}

impl Config {
    /// Records to this file. `%p` becomes the process id, `%e` the program's name,
    /// `%t` the time in seconds since 1970.
    pub fn new(output: impl Into<PathBuf>) -> Config {
        Config {
            output: output.into(),
            session: None,
            backtraces: true,
            free_backtraces: false,
            latency: true,
            depth: 64,
            slow_call: Duration::from_micros(5),
            children: true,
            buffer_memory: 64 << 20,
            table_memory: 256 << 20,
            check_unwinding: false,
            count: false,
        }
    }

    /// What the environment asks for; `None` where it asks for nothing.
    ///
    /// `HEAPREEL_SESSION` is set by `heapreel record`; `HEAPREEL_OUT` names a file.
    pub fn from_environment() -> Option<Config> {
        let path = |name| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let session = path("HEAPREEL_SESSION");
        let output = path("HEAPREEL_OUT");
        if session.is_none() && output.is_none() {
            return None;
        }
        let mut config = Config::new(output.unwrap_or_default());
        config.session = session;
        config.backtraces = flag("HEAPREEL_BACKTRACES", true);
        config.free_backtraces = flag("HEAPREEL_FREE_BACKTRACES", false);
        config.latency = flag("HEAPREEL_LATENCY", true);
        config.children = flag("HEAPREEL_CHILDREN", true);
        config.count = is_count_wanted();
        config.check_unwinding = flag("HEAPREEL_CHECK_UNWINDING", false);
        if let Some(depth) = variable("HEAPREEL_DEPTH").and_then(|text| text.parse().ok()) {
            config.depth = depth;
        }
        if let Some(time) = variable("HEAPREEL_SLOW_CALL").and_then(|text| duration(&text)) {
            config.slow_call = time;
        }
        if let Some(bytes) = variable("HEAPREEL_BUFFER_MEMORY").and_then(|text| size(&text)) {
            config.buffer_memory = bytes;
        }
        if let Some(bytes) = variable("HEAPREEL_TABLE_MEMORY").and_then(|text| size(&text)) {
            config.table_memory = bytes;
        }
        Some(config)
    }

    /// Whether allocations carry backtraces (they do). `HEAPREEL_BACKTRACES=0`
    pub fn backtraces(mut self, on: bool) -> Config {
        self.backtraces = on;
        self
    }

    /// Whether deallocations carry backtraces too (they do not). `HEAPREEL_FREE_BACKTRACES=1`
    pub fn free_backtraces(mut self, on: bool) -> Config {
        self.free_backtraces = on;
        self
    }

    /// Whether every call is timed (it is). `HEAPREEL_LATENCY=0`
    pub fn latency(mut self, on: bool) -> Config {
        self.latency = on;
        self
    }

    /// Deepest backtrace in stack frames (64, at most 256). `HEAPREEL_DEPTH=32`
    pub fn depth(mut self, frames: u32) -> Config {
        self.depth = frames;
        self
    }

    /// Calls slower than this carry what bounds their cause (5 µs). `HEAPREEL_SLOW_CALL=20us`
    pub fn slow_call(mut self, time: Duration) -> Config {
        self.slow_call = time;
        self
    }

    /// Whether to count as well, see [`count`](crate::count) (it does not). `HEAPREEL_COUNT=1`
    pub fn count(mut self, on: bool) -> Config {
        self.count = on;
        self
    }

    /// Memory in which records wait for the trace file (64 MiB; from 512 KiB to 256 MiB).
    /// `HEAPREEL_BUFFER_MEMORY=16MiB`
    pub fn buffer_memory(mut self, bytes: u64) -> Config {
        self.buffer_memory = bytes;
        self
    }

    /// Memory for backtraces and other definitions (256 MiB; from 128 KiB to 1 GiB). Past
    /// it a new backtrace is recorded as its innermost call site, marked and counted.
    /// `HEAPREEL_TABLE_MEMORY=64MiB`
    pub fn table_memory(mut self, bytes: u64) -> Config {
        self.table_memory = bytes;
        self
    }

    /// The spill that holds as much.
    pub(crate) fn capacity(&self) -> Capacity {
        let bytes = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        Capacity::of_bytes(bytes(self.buffer_memory), bytes(self.table_memory))
    }
}

/// Whether the environment wants this process to be counted.
pub(crate) fn is_count_wanted() -> bool {
    flag("HEAPREEL_COUNT", false)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn flag(name: &str, otherwise: bool) -> bool {
    variable(name).map_or(otherwise, |word| !is_off(word.as_bytes()))
}

/// Whether this is how a switch is turned off in the environment.
pub fn is_off(word: &[u8]) -> bool {
    matches!(word, b"0" | b"no" | b"off" | b"false")
}

/// `5us`, `20µs`, `3ms`, `1s`, `800ns`.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let number: u64 = digits.parse().ok()?;
    Some(match &text[digits.len()..] {
        "ns" => Duration::from_nanos(number),
        "us" | "µs" => Duration::from_micros(number),
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        _ => return None,
    })
}

/// `65536`, `512KiB`, `16MiB`, `1GiB`.
fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let number: u64 = digits.parse().ok()?;
    let unit = match &text[digits.len()..] {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_binary_units() {
        assert_eq!(size("4096"), Some(4096));
        assert_eq!(size("16MiB"), Some(16 << 20));
        assert_eq!(size("16MB"), None);
        assert_eq!(size("99999999999GiB"), None);
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("5us"), Some(Duration::from_micros(5)));
        assert_eq!(duration("20µs"), Some(Duration::from_micros(20)));
        assert_eq!(duration("3ms"), Some(Duration::from_millis(3)));
        assert_eq!(duration("5"), None);
        assert_eq!(duration("us"), None);
    }
}
