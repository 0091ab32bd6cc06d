//! What a recorded program is told through its environment.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

/// What to record; each is a variable `HEAPREEL_…` as well, and a flag left out leaves
/// the variable as it is.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Switches {
    /// Take no backtraces: sizes and times only
    #[arg(long)]
    pub no_backtraces: bool,
    /// Take backtraces of deallocations too
    #[arg(long)]
    pub free_backtraces: bool,
    /// Do not time calls
    #[arg(long)]
    pub no_latency: bool,
    /// Let the program read its own counters, by heapreel_frame_stats and heapreel_thread_stats
    #[arg(long)]
    pub count: bool,
    /// Ask the allocator for the usable size of each block
    #[arg(long)]
    pub usable: bool,
    /// Deepest backtrace, in stack frames [default: 64]
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub depth: Option<u32>,
    /// Calls slower than this carry what bounds their cause [default: 5us]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub slow_call: Option<String>,
    /// Memory in which records wait for the trace [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub buffer_memory: Option<String>,
    /// Memory for backtraces; past it a new one is its innermost call site [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub table_memory: Option<String>,
    /// Let calls that show a picture (SDL, GLX, EGL, Vulkan) end no game frames
    #[arg(long)]
    pub no_present_marks: bool,
    /// Functions that end a game frame when they are called, by their exported names; then
    /// showing a picture ends none (may be repeated)
    #[arg(long, value_name = "NAME", value_parser = symbol)]
    pub frame_symbol: Vec<String>,
    /// Record the command alone and none of the processes that it starts
    #[arg(long)]
    pub no_children: bool,
}

/// A time as the recorder reads it: a whole number and its unit.
fn time(text: &str) -> Result<String, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = &text[digits.len()..];
    if digits.parse::<u32>().is_ok() && ["ns", "us", "µs", "ms", "s"].contains(&unit) {
        Ok(text.to_owned())
    } else {
        Err("write a whole number and its unit, as 5us or 2ms".to_owned())
    }
}

/// A function's name as its library exports it.
fn symbol(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains([',', ' ', '(', '=']) {
        return Err(
            "write the name that `nm -D` shows, as game_frame or _ZN4Game5frameEv".to_owned(),
        );
    }
    Ok(text.to_owned())
}

/// A size as the recorder reads it: a whole number and its unit.
fn size(text: &str) -> Result<String, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = &text[digits.len()..];
    if digits.parse::<u32>().is_ok() && ["KiB", "MiB", "GiB"].contains(&unit) {
        Ok(text.to_owned())
    } else {
        Err("write a whole number and its unit, as 512KiB or 64MiB".to_owned())
    }
}

impl Switches {
    /// The variables that say so.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = Vec::new();
        let mut set = |when, name, value: &str| {
            if when {
                variables.push((name, value.to_owned()));
            }
        };
        set(self.no_backtraces, "HEAPREEL_BACKTRACES", "0");
        set(self.free_backtraces, "HEAPREEL_FREE_BACKTRACES", "1");
        set(self.no_latency, "HEAPREEL_LATENCY", "0");
        set(self.count, "HEAPREEL_COUNT", "1");
        set(self.usable, "HEAPREEL_USABLE", "1");
        set(self.no_children, "HEAPREEL_CHILDREN", "0");
        set(self.no_present_marks, "HEAPREEL_PRESENT_MARKS", "0");
        let symbols = self.frame_symbol.join(",");
        set(!symbols.is_empty(), "HEAPREEL_FRAME_SYMBOL", &symbols);
        if let Some(depth) = self.depth {
            set(true, "HEAPREEL_DEPTH", &depth.to_string());
        }
        if let Some(time) = &self.slow_call {
            set(true, "HEAPREEL_SLOW_CALL", time);
        }
        if let Some(size) = &self.buffer_memory {
            set(true, "HEAPREEL_BUFFER_MEMORY", size);
        }
        if let Some(size) = &self.table_memory {
            set(true, "HEAPREEL_TABLE_MEMORY", size);
        }
        variables
    }
}

/// Tells `command` where to record and what; with a `library`, that it is to be loaded.
pub fn set(command: &mut Command, session: &Path, library: Option<&Path>, switches: &Switches) {
    command.env_remove("HEAPREEL_OUT");
    command.env("HEAPREEL_SESSION", session);
    command.envs(switches.variables());
    if let Some(library) = library {
        let others = std::env::var_os("LD_PRELOAD");
        command.env("LD_PRELOAD", before(library, others.as_deref()));
    }
}

/// Ours comes first: what others preload is then seen too.
fn before(library: &Path, others: Option<&OsStr>) -> OsString {
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_library_comes_first() {
        let library = Path::new("/c/lib.so");
        assert_eq!(before(library, None), "/c/lib.so");
        assert_eq!(before(library, Some(OsStr::new(""))), "/c/lib.so");
        let others = Some(OsStr::new("a.so b.so"));
        assert_eq!(before(library, others), "/c/lib.so:a.so b.so");
    }

    #[test]
    fn only_what_was_asked_for_is_set() {
        assert_eq!(Switches::default().variables(), []);
        let switches = Switches {
            no_backtraces: true,
            depth: Some(9),
            ..Switches::default()
        };
        assert_eq!(
            switches.variables(),
            [
                ("HEAPREEL_BACKTRACES", "0".to_owned()),
                ("HEAPREEL_DEPTH", "9".to_owned())
            ]
        );
    }

    #[test]
    fn sizes_need_a_unit() {
        assert!(size("16MiB").is_ok() && size("512KiB").is_ok());
        assert!(size("16").is_err() && size("MiB").is_err() && size("16MB").is_err());
    }

    #[test]
    fn times_need_a_unit() {
        assert!(time("5us").is_ok() && time("20µs").is_ok());
        assert!(time("5").is_err() && time("us").is_err() && time("1.5ms").is_err());
    }
}
