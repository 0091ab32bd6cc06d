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

use crate::definitions::DefinitionWriter;
use crate::os::{clock, memory, process, tls};
use crate::session::{self, Session, Switches};
use crate::spill::Spill;
use crate::stacks::{self, Found, StackCache};
use crate::stream::{Owner, Place, Stream};
use crate::unwind::{self, Frame, KnownStack, StackBounds};
use heapreel_format::spill::Slot;
use heapreel_format::{Definition, Entry, Event, Rare, StackId, ThreadId};
use std::borrow::Cow;
use std::ffi::CStr;
use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    compiler_fence,
};

/// Deepest backtrace in stack frames.
pub(crate) const MAX_DEPTH: usize = 256;
/// One event in so many is timed whole, recording included.
const SAMPLED: u32 = 1024;
/// Thread words that are no pointer: none yet, and "leave this thread alone".
const NONE: usize = 0;
const IGNORED: usize = 1;
/// A handler runs at least so far below what it interrupted: the red zone (128 bytes,
/// System V ABI) and the saved state with its FXSAVE area (512, `ucontext` of Linux).
const SIGNAL_FRAME_BYTES: usize = 640;
/// Longest path that is kept.
const MAX_PATH_BYTES: usize = 3900;
/// States of other threads that an arriving thread looks at.
const LOOKED_AT: usize = 256;

/// What one level of a thread works with: the thread itself, or its handlers.
struct Half {
    /// Stack pointer at which the recorder's own code was entered; 0 outside it.
    inside: AtomicUsize,
    stream: Stream,
    bounds: StackBounds,
    known: KnownStack,
    /// The last backtrace, which is the next one too as long as the stack is unchanged.
    last: LastStack,
    frames: [u64; MAX_DEPTH],
    deltas: [i64; MAX_DEPTH],
    writer: DefinitionWriter,
}

/// A backtrace's number and what it was asked for.
#[derive(Clone, Copy)]
struct LastStack {
    id: u32,
    request: Request,
}

/// What tells backtraces with the same stack frames apart. All zeros are none's.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Request {
    entry: Entry,
    align_log2: u8,
}

/// Where the program called an allocation function.
///
/// PERF: two words, which travel in registers.
#[derive(Clone, Copy)]
pub struct CallSite {
    /// Stack pointer at the function's first instruction; 0 where it is not known.
    sp: usize,
    /// Frame pointer there.
    fp: usize,
}

impl CallSite {
    /// The function that called the hook's caller, found by unwinding.
    pub const UNKNOWN: CallSite = CallSite { sp: 0, fp: 0 };

    /// From the stack pointer and the frame pointer at the first instruction of an
    /// allocation function.
    ///
    /// # Safety
    ///
    /// The call does not return as long as this value is used.
    #[inline(always)]
    pub unsafe fn at_entry(sp: usize, fp: usize) -> CallSite {
        CallSite { sp, fp }
    }

    /// The address that the call returns to, for one that is known.
    #[inline(always)]
    pub fn return_address(self) -> usize {
        // SAFETY: the return address lies on top of the stack until the call returns
        // (System V ABI for x86-64, 3.2.2).
        unsafe { *(self.sp as *const usize) }
    }

    /// The stack frame that the call returns to; none where it is not known.
    #[inline(always)]
    fn frame(self) -> Option<Frame> {
        if self.sp == 0 {
            return None;
        }
        Some(Frame {
            ra: self.return_address() as u64,
            sp: self.sp as u64 + 8,
            fp: self.fp as u64,
        })
    }
}

/// One thread's state.
pub(crate) struct Thread {
    halves: [Half; 2],
    slot: &'static Slot,
    spill: Spill,
    switches: Switches,
    place: Place,
    number: u32,
    events: u32,
    /// Stack pointer of the call that `slot.busy` speaks of.
    busy_at: usize,
    usage: [u32; 4],
    usage_key: u64,
    name: [u8; 16],
    /// The kernel's id of the thread that lives here; 0 between two.
    tid: AtomicU32,
    next: *mut Thread,
    cache: StackCache,
}

/// All states ever made, newest first.
static THREADS: AtomicPtr<Thread> = AtomicPtr::new(std::ptr::null_mut());

