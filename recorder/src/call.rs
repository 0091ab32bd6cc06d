//! One call of the allocator, from before it to after it.
//!
//! The thread's slot in the spill says that a call is under way, and of a release also
//! which block it gives back and since when: should the process be killed within the
//! allocator, a reader knows that the block may be gone.
#![expect(unsafe_code, reason = "works on the calling thread's state")]

use crate::backtrace::{CallSite, Request, Sought};
use crate::os::{clock, memory, process};
use crate::thread::{Level, Thread, mine, stack_pointer};
use heapreel_format::{Event, Rare};
use std::sync::atomic::{
    Ordering::{Relaxed, Release, SeqCst},
    compiler_fence,
};

/// One event in so many is timed whole, recording included.
const SAMPLED: u32 = 1024;

/// A call under way. It stays where the hook made it.
///
/// PERF: what is written word by word and then moved in greater pieces makes the
/// processor wait for the stores.
pub(crate) struct Call {
    thread: *mut Thread,
    sought: Sought,
    /// What stood in the slot: the call that a handler interrupted to make this one.
    outer_busy: u64,
    outer_address: u64,
    /// When it was entered, for one of [`SAMPLED`]; else 0.
    entered: u64,
}

impl Call {
    /// Not begun yet.
    pub(crate) const NONE: Call = Call {
        thread: std::ptr::null_mut(),
        sought: Sought::NONE,
        outer_busy: 0,
        outer_address: 0,
        entered: 0,
    };

    /// Begins a call that gives out a block: takes the backtrace and says in the slot
    /// that a call is under way. False where it is not to be recorded.
    ///
    /// # Safety
    ///
    /// Called by a hook on the thread that makes the call; so are all methods here.
    #[inline(never)]
    pub(crate) unsafe fn acquire(&mut self, request: Request, site: CallSite) -> bool {
        let Some(state) = self.attach() else {
            return false;
        };
        let Some(level) = state.enter() else {
            return false;
        };
        self.sought = state.seek_backtrace(level, request, site);
        state.leave(level);
        self.begin(state);
        true
    }

    /// Begins a call that only gives a block back: no backtrace unless that was asked for.
    ///
    /// # Safety
    ///
    /// See [`Call::acquire`].
    #[inline(always)]
    pub(crate) unsafe fn release(&mut self, request: Request, site: CallSite) -> bool {
        let Some(state) = self.attach() else {
            return false;
        };
        if state.switches.free_backtraces {
            // SAFETY: by the caller's promise.
            return unsafe { self.acquire(request, site) };
        }
        self.begin(state);
        true
    }

    /// The thread's state; none where it is to be left alone.
    #[inline(always)]
    fn attach(&mut self) -> Option<&'static mut Thread> {
        self.thread = mine();
        // SAFETY: null, or this thread's own state, made by `arrive`, never freed; a
        // handler that enters here again works on the other half, see `Thread::enter`.
        let state = unsafe { self.thread.as_mut()? };
        if state.events.wrapping_add(1).is_multiple_of(SAMPLED) {
            self.entered = clock::start();
        }
        Some(state)
    }

    /// Whether calls are timed.
    #[inline(always)]
    pub(crate) fn is_timed(&self) -> bool {
        // SAFETY: see `attach`; the call has begun.
        unsafe { &*self.thread }.switches.latency
    }

    /// Says in the slot that a call is under way.
    ///
    /// A handler may come in anywhere here: it leaves the slot as it found it.
    #[inline(always)]
    fn begin(&mut self, state: &mut Thread) {
        let slot = state.slot;
        let busy = slot.busy.load(Relaxed);
        if busy != 0 {
            self.interrupt(state, busy);
        }
        if self.outer_busy == 0 {
            state.busy_at = stack_pointer();
            // The compiler must not move this store before the one above.
            compiler_fence(SeqCst);
            slot.busy.store(1, Relaxed);
        }
    }

    /// Keeps what the slot says of the call that a handler interrupted, unless that was
    /// left by a jump.
    #[cold]
    fn interrupt(&mut self, state: &Thread, busy: u64) {
        if !state.left_behind(state.busy_at, stack_pointer()) {
            self.outer_address = state.slot.address.load(Relaxed);
            self.outer_busy = busy;
        }
    }

    /// Announces that the block at `address` is given back: from here on it may be
    /// handed out again.
    ///
    /// # Safety
    ///
    /// See [`Call::acquire`].
    #[inline(always)]
    pub(crate) unsafe fn announce(&self, address: u64, start: u64) {
        // SAFETY: see `attach`.
        let slot = unsafe { &*self.thread }.slot;
        // The slot never shows one call's time beside another one's address.
        slot.busy.store(1, Relaxed);
        compiler_fence(SeqCst);
        slot.address.store(address, Relaxed);
        // Release: the address is stored before.
        slot.busy.store(start.max(2), Release);
    }

    /// Publishes the event that came of the call.
    ///
    /// # Safety
    ///
    /// See [`Call::acquire`].
    #[inline(always)]
    pub(crate) unsafe fn publish(&self, mut event: Event) {
        // SAFETY: see `attach`.
        let state = unsafe { &mut *self.thread };
        state.events = state.events.wrapping_add(1);
        let Some(level) = state.enter() else {
            self.end(state, event.end);
            return;
        };
        event.stack = state.stack_id(level, &self.sought);
        if self.entered != 0 {
            event.cost = self.cost(event.end - event.start);
        }
        state.publish(level, &event);
        self.end(state, event.end);
        if event.end - event.start > state.switches.slow_ticks {
            state.slow_call(level, event.end);
        }
        state.leave(level);
    }

    /// What recording a call of this latency has cost so far, in ticks.
    #[cold]
    fn cost(&self, latency: u64) -> u32 {
        let spent = clock::end()
            .saturating_sub(self.entered)
            .saturating_sub(latency);
        spent.min(u64::from(u32::MAX)) as u32
    }

    /// The call is published: clears the slot, or puts the interrupted call back.
    #[inline(always)]
    fn end(&self, state: &mut Thread, key: u64) {
        let slot = state.slot;
        slot.last_key.store(key, Relaxed);
        if self.outer_busy != 0 {
            slot.address.store(self.outer_address, Relaxed);
        }
        // Release: a reader that finds the slot cleared finds the record.
        slot.busy.store(self.outer_busy, Release);
    }
}

impl Thread {
    /// What this thread met since its last look bounds why a call was slow.
    #[cold]
    fn slow_call(&mut self, level: Level, end: u64) {
        let Some(usage) = memory::keeping_errno(process::thread_usage) else {
            return;
        };
        let since = |index: usize| usage[index].wrapping_sub(self.usage[index]);
        let rare = Rare::SlowCall {
            minor_faults: since(0),
            major_faults: since(1),
            voluntary_switches: since(2),
            involuntary_switches: since(3),
            interval_ticks: end.saturating_sub(self.usage_key),
        };
        self.usage = usage;
        self.usage_key = end;
        self.publish_rare(level, end, &rare);
    }
}
