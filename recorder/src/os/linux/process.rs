//! Facts of this process and its threads, by direct system calls.
#![expect(unsafe_code, reason = "system calls that libc wraps or caches")]

use super::confined::{Deed, can};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// This process's id, asked from the kernel: a cached one is wrong after a raw fork. 0 where
/// a filter of system calls refuses to tell.
pub(crate) fn pid() -> u32 {
    asked(libc::SYS_getpid)
}

fn asked(number: libc::c_long) -> u32 {
    // SAFETY: both calls that come here take no arguments.
    u32::try_from(unsafe { libc::syscall(number) }).unwrap_or(0)
}

/// Above all ids of threads: the kernel gives out at most 2^22.
const INVENTED_IDS: u32 = 1 << 30;

/// This thread's id; where that cannot be asked a number that no thread has.
pub(crate) fn tid() -> u32 {
    static INVENTED: AtomicU32 = AtomicU32::new(INVENTED_IDS);
    let told = if can(Deed::ThreadId) {
        asked(libc::SYS_gettid)
    } else {
        0
    };
    match told {
        0 => INVENTED.fetch_add(1, Relaxed),
        id => id,
    }
}

/// Whether a thread of this process is still there, or may be: a filter of system calls
/// may refuse to tell. Changes `errno`.
pub(crate) fn thread_lives(pid: u32, tid: u32) -> bool {
    if tid >= INVENTED_IDS || !can(Deed::ThreadLives) {
        return true;
    }
    // SAFETY: signal 0 only asks.
    let asked = unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, 0) };
    asked == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// This thread's name as the kernel knows it.
pub(crate) fn thread_name(name: &mut [u8; 16]) -> &str {
    if !can(Deed::ThreadName) {
        return "";
    }
    // SAFETY: the kernel writes at most 16 bytes, terminated.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let length = name
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(name.len());
    std::str::from_utf8(&name[..length]).unwrap_or("?")
}

/// Ends this process as no handler can prevent.
pub(crate) fn kill_myself() {
    // SAFETY: two numbers.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

/// Names this thread, in at most 15 bytes.
pub(crate) fn name_this_thread(name: &std::ffi::CStr) {
    // SAFETY: the kernel reads a C string that lives during the call.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// What this thread met so far: page faults without and with input or output,
/// voluntary and involuntary switches. `None` where that cannot be asked.
pub(crate) fn thread_usage() -> Option<[u32; 4]> {
    if !can(Deed::ThreadUsage) {
        return None;
    }
    // SAFETY: an all-zero rusage is valid, and the kernel writes it whole.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        if libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) != 0 {
            return None;
        }
        usage
    };
    Some([
        usage.ru_minflt as u32,
        usage.ru_majflt as u32,
        usage.ru_nvcsw as u32,
        usage.ru_nivcsw as u32,
    ])
}

/// Random bytes from the kernel.
pub(crate) fn random() -> [u8; 16] {
    let mut bytes = [0u8; 16];
    // SAFETY: writes at most 16 bytes to a local.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
    bytes
}

/// Runs `work` with all of this thread's signals held back until after it. A thread that
/// it starts never gets any.
pub(crate) fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: a zeroed sigset_t is filled by sigfillset; the thread's former mask is
    // put back before anything else happens.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        let held = libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) == 0;
        let result = work();
        if held {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        }
        result
    }
}

/// Lets other threads run for this long, or thereabouts.
pub(crate) fn nap(micros: u32) {
    if !can(Deed::Nap) {
        // A hint takes some hundredths of a microsecond.
        (0..micros * 50).for_each(|_| std::hint::spin_loop());
        return;
    }
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: i64::from(micros) * 1000,
    };
    // SAFETY: reads a local; an interrupted sleep is only shorter.
    unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
}

/// Waits until [`wake`] is called on a word that is no longer `value`, or so long at most.
pub(crate) fn wait_while(word: &AtomicU32, value: u32, longest: Duration) {
    let time = libc::timespec {
        tv_sec: longest.as_secs() as libc::time_t,
        tv_nsec: i64::from(longest.subsec_nanos()),
    };
    // SAFETY: the kernel reads an aligned word and a local (futex(2)).
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            &raw const time,
        )
    };
}

/// Ends the waiting of those who wait on this word.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: the kernel compares the word's address alone (futex(2)).
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            i32::MAX,
        )
    };
}

/// Makes an empty file without opening it.
pub(crate) fn make_file(path: &std::path::Path) {
    use std::os::unix::ffi::OsStrExt;
    if !can(Deed::MakeFile) {
        return;
    }
    if let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) {
        // SAFETY: reads a C string that lives during the call.
        unsafe { libc::mknod(path.as_ptr(), libc::S_IFREG | 0o600, 0) };
    }
}

/// Writes one line to standard error without allocating or buffering.
pub(crate) fn complain(line: &str) {
    if !can(Deed::Say) {
        return;
    }
    // SAFETY: writes bytes of a live string; a short write is accepted.
    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
}
