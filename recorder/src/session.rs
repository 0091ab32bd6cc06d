//! One recording of this process: whether it runs, where it writes, what it keeps.

use crate::config::Config;
use crate::os::confined::{Deed, can};
use crate::os::{clock, memory, process};
use crate::spill::Spill;
use crate::{
    context_table, counters, drain, heap_records, modules, names, spill, stacks, switch, thread,
    unwind,
};
use heapreel_format::spill::{Capacity, ended_word};
use heapreel_format::{Definition, Ended, FileHeader, ProcessFacts, Settings, TraceId};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// What hooks need to know of the settings.
#[derive(Clone, Copy)]
pub(crate) struct Switches {
    pub(crate) backtraces: bool,
    pub(crate) free_backtraces: bool,
    pub(crate) latency: bool,
    pub(crate) depth: u32,
    /// Calls longer than this many ticks are slow.
    pub(crate) slow_ticks: u64,
    /// Compare each backtrace with one that is unwound anew.
    pub(crate) check_unwinding: bool,
}

/// A recording that was started. Leaked: late threads may still look at it.
pub(crate) struct Session {
    pub(crate) spill: Spill,
    pub(crate) switches: Switches,
    pub(crate) pid: u32,
    /// Path of the program.
    pub(crate) executable: String,
    origin: Origin,
    config: Config,
}

static SESSION: AtomicPtr<Session> = AtomicPtr::new(std::ptr::null_mut());
static STARTING: AtomicBool = AtomicBool::new(false);
/// The process in which SESSION was started; another one means we are its child.
static PID: AtomicU32 = AtomicU32::new(0);
/// Tells a recording from those of the processes that this one was forked from.
static NUMBER: AtomicU32 = AtomicU32::new(1);

/// The recording's number, from 1: one more than the one that this process was forked from.
#[inline(always)]
pub(crate) fn number() -> u32 {
    NUMBER.load(Relaxed)
}

/// Who asks to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The preload library.
    Preload,
    /// The crate, within the program.
    Crate,
}

/// Why a recording did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// It runs already, or has run: one recording a process.
    #[error("heapreel records this process already")]
    AlreadyStarted,
    /// Neither shared memory nor the trace's folder takes the spill.
    #[error("{path}: no room for what is recorded: {source}{}", advice(source), path = path.display())]
    NoSpill {
        /// The last place that was tried.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The program's limits on file size and address space leave no room.
    #[error(
        "the limits on file size and address space leave no room for what is recorded; raise them (ulimit -f, ulimit -v)"
    )]
    NoRoom,
    /// No thread can be started to write the trace.
    #[error(
        "no thread can be started to write the trace: {0}; record with `heapreel record`, which needs none"
    )]
    NoThread(io::Error),
    /// The trace file cannot be created.
    #[error("{path}: the trace cannot be created: {source}{}", advice(source), path = path.display())]
    NoTrace {
        /// Where it was to go.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A filter that the program set would not let it pass.
    #[error("the program gave up system calls that it takes to begin")]
    Confined,
    /// The kernel gives no memory.
    #[error("no memory for the recorder")]
    NoMemory,
}

/// What to do about a refusal, where there is something.
fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => "; free some space there",
        Some(libc::EMFILE) => "; raise the limit on open files (ulimit -n)",
        Some(libc::EEXIST) => "; choose another name, as one with %p in it",
        Some(libc::ENOENT) => "; make the folder first",
        Some(libc::ENOSYS) => "; a filter of system calls stands in the way",
        Some(libc::EACCES | libc::EROFS | libc::EPERM) => {
            "; choose a folder that may be written to"
        }
        _ => "",
    }
}

/// The running recording.
#[inline(always)]
pub(crate) fn current() -> Option<&'static Session> {
    let session = SESSION.load(Acquire);
    // SAFETY: only `start` stores a pointer here, of a leaked, never changed value.
    #[expect(unsafe_code, reason = "a leaked value behind an atomic pointer")]
    unsafe {
        session.as_ref()
    }
}

