//! What the recorder keeps for each thread, and how a thread comes to it.
//!
//! The state hangs from the thread's one word and lives in memory straight from the
//! kernel. A thread that ends says nothing; the next one to arrive finds its state by
//! the kernel's word that the thread is gone, hands its buffers over and moves in.
//!
//! The recorder's own code marks itself by the stack pointer it was entered at. A
//! signal handler that interrupts it finds the mark and uses the *nested* half of
//! everything. A mark left behind by a jump out of a handler is recognised because
//! the stack has shrunk past it. No mark is held across the allocator's own call.
#![expect(unsafe_code, reason = "per-thread state behind a raw pointer")]

use crate::backtrace::LastStack;
use crate::context_table::ContextCache;
use crate::counters;
use crate::definitions::DefinitionWriter;
use crate::os::{clock, memory, process, tls};
use crate::session::{self, Session, Switches};
use crate::spill::Spill;
use crate::stacks::StackCache;
use crate::stream::{Owner, Place, Stream};
use crate::unwind::{KnownStack, StackBounds};
use heapreel_format::kill_point::{KillPoint, reach};
use heapreel_format::spill::Slot;
use heapreel_format::{Definition, Event, Rare, SegmentId, ThreadId};
use std::borrow::Cow;
use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    compiler_fence,
};

/// Deepest backtrace in stack frames.
pub(crate) const MAX_DEPTH: usize = 256;
/// Thread words that are no pointer: none yet, and "leave this thread alone".
const NONE: usize = 0;
const IGNORED: usize = 1;
/// A handler runs at least so far below what it interrupted: the red zone (128 bytes,
/// System V ABI) and the saved state with its FXSAVE area (512, `ucontext` of Linux).
const SIGNAL_FRAME_BYTES: usize = 640;
/// States of other threads that an arriving thread looks at.
const LOOKED_AT: usize = 256;

/// What one level of a thread works with: the thread itself, or its handlers.
pub(crate) struct Half {
    /// Stack pointer at which the recorder's own code was entered; 0 outside it.
    inside: AtomicUsize,
    pub(crate) stream: Stream,
    pub(crate) bounds: StackBounds,
    pub(crate) known: KnownStack,
    /// The hash of its return addresses.
    pub(crate) frames_hash: u64,
    /// The last backtrace that was looked up.
    pub(crate) last: LastStack,
    pub(crate) frames: [u64; MAX_DEPTH],
    pub(crate) deltas: [i64; MAX_DEPTH],
    pub(crate) writer: DefinitionWriter,
}

/// One thread's state.
pub(crate) struct Thread {
    pub(crate) halves: [Half; 2],
    pub(crate) slot: &'static Slot,
    pub(crate) spill: Spill,
    pub(crate) switches: Switches,
    pub(crate) place: Place,
    pub(crate) number: u32,
    pub(crate) events: u32,
    /// Stack pointer of the call that `slot.busy` speaks of.
    pub(crate) busy_at: usize,
    pub(crate) usage: [u32; 4],
    pub(crate) usage_key: u64,
    name: [u8; 16],
    /// The kernel's id of the thread that lives here; 0 between two.
    tid: AtomicU32,
    next: *mut Thread,
    pub(crate) cache: StackCache,
    pub(crate) contexts: ContextCache,
}

/// The docs say so: a game has many threads.
const _: () = assert!(size_of::<Thread>() <= 216 << 10);

/// All states ever made, newest first.
static THREADS: AtomicPtr<Thread> = AtomicPtr::new(std::ptr::null_mut());

/// Which half is in use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Main = 0,
    Nested = 1,
}

/// This thread's state, made now if it has none; null where it is to be left alone.
#[inline(always)]
pub(crate) fn mine() -> *mut Thread {
    let word = tls::get();
    if word > IGNORED {
        word as *mut Thread
    } else {
        arrive(word)
    }
}

/// Keeps the calling thread out of the recording: it is the recorder's own.
pub(crate) fn ignore_me() {
    tls::set(IGNORED);
}

/// Whether the calling thread keeps out.
#[inline(always)]
pub(crate) fn is_ignored() -> bool {
    tls::get() == IGNORED
}

#[inline(always)]
pub(crate) fn stack_pointer() -> usize {
    let sp: usize;
    // SAFETY: copies a register.
    unsafe {
        std::arch::asm!("mov {}, rsp", out(reg) sp, options(nomem, nostack, preserves_flags))
    };
    sp
}

impl Thread {
    /// Enters the recorder's own code; `None` where a handler interrupted a handler
    /// within it: then the event is lost, and counted.
    #[inline(always)]
    pub(crate) fn enter(&mut self) -> Option<Level> {
        let main = &self.halves[0].inside;
        if main.load(Relaxed) == 0 {
            main.store(stack_pointer(), Relaxed);
            // The compiler must not move what follows before the mark.
            compiler_fence(AcqRel);
            return Some(Level::Main);
        }
        self.enter_within()
    }

