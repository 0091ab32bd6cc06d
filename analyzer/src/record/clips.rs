//! Clips instead of traces: which are wanted, and the thread that writes them to a folder.

use super::naming;
use crate::commands::text::parse_duration;
use heapreel_analyzer::place::Span;
use heapreel_format::ClipCause;
use heapreel_format::FileHeader;
use heapreel_format::clips::{Clip, ClipLength, ClipPlan, Clips, Unmade};
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Clips instead of one growing trace.
#[derive(clap::Args, Clone, Debug)]
pub struct ClipFlags {
    /// Keep only the last frames (300frames) or seconds (5s) in memory, and write them as a
    /// trace of its own when something happens; -o names the folder for them [default: clips]
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    pub clips: Option<ClipLength>,
    /// A frame that takes longer makes a clip, as 16.67ms or 60fps
    #[arg(long, value_name = "TIME", requires = "clips")]
    pub frame_budget: Option<Span>,
    /// Make a clip when heapreel itself gets this signal, which then is not passed on to the
    /// game
    #[arg(long, value_name = "SIGNAL", value_parser = signal, requires = "clips")]
    pub clip_signal: Option<i32>,
    /// No clip is larger
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size, requires = "clips")]
    pub clip_size: u64,
    /// Make at most one clip in this time; the end of a program that crashes always makes one
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration, requires = "clips")]
    pub clip_every: Duration,
    /// Of this recording's clips keep the newest so many
    #[arg(long, value_name = "N", default_value_t = 20, requires = "clips",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_clips: u32,
    /// Give each clip's path to this command, run by the shell
    #[arg(long, value_name = "COMMAND", requires = "clips")]
    pub on_clip: Option<String>,
}

fn length(text: &str) -> Result<ClipLength, String> {
    let advice = || "write a number of frames or a time, as 300frames or 5s".to_owned();
    let count = text.strip_suffix("frames").or(text.strip_suffix("frame"));
    if let Some(count) = count {
        let count = count.trim_end().parse().ok().filter(|count| *count > 0);
        return count.map(ClipLength::Frames).ok_or_else(advice);
    }
    let time = parse_duration(text).map_err(|_| advice())?;
    if time.is_zero() {
        return Err(advice());
    }
    Ok(ClipLength::Nanos(nanos(time)))
}

fn signal(text: &str) -> Result<i32, String> {
    match text.strip_prefix("SIG").unwrap_or(text) {
        "USR1" => Ok(signal_hook::consts::SIGUSR1),
        "USR2" => Ok(signal_hook::consts::SIGUSR2),
        _ => Err("write USR1 or USR2".to_owned()),
    }
}

fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let factor = match &text[digits.len()..] {
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => 0,
    };
    let bytes = digits.parse::<u64>().ok();
    let bytes = bytes.and_then(|count| count.checked_mul(factor));
    bytes
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "write a whole number and its unit, as 512KiB or 64MiB".to_owned())
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Looks up the names of a clip's functions and adds them to it.
pub type Symbolicate = Box<dyn Fn(&Path) + Send>;

/// Where clips of all recorded processes go.
pub struct Clipping {
    plan: ClipPlan,
    signal: Option<i32>,
    folder: PathBuf,
    sender: Sender<(String, Clip)>,
    saver: JoinHandle<Vec<PathBuf>>,
}

impl Clipping {
    /// Clips into `folder`, which is made where it is missing; `None` where no clips are wanted.
    ///
    /// # Errors
    ///
    /// The operating system's, where there can be no such folder.
    pub fn new(
        flags: &ClipFlags,
        folder: &Path,
        symbolicate: Symbolicate,
    ) -> io::Result<Option<Clipping>> {
        let Some(length) = flags.clips else {
            return Ok(None);
        };
        fs::create_dir_all(folder)?;
        let saver = Saver {
            folder: folder.to_owned(),
            keep: flags.keep_clips as usize,
            most_bytes: flags.clip_size,
            on_clip: flags.on_clip.clone(),
            symbolicate,
            written: 0,
            kept: VecDeque::new(),
        };
        let (sender, receiver) = channel();
        let saver = std::thread::Builder::new()
            .name("clips".to_owned())
            .spawn(move || saver.run(&receiver))?;
        Ok(Some(Clipping {
            plan: ClipPlan {
                length,
                budget_nanos: flags.frame_budget.map(|budget| budget.0),
                most_bytes: flags.clip_size,
                every_nanos: nanos(flags.clip_every),
            },
            signal: flags.clip_signal,
            folder: folder.to_owned(),
            sender,
            saver,
        }))
    }

