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
//! Where calls are counted, too, the same two clock reads serve; where they are only
//! counted there is neither backtrace nor record.
//!
//! Nothing of the recorder is held while the inner call runs: it may take a signal,
//! throw a C++ exception or never return.
#![expect(unsafe_code, reason = "stands between the program and its allocator")]

use crate::backtrace::{CallSite, Request};
use crate::call::Call;
use crate::counters::{self, Counters};
use crate::os::clock;
use crate::switch::{ACTIVE, ASK, COUNTING, ON};
use crate::{session, switch};
use heapreel_format::{Entry, Event, EventKind};

/// Whether there is anything to do: this process records or counts now.
#[inline(always)]
pub fn active() -> bool {
    mode() >= ACTIVE
}

/// What is to be done; below [`ACTIVE`] nothing, almost always because nothing was started.
#[inline(always)]
fn mode() -> u32 {
    let word = switch::word();
    if word == ASK && (session::known() || counters::is_wanted()) {
        return ask();
    }
    word
}

/// The first call in a forked child.
#[cold]
#[inline(never)]
fn ask() -> u32 {
    crate::os::memory::keeping_errno(fork_child);
    switch::word()
}

/// In the child of a fork, as soon as anybody notices.
pub fn fork_child() {
    session::fork_child();
    counters::restore();
}

/// An event of this time with nothing else set.
#[inline(always)]
pub(crate) fn blank(start: u64, end: u64) -> Event {
    Event::blank(start, end, EventKind::Alloc)
}

/// Whom a call is shown to.
struct Seen {
    call: Call,
    is_recorded: bool,
    counters: Option<&'static Counters>,
}

impl Seen {
    /// `word` is a constant where calls are only recorded, so that nothing of the
    /// counting is left there.
    #[inline(always)]
    fn new(word: u32) -> Seen {
        let is_counting = word & COUNTING != 0;
        Seen {
            call: Call::NONE,
            is_recorded: false,
            counters: if is_counting { counters::mine() } else { None },
        }
    }

    #[inline(always)]
    fn by_anyone(&self) -> bool {
        self.is_recorded || self.counters.is_some()
    }

    /// Whether the call is timed.
    #[inline(always)]
    fn is_timed(&self) -> bool {
        !self.is_recorded || self.call.is_timed()
    }

    /// # Safety
    ///
    /// On the thread of the call.
    #[inline(always)]
    unsafe fn publish(&self, event: Event) {
        if self.is_recorded {
            // SAFETY: the caller's promise.
            unsafe { self.call.publish(event) };
        }
    }
}

/// Whether a word says to record.
#[inline(always)]
fn records(word: u32) -> bool {
    word & !COUNTING == ON
}

/// Tells of a failure when the inner call leaves by unwinding: `operator new` throws.
struct Failing<'a> {
    seen: &'a Seen,
    start: u64,
    size: u64,
    old: u64,
    origin: Option<u8>,
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
        unsafe { self.seen.publish(event) };
        if let Some(counters) = self.seen.counters {
            let (old, size) = (self.old as usize, self.size as usize);
            counters.failed(old, self.origin, size);
        }
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

/// A request for memory.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// The function that was called.
    pub entry: Entry,
    /// Bytes that were asked for.
    pub size: usize,
    /// 0 where the program asked for none.
    pub align: usize,
    /// Whether the memory has to be zero.
    pub zeroed: bool,
}

/// Runs `inner`, which allocates what is `wanted`, and records and counts it as called from
/// `site`. A null result is a failed allocation. `held` tells how many bytes a block holds.
///
/// # Safety
///
/// `inner` must be the allocator's own call for this request.
#[inline(always)]
pub unsafe fn allocate(
    wanted: Wanted,
    site: CallSite,
    held: impl FnOnce(*mut u8) -> usize,
    inner: impl FnOnce() -> *mut u8,
) -> *mut u8 {
    let word = mode();
    if word == ON {
        // SAFETY: the caller's promise.
        return unsafe { around_allocation(ON, wanted, site, held, inner) };
    }
    if word < ACTIVE {
        return inner();
    }
    // SAFETY: the caller's promise.
    unsafe { around_allocation(word, wanted, site, held, inner) }
}

