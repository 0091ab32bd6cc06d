//! Without a wrapper the process drains its own spill, on a thread that blocks all
//! signals and keeps out of the recording.
#![expect(unsafe_code, reason = "leaves the descriptor table")]

use crate::os::{clock, memory, process};
use crate::session::{Session, StartError};
use crate::thread;
use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use heapreel_format::spill::{Drain, SpillMap};
use heapreel_format::{Definition, Ended, FileHeader, TraceFile, WriteError};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Release};
use std::time::{Duration, Instant};

/// Between two looks at the spill. A fully loaded game fills its 64 MiB in no less
/// than half a second.
const PAUSE: Duration = Duration::from_millis(10);
/// Buffers still written to are drained this often, so that a file can be followed.
const PARTIAL: Duration = Duration::from_millis(500);

/// The drain's stack: what it works on lies elsewhere.
const STACK_BYTES: usize = 1 << 20;

struct Running {
    thread: libc::pthread_t,
    end: Sender<Ended>,
}

static RUNNING: Mutex<Option<Running>> = Mutex::new(None);
/// 1 from when the end was told, which the thread waits for.
static ENDING: AtomicU32 = AtomicU32::new(0);

/// Starts the thread that creates the trace file and fills it; waits until it has begun.
pub(crate) fn start(session: &'static Session, header: &FileHeader) -> Result<(), StartError> {
    let path = expand(session.output(), header);
    let spill = PathBuf::from(&header.spill);
    let refused = |source: io::Error| StartError::NoTrace {
        path: path.clone(),
        source,
    };
    ENDING.store(0, Release);
    let (end, ends) = bounded(1);
    let (began, has_begun) = bounded(1);
    let shown = path.clone();
    let work = move || {
        thread::ignore_me();
        leave_descriptors();
        match begin(&shown, &spill) {
            Ok(drain) => {
                _ = began.send(Ok(()));
                drain_until_end(drain, &ends, &spill, &shown.display().to_string());
            }
            Err(error) => _ = began.send(Err(error)),
        }
    };
    // No signal of the program's will be delivered to it.
    let spawned =
        memory::keeping_errno(|| process::without_signals(|| spawn(Box::new(Box::new(work)))));
    let thread = spawned.map_err(StartError::NoThread)?;
    // What the thread allocates while it starts is the recorder's own, too: nothing is
    // recorded before it keeps out.
    wait_for(&has_begun).map_err(refused)?;
    if let Ok(mut running) = RUNNING.lock() {
        *running = Some(Running { thread, end });
    }
    Ok(())
}

type Work = Box<dyn FnOnce() + Send>;

/// Starts a thread without std: its `spawn` leaves a destructor with the calling thread, for
/// which the C library takes a block of the program's, to be freed at its end.
fn spawn(work: Box<Work>) -> io::Result<libc::pthread_t> {
    extern "C" fn body(work: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: what `spawn` has made, handed to this one call.
        let work = unsafe { Box::from_raw(work.cast::<Work>()) };
        process::name_this_thread(c"heapreel");
        // The drain must never take the program down: at worst recording ends.
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err() {
            process::complain("heapreel: the recorder's drain failed; recording has ended\n");
        }
        std::ptr::null_mut()
    }
    let work = Box::into_raw(work);
    let mut thread = 0;
    // SAFETY: attributes that are initialised before they are used, a function of this
    // type, and a pointer that it takes over.
    let refused = unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setstacksize(&raw mut attributes, STACK_BYTES);
        libc::pthread_create(&raw mut thread, &raw const attributes, body, work.cast())
    };
    if refused == 0 {
        return Ok(thread);
    }
    // SAFETY: no thread has taken it over.
    drop(unsafe { Box::from_raw(work) });
    Err(io::Error::from_raw_os_error(refused))
}

/// Waits by looking now and then: a blocking channel keeps something for each thread, in a
/// block of the C library's, which makes a heap of 64 MiB of addresses for a new thread.
fn wait_for(begun: &Receiver<io::Result<()>>) -> io::Result<()> {
    loop {
        match begun.try_recv() {
            Ok(result) => return result,
            Err(TryRecvError::Empty) => process::nap(50),
            Err(TryRecvError::Disconnected) => return Err(io::ErrorKind::Other.into()),
        }
    }
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
    // One after the other: a program may have a single descriptor left.
    let map = SpillMap::open(spill).map_err(io::Error::other)?;
    let mut options = File::options();
    let file = options
        .read(true)
        .append(true)
        .create_new(true)
        .open(path)?;
    let mut drain = Drain::new(map, TraceFile::new(file)?).map_err(io::Error::other)?;
    drain.begin().map_err(|error| {
        _ = std::fs::remove_file(path);
        match error {
            WriteError::Io(error) => error,
            other => io::Error::other(other),
        }
    })?;
    Ok(drain)
}

/// Has the thread write all that is left, and waits for it.
pub(crate) fn finish(ended: Ended) {
    let running = RUNNING.lock().ok().and_then(|mut running| running.take());
    if let Some(Running { thread, end }) = running {
        _ = end.send(ended);
        ENDING.store(1, Release);
        process::wake(&ENDING);
        // SAFETY: a thread of ours that nobody else joins.
        unsafe { libc::pthread_join(thread, std::ptr::null_mut()) };
    }
}

/// In a forked child: the thread is the parent's and does not exist here.
pub(crate) fn forget() {
    if let Ok(mut running) = RUNNING.try_lock() {
        std::mem::forget(running.take());
    }
}

fn drain_until_end(mut drain: Drain<TraceFile>, ends: &Receiver<Ended>, spill: &Path, shown: &str) {
    let mut last_partial = Instant::now();
    let mut complaint = Complaint::default();
    let mut pairs = Duration::ZERO;
    loop {
        process::wait_while(&ENDING, 0, PAUSE);
        let ended = match ends.try_recv() {
            Ok(ended) => Some(ended),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Ended::Unknown),
        };
        let partial = ended.is_some() || last_partial.elapsed() >= PARTIAL;
        if partial {
            pairs += last_partial.elapsed();
            last_partial = Instant::now();
        }
        if ended.is_some() || pairs >= Duration::from_secs(1) {
            pairs = Duration::ZERO;
            _ = clock_pair(&mut drain);
        }
        if let Err(error) = drain.pass(partial) {
            complaint.make(&format!("{shown}: {error}; events are being lost"));
        }
        if let Some(ended) = ended {
            return finish_trace(drain, ended, spill, shown, complaint);
        }
    }
}

/// Ends the trace. The spill goes, unless it has to tell what the trace cannot.
fn finish_trace(
    drain: Drain<TraceFile>,
    ended: Ended,
    spill: &Path,
    shown: &str,
    mut complaint: Complaint,
) {
    let Err(error) = drain.finish(ended) else {
        _ = std::fs::remove_file(spill);
        return;
    };
    if error.file_is_gone() {
        _ = std::fs::remove_file(spill);
        complaint.make(&format!("{shown}: {error}; nothing is recorded"));
    } else {
        let spill = spill.display();
        complaint.make(&format!(
            "{shown}: {error}; its end is in {spill}, which `heapreel recover --remove-spill` saves"
        ));
    }
}

/// One line on standard error, however often there would be reason for it.
#[derive(Default)]
struct Complaint {
    was_made: bool,
}

impl Complaint {
    fn make(&mut self, line: &str) {
        if !self.was_made {
            self.was_made = true;
            process::complain(&format!("heapreel: {line}\n"));
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
