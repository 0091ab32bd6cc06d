//! What one thread counted, and how a thread comes to its counters.
#![expect(unsafe_code, reason = "per-thread counters behind a raw pointer")]

use super::{frame, origins, set_up_clock};
use crate::names::KEPT_SEGMENTS;
use crate::os::confined::{self, Deed};
use crate::os::{count::add, memory, process, tls};
use crate::watch::Watch;
use crate::{switch, thread};
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// A thread word that is no pointer, beside 0 for "none yet": "count nothing".
const IGNORED: usize = 1;
/// Counters of other threads that an arriving thread looks at.
const LOOKED_AT: usize = 256;

/// The last line takes all segments that have none of their own.
pub(super) const LINES: usize = KEPT_SEGMENTS;
pub(super) const OTHERS: usize = LINES - 1;

/// Counters of one segment: a cache line.
#[repr(C, align(64))]
#[derive(Default)]
pub(super) struct Line {
    pub(super) allocations: AtomicU64,
    pub(super) deallocations: AtomicU64,
    pub(super) reallocations: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) bytes: AtomicU64,
    /// Bytes that came less bytes that went: less than nothing where a thread gives back
    /// what others allocated.
    pub(super) live: AtomicU64,
    pub(super) ticks: AtomicU64,
    /// The frame in the upper half, its longest call in ticks in the lower.
    pub(super) slowest: AtomicU64,
}

const _: () = assert!(size_of::<Line>() == 64);

/// One thread's counters. Only that thread stores here.
#[repr(C, align(64))]
pub(crate) struct Counters {
    pub(super) lines: [Line; LINES],
    /// What the lines said when this thread moved in.
    pub(super) before: [Line; LINES],
    /// The number of the segment that is current.
    segment: AtomicU32,
    /// Who wants to know each call; null but within `assert_allocs!`.
    pub(crate) watch: AtomicPtr<Watch>,
    /// The kernel's id of the thread that lives here.
    tid: AtomicU32,
    next: *const Counters,
}

/// All counters ever made, newest first.
static ALL: AtomicPtr<Counters> = AtomicPtr::new(std::ptr::null_mut());
/// Whether this process, or one that it was forked from, was told to count.
static WANTED: AtomicBool = AtomicBool::new(false);

/// Begins to count; false where the kernel gives no memory, or the program's filter of
/// system calls keeps us from beginning anything.
pub(crate) fn start() -> bool {
    if !confined::can(Deed::Begin) {
        return false;
    }
    if !memory::keeping_errno(|| {
        set_up_clock();
        origins::set_up()
    }) {
        return false;
    }
    if !WANTED.swap(true, AcqRel) {
        frame::begin();
    }
    switch::count(true);
    true
}

/// Whether somebody wanted to count, and the child of a fork has not heard of it yet.
#[inline(always)]
pub(crate) fn is_wanted() -> bool {
    WANTED.load(Relaxed)
}

/// In the child of a fork: counts on from the figures of its parent.
pub(crate) fn restore() {
    if is_wanted() {
        frame::unlock();
        switch::count(true);
    }
}

/// This thread's counters; none where it is not to be counted.
#[inline(always)]
pub(crate) fn mine() -> Option<&'static Counters> {
    let word = tls::counters();
    if word > IGNORED {
        // SAFETY: set by `arrive` alone, never freed, shared with readers of atomics.
        Some(unsafe { &*(word as *const Counters) })
    } else {
        arrive(word)
    }
}

#[cfg(feature = "assert")]
/// For as long as it lives nothing of this thread is counted.
pub(crate) struct Paused {
    word: usize,
}

#[cfg(feature = "assert")]
impl Paused {
    pub(crate) fn now() -> Paused {
        let word = tls::counters();
        tls::set_counters(IGNORED);
        Paused { word }
    }
}

#[cfg(feature = "assert")]
impl Drop for Paused {
    fn drop(&mut self) {
        tls::set_counters(self.word);
    }
}

#[cold]
#[inline(never)]
fn arrive(word: usize) -> Option<&'static Counters> {
    if word == IGNORED || thread::is_ignored() {
        return None;
    }
    // No handler comes in between: it would arrive, too.
    memory::keeping_errno(|| {
        process::without_signals(|| {
            let pid = if confined::can(Deed::ProcessId) {
                process::pid()
            } else {
                // No thread of this process is gone, then.
                0
            };
            let tid = process::tid();
            let counters = take_over(pid, tid).or_else(|| make(tid))?;
            tls::set_counters(std::ptr::from_ref(counters) as usize);
            // What the recording knows, if there is one.
            if switch::recording() == switch::ON {
                let place = thread::change_place(|_| ());
                counters.segment.store(u32::from(place.segment.0), Relaxed);
                frame::uses(counters.line());
            }
            Some(counters)
        })
    })
}

/// Counters of a thread that is gone: what it counted stays.
fn take_over(pid: u32, tid: u32) -> Option<&'static Counters> {
    let gone = |owner: u32| owner == tid || !process::thread_lives(pid, owner);
    let found = all().take(LOOKED_AT).find(|counters| {
        let owner = counters.tid.load(Acquire);
        gone(owner)
            && counters
                .tid
                .compare_exchange(owner, tid, AcqRel, Relaxed)
                .is_ok()
    })?;
    for (before, line) in found.before.iter().zip(&found.lines) {
        before.set_to(line);
    }
    found.segment.store(0, Relaxed);
    found.watch.store(std::ptr::null_mut(), Relaxed);
    Some(found)
}