/// A call that has begun: what to publish it with.
pub(crate) struct Pending {
    thread: *mut Thread,
    stack: StackId,
    saved_busy: u64,
    saved_address: u64,
    began: u64,
    pub(crate) latency: bool,
}

/// Which half is in use.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Main = 0,
    Nested = 1,
}

/// This thread's state, made now if it has none; null where it is to be left alone.
#[inline(always)]
fn mine() -> *mut Thread {
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
fn stack_pointer() -> usize {
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
    fn enter(&mut self) -> Option<Level> {
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
    fn left_behind(&self, marked: usize, sp: usize) -> bool {
        let bounds = &self.halves[0].bounds;
        let here = |at: usize| (bounds.low..bounds.high).contains(&(at as u64));
        sp + SIGNAL_FRAME_BYTES > marked && here(sp) && here(marked)
    }

    #[inline(always)]
    fn leave(&mut self, level: Level) {
        compiler_fence(AcqRel);
        self.halves[level as usize].inside.store(0, Relaxed);
    }

    fn leave_buffer(&mut self, level: Level) {
        let owner = owner(&self.spill, self.slot, self.number, level);
        self.halves[level as usize].stream.leave(&owner);
    }

    #[inline(always)]
    fn publish(&mut self, level: Level, event: &Event) {
        let owner = owner(&self.spill, self.slot, self.number, level);
        if !self.halves[level as usize]
            .stream
            .event(&owner, self.place, event)
        {
            self.slot.lost.fetch_add(1, Relaxed);
        }
    }

    fn publish_rare(&mut self, level: Level, key: u64, rare: &Rare) {
        let owner = owner(&self.spill, self.slot, self.number, level);
        if !self.halves[level as usize].stream.rare(&owner, key, rare) {
            self.slot.lost.fetch_add(1, Relaxed);
        }
    }

    /// The number of the backtrace from `site`.
    #[inline(always)]
    fn backtrace(&mut self, level: Level, entry: Entry, align: usize, site: CallSite) -> StackId {
        let request = Request {
            entry,
            align_log2: if align == 0 {
                0
            } else {
                align.trailing_zeros() as u8
            },
        };
        let depth = self.switches.depth as usize;
        let unchanged = !self.switches.backtraces || self.update_stack(level, depth, site);
        let half = &mut self.halves[level as usize];
        if unchanged && half.last.request == request && half.last.id != 0 {
            return StackId(half.last.id);
        }
        let hash = request.hash(half.known.hash(depth));
        let id = match self.cache.get(hash) {
            Some(id) if level == Level::Main => id,
            _ => self.intern(level, hash, request),
        };
        self.halves[level as usize].last = LastStack { id, request };
        StackId(id)
    }

    #[cold]
    #[inline(never)]
    fn intern(&mut self, level: Level, hash: u64, request: Request) -> u32 {
        let id = memory::keeping_errno(|| match stacks::find(hash) {
            Found::Known(id) => id,
            Found::New(vacancy) => {
                let id = self.define_stack(level, self.switches.depth as usize, request);
                vacancy.fill(id.unwrap_or(0));
                id.unwrap_or(0)
            }
            Found::Full => self.call_site_alone(level, request),
        });
        if level == Level::Main && id != 0 {
            self.cache.put(hash, id);
        }
        id
    }

    /// Past the table's limit a backtrace is its innermost call site, and counted.
    fn call_site_alone(&mut self, level: Level, request: Request) -> u32 {
        self.spill.header().stacks_cut.fetch_add(1, Relaxed);
        let hash = request.hash(self.halves[level as usize].known.hash(1));
        match stacks::find(hash) {
            Found::Known(id) => id,
            Found::New(vacancy) => {
                let id = self.define_stack(level, 1, request).unwrap_or(0);
                vacancy.fill(id);
                id
            }
            Found::Full => 0,
        }
    }

    /// Defines the innermost `depth` stack frames as a backtrace.
    fn define_stack(&mut self, level: Level, depth: usize, request: Request) -> Option<u32> {
        let half = &mut self.halves[level as usize];
        let mut length = 0;
        if self.switches.backtraces {
            let room = half.frames.get_mut(..depth).unwrap_or(&mut []);
            length = half.known.copy_to(room);
        }
        self.define_modules(level, length);
        let half = &mut self.halves[level as usize];
        let frames = half.frames.get(..length).unwrap_or(&[]);
        let deltas = Definition::stack_deltas(frames, &mut half.deltas);
        let id = self.spill.header().stacks.fetch_add(1, Relaxed) + 1;
        let definition = Definition::Stack {
            id: StackId(id),
            entry: request.entry,
            align_log2: request.align_log2,
            generation: unwind::generation(),
            cut: half.known.len() > length,
            deltas: Cow::Borrowed(deltas),
        };
        half.writer.publish(&self.spill, &definition).then_some(id)
    }

    /// Defines the modules that a new backtrace leads through and nobody met before.
    fn define_modules(&mut self, level: Level, length: usize) {
        let Half { frames, writer, .. } = &mut self.halves[level as usize];
        for address in frames.get(..length).unwrap_or(&[]) {
            let Some(module) = unwind::module_of(address.wrapping_sub(1)) else {
                continue;
            };
            let path = module_path(&module);
            let build_id = module.build_id();
            let build_id = build_id.as_deref().unwrap_or(&[]);
            let Some(id) = crate::modules::number(module.start, &path, build_id) else {
                continue;
            };
            let definition = Definition::Module {
                id,
                generation: unwind::generation(),
                path,
                bias: module.bias,
                start: module.start,
                end: module.end,
                build_id: Cow::Borrowed(build_id),
                key: clock::end(),
            };
            writer.publish(&self.spill, &definition);
        }
    }

    /// Brings the known stack up to date; whether it is the same as last time.
    #[inline(always)]
    fn update_stack(&mut self, level: Level, depth: usize, site: CallSite) -> bool {
        let half = &mut self.halves[level as usize];
        let Some(frame) = half.innermost(site) else {
            half.known.forget();
            return false;
        };
        let unchanged = half.known.update(frame, depth, &mut half.bounds);
        if self.switches.check_unwinding {
            self.check_unwinding(level, depth, frame);
        }
        unchanged
    }

    /// Compares the known stack with a walk that knows nothing, and counts.
    #[cold]
    #[inline(never)]
    fn check_unwinding(&mut self, level: Level, depth: usize, innermost: Frame) {
        let half = &mut self.halves[level as usize];
        let whole = half.frames.get_mut(..depth).unwrap_or(&mut []);
        let length = unwind::walk_from(innermost, &mut half.bounds, whole).len;
        let whole = half.frames.get(..length).unwrap_or(&[]);
        let header = self.spill.header();
        header.unwinds_checked.fetch_add(1, Relaxed);
        if !half.known.is(whole, depth) {
            header.unwinds_differing.fetch_add(1, Relaxed);
        }
    }

    /// Says in the slot that a call is under way; gives back what stood there.
    #[inline(always)]
    fn begin(&mut self, address: u64, release: bool) -> (u64, u64) {
        let busy = self.slot.busy.load(Relaxed);
        let saved = if busy != 0 {
            self.outer_call(busy)
        } else {
            (0, 0)
        };
        if release {
            self.slot.address.store(address, Relaxed);
        }
        if saved.0 == 0 {
            self.busy_at = stack_pointer();
            self.slot.busy.store(1, Relaxed);
        }
        saved
    }

    /// The call of this thread that a handler interrupted, unless it was left by a jump.
    #[cold]
    fn outer_call(&self, busy: u64) -> (u64, u64) {
        if self.left_behind(self.busy_at, stack_pointer()) {
            return (0, 0);
        }
        (busy, self.slot.address.load(Relaxed))
    }

    /// The call is published: clears the slot, or puts the interrupted call back.
    #[inline(always)]
    fn end(&mut self, pending: &Pending, key: u64) {
        self.slot.last_key.store(key, Relaxed);
        if pending.saved_busy != 0 {
            self.slot.address.store(pending.saved_address, Relaxed);
        }
        // Release: a reader that finds the slot cleared finds the record.
        self.slot.busy.store(pending.saved_busy, Release);
    }

    /// What this thread met since its last look bounds why a call was slow.
    #[cold]
    fn slow_call(&mut self, level: Level, end: u64) {
        let rare = memory::keeping_errno(|| {
            let usage = process::thread_usage();
            let since = |index: usize| usage[index].wrapping_sub(self.usage[index]);
            let rare = Rare::SlowCall {
                minor_faults: since(0),
                major_faults: since(1),
                voluntary_switches: since(2),
                involuntary_switches: since(3),
                interval_ticks: end.saturating_sub(self.usage_key),
            };
            self.usage = usage;
            rare
        });
        self.usage_key = end;
        self.publish_rare(level, end, &rare);
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

/// A module's path; the loader has no name for the program itself.
fn module_path(module: &unwind::ModuleInfo) -> Cow<'static, str> {
    if module.name.is_null() {
        return Cow::Borrowed("");
    }
    // SAFETY: the loader's name is a C string that lives as long as the module, and a
    // stack frame of this thread lies in the module.
    let name = unsafe { CStr::from_ptr::<'static>(module.name) }
        .to_str()
        .unwrap_or("?");
    if name.is_empty() {
        return Cow::Borrowed(session::current().map_or("", |session| session.executable.as_str()));
    }
    // Longer paths than a definition has room for do not exist (PATH_MAX).
    Cow::Borrowed(&name[..name.floor_char_boundary(MAX_PATH_BYTES)])
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

impl Half {
    /// The stack frame of the call, to be taken in a hook's first function.
    #[inline(always)]
    fn innermost(&mut self, site: CallSite) -> Option<Frame> {
        if let Some(frame) = site.frame() {
            return Some(frame);
        }
        unwind::second_caller(unwind::here(), &mut self.bounds)
    }
}

impl Request {
    /// A hash of a whole backtrace, whose return addresses have this hash.
    #[inline(always)]
    fn hash(self, frames: u64) -> u64 {
        stacks::hash(
            frames,
            self.entry as u8,
            self.align_log2,
            unwind::generation(),
        )
    }
}

/// Before a call: takes the backtrace (of one that only releases if that was asked
/// for) and says that a call is under way. `None` where it is not to be recorded.
///
/// # Safety
///
/// Called by a hook on the thread that makes the call.
#[inline(never)]
pub(crate) unsafe fn before(
    entry: Entry,
    align: usize,
    address: u64,
    acquires: bool,
    site: CallSite,
) -> Option<Pending> {
    let thread = mine();
    if thread.is_null() {
        return None;
    }
    // SAFETY: this thread's own state, made by `arrive`, never freed; a handler that
    // enters here again works on the other half, see `enter`.
    let state = unsafe { &mut *thread };
    let sampled = state.events.wrapping_add(1).is_multiple_of(SAMPLED);
    let began = if sampled { clock::start() } else { 0 };
    let level = state.enter()?;
    let wanted = acquires || state.switches.free_backtraces;
    let stack = if wanted {
        state.backtrace(level, entry, align, site)
    } else {
        StackId::NONE
    };
    let (saved_busy, saved_address) = state.begin(address, address != 0);
    state.leave(level);
    Some(Pending {
        thread,
        stack,
        saved_busy,
        saved_address,
        began,
        latency: state.switches.latency,
    })
}

impl Pending {
    /// Announces a release: from here on its block may be handed out again.
    ///
    /// # Safety
    ///
    /// On the thread that made this value.
    #[inline(always)]
    pub(crate) unsafe fn announce(&self, start: u64) {
        // SAFETY: see `before`. Release: the address beside it is stored before.
        unsafe { &*self.thread }
            .slot
            .busy
            .store(start.max(2), Release);
    }

    /// Publishes the event that came of the call.
    ///
    /// # Safety
    ///
    /// On the thread that made this value.
    #[inline(always)]
    pub(crate) unsafe fn publish(self, mut event: Event) {
        // SAFETY: see `before`.
        let state = unsafe { &mut *self.thread };
        state.events = state.events.wrapping_add(1);
        event.stack = self.stack;
        let Some(level) = state.enter() else {
            state.end(&self, event.end);
            return;
        };
        if self.began != 0 {
            event.cost = self.cost(event.end - event.start);
        }
        state.publish(level, &event);
        state.end(&self, event.end);
        if event.end - event.start > state.switches.slow_ticks {
            state.slow_call(level, event.end);
        }
        state.leave(level);
    }

    /// What recording a call of this latency has cost so far, in ticks.
    #[cold]
    fn cost(&self, latency: u64) -> u32 {
        let spent = clock::end()
            .saturating_sub(self.began)
            .saturating_sub(latency);
        spent.min(u64::from(u32::MAX)) as u32
    }
}

/// Publishes a rare record of this thread at this instant.
pub(crate) fn rare(rare: &Rare) {
    with_mine(|state, level| {
        if let Rare::FrameMark { id } = rare {
            let bit = 1 << id.0.min(63);
            state.spill.header().loops.fetch_or(bit, Relaxed);
            state.usage = memory::keeping_errno(process::thread_usage);
            state.usage_key = clock::end();
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

fn with_mine(work: impl FnOnce(&mut Thread, Level)) {
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
    // A handler that comes in between leaves its events to the count of lost ones.
    tls::set(IGNORED);
    let thread = memory::keeping_errno(|| settle(session));
    tls::set(if thread.is_null() {
        NONE
    } else {
        thread as usize
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
    slot.tid.store(tid, Relaxed);
    // SAFETY: valid, and this thread's alone since its tid stands in it. Zeroed memory
    // or a former thread's state: every field that matters is set here.
    let state = unsafe { &mut *thread };
    state.slot = slot;
    state.spill = session.spill;
    state.switches = session.switches;
    state.number = number;
    state.place = Place::default();
    state.usage = process::thread_usage();
    state.usage_key = clock::end();
    let definition = Definition::Thread {
        id: ThreadId(number),
        tid,
        key: state.usage_key,
    };
    state.halves[0].writer.publish(&session.spill, &definition);
    state.tell_name(Level::Main);
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
        state.leave_buffer(Level::Main);
        state.leave_buffer(Level::Nested);
        let lost = state.slot.lost.swap(0, Relaxed);
        state.spill.header().lost.fetch_add(lost, Relaxed);
        state.slot.busy.store(0, Relaxed);
        state.slot.last_key.store(0, Relaxed);
        state.slot.thread.store(0, Release);
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

/// Measures what recording costs and defines it.
pub(crate) fn calibrate() {
    const TURNS: u64 = 16;
    const ROUNDS: u64 = 5;
    crate::session::first_definitions();
    // The least of a few rounds: the others met an interruption.
    let empty = (0..TURNS).map(|_| ticks_of(|| {})).min().unwrap_or(0);
    let turns = |work: &mut dyn FnMut()| {
        let round = |work: &mut dyn FnMut()| ticks_of(|| (0..TURNS).for_each(|_| work())) / TURNS;
        (0..ROUNDS).map(|_| round(work)).min().unwrap_or(0)
    };
    let clocks = turns(&mut || _ = (clock::start(), clock::end()));
    let mut backtrace = 0;
    with_mine(|state, level| {
        backtrace = turns(&mut || _ = state.backtrace(level, Entry::Unknown, 0, CallSite::UNKNOWN));
    });
    let writing = turns(&mut write_once);
    define(&Definition::Calibration {
        alloc_ticks: (clocks + backtrace + writing) as u32,
        dealloc_ticks: (clocks + writing) as u32,
        empty_latency_ticks: empty as u32,
    });
}

fn ticks_of(work: impl FnOnce()) -> u64 {
    let start = clock::start();
    work();
    clock::end() - start
}

/// Encodes one event into memory that nobody reads.
fn write_once() {
    let mut room = [0; heapreel_format::MAX_EVENT_BYTES];
    let mut state = heapreel_format::DeltaState::default();
    let mut event = crate::hooks::blank(1000, 1040);
    event.address = 0x7f00_1234_5670;
    event.size = 48;
    std::hint::black_box(heapreel_format::RecordWriter::new(&mut room).alloc(&mut state, &event));
    std::hint::black_box(&room);
}
