//! Whom `assert_allocs!` has look at each request for memory: counts them, and remembers
//! from where they came, within a bounded piece of memory.
#![expect(
    unsafe_code,
    reason = "a list of watches on the stacks of their thread"
)]
#![cfg_attr(
    not(feature = "assert"),
    allow(dead_code, reason = "only `assert_allocs!` asks for the places")
)]

use crate::counters::Counters;
use crate::os::memory;
use crate::unwind::{self, StackBounds};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::Ordering::Relaxed;

/// Different backtraces that one watch remembers.
pub(crate) const SITES: usize = 32;
/// Their depth in stack frames.
const DEPTH: usize = 48;

/// One place that asked for memory.
pub(crate) struct Site {
    pub(crate) calls: u64,
    pub(crate) bytes: u64,
    depth: usize,
    frames: [u64; DEPTH],
    /// Whether the outermost one is that of [`Watch::over`].
    pub(crate) is_whole: bool,
}

impl Site {
    /// Return addresses within the watched closure, innermost first.
    pub(crate) fn frames(&self) -> &[u64] {
        self.frames.get(..self.depth).unwrap_or(&[])
    }
}

type Sites = [Site; SITES];

/// What one thread asked for since it began. Watches within watches see the same.
pub(crate) struct Watch {
    outer: *mut Watch,
    pub(crate) calls: u64,
    sites: Option<NonNull<Sites>>,
    bounds: StackBounds,
    /// Where [`Watch::over`] returns to: from there on backtraces are of no interest.
    end: u64,
}

impl Watch {
    pub(crate) fn new() -> Watch {
        unwind::init();
        Watch {
            outer: null_mut(),
            calls: 0,
            sites: None,
            bounds: StackBounds::EMPTY,
            end: 0,
        }
    }

    /// Calls `work` while everything is noted that this thread asks for, until it returns or
    /// unwinds.
    #[inline(never)]
    pub(crate) fn over<R>(&mut self, counters: &Counters, work: impl FnOnce() -> R) -> R {
        let mut end = [0];
        unwind::walk(unwind::here(), &mut self.bounds, &mut end);
        self.end = end[0];
        self.outer = counters.watch.load(Relaxed);
        let _ended = Ended {
            counters,
            outer: self.outer,
        };
        counters.watch.store(self, Relaxed);
        work()
    }

    /// The places, as far as there was room for them.
    pub(crate) fn sites(&self) -> &[Site] {
        // SAFETY: zeroed or written memory of this size, given back by `drop` alone.
        let sites = self.sites.map(|sites| unsafe { sites.as_ref() });
        let sites = sites.map_or(&[][..], |sites| &sites[..]);
        let used = sites.iter().take_while(|site| site.calls > 0).count();
        sites.get(..used).unwrap_or(&[])
    }

    /// Notes a request of so many bytes.
    ///
    /// # Safety
    ///
    /// `watch` and those around it stay where they are, and nobody else uses them.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn note(mut watch: *mut Watch, size: usize) {
        let mut frames = [0; DEPTH];
        // SAFETY: the caller's promise; watches stand on the stack of this thread, further
        // out, and are only touched here while their closures run.
        unsafe {
            let depth = unwind::walk(unwind::here(), &mut (*watch).bounds, &mut frames).len;
            while let Some(this) = watch.as_mut() {
                this.add(frames.get(..depth).unwrap_or(&[]), size as u64);
                watch = this.outer;
            }
        }
    }

    fn add(&mut self, frames: &[u64], bytes: u64) {
        self.calls += 1;
        let end = frames.iter().position(|address| *address == self.end);
        let frames = frames.get(..end.unwrap_or(frames.len())).unwrap_or(&[]);
        if self.sites.is_none() {
            let room = memory::keeping_errno(|| memory::reserve(size_of::<Sites>()));
            self.sites = room.map(NonNull::cast);
        }
        let Some(mut sites) = self.sites else { return };
        // SAFETY: zeroed memory of this size, valid for numbers, this thread's alone.
        let sites = unsafe { sites.as_mut() };
        let same = |site: &Site| site.frames() == frames;
        if let Some(site) = sites.iter_mut().find(|site| site.calls == 0 || same(site)) {
            site.calls += 1;
            site.bytes = site.bytes.wrapping_add(bytes);
            site.depth = frames.len();
            site.is_whole = end.is_some();
            let copied = site.frames.iter_mut().zip(frames);
            copied.for_each(|(to, from)| *to = *from);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(sites) = self.sites {
            // SAFETY: reserved with this size; the borrow of `sites` has ended.
            memory::keeping_errno(|| unsafe {
                memory::give_back(sites.cast(), size_of::<Sites>());
            });
        }
    }
}

/// Puts the watch around back, also when the closure unwinds.
struct Ended<'a> {
    counters: &'a Counters,
    outer: *mut Watch,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.counters.watch.store(self.outer, Relaxed);
    }
}
