//! From the first constructor to the last instruction.
#![expect(
    unsafe_code,
    reason = "constructors, exit handlers and the functions that end a process"
)]

use crate::next::Next;
use crate::{binding, cxx_entries, environment, next, pictures};
use heapreel::raw::{self, Ended, Origin};
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// Run by the loader before every other constructor (`-z initfirst`, see build.rs), but
/// after the one by which Rust's library takes the arguments (priority 99).
#[used]
#[unsafe(link_section = ".init_array.00100")]
static BEFORE_ALL: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = begin;

extern "C" fn begin(
    _count: c_int,
    _arguments: *const *const c_char,
    variables: *const *const c_char,
) {
    environment::begin(variables);
    environment::inherit_confinement();
    next::resolve();
    cxx_entries::find();
    watch_the_end();
    if is_asked_to_record() {
        start();
    } else if environment::is_set("HEAPREEL_COUNT") {
        count();
    }
    environment::settle();
}

fn is_asked_to_record() -> bool {
    !environment::value("HEAPREEL_SESSION").is_empty()
        || !environment::value("HEAPREEL_OUT").is_empty()
}

/// Starts as the environment says; whether it records now.
pub(crate) fn start() -> bool {
    if !binding::is_ours() {
        return false;
    }
    raw::name_allocator(&binding::allocator_name());
    let started = raw::start_from_environment(Origin::Preload);
    if started {
        pictures::begin();
    }
    started
}

/// Counts from now on, if the program's calls come to us; whether it does now.
pub(crate) fn count() -> bool {
    binding::is_ours() && raw::count()
}

unsafe extern "C" {
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    fn __cxa_at_quick_exit(function: extern "C" fn(*mut c_void), object: *mut c_void) -> c_int;
}

/// Handlers run last registered first: ours, registered before `main` and before the
/// loader's own, runs when every destructor has run. So also where the game is going to
/// start the recording itself.
fn watch_the_end() {
    // SAFETY: functions of these signatures, which stay loaded.
    unsafe {
        on_exit(at_exit, std::ptr::null_mut());
        __cxa_at_quick_exit(at_quick_exit, std::ptr::null_mut());
        libc::pthread_atfork(None, None, Some(in_child));
    }
}

extern "C" fn at_exit(status: c_int, _: *mut c_void) {
    end(status);
}

static QUICK_STATUS: AtomicI32 = AtomicI32::new(0);

extern "C" fn at_quick_exit(_: *mut c_void) {
    end(QUICK_STATUS.load(Relaxed));
}

unsafe extern "C" fn in_child() {
    raw::fork_child();
}

/// What waitpid(2) shows of a status.
const STATUS_BITS: c_int = 0xff;

fn end(status: c_int) {
    let ended = Ended::Exit(status & STATUS_BITS);
    if raw::drains_itself() {
        raw::stop(ended);
    } else {
        raw::ending(ended);
    }
}

type Leave = unsafe extern "C" fn(c_int) -> !;

macro_rules! next_ending {
    ($name:ident, $symbol:literal, $system_call:expr) => {
        static $name: Next<Leave> = {
            unsafe extern "C" fn first(status: c_int) -> ! {
                unsafe extern "C" fn directly(status: c_int) -> ! {
                    loop {
                        // SAFETY: ends the process.
                        unsafe { libc::syscall($system_call, status) };
                    }
                }
                $name.find($symbol, Some(directly as *mut c_void));
                // SAFETY: the same function's next definition.
                unsafe { $name.get()(status) }
            }
            Next::new(first as *mut c_void)
        };
    };
}

next_ending!(NEXT_EXIT, c"_exit", libc::SYS_exit_group);
next_ending!(NEXT_QUICK_EXIT, c"quick_exit", libc::SYS_exit_group);

#[unsafe(no_mangle)]
unsafe extern "C" fn _exit(status: c_int) -> ! {
    end(status);
    // SAFETY: passed on as it came.
    unsafe { NEXT_EXIT.get()(status) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn _Exit(status: c_int) -> ! {
    // SAFETY: the same by another name (ISO C, 7.24.4.5).
    unsafe { _exit(status) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn quick_exit(status: c_int) -> ! {
    QUICK_STATUS.store(status, Relaxed);
    // SAFETY: passed on as it came.
    unsafe { NEXT_QUICK_EXIT.get()(status) }
}
