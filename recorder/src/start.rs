//! Starting and stopping from within a game.
#![expect(unsafe_code, reason = "a function that runs before main")]

use crate::config::{self, Config};
use crate::count;
use crate::session::{self, Origin, StartError};
use crate::{raw, told};
use heapreel_format::Ended;

/// Starts to record this process.
///
/// Under `heapreel record`, or where `HEAPREEL_OUT` is set, recording began before
/// `main`: then this does nothing and succeeds, so that the outer wish wins.
///
/// # Errors
///
/// [`StartError`] where the trace or the spill cannot be created.
pub fn start(config: Config) -> Result<(), StartError> {
    if told::recording() {
        return Ok(());
    }
    let outcome = session::start(config, Origin::Crate);
    if outcome.is_ok() {
        stop_at_exit();
    }
    outcome
}

/// Ends the recording and waits until the trace is whole.
pub fn stop() {
    if raw::drains_itself() {
        session::stop(Ended::Stopped);
    } else {
        session::ending(Ended::Stopped);
    }
}

/// Whether this process records now.
#[inline]
pub fn is_recording() -> bool {
    told::recording()
}

/// Finishes the trace when the program exits in an orderly way.
fn stop_at_exit() {
    extern "C" fn at_exit(status: libc::c_int, _: *mut libc::c_void) {
        if raw::drains_itself() {
            session::stop(Ended::Exit(status));
        } else {
            session::ending(Ended::Exit(status));
        }
    }
    unsafe extern "C" {
        fn on_exit(
            function: extern "C" fn(libc::c_int, *mut libc::c_void),
            argument: *mut libc::c_void,
        ) -> libc::c_int;
    }
    // SAFETY: glibc's on_exit(3) takes a function of this signature; it lives for ever.
    unsafe { on_exit(at_exit, std::ptr::null_mut()) };
}

extern "C" fn before_main() {
    if is_the_preload() {
        // Its own constructor decides.
        return;
    }
    if config::is_count_wanted() {
        count::count();
    }
    // Under the preload library that one records, and this copy stays off.
    if !left_to_the_preload() && raw::start_from_environment(Origin::Crate) {
        stop_at_exit();
    }
}

/// The preload library exports a function that says whether it records.
fn preload_active() -> *mut libc::c_void {
    // SAFETY: asks the loader for a name.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"heapreel_preload_active".as_ptr()) }
}

/// Whether this code is part of the preload library.
fn is_the_preload() -> bool {
    let place = preload_active();
    !place.is_null() && image_of(place) == image_of(before_main as *const libc::c_void)
}

/// Whether that library records this process; then it is told what the game tells.
fn left_to_the_preload() -> bool {
    let place = preload_active();
    if place.is_null() {
        return false;
    }
    // SAFETY: the function takes nothing and returns a C int; asks the loader for a name.
    unsafe {
        let active: extern "C" fn() -> libc::c_int = std::mem::transmute(place);
        let tell = libc::dlsym(libc::RTLD_DEFAULT, c"heapreel_told".as_ptr());
        if active() != 0 && !tell.is_null() {
            told::pass_on_to(tell.cast());
        }
        active() != 0
    }
}

/// Where the image that holds this address begins.
fn image_of(address: *const libc::c_void) -> usize {
    // SAFETY: dladdr writes to a local; an all-zero Dl_info is valid.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        libc::dladdr(address, &raw mut info);
        info.dli_fbase as usize
    }
}

/// Run by the loader before `main` (System V ABI, "Initialization and Termination Functions").
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;