    /// The signal to this process that asks for a clip.
    pub fn signal(&self) -> Option<i32> {
        self.signal
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Keeps the last frames of one process.
    pub fn of(&self, header: &FileHeader) -> Clips {
        let process = &header.process;
        let name = format!("{}.{}", naming::plain(&process.executable), process.pid);
        let sender = self.sender.clone();
        let made = move |clip| _ = sender.send((name.clone(), clip));
        Clips::new(header.clone(), self.plan, Box::new(made))
    }

    /// Waits until all clips are written, and gives those that are kept.
    pub fn finish(self) -> Vec<PathBuf> {
        drop(self.sender);
        self.saver.join().unwrap_or_default()
    }
}

/// Says what was asked for and not made.
pub fn tell_unmade(executable: &str, unmade: Unmade) {
    if unmade.too_soon > 0 {
        let count = unmade.too_soon;
        eprintln!(
            "heapreel: {executable}: {count} more reasons for a clip came within --clip-every of one"
        );
    }
    if unmade.too_large > 0 {
        let count = unmade.too_large;
        eprintln!(
            "heapreel: {executable}: {count} clips would have been larger than --clip-size even without a frame of the past, and were not made"
        );
    }
}

/// The thread that writes clips, so that the drain never waits for a disk.
struct Saver {
    folder: PathBuf,
    keep: usize,
    most_bytes: u64,
    on_clip: Option<String>,
    symbolicate: Symbolicate,
    written: u32,
    kept: VecDeque<PathBuf>,
}

impl Saver {
    fn run(mut self, clips: &Receiver<(String, Clip)>) -> Vec<PathBuf> {
        while let Ok((name, clip)) = clips.recv() {
            match self.save(&name, &clip) {
                Ok(path) => self.saved(path),
                Err(error) => {
                    let folder = self.folder.display();
                    eprintln!("heapreel: {folder}: a clip cannot be written: {error}");
                }
            }
        }
        self.kept.into()
    }

    /// A clip gets its name when it is whole: whoever watches the folder finds no part of one.
    fn save(&mut self, name: &str, clip: &Clip) -> io::Result<PathBuf> {
        self.written += 1;
        let why = match clip.cause {
            ClipCause::Budget => "budget",
            ClipCause::Signal => "signal",
            ClipCause::Call => "call",
            ClipCause::Crash => "crash",
        };
        let name = format!("{name}.{:04}-frame{}-{why}", self.written, clip.frame);
        let part = self.folder.join(format!("{name}.part"));
        let path = self.folder.join(format!("{name}.hreel"));
        fs::write(&part, &clip.bytes)?;
        (self.symbolicate)(&part);
        if fs::metadata(&part)?.len() > self.most_bytes {
            fs::write(&part, &clip.bytes)?;
        }
        fs::rename(&part, &path)?;
        Ok(path)
    }

    fn saved(&mut self, path: PathBuf) {
        if let Some(command) = &self.on_clip {
            run(command, &path);
        }
        self.kept.push_back(path);
        while self.kept.len() > self.keep {
            if let Some(oldest) = self.kept.pop_front() {
                _ = fs::remove_file(oldest);
            }
        }
    }
}

/// Runs the user's command and waits for it.
fn run(command: &str, clip: &Path) {
    let mut shell = Command::new("/bin/sh");
    shell
        .arg("-c")
        .arg(format!("{command} \"$1\""))
        .arg("heapreel");
    shell.arg(clip).stdin(Stdio::null());
    match shell.status() {
        Ok(status) if !status.success() => {
            eprintln!("heapreel: --on-clip {command}: {status}");
        }
        // Whoever waits for the recorded processes may have taken its status.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::CHILD.raw_os_error()) => {}
        Ok(_) => {}
        Err(error) => eprintln!("heapreel: --on-clip {command}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_frames_or_times() {
        assert_eq!(length("300frames"), Ok(ClipLength::Frames(300)));
        assert_eq!(length("5s"), Ok(ClipLength::Nanos(5_000_000_000)));
        for wrong in ["0frames", "x", "0s", "-1s", "frames"] {
            assert!(length(wrong).is_err(), "{wrong}");
        }
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert!(size("64MB").is_err() && size("0KiB").is_err());
    }
}
