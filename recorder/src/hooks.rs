//! Around each call of the allocator: two clock reads, a backtrace, a record.
//!
//! ```text
//! before   backtrace, "a call is under way"
//! start    clock                           ← key of a release, announced in the slot
//! inner    the allocator's own call
//! end      clock                           ← key of an acquisition
//! publish  the record, "no call is under way"
//! ```
//!
//! Nothing of the recorder is held while the inner call runs: it may take a signal,
//! throw a C++ exception or never return.
#![expect(unsafe_code, reason = "stands between the program and its allocator")]

use crate::backtrace::{CallSite, Request};
use crate::call::Call;
use crate::os::clock;
use crate::{session, switch};
use heapreel_format::{Entry, Event, EventKind};

/// Whether this process records now.
#[inline(always)]
pub fn active() -> bool {
    !idle()
}

/// Not recording: almost always because nothing was started.
#[inline(always)]
fn idle() -> bool {
    let word = switch::word();
    if word == switch::ASK && session::known() {
        ask();
        return switch::word() != switch::ON;
    }
    word != switch::ON
}

/// The first call in a forked child.
#[cold]
#[inline(never)]
fn ask() {
    crate::os::memory::keeping_errno(session::fork_child);
}

/// An event of this time with nothing else set.
#[inline(always)]
pub(crate) fn blank(start: u64, end: u64) -> Event {
    Event::blank(start, end, EventKind::Alloc)
}

/// Records a failure when the inner call leaves by unwinding: `operator new` throws.
struct Failing<'a> {
    call: &'a Call,
    start: u64,
    size: u64,
    old: u64,
}

impl Failing<'_> {
    /// The inner call has returned.
    #[inline(always)]
    fn passed(self) {
        std::mem::forget(self);
    }
}

impl Drop for Failing<'_> {
    #[cold]
    fn drop(&mut self) {
        let mut event = blank(self.start, clock::end());
        fail(&mut event, self.size, self.old);
        // SAFETY: unwinding stays on the thread of the call.
        unsafe { self.call.publish(event) };
    }
}

fn fail(event: &mut Event, size: u64, old: u64) {
    event.kind = if old == 0 {
        EventKind::FailedAlloc
    } else {
        EventKind::FailedRealloc
    };
    event.old_address = old;
    event.size = size;
}

/// Runs `inner`, which allocates `size` bytes, and records it as called from `site`.
/// `align` is 0 where the program asked for none. A null result is a failed allocation.
///
/// # Safety
///
/// `inner` must be the allocator's own call for this request.
#[inline(always)]
pub unsafe fn allocate(
    entry: Entry,
    size: usize,
    align: usize,
    zeroed: bool,
    site: CallSite,
    inner: impl FnOnce() -> *mut u8,
) -> *mut u8 {
    if idle() {
        return inner();
    }
    let mut call = Call::NONE;
    // SAFETY: a hook on the thread that makes the call.
    if !unsafe { call.acquire(Request::new(entry, align), site) } {
        return inner();
    }
    let latency = call.is_timed();
    let start = if latency { clock::start() } else { 0 };
    let failing = Failing {
        call: &call,
        start,
        size: size as u64,
        old: 0,
    };
    let address = inner();
    let end = clock::end();
    failing.passed();
    let mut event = blank(if latency { start } else { end }, end);
    event.address = address as u64;
    event.size = size as u64;
    if zeroed {
        event.kind = EventKind::AllocZeroed;
    }
    if address.is_null() {
        fail(&mut event, size as u64, 0);
    }
    // SAFETY: the same thread as above.
    unsafe { call.publish(event) };
    address
}

/// Runs `inner`, which gives the block at `address` back, and records it. Null is no event.
///
/// # Safety
///
/// `inner` must be the allocator's own call for this block.
#[inline(always)]
pub unsafe fn deallocate(entry: Entry, address: *mut u8, site: CallSite, inner: impl FnOnce()) {
    if address.is_null() || idle() {
        return inner();
    }
    let mut call = Call::NONE;
    // SAFETY: a hook on the thread that makes the call.
    if !unsafe { call.release(Request::new(entry, 0), site) } {
        return inner();
    }
    let latency = call.is_timed();
    let start = clock::release();
    // SAFETY: the same thread as above.
    unsafe { call.announce(address as u64, start) };
    inner();
    let end = if latency { clock::end() } else { start };
    let mut event = blank(start, end);
    event.kind = EventKind::Dealloc;
    event.entry = entry;
    event.address = address as u64;
    // SAFETY: the same thread as above.
    unsafe { call.publish(event) };
}

/// Runs `inner`, which changes the block at `old` to `size` bytes, and records it.
/// A null result leaves the old block as it was.
///
/// # Safety
///
/// `inner` must be the allocator's own call for this request; `old` is not null and
/// `size` not one that frees.
#[inline(always)]
pub unsafe fn reallocate(
    entry: Entry,
    old: *mut u8,
    size: usize,
    align: usize,
    site: CallSite,
    inner: impl FnOnce() -> *mut u8,
) -> *mut u8 {
    if idle() {
        return inner();
    }
    let mut call = Call::NONE;
    // SAFETY: a hook on the thread that makes the call.
    if !unsafe { call.acquire(Request::new(entry, align), site) } {
        return inner();
    }
    let start = clock::release();
    // SAFETY: the same thread as above.
    unsafe { call.announce(old as u64, start) };
    let failing = Failing {
        call: &call,
        start,
        size: size as u64,
        old: old as u64,
    };
    let address = inner();
    let end = clock::end();
    failing.passed();
    let mut event = blank(start, end);
    event.kind = EventKind::Realloc;
    event.old_address = old as u64;
    event.address = address as u64;
    event.size = size as u64;
    if address.is_null() {
        fail(&mut event, size as u64, old as u64);
        event.address = 0;
    }
    // SAFETY: the same thread as above.
    unsafe { call.publish(event) };
    address
}
