//! What a game may call through heapreel.h.
//!
//! Names are numbered by their content at each call, so that a forked child, which
//! has a trace of its own, needs no care.
#![expect(unsafe_code, reason = "C strings from the game")]

use crate::{environment, lifecycle};
use heapreel::raw::{self, Ended, FrameSource, HeapDeed, LoopId, Role, SegmentId};
use heapreel::{Counts, Stats};
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
    if bytes.is_ascii() {
        // PERF: most names are, and this is cheaper to see than what is UTF-8.
        // SAFETY: ASCII is UTF-8.
        return unsafe { std::str::from_utf8_unchecked(bytes) };
    }
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
    let id = if name.is_empty() || name == "main" {
        LoopId(0)
    } else if !raw::recording() {
        // Counted are the frames of "main".
        return;
    } else {
        raw::loop_id(name, FrameSource::Interface, "")
    };
    raw::frame_mark(id);
}

/// Notes a named instant.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapreel_mark(name: *const c_char) {
    if raw::recording() {
        // SAFETY: heapreel.h asks for a C string or null.
        raw::mark(raw::name_id(unsafe { text(name) }));
    }
}

/// Begins a phase, in which long frames are no spikes.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapreel_phase_begin(name: *const c_char) {
    if raw::recording() {
        // SAFETY: heapreel.h asks for a C string or null.
        raw::phase_begin(raw::name_id(unsafe { text(name) }));
    }
}

/// Ends the phase of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapreel_phase_end(name: *const c_char) {
    if raw::recording() {
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

/// Enters a context on this thread; returns what to leave it to.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapreel_context_begin(kind: *const c_char, name: *const c_char) -> u64 {
    if !raw::recording() {
        return raw::NOT_ENTERED;
    }
    // SAFETY: heapreel.h asks for C strings or null.
    let (kind, name) = unsafe { (text(kind), text(name)) };
    raw::enter_context(kind, name)
}

/// The context of this thread, to be carried to another; 0 outside of any.
#[unsafe(no_mangle)]
extern "C" fn heapreel_context_current() -> u64 {
    if !raw::recording() {
        return 0;
    }
    raw::told(raw::CONTEXT_CURRENT, "", 0)
}

/// Makes a context that was entered before this thread's; returns what to leave it to.
#[unsafe(no_mangle)]
extern "C" fn heapreel_context_enter(context: u64) -> u64 {
    if !raw::recording() {
        return raw::NOT_ENTERED;
    }
    raw::resume_context(context)
}

/// Goes back to the context of before.
#[unsafe(no_mangle)]
extern "C" fn heapreel_context_leave(previous: u64) {
    if previous != raw::NOT_ENTERED {
        raw::resume_context(previous);
    }
}

/// Announces a heap; 0 while nothing is recorded.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapreel_heap_create(
    name: *const c_char,
    kind: c_int,
    parent: u64,
    budget: u64,
) -> u64 {
    if !raw::recording() {
        return 0;
    }
    let kind = raw::heap_kind(u64::try_from(kind).unwrap_or(0));
    // SAFETY: heapreel.h asks for a C string or null.
    raw::create_heap(unsafe { text(name) }, kind, parent, budget)
}

/// A heap holds this memory.
#[unsafe(no_mangle)]
extern "C" fn heapreel_heap_range(heap: u64, address: u64, length: u64) {
    tell_of_heap(heap, HeapDeed::Range { address, length });
}

/// A heap has handed out a block.
#[unsafe(no_mangle)]
extern "C" fn heapreel_heap_alloc(heap: u64, address: u64, size: u64) {
    tell_of_heap(heap, HeapDeed::Alloc { address, size });
}

/// A heap has changed a block.
#[unsafe(no_mangle)]
extern "C" fn heapreel_heap_realloc(heap: u64, old_address: u64, address: u64, size: u64) {
    tell_of_heap(
        heap,
        HeapDeed::Realloc {
            old_address,
            address,
            size,
        },
    );
}

/// A heap is about to take a block back.
#[unsafe(no_mangle)]
extern "C" fn heapreel_heap_free(heap: u64, address: u64) {
    tell_of_heap(heap, HeapDeed::Free { address });
}

/// A heap is about to take all its blocks back.
#[unsafe(no_mangle)]
extern "C" fn heapreel_heap_reset(heap: u64) {
    tell_of_heap(heap, HeapDeed::Reset);
}