/// Starts to record as `config` says.
pub(crate) fn start(config: Config, origin: Origin) -> Result<(), StartError> {
    if STARTING.swap(true, AcqRel) {
        return Err(StartError::AlreadyStarted);
    }
    let started = if can(Deed::Begin) {
        memory::keeping_errno(|| memory::keeping_float_state(|| set_up(config, origin)))
    } else {
        Err(StartError::Confined)
    };
    if started.is_err() {
        switch::set(switch::OFF);
        STARTING.store(false, Release);
    }
    started
}

fn set_up(config: Config, origin: Origin) -> Result<(), StartError> {
    memory::wipe_on_fork(switch::page());
    unwind::init();
    let capacity = spill::possible(config.capacity()).ok_or(StartError::NoRoom)?;
    if !stacks::set_up(capacity.blocks) {
        return Err(StartError::NoMemory);
    }
    let mut header = header(&config, origin);
    if header.process.pid == 0 {
        return Err(StartError::Confined);
    }
    let (place, spill) = create_spill(&config, capacity, &mut header)?;
    let pid = header.process.pid;
    let switches = Switches {
        backtraces: config.backtraces,
        free_backtraces: config.free_backtraces,
        latency: config.latency,
        depth: config.depth.clamp(1, thread::MAX_DEPTH as u32),
        slow_ticks: (config.slow_call.as_nanos() as f64 * header.clock.ticks_per_second / 1e9)
            as u64,
        check_unwinding: config.check_unwinding,
    };
    let in_process = config.session.is_none();
    let counts = config.count;
    let session = Box::leak(Box::new(Session {
        spill,
        switches,
        pid,
        executable: header.process.executable.clone(),
        origin,
        config,
    }));
    PID.store(pid, Release);
    SESSION.store(session, Release);
    switch::set(switch::STARTING);
    names::define_kept();
    if in_process && let Err(error) = drain::start(session, &header) {
        _ = std::fs::remove_file(&place);
        SESSION.store(std::ptr::null_mut(), Release);
        return Err(error);
    }
    crate::calibrate::calibrate();
    if counts {
        counters::start();
    }
    switch::set(switch::ON);
    Ok(())
}

/// Ends the recording; events after it are not seen.
pub(crate) fn stop(ended: Ended) {
    let Some(session) = current() else { return };
    if switch::recording() != switch::ON || is_of_this_process() == Some(false) {
        return;
    }
    session
        .spill
        .header()
        .ended
        .store(ended_word(ended), Release);
    switch::set(switch::OFF);
    drain::finish(ended);
}

/// Whether the recording was started in this process, and not in one whose memory or whose
/// copy of it this is; `None` where the kernel cannot be asked.
fn is_of_this_process() -> Option<bool> {
    let pid = can(Deed::ProcessId).then(process::pid);
    pid.filter(|pid| *pid != 0)
        .map(|pid| PID.load(Acquire) == pid)
}

/// Notes how the program is about to end, while it still records. Where the kernel cannot
/// be asked who is about to, the wrapper will know.
pub(crate) fn ending(ended: Ended) {
    if let Some(session) = current()
        && switch::recording() == switch::ON
        && is_of_this_process() == Some(true)
    {
        session
            .spill
            .header()
            .ended
            .store(ended_word(ended), Release);
    }
}

/// In the child of a fork: forgets the parent's recording without touching it, and
/// starts one of its own where children are followed.
pub(crate) fn fork_child() {
    if switch::recording() != switch::ASK {
        return;
    }
    let parent = current();
    let Some(parent) = parent else { return };
    if is_of_this_process() == Some(true) {
        return;
    }
    // One thread of a forked child comes here first and does it; a child has one.
    SESSION.store(std::ptr::null_mut(), Release);
    thread::forget();
    stacks::forget();
    names::forget();
    context_table::forget();
    heap_records::forget();
    NUMBER.fetch_add(1, Relaxed);
    modules::forget();
    drain::forget();
    let follow = parent.config.children && parent.config.session.is_some();
    STARTING.store(false, Release);
    if !follow {
        switch::set(switch::OFF);
    } else if let Err(error) = start(parent.config.clone(), parent.origin) {
        refuse(&error, parent.config.session.as_deref());
    }
}