    #[cold]
    fn enter_within(&mut self) -> Option<Level> {
        let sp = stack_pointer();
        for level in [Level::Main, Level::Nested] {
            let marked = self.halves[level as usize].inside.load(Relaxed);
            if marked == 0 || self.left_behind(marked, sp) {
                if marked != 0 {
                    // Whatever was under way there is given up; a new buffer has a base of its own.
                    self.leave_buffer(level);
                    self.halves[level as usize].known.forget();
                }
                self.halves[level as usize].inside.store(sp, Relaxed);
                compiler_fence(AcqRel);
                return Some(level);
            }
        }
        self.slot.lost.fetch_add(1, Relaxed);
        None
    }

    /// A mark on this very stack that no handler can have interrupted belongs to stack
    /// frames that are gone: the kernel puts a signal's frame below the red zone.
    pub(crate) fn left_behind(&self, marked: usize, sp: usize) -> bool {
        let bounds = &self.halves[0].bounds;
        let here = |at: usize| (bounds.low..bounds.high).contains(&(at as u64));
        sp + SIGNAL_FRAME_BYTES > marked && here(sp) && here(marked)
    }

    #[inline(always)]
    pub(crate) fn leave(&mut self, level: Level) {
        compiler_fence(AcqRel);
        self.halves[level as usize].inside.store(0, Relaxed);
    }

    fn leave_buffer(&mut self, level: Level) {
        let owner = owner(&self.spill, self.slot, self.number, level);
        self.halves[level as usize].stream.leave(&owner);
    }

    #[inline(always)]
    pub(crate) fn publish(&mut self, level: Level, event: &Event) {
        let owner = owner(&self.spill, self.slot, self.number, level);
        if !self.halves[level as usize]
            .stream
            .event(&owner, self.place, event)
        {
            self.slot.lost.fetch_add(1, Relaxed);
        }
    }

    /// Publishes that the current context was entered. Where that is lost, the instance is
    /// not counted, and no event is.
    #[inline(always)]
    pub(crate) fn publish_entry(&mut self, level: Level) {
        let owner = owner(&self.spill, self.slot, self.number, level);
        self.halves[level as usize].stream.enter(&owner, self.place);
    }

    pub(crate) fn publish_rare(&mut self, level: Level, key: u64, rare: &Rare) {
        let owner = owner(&self.spill, self.slot, self.number, level);
        let is_published = self.halves[level as usize].stream.rare(&owner, key, rare);
        // What is said about an event's cause is no event.
        if !is_published && !matches!(rare, Rare::SlowCall { .. }) {
            self.slot.lost.fetch_add(1, Relaxed);
        }
    }

    fn tell_name(&mut self, level: Level) {
        let mut name = [0; 16];
        let text = process::thread_name(&mut name);
        let definition = Definition::ThreadName {
            id: ThreadId(self.number),
            name: Cow::Borrowed(text),
        };
        self.halves[level as usize]
            .writer
            .publish(&self.spill, &definition);
        self.name = name;
    }
}

#[inline(always)]
fn owner<'a>(spill: &'a Spill, slot: &'a Slot, thread: u32, level: Level) -> Owner<'a> {
    Owner {
        spill,
        slot,
        thread,
        nested: level == Level::Nested,
    }
}

/// Publishes a rare record of this thread at this instant.
pub(crate) fn rare(rare: &Rare) {
    with_mine(|state, level| {
        if let Rare::FrameMark { id } = rare {
            let bit = 1 << id.0.min(63);
            state.spill.header().loops.fetch_or(bit, Relaxed);
            if let Some(usage) = memory::keeping_errno(process::thread_usage) {
                state.usage = usage;
                state.usage_key = clock::end();
            }
        }
        state.publish_rare(level, clock::end(), rare);
    });
}

/// Publishes a definition.
pub(crate) fn define(definition: &Definition<'_>) {
    with_mine(|state, level| {
        memory::keeping_errno(|| {
            state.halves[level as usize]
                .writer
                .publish(&state.spill, definition)
        });
    });
}

/// Publishes a definition that speaks of this thread.
pub(crate) fn define_mine(definition: impl FnOnce(ThreadId) -> Definition<'static>) {
    with_mine(|state, level| {
        let definition = definition(ThreadId(state.number));
        memory::keeping_errno(|| {
            state.halves[level as usize]
                .writer
                .publish(&state.spill, &definition)
        });
    });
}

/// Changes segment or context of this thread; gives back what it was.
pub(crate) fn change_place(change: impl FnOnce(&mut Place)) -> Place {
    let mut before = Place::default();
    with_mine(|state, _| {
        before = state.place;
        change(&mut state.place);
    });
    before
}

pub(crate) fn with_mine(work: impl FnOnce(&mut Thread, Level)) {
    if !session::known() {
        return;
    }
    let thread = mine();
    if thread.is_null() {
        return;
    }
    // SAFETY: see `before`.
    let state = unsafe { &mut *thread };
    if let Some(level) = state.enter() {
        work(state, level);
        state.leave(level);
    }
}