/// A heap is about to give up its memory.
#[unsafe(no_mangle)]
extern "C" fn heapreel_heap_destroy(heap: u64) {
    tell_of_heap(heap, HeapDeed::Destroy);
}

/// PERF and for the sake of backtraces: no stack frame of its own.
#[inline(always)]
fn tell_of_heap(heap: u64, deed: HeapDeed) {
    if heap != 0 && raw::recording() {
        raw::heap(heap, deed);
    }
}

/// Says whether the frame waits for this thread.
#[unsafe(no_mangle)]
extern "C" fn heapreel_thread_role(role: c_int) {
    if raw::recording() {
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
    if raw::recording() {
        // SAFETY: heapreel.h asks for a C string or null.
        raw::thread_name(unsafe { text(name) });
    }
}

/// Whether this process is being recorded.
#[unsafe(no_mangle)]
extern "C" fn heapreel_is_recording() -> c_int {
    c_int::from(raw::recording())
}

/// The same for a game that has the crate within: then the crate stays off.
#[unsafe(no_mangle)]
extern "C" fn heapreel_preload_active() -> c_int {
    c_int::from(raw::recording())
}

/// Starts to record into a file, where nobody did so from outside.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapreel_start(file: *const c_char) -> c_int {
    if raw::recording() {
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

/// Counts what this process does from now on.
#[unsafe(no_mangle)]
extern "C" fn heapreel_count() -> c_int {
    c_int::from(raw::is_counting() || lifecycle::count())
}

/// As heapreel.h declares it.
#[repr(C)]
struct CountsOfC {
    allocations: u64,
    deallocations: u64,
    reallocations: u64,
    failed: u64,
    bytes: u64,
    live_bytes: i64,
    allocator_nanos: u64,
    slowest_call_nanos: u64,
}

impl From<Counts> for CountsOfC {
    fn from(counts: Counts) -> CountsOfC {
        CountsOfC {
            allocations: counts.allocations,
            deallocations: counts.deallocations,
            reallocations: counts.reallocations,
            failed: counts.failed,
            bytes: counts.bytes,
            live_bytes: counts.live_bytes,
            allocator_nanos: counts.allocator_time.as_nanos() as u64,
            slowest_call_nanos: counts.slowest_call.as_nanos() as u64,
        }
    }
}

/// As heapreel.h declares it.
#[repr(C)]
struct SegmentOfC {
    name: *const c_char,
    budget_bytes: u64,
    counts: CountsOfC,
}

/// HEAPREEL_SEGMENTS of heapreel.h.
const SEGMENTS_OF_C: usize = 64;

/// As heapreel.h declares it.
#[repr(C)]
struct StatsOfC {
    frames: u64,
    frame_nanos: u64,
    total: CountsOfC,
    segment_count: u64,
    segments: [SegmentOfC; SEGMENTS_OF_C],
}

/// # Safety
/// `out` points to a heapreel_stats of heapreel.h.
unsafe fn fill(out: *mut StatsOfC, stats: &Stats) -> c_int {
    // SAFETY: the caller's promise; fields are written one by one, since C need not have
    // given them a value.
    unsafe {
        (&raw mut (*out).frames).write(stats.frames);
        (&raw mut (*out).frame_nanos).write(stats.frame_time.as_nanos() as u64);
        (&raw mut (*out).total).write(stats.total.into());
        let mut count = 0;
        for segment in stats.segments().take(SEGMENTS_OF_C) {
            (&raw mut (*out).segments[count]).write(SegmentOfC {
                name: segment.c_name().as_ptr(),
                budget_bytes: segment.budget,
                counts: segment.counts.into(),
            });
            count += 1;
        }
        (&raw mut (*out).segment_count).write(count as u64);
    }
    c_int::from(raw::is_counting())
}

/// What all threads did in the last complete frame.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapreel_frame_stats(out: *mut StatsOfC) -> c_int {
    // SAFETY: heapreel.h asks for a heapreel_stats.
    unsafe { fill(out, &heapreel::frame_stats()) }
}

/// What this thread did since counting began.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapreel_thread_stats(out: *mut StatsOfC) -> c_int {
    // SAFETY: heapreel.h asks for a heapreel_stats.
    unsafe { fill(out, &heapreel::thread_stats()) }
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