/// # Safety
///
/// See [`allocate`].
#[inline(always)]
unsafe fn around_allocation(
    word: u32,
    wanted: Wanted,
    site: CallSite,
    held: impl FnOnce(*mut u8) -> usize,
    inner: impl FnOnce() -> *mut u8,
) -> *mut u8 {
    let Wanted {
        entry,
        size,
        align,
        zeroed,
    } = wanted;
    let mut seen = Seen::new(word);
    // SAFETY: a hook on the thread that makes the call.
    seen.is_recorded =
        records(word) && unsafe { seen.call.acquire(Request::new(entry, align), site) };
    if !seen.by_anyone() {
        return inner();
    }
    let latency = seen.is_timed();
    let start = if latency { clock::start() } else { 0 };
    let failing = Failing {
        seen: &seen,
        start,
        size: size as u64,
        old: 0,
        origin: None,
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
    unsafe { seen.publish(event) };
    if let Some(counters) = seen.counters {
        if address.is_null() {
            counters.failed(0, None, size);
        } else {
            let ticks = event.end - event.start;
            counters.allocated(address as usize, size, held(address), ticks);
        }
    }
    address
}

/// Runs `inner`, which gives the block at `address` back, and records and counts it. Null is
/// no event. `held` tells how many bytes it holds, and is asked before.
///
/// # Safety
///
/// `inner` must be the allocator's own call for this block.
#[inline(always)]
pub unsafe fn deallocate(
    entry: Entry,
    address: *mut u8,
    site: CallSite,
    held: impl FnOnce(*mut u8) -> usize,
    inner: impl FnOnce(),
) {
    if address.is_null() {
        return inner();
    }
    let word = mode();
    if word == ON {
        // SAFETY: the caller's promise.
        return unsafe { around_deallocation(ON, entry, address, site, held, inner) };
    }
    if word < ACTIVE {
        return inner();
    }
    // SAFETY: the caller's promise.
    unsafe { around_deallocation(word, entry, address, site, held, inner) }
}

/// # Safety
///
/// See [`deallocate`].
#[inline(always)]
unsafe fn around_deallocation(
    word: u32,
    entry: Entry,
    address: *mut u8,
    site: CallSite,
    held: impl FnOnce(*mut u8) -> usize,
    inner: impl FnOnce(),
) {
    let mut seen = Seen::new(word);
    // SAFETY: a hook on the thread that makes the call.
    seen.is_recorded = records(word) && unsafe { seen.call.release(Request::new(entry, 0), site) };
    if !seen.by_anyone() {
        return inner();
    }
    let leaving = seen
        .counters
        .map(|counters| (counters, counters.leaving(address as usize), held(address)));
    let latency = seen.is_timed();
    let start = clock::release();
    if seen.is_recorded {
        // SAFETY: the same thread as above.
        unsafe { seen.call.announce(address as u64, start) };
    }
    inner();
    let end = if latency { clock::end() } else { start };
    let mut event = blank(start, end);
    event.kind = EventKind::Dealloc;
    event.entry = entry;
    event.address = address as u64;
    // SAFETY: the same thread as above.
    unsafe { seen.publish(event) };
    if let Some((counters, origin, held)) = leaving {
        counters.deallocated(origin, held, end - start);
    }
}

/// Runs `inner`, which changes the block at `old` as is `wanted`, and records and counts it.
/// A null result leaves the old block as it was. `held` tells how many bytes a block holds:
/// it is asked of the old one before and of the new one after.
///
/// # Safety
///
/// `inner` must be the allocator's own call for this request; `old` is not null and
/// the size not one that frees.
#[inline(always)]
pub unsafe fn reallocate(
    wanted: Wanted,
    old: *mut u8,
    site: CallSite,
    held: (impl FnOnce(*mut u8) -> usize, impl FnOnce(*mut u8) -> usize),
    inner: impl FnOnce() -> *mut u8,
) -> *mut u8 {
    let word = mode();
    if word == ON {
        // SAFETY: the caller's promise.
        return unsafe { around_reallocation(ON, wanted, old, site, held, inner) };
    }
    if word < ACTIVE {
        return inner();
    }
    // SAFETY: the caller's promise.
    unsafe { around_reallocation(word, wanted, old, site, held, inner) }
}

/// # Safety
///
/// See [`reallocate`].
#[inline(always)]
unsafe fn around_reallocation(
    word: u32,
    wanted: Wanted,
    old: *mut u8,
    site: CallSite,
    (held_before, held_after): (impl FnOnce(*mut u8) -> usize, impl FnOnce(*mut u8) -> usize),
    inner: impl FnOnce() -> *mut u8,
) -> *mut u8 {
    let Wanted {
        entry, size, align, ..
    } = wanted;
    let mut seen = Seen::new(word);
    // SAFETY: a hook on the thread that makes the call.
    seen.is_recorded =
        records(word) && unsafe { seen.call.acquire(Request::new(entry, align), site) };
    if !seen.by_anyone() {
        return inner();
    }
    let leaving = seen
        .counters
        .map(|counters| (counters, counters.leaving(old as usize), held_before(old)));
    let start = clock::release();
    if seen.is_recorded {
        // SAFETY: the same thread as above.
        unsafe { seen.call.announce(old as u64, start) };
    }
    let failing = Failing {
        seen: &seen,
        start,
        size: size as u64,
        old: old as u64,
        origin: leaving.and_then(|(_, origin, _)| origin),
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
    unsafe { seen.publish(event) };
    if let Some((counters, origin, before)) = leaving {
        if address.is_null() {
            counters.failed(old as usize, origin, size);
        } else {
            let held = (before, held_after(address));
            counters.reallocated(origin, address as usize, size, held, end - start);
        }
    }
    address
}