fn make(tid: u32) -> Option<&'static Counters> {
    let place = memory::reserve(size_of::<Counters>())?
        .as_ptr()
        .cast::<Counters>();
    // SAFETY: fresh zeroed memory of the right size, page-aligned, never freed; all zero is
    // valid for atomics and a null pointer, and nobody else sees it before the exchange.
    unsafe {
        (*place).tid.store(tid, Relaxed);
        let mut head = ALL.load(Acquire);
        loop {
            (&raw mut (*place).next).write(head);
            match ALL.compare_exchange(head, place, AcqRel, Acquire) {
                Ok(_) => return place.as_ref(),
                Err(newer) => head = newer,
            }
        }
    }
}

/// The counters of all threads.
pub(super) fn all() -> impl Iterator<Item = &'static Counters> {
    let mut next = ALL.load(Acquire).cast_const();
    std::iter::from_fn(move || {
        // SAFETY: null or never freed; `next` never changes once it is in the list.
        let counters = unsafe { next.as_ref()? };
        next = counters.next;
        Some(counters)
    })
}

/// The number of this thread's segment, as far as it is counted. Nothing arrives here: it is
/// asked while the thread arrives elsewhere.
pub(crate) fn current_segment() -> u16 {
    if tls::counters() > IGNORED {
        mine().map_or(0, |counters| counters.segment.load(Relaxed) as u16)
    } else {
        0
    }
}

/// Makes a segment current on this thread; gives back the one before.
pub(crate) fn enter_segment(number: u16) -> u16 {
    mine().map_or(0, |counters| {
        let before = counters.segment.load(Relaxed);
        counters.segment.store(u32::from(number), Relaxed);
        frame::uses(counters.line());
        before as u16
    })
}

impl Line {
    fn set_to(&self, line: &Line) {
        for (to, from) in self.words().into_iter().zip(line.words()) {
            to.store(from.load(Relaxed), Relaxed);
        }
    }

    pub(super) fn words(&self) -> [&AtomicU64; 8] {
        [
            &self.allocations,
            &self.deallocations,
            &self.reallocations,
            &self.failed,
            &self.bytes,
            &self.live,
            &self.ticks,
            &self.slowest,
        ]
    }

    /// The time of one call.
    #[inline(always)]
    fn time(&self, ticks: u64) {
        add(&self.ticks, ticks);
        // A later frame makes a greater number, so that each frame begins anew.
        let call = frame::stamp() | ticks.min(u64::from(u32::MAX));
        if call > self.slowest.load(Relaxed) {
            self.slowest.store(call, Relaxed);
        }
    }
}

impl Counters {
    /// The line of the current segment.
    #[inline(always)]
    fn line(&self) -> usize {
        (self.segment.load(Relaxed) as usize).min(OTHERS)
    }

    #[inline(always)]
    fn at(&self, line: usize) -> &Line {
        // Never another one than asked for: lines come from `line` and from `origins`.
        self.lines.get(line).unwrap_or(&self.lines[OTHERS])
    }

    /// A block of `size` bytes was given out, which holds `held`.
    #[inline(always)]
    pub(crate) fn allocated(&self, address: usize, size: usize, held: usize, ticks: u64) {
        let index = self.line();
        let line = self.at(index);
        origins::put(address, index as u8);
        add(&line.allocations, 1);
        add(&line.bytes, size as u64);
        add(&line.live, held as u64);
        line.time(ticks);
        self.show(size);
    }

    /// Before a block goes back: where it came from. From then on its address may be
    /// another thread's.
    #[inline(always)]
    pub(crate) fn leaving(&self, address: usize) -> Option<u8> {
        origins::take(address)
    }

    /// A block went back that held `held` bytes.
    #[inline(always)]
    pub(crate) fn deallocated(&self, origin: Option<u8>, held: usize, ticks: u64) {
        let line = self.at(origin.map_or_else(|| self.line(), usize::from));
        add(&line.deallocations, 1);
        if origin.is_some() {
            add(&line.live, (held as u64).wrapping_neg());
        }
        line.time(ticks);
    }

    /// A block that came from `origin` has another size, and maybe another address.
    #[inline(always)]
    pub(crate) fn reallocated(
        &self,
        origin: Option<u8>,
        address: usize,
        size: usize,
        (before, after): (usize, usize),
        ticks: u64,
    ) {
        let index = origin.map_or_else(|| self.line(), usize::from);
        let line = self.at(index);
        origins::put(address, index as u8);
        add(&line.reallocations, 1);
        add(&line.bytes, size as u64);
        let before = if origin.is_some() { before } else { 0 };
        add(&line.live, (after as u64).wrapping_sub(before as u64));
        line.time(ticks);
        self.show(size);
    }

    /// A call failed; the block that it was to change, if any, stays.
    #[cold]
    pub(crate) fn failed(&self, old: usize, origin: Option<u8>, size: usize) {
        if let Some(segment) = origin {
            origins::put(old, segment);
        }
        add(&self.at(self.line()).failed, 1);
        self.show(size);
    }

    #[inline(always)]
    fn show(&self, size: usize) {
        let watch = self.watch.load(Relaxed);
        if !watch.is_null() {
            // SAFETY: set by this thread's `Watch::over`, which takes it away before the
            // watch ends.
            unsafe { Watch::note(watch, size) };
        }
    }
}
