//! Without a wrapper the process drains its own spill, on a thread that blocks all
//! signals and keeps out of the recording.
#![expect(unsafe_code, reason = "leaves the descriptor table")]

use crate::os::{clock, memory, process};
use crate::session::{Session, StartError};
use crate::thread;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use heapreel_format::spill::{Drain, SpillMap};
use heapreel_format::{Definition, Ended, FileHeader, TraceFile, WriteError};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two looks at the spill. A fully loaded game fills its 64 MiB in no less
/// than half a second.
const PAUSE: Duration = Duration::from_millis(10);
/// Buffers still written to are drained this often, so that a file can be followed.
const PARTIAL: Duration = Duration::from_millis(500);

struct Running {
    thread: JoinHandle<()>,
    end: Sender<Ended>,
}

static RUNNING: Mutex<Option<Running>> = Mutex::new(None);

/// Starts the thread that creates the trace file and fills it; waits until it has begun.
pub(crate) fn start(session: &'static Session, header: &FileHeader) -> Result<(), StartError> {
    let path = expand(session.output(), header);
    let spill = PathBuf::from(&header.spill);
    let refused = |source: io::Error| StartError::NoTrace {
        path: path.clone(),
        source,
    };
    let (end, ends) = bounded(1);
    let (began, has_begun) = bounded(1);
    let shown = path.clone();
    let work = move || {
        thread::ignore_me();
        leave_descriptors();
        match begin(&shown, &spill) {
            Ok(drain) => {
                _ = began.send(Ok(()));
                run(drain, &ends, &spill, &shown.display().to_string());
            }
            Err(error) => _ = began.send(Err(error)),
        }
    };
    let thread = std::thread::Builder::new().name("heapreel".to_owned());
    // No signal of the program's will be delivered to it.
    let spawned = memory::keeping_errno(|| process::without_signals(|| thread.spawn(work)));
    let thread = spawned.map_err(refused)?;
    // What the thread allocates while it starts is the recorder's own, too: nothing is
    // recorded before it keeps out.
    let began = has_begun.recv().unwrap_or(Err(io::ErrorKind::Other.into()));
    began.map_err(refused)?;
    if let Ok(mut running) = RUNNING.lock() {
        *running = Some(Running { thread, end });
    }
    Ok(())
}

/// Gives this thread a descriptor table of its own, and an empty one: a program that
/// closes or replaces all its descriptors never makes the drain write into its files,
/// and the trace stands in nobody's table but this.
fn leave_descriptors() {
    // SAFETY: affects the descriptors of this thread alone (close_range(2), Linux 5.9);
    // an older kernel refuses, and the table stays shared.
    unsafe { libc::syscall(libc::SYS_close_range, 3, !0u32, libc::CLOSE_RANGE_UNSHARE) };
}

/// Opens trace and spill. The header is written now: a process that is killed or
/// replaced at once leaves a trace that leads to its spill.
fn begin(path: &Path, spill: &Path) -> io::Result<Drain<TraceFile>> {
    let mut options = File::options();
    let file = options
        .read(true)
        .append(true)
        .create_new(true)
        .open(path)?;
    let map = SpillMap::open(spill).map_err(io::Error::other)?;
    let mut drain = Drain::new(map, TraceFile::new(file)?).map_err(io::Error::other)?;
    drain.begin().map_err(io::Error::other)?;
    Ok(drain)
}

/// Has the thread write all that is left, and waits for it.
pub(crate) fn finish(ended: Ended) {
    let running = RUNNING.lock().ok().and_then(|mut running| running.take());
    if let Some(Running { thread, end }) = running {
        _ = end.send(ended);
        _ = thread.join();
    }
}

/// In a forked child: the thread is the parent's and does not exist here.
pub(crate) fn forget() {
    if let Ok(mut running) = RUNNING.try_lock() {
        std::mem::forget(running.take());
    }
}

fn run(drain: Drain<TraceFile>, ends: &Receiver<Ended>, spill: &Path, shown: &str) {
    // The drain must never take the program down: at worst recording ends.
    let work = std::panic::AssertUnwindSafe(|| drain_until_end(drain, ends, shown));
    match std::panic::catch_unwind(work) {
        Ok(Ok(())) => _ = std::fs::remove_file(spill),
        Ok(Err(error)) => process::complain(&format!("heapreel: {shown}: {error}\n")),
        Err(_) => process::complain("heapreel: the recorder's drain failed; recording has ended\n"),
    }
}

fn drain_until_end(
    mut drain: Drain<TraceFile>,
    ends: &Receiver<Ended>,
    shown: &str,
) -> Result<(), WriteError> {
    let mut last_partial = Instant::now();
    let mut complained = false;
    let mut pairs = Duration::ZERO;
    loop {
        let ended = match ends.recv_timeout(PAUSE) {
            Ok(ended) => Some(ended),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Ended::Unknown),
        };
        if let Some(ended) = ended {
            clock_pair(&mut drain)?;
            return drain.finish(ended).map(|_| ());
        }
        let partial = last_partial.elapsed() >= PARTIAL;
        if partial {
            pairs += last_partial.elapsed();
            last_partial = Instant::now();
        }
        if pairs >= Duration::from_secs(1) {
            pairs = Duration::ZERO;
            clock_pair(&mut drain)?;
        }
        if let Err(error) = drain.pass(partial)
            && !complained
        {
            complained = true;
            process::complain(&format!(
                "heapreel: {shown}: {error}; events are being lost\n"
            ));
        }
    }
}

fn clock_pair(drain: &mut Drain<TraceFile>) -> Result<(), WriteError> {
    let monotonic_nanos = clock::monotonic_nanos();
    drain.define(&[Definition::ClockPair {
        key: clock::end(),
        monotonic_nanos,
    }])
}

/// `%p` process id, `%e` program, `%t` seconds since 1970, `%%` a percent sign.
fn expand(pattern: &Path, header: &FileHeader) -> PathBuf {
    let text = pattern.to_string_lossy();
    let program = Path::new(&header.process.executable)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let seconds = header.clock.start_unix_nanos / 1_000_000_000;
    let mut expanded = String::with_capacity(text.len());
    let mut parts = text.split('%');
    expanded.push_str(parts.next().unwrap_or_default());
    while let Some(part) = parts.next() {
        match part.as_bytes().first() {
            Some(b'p') => expanded.push_str(&header.process.pid.to_string()),
            Some(b'e') => expanded.push_str(&program),
            Some(b't') => expanded.push_str(&seconds.to_string()),
            None => {
                expanded.push('%');
                expanded.push_str(parts.next().unwrap_or_default());
                continue;
            }
            Some(_) => {
                expanded.push('%');
                expanded.push_str(part);
                continue;
            }
        }
        expanded.push_str(&part[1..]);
    }
    PathBuf::from(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_filled_in() {
        let mut header = heapreel_format::testing::header();
        header.clock.start_unix_nanos = 5_000_000_000;
        let name = |pattern: &str| expand(Path::new(pattern), &header).display().to_string();
        assert_eq!(name("a.hreel"), "a.hreel");
        assert_eq!(name("%e.%p.%t.hreel"), "example.4242.5.hreel");
        assert_eq!(name("100%%.hreel"), "100%.hreel");
        assert_eq!(name("%x"), "%x");
    }
}
