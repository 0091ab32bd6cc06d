//! What a game may call through heapreel.h.
//!
//! Names are numbered by their content at each call, so that a forked child, which
//! has a trace of its own, needs no care.
#![expect(unsafe_code, reason = "C strings from the game")]

use crate::{environment, lifecycle};
use heapreel::raw::{self, Ended, FrameSource, LoopId, Role, SegmentId};
use std::ffi::{CStr, c_char, c_int};

/// The text up to the first byte that is not UTF-8; null is no text.
///
/// # Safety
/// A C string or null, which outlives the result.
unsafe fn text<'a>(string: *const c_char) -> &'a str {
    if string.is_null() {
        return "";
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(string) }.to_bytes();
    bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}

/// Ends a game frame of the named loop, of the main one where the name is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapreel_frame_mark(name: *const c_char) {
    if !raw::active() {
        return;
    }
    // SAFETY: heapreel.h asks for a C string or null.
    let name = unsafe { text(name) };
    let id = if name.is_empty() {
        LoopId(0)
    } else {
        raw::loop_id(name, FrameSource::Interface, "")
    };
    raw::frame_mark(id);
}

/// Notes a named instant.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapreel_mark(name: *const c_char) {
    if raw::active() {
        // SAFETY: heapreel.h asks for a C string or null.
        raw::mark(raw::name_id(unsafe { text(name) }));
    }
}

/// Begins a phase, in which long frames are no spikes.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapreel_phase_begin(name: *const c_char) {
    if raw::active() {
        // SAFETY: heapreel.h asks for a C string or null.
        raw::phase_begin(raw::name_id(unsafe { text(name) }));
    }
}

/// Ends the phase of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapreel_phase_end(name: *const c_char) {
    if raw::active() {
        // SAFETY: heapreel.h asks for a C string or null.
        raw::phase_end(raw::name_id(unsafe { text(name) }));
    }
}

/// Makes a segment current on this thread; returns the one before.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapreel_segment_enter(name: *const c_char, budget: u64) -> u32 {
    if !raw::active() {
        return 0;
    }
    // SAFETY: heapreel.h asks for a C string or null.
    let id = raw::segment_id(unsafe { text(name) }, budget);
    u32::from(raw::set_segment(id).0)
}

/// Makes a segment that was returned current again.
#[unsafe(no_mangle)]
extern "C" fn heapreel_segment_leave(previous: u32) {
    if raw::active() {
        raw::set_segment(SegmentId(previous as u16));
    }
}

/// Says whether the frame waits for this thread.
#[unsafe(no_mangle)]
extern "C" fn heapreel_thread_role(role: c_int) {
    if raw::active() {
        raw::thread_role(match role {
            1 => Role::Critical,
            2 => Role::Background,
            _ => Role::Unknown,
        });
    }
}

/// Names this thread in the trace.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapreel_thread_name(name: *const c_char) {
    if raw::active() {
        // SAFETY: heapreel.h asks for a C string or null.
        raw::thread_name(unsafe { text(name) });
    }
}

/// Whether this process is being recorded.
#[unsafe(no_mangle)]
extern "C" fn heapreel_is_recording() -> c_int {
    c_int::from(raw::active())
}

/// The same for a game that has the crate within: then the crate stays off.
#[unsafe(no_mangle)]
extern "C" fn heapreel_preload_active() -> c_int {
    c_int::from(raw::active())
}

/// Starts to record into a file, where nobody did so from outside.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapreel_start(file: *const c_char) -> c_int {
    if raw::active() {
        return 1;
    }
    // SAFETY: heapreel.h asks for a C string or null.
    let file = unsafe { text(file) };
    if file.is_empty() || !environment::value("HEAPREEL_OUT").is_empty() {
        return 0;
    }
    // SAFETY: heapreel.h says that no other thread may use the environment meanwhile.
    unsafe { std::env::set_var("HEAPREEL_OUT", file) };
    let started = lifecycle::start();
    // SAFETY: as above.
    unsafe { std::env::remove_var("HEAPREEL_OUT") };
    c_int::from(started)
}

/// Ends the recording, for good.
#[unsafe(no_mangle)]
extern "C" fn heapreel_stop() {
    raw::stop(Ended::Stopped);
}

/// For a game that carries the crate: its copy of the recorder is off and passes on what
/// the game tells it, as text of this length and a number.
///
/// # Safety
///
/// `text` points to `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapreel_told(kind: u32, text: *const u8, length: usize, number: u64) -> u64 {
    if !raw::active() {
        return 0;
    }
    // SAFETY: the caller's promise; no text at all comes as no length.
    let text = unsafe { std::slice::from_raw_parts(text, length) };
    raw::told(kind, std::str::from_utf8(text).unwrap_or("?"), number)
}