/// Tells why nothing is recorded: whoever is at the terminal, and the wrapper, for which an
/// empty file needs neither room nor a descriptor.
pub(crate) fn refuse(error: &StartError, session: Option<&Path>) {
    process::complain(&format!("heapreel: not recording: {error}\n"));
    if let Some(folder) = session
        && can(Deed::ProcessId)
    {
        let name = format!("{}.refused", process::pid());
        process::make_file(&folder.join(name));
    }
}

/// Whether a recording was started here or in a parent.
pub(crate) fn known() -> bool {
    !SESSION.load(Relaxed).is_null()
}

/// Definitions that every trace begins with.
pub(crate) fn first_definitions() {
    thread::define(&Definition::Generation {
        generation: unwind::generation(),
        key: clock::end(),
    });
}

/// Creates the spill in the first place that takes it.
fn create_spill(
    config: &Config,
    capacity: Capacity,
    header: &mut FileHeader,
) -> Result<(PathBuf, Spill), StartError> {
    let mut refused = StartError::NoMemory;
    for path in places_of_spill(config) {
        match Spill::create(&path, capacity, header) {
            Ok(spill) => return Ok((path, spill)),
            Err(source) => refused = StartError::NoSpill { path, source },
        }
    }
    Err(refused)
}

/// The wrapper's folder; without a wrapper shared memory, or else beside the trace.
fn places_of_spill(config: &Config) -> Vec<PathBuf> {
    let random = process::random();
    let random: String = random
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let pid = process::pid();
    if let Some(folder) = &config.session {
        return vec![folder.join(format!("{pid}-{random}.spill"))];
    }
    let name = format!("heapreel-{pid}-{random}.spill");
    // The trace names it, for readers that work in another folder.
    let beside = std::path::absolute(&config.output);
    let beside = beside.ok().map(|trace| trace.with_file_name(&name));
    let shared = PathBuf::from("/dev/shm").join(name);
    std::iter::once(shared).chain(beside).collect()
}

fn header(config: &Config, origin: Origin) -> FileHeader {
    FileHeader {
        id: TraceId(process::random()),
        clock: clock::set_up(),
        process: process_facts(),
        settings: Settings {
            recorder: env!("CARGO_PKG_VERSION").to_owned(),
            preload: origin == Origin::Preload,
            backtraces: config.backtraces,
            free_backtraces: config.free_backtraces,
            latency: config.latency,
            usable_sizes: false,
            depth: config.depth,
            slow_call_nanos: config.slow_call.as_nanos() as u64,
        },
        spill: String::new(),
    }
}

fn process_facts() -> ProcessFacts {
    let text = |path: &str| {
        std::fs::read_to_string(path)
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let link = |path: &str| {
        std::fs::read_link(path)
            .map(|p| p.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    let arguments = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let arguments = arguments.strip_suffix(&[0]).unwrap_or(&arguments);
    ProcessFacts {
        pid: process::pid(),
        parent_pid: std::os::unix::process::parent_id(),
        executable: link("/proc/self/exe"),
        arguments: arguments
            .split(|byte| *byte == 0)
            .map(|a| String::from_utf8_lossy(a).into_owned())
            .collect(),
        folder: link("/proc/self/cwd"),
        page_size: 4096,
        allocator: ALLOCATOR.get().cloned().unwrap_or_default(),
        machine: format!("Linux {} x86-64", text("/proc/sys/kernel/osrelease")),
    }
}

static ALLOCATOR: OnceLock<String> = OnceLock::new();

/// Tells the name of the allocator beneath the recorder, before the start.
pub(crate) fn name_allocator(name: &str) {
    _ = ALLOCATOR.set(name.to_owned());
}

impl Session {
    /// Where the trace is to go, for a recording without a wrapper.
    pub(crate) fn output(&self) -> &std::path::Path {
        &self.config.output
    }
}
