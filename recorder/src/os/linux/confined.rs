//! Programs that give system calls up (seccomp).
//!
//! Whoever wrote the filter did not know of us, and a call that it does not list may kill
//! the program. So each filter is asked what it makes of the calls that we would make, and
//! those that it does not answer quietly are not made from then on. Only what any program
//! calls that allocates and has threads is taken for granted: `mmap`, `rt_sigprocmask`.
#![expect(unsafe_code, reason = "reads what the program hands to the kernel")]

use super::seccomp::{Call, Instruction, answers_quietly};
use crate::unwind::is_readable;
use libc::{
    SYS_clock_nanosleep, SYS_close, SYS_exit, SYS_fstat, SYS_ftruncate, SYS_futex, SYS_getpid,
    SYS_getppid, SYS_getrandom, SYS_getrusage, SYS_gettid, SYS_lseek, SYS_madvise, SYS_mknod,
    SYS_mknodat, SYS_mmap, SYS_mprotect, SYS_munmap, SYS_nanosleep, SYS_newfstatat, SYS_openat,
    SYS_prctl, SYS_prlimit64, SYS_read, SYS_readlink, SYS_rename, SYS_sched_yield, SYS_statx,
    SYS_tgkill, SYS_unlink, SYS_write, SYS_writev,
};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// What the recorder does by system calls that a program may have given up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Begins a recording.
    Begin = 1,
    /// Moves records to the trace, on a thread of the program's.
    Drain = 2,
    /// Says a line on standard error.
    Say = 4,
    /// Says a line that is put together of parts.
    SayInParts = 2048,
    /// Asks which process this is.
    ProcessId = 8,
    /// Asks which thread this is.
    ThreadId = 16,
    /// Asks whether a thread is there.
    ThreadLives = 32,
    /// Asks for a thread's name.
    ThreadName = 64,
    /// Asks what a thread met.
    ThreadUsage = 128,
    /// Has memory provided.
    Provide = 256,
    /// Sleeps.
    Nap = 512,
    /// Makes an empty file.
    MakeFile = 1024,
    /// Changes what a library has in memory that is not to be written.
    Protect = 4096,
}

use Deed::{
    Begin, Drain, MakeFile, Nap, ProcessId, Protect, Provide, Say, SayInParts, ThreadId,
    ThreadLives, ThreadName, ThreadUsage,
};

const MADV_POPULATE_WRITE: i64 = 23;
const MADV_WIPEONFORK: i64 = libc::MADV_WIPEONFORK as i64;
const MADV_DONTFORK: i64 = libc::MADV_DONTFORK as i64;
const MADV_DONTNEED: i64 = libc::MADV_DONTNEED as i64;
const READS: i64 = (libc::O_RDONLY | libc::O_CLOEXEC) as i64;
const CREATES: i64 = (libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC) as i64;

const fn any(number: i64) -> Call {
    Call::any(number)
}

const fn opens(flags: i64) -> Call {
    any(SYS_openat)
        .with(0, libc::AT_FDCWD as i64)
        .with(2, flags)
}

const fn limit(resource: libc::__rlimit_resource_t) -> Call {
    any(SYS_prlimit64)
        .with(0, 0)
        .with(1, resource as i64)
        .with(2, 0)
}

const fn advises(advice: i64) -> Call {
    any(SYS_madvise).with(2, advice)
}

/// The calls that each deed takes.
#[rustfmt::skip]
const CALLS: [(Deed, &[Call]); 13] = [
    (Begin, &[
        any(SYS_getpid), any(SYS_getppid), any(SYS_getrandom), any(SYS_readlink),
        limit(libc::RLIMIT_FSIZE), limit(libc::RLIMIT_AS),
        opens(READS), opens(CREATES), any(SYS_read), any(SYS_statx), any(SYS_fstat), any(SYS_newfstatat),
        any(SYS_ftruncate), any(SYS_close), any(SYS_rename), any(SYS_unlink),
        any(SYS_mmap).with(2, (libc::PROT_READ | libc::PROT_WRITE) as i64).with(3, libc::MAP_SHARED as i64),
        any(SYS_munmap), advises(MADV_POPULATE_WRITE), advises(MADV_WIPEONFORK), advises(MADV_DONTFORK),
    ]),
    (Drain, &[
        any(SYS_write), any(SYS_lseek), any(SYS_ftruncate), any(SYS_statx), any(SYS_fstat), any(SYS_newfstatat),
        any(SYS_close), any(SYS_unlink), any(SYS_munmap), any(SYS_getpid), any(SYS_getrandom),
        any(SYS_futex), any(SYS_sched_yield), advises(MADV_DONTNEED), any(SYS_exit),
    ]),
    (Say, &[any(SYS_write).with(0, 2)]),
    (SayInParts, &[any(SYS_writev).with(0, 2)]),
    (ProcessId, &[any(SYS_getpid)]),
    (ThreadId, &[any(SYS_gettid)]),
    (ThreadLives, &[any(SYS_tgkill).with(2, 0)]),
    (ThreadName, &[any(SYS_prctl).with(0, libc::PR_GET_NAME as i64)]),
    (ThreadUsage, &[any(SYS_getrusage).with(0, libc::RUSAGE_THREAD as i64)]),
    (Provide, &[advises(MADV_POPULATE_WRITE)]),
    // What the C library's nanosleep has become.
    (Nap, &[any(SYS_nanosleep), any(SYS_clock_nanosleep)]),
    (MakeFile, &[any(SYS_mknod), any(SYS_mknodat)]),
    (Protect, &[any(SYS_mprotect)]),
];