/// A thread without a state: gives it one.
#[cold]
#[inline(never)]
fn arrive(word: usize) -> *mut Thread {
    if word == IGNORED {
        return std::ptr::null_mut();
    }
    let Some(session) = session::current() else {
        return std::ptr::null_mut();
    };
    // No handler comes in between: its calls would meet half a state.
    let thread = memory::keeping_errno(|| {
        process::without_signals(|| {
            let thread = settle(session);
            tls::set(if thread.is_null() {
                NONE
            } else {
                thread as usize
            });
            thread
        })
    });
    if thread.is_null() {
        session.spill.header().lost.fetch_add(1, Relaxed);
    }
    thread
}

fn settle(session: &'static Session) -> *mut Thread {
    let tid = process::tid();
    let number = session.spill.header().threads.fetch_add(1, Relaxed) + 1;
    let Some(thread) = take_over(session, tid).or_else(|| make(tid)) else {
        return std::ptr::null_mut();
    };
    let Some(slot) = session.spill.claim_slot(number) else {
        // SAFETY: `thread` is valid and nobody else's; it is offered again.
        unsafe { (*thread).tid.store(0, Release) };
        return std::ptr::null_mut();
    };
    reach(KillPoint::SlotClaimed);
    slot.tid.store(tid, Relaxed);
    // SAFETY: valid, and this thread's alone since its tid stands in it. Zeroed memory
    // or a former thread's state: every field that matters is set here.
    let state = unsafe { &mut *thread };
    state.slot = slot;
    state.spill = session.spill;
    state.switches = session.switches;
    state.number = number;
    state.place = Place {
        segment: SegmentId(counters::current_segment()),
        ..Place::default()
    };
    state.usage = process::thread_usage().unwrap_or_default();
    state.usage_key = clock::end();
    let definition = Definition::Thread {
        id: ThreadId(number),
        tid,
        key: state.usage_key,
    };
    state.halves[0].writer.publish(&session.spill, &definition);
    state.tell_name(Level::Main);
    reach(KillPoint::ThreadDefined);
    thread
}

/// The state of a thread that is gone, its buffers handed over.
fn take_over(session: &Session, tid: u32) -> Option<*mut Thread> {
    let mut thread = THREADS.load(Acquire);
    for _ in 0..LOOKED_AT {
        // SAFETY: states are never freed; `tid` is atomic and `next` never changes.
        let (owner, next) = unsafe { (&thread.as_ref()?.tid, (*thread).next) };
        let lives_there = owner.load(Acquire);
        // The kernel gave this thread the id: whoever had it before is gone.
        let gone = lives_there == 0
            || lives_there == tid
            || !process::thread_lives(session.pid, lives_there);
        if gone
            && owner
                .compare_exchange(lives_there, tid, AcqRel, Relaxed)
                .is_ok()
        {
            // SAFETY: ours now.
            unsafe { hand_over(&mut *thread, lives_there) };
            return Some(thread);
        }
        thread = next;
    }
    None
}

/// Gives a dead thread's buffers to the drain and its slot to whoever comes.
fn hand_over(state: &mut Thread, former: u32) {
    if former != 0 {
        reach(KillPoint::DeadThreadFound);
        state.leave_buffer(Level::Main);
        state.leave_buffer(Level::Nested);
        reach(KillPoint::DeadThreadBuffersLeft);
        let lost = state.slot.lost.swap(0, Relaxed);
        state.spill.header().lost.fetch_add(lost, Relaxed);
        state.slot.busy.store(0, Relaxed);
        state.slot.last_key.store(0, Relaxed);
        state.slot.thread.store(0, Release);
        reach(KillPoint::DeadThreadSlotFree);
    }
    for half in &mut state.halves {
        half.inside.store(0, Relaxed);
        half.stream = Stream::default();
        half.bounds = StackBounds::EMPTY;
        half.known.forget();
    }
}

/// A new state in fresh memory.
fn make(tid: u32) -> Option<*mut Thread> {
    let place = memory::reserve(size_of::<Thread>())?
        .as_ptr()
        .cast::<Thread>();
    // SAFETY: fresh zeroed memory of the right size, page-aligned; fields are written
    // through the raw pointer before any reference to the whole is made. `slot` and
    // `spill` are set by `settle` before they are read.
    unsafe {
        (&raw mut (*place).tid).write(AtomicU32::new(tid));
        for half in 0..2 {
            let half = &raw mut (*place).halves[half];
            (&raw mut (*half).stream).write(Stream::default());
            (&raw mut (*half).bounds).write(StackBounds::EMPTY);
        }
        let mut head = THREADS.load(Acquire);
        loop {
            (&raw mut (*place).next).write(head);
            match THREADS.compare_exchange(head, place, AcqRel, Acquire) {
                Ok(_) => return Some(place),
                Err(newer) => head = newer,
            }
        }
    }
}

/// In a forked child: all states belong to the parent's recording.
pub(crate) fn forget() {
    THREADS.store(std::ptr::null_mut(), Release);
    tls::set(NONE);
}
