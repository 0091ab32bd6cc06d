//! Programs that give system calls up.
//!
//! A filter (seccomp) is made by `prctl` or by `syscall`, which take any number of arguments.
#![expect(unsafe_code, reason = "stands in front of two functions")]

use crate::aside::{NextAddress, find, looked_at, unknown};
use crate::environment;
use heapreel::raw;
use std::ffi::{c_int, c_long};

static PRCTL: NextAddress = unknown();
static SYSCALL: NextAddress = unknown();

const PR_SET_SECCOMP: c_int = libc::PR_SET_SECCOMP;
const PR_SET_TSC: c_int = libc::PR_SET_TSC;
const SYS_SECCOMP: c_int = libc::SYS_seccomp as c_int;
const SYS_PRCTL: c_int = libc::SYS_prctl as c_int;

looked_at!(
    prctl,
    PRCTL,
    before_prctl,
    "cmp edi, {seccomp}\nje 3f\ncmp edi, {tsc}\nje 3f",
    seccomp = PR_SET_SECCOMP,
    tsc = PR_SET_TSC
);
looked_at!(
    syscall,
    SYSCALL,
    before_syscall,
    "cmp edi, {seccomp}\nje 3f\ncmp edi, {prctl}\nje 3f",
    seccomp = SYS_SECCOMP,
    prctl = SYS_PRCTL
);

/// Modes of `PR_SET_SECCOMP`.
const STRICT: c_long = libc::SECCOMP_MODE_STRICT as c_long;
const FILTER: c_long = libc::SECCOMP_MODE_FILTER as c_long;
/// `seccomp(2)`'s operations; the C library has no names for them.
const SET_MODE_STRICT: c_long = 0;
const SET_MODE_FILTER: c_long = 1;

extern "C" fn before_prctl(option: c_int, mode: c_long, filter: usize) {
    find(&PRCTL, c"prctl");
    about_to_set(option, mode, filter);
}

extern "C" fn before_syscall(number: c_int, first: c_long, second: c_long, third: usize) {
    find(&SYSCALL, c"syscall");
    match (number, first) {
        // With anything else the kernel refuses, by which programs ask whether it knows the call.
        (SYS_SECCOMP, SET_MODE_STRICT) if second == 0 && third == 0 => {
            about_to_set(PR_SET_SECCOMP, STRICT, 0);
        }
        (SYS_SECCOMP, SET_MODE_FILTER) => about_to_set(PR_SET_SECCOMP, FILTER, third),
        (SYS_PRCTL, option) => about_to_set(option as c_int, second, third),
        _ => {}
    }
}

/// What `prctl` with these arguments means to us.
fn about_to_set(option: c_int, mode: c_long, filter: usize) {
    const NO_TSC: c_long = libc::PR_TSC_SIGSEGV as c_long;
    match (option, mode) {
        // Strict mode takes the time stamp counter along with the system calls.
        (PR_SET_SECCOMP, STRICT) | (PR_SET_TSC, NO_TSC) => {
            raw::give_up("the program gives up the clock that orders events");
        }
        (PR_SET_SECCOMP, FILTER) => about_to_filter(filter as *const libc::sock_fprog),
        _ => {}
    }
}

fn about_to_filter(filter: *const libc::sock_fprog) {
    // SAFETY: what the program hands to the kernel, it must not change meanwhile.
    let keeps_us_from_something = unsafe { raw::confine(filter) };
    if keeps_us_from_something {
        environment::pass_on_confinement();
    }
}