/// The deeds that are not to be done.
static FORBORNE: AtomicU32 = AtomicU32::new(0);

/// Whether the kernel can be asked to do this without harm to the program.
pub(crate) fn can(deed: Deed) -> bool {
    FORBORNE.load(Relaxed) & deed as u32 == 0
}

/// Deeds that would do harm under a filter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Harmful(u32);

/// Those that are not done any more.
pub(crate) fn forborne() -> Harmful {
    Harmful(FORBORNE.load(Relaxed))
}

impl Harmful {
    /// For another program of the same recorder.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// The inverse of [`Harmful::number`].
    pub(crate) fn from_number(number: u32) -> Harmful {
        Harmful(number)
    }

    /// Whether this one would.
    pub(crate) fn has(self, deed: Deed) -> bool {
        self.0 & deed as u32 != 0
    }

    fn under(filter: &[Instruction]) -> Harmful {
        let quiet = |calls: &[Call]| calls.iter().all(|call| answers_quietly(filter, call));
        let harmful = CALLS.iter().filter(|(_, calls)| !quiet(calls));
        Harmful(harmful.map(|(deed, _)| *deed as u32).sum())
    }

    /// They are not done any more. Never taken back, and inherited by children, as a
    /// filter is. Whether there were any that had been done until now.
    pub(crate) fn forbear(self) -> bool {
        self.0 & !FORBORNE.fetch_or(self.0, Relaxed) != 0
    }
}

/// What the filter at this address would do, a `struct sock_fprog`. `None` where the kernel
/// will not take it either: at null, by which programs ask whether it knows filters.
///
/// # Safety
///
/// No other thread may change the filter meanwhile.
pub(crate) unsafe fn look_at(filter: *const libc::sock_fprog) -> Option<Harmful> {
    if !can_be_read(filter as usize, size_of::<libc::sock_fprog>()) {
        return None;
    }
    // SAFETY: readable, and plain numbers wherever it lies.
    let program = unsafe { filter.read_unaligned() };
    let (place, length) = (program.filter.cast_const(), usize::from(program.len));
    if length == 0 || !can_be_read(place as usize, length * size_of::<Instruction>()) {
        return None;
    }
    let mut copy = Vec::new();
    if copy.try_reserve_exact(length).is_err() {
        return Some(Harmful(u32::MAX));
    }
    // SAFETY: readable so far, plain numbers; the caller's promise.
    copy.extend((0..length).map(|at| unsafe { place.add(at).read_unaligned() }));
    Some(Harmful::under(&copy))
}

fn can_be_read(address: usize, bytes: usize) -> bool {
    const PAGE: usize = 4096;
    let Some(last) = address.checked_add(bytes - 1) else {
        return false;
    };
    (address / PAGE..=last / PAGE).all(|page| is_readable((page * PAGE) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(number: i64) -> [Instruction; 4] {
        let instruction = |code: u32, jt, jf, k| Instruction {
            code: code as u16,
            jt,
            jf,
            k,
        };
        [
            instruction(libc::BPF_LD | libc::BPF_ABS, 0, 0, 0),
            instruction(libc::BPF_JMP | libc::BPF_JEQ, 0, 1, number as u32),
            instruction(libc::BPF_RET, 0, 0, libc::SECCOMP_RET_TRAP),
            instruction(libc::BPF_RET, 0, 0, libc::SECCOMP_RET_ALLOW),
        ]
    }

    fn program(code: &mut [Instruction]) -> libc::sock_fprog {
        libc::sock_fprog {
            len: code.len() as u16,
            filter: code.as_mut_ptr(),
        }
    }

    #[test]
    fn a_deed_is_harmful_if_one_of_its_calls_is() {
        let mut code = only(SYS_getpid);
        // SAFETY: a filter of this test's own.
        let harmful = unsafe { look_at(&program(&mut code)) }.expect("a filter");
        for (deed, _) in CALLS {
            let expected = [Begin, Drain, ProcessId].contains(&deed);
            assert_eq!(harmful.has(deed), expected, "{}", deed as u32);
        }
    }

    #[test]
    fn what_the_kernel_cannot_read_is_not_read() {
        let nothing = libc::sock_fprog {
            len: 3,
            filter: 16 as *mut Instruction,
        };
        let none = program(&mut []);
        for filter in [
            std::ptr::null(),
            4097 as *const _,
            &raw const nothing,
            &raw const none,
        ] {
            // SAFETY: nobody changes it.
            assert!(unsafe { look_at(filter) }.is_none());
        }
    }
}
