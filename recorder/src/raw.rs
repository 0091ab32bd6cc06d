//! For the preload library: the recorder without Rust's types around it.

pub use crate::backtrace::CallSite;
pub use crate::config::is_off;
pub use crate::hooks::{Wanted, active, allocate, deallocate, fork_child, reallocate};
pub use crate::private_heap::PrivateHeap;
pub use crate::session::Origin;
pub use crate::told::{
    CONTEXT_CURRENT, HeapDeed, NOT_ENTERED, create_heap, enter_context, heap, heap_kind,
    resume_context, told,
};
pub use heapreel_format::{Ended, Entry, FrameSource, LoopId, NameId, Role, SegmentId};

use crate::config::Config;
use crate::os::confined::{self, Deed};
use crate::os::{memory, process};
use crate::{counters, names, session, switch, thread, told, unwind};
use heapreel_format::{Definition, Rare, ThreadId, kill_point};
use std::borrow::Cow;

/// Starts to record if the environment asks for it; whether it does now. One line on
/// standard error tells where it was asked for and cannot be.
pub fn start_from_environment(origin: Origin) -> bool {
    let Some(config) = Config::from_environment() else {
        if !session::known() {
            switch::set(switch::OFF);
        }
        return false;
    };
    if config
        .session
        .as_deref()
        .is_some_and(|folder| !folder.exists())
    {
        // The wrapper has ended: nobody asks any more.
        switch::set(switch::OFF);
        return false;
    }
    kill_point::arm_from_environment(process::kill_myself);
    let folder = config.session.clone();
    match session::start(config, origin) {
        Ok(()) => true,
        Err(session::StartError::AlreadyStarted) => hooks_are_on(),
        Err(error) => {
            session::refuse(&error, folder.as_deref());
            false
        }
    }
}

/// Whether this process records now, a forked child decided.
pub fn recording() -> bool {
    active() && hooks_are_on()
}

fn hooks_are_on() -> bool {
    switch::recording() == switch::ON
}

/// Ends the recording.
pub fn stop(ended: Ended) {
    session::stop(ended);
}

/// Notes how the program is about to end; it records on until it does.
pub fn ending(ended: Ended) {
    session::ending(ended);
}

/// The program is about to have its system calls filtered by this `struct sock_fprog`.
/// Whether that keeps the recorder from something.
///
/// # Safety
///
/// No other thread may change the filter meanwhile.
#[expect(unsafe_code, reason = "the program's filter, by address")]
pub unsafe fn confine(filter: *const libc::sock_fprog) -> bool {
    // SAFETY: the caller's promise.
    let Some(harmful) = memory::keeping_errno(|| unsafe { confined::look_at(filter) }) else {
        return false;
    };
    if drains_itself() && harmful.has(Deed::Drain) {
        give_up("no thread of ours can go on; under `heapreel record` it would");
    }
    let is_more = harmful.forbear();
    if is_more && hooks_are_on() {
        thread::define(&Definition::Confined {
            children: confined::can(Deed::Begin),
        });
    }
    is_more
}

/// What is not asked of the kernel any more, as a number for [`forbear`].
pub fn forborne() -> u32 {
    confined::forborne().number()
}

/// Asks of the kernel no more than the program that told this number.
pub fn forbear(number: u32) {
    confined::Harmful::from_number(number).forbear();
}

/// Whether a line on standard error, written by `writev`, does the program no harm.
pub fn can_say_in_parts() -> bool {
    confined::can(Deed::SayInParts)
}

/// Whether memory of the program's can be made writable without harm to it.
pub fn can_protect() -> bool {
    confined::can(Deed::Protect)
}

/// The program is about to take from us what no event can do without; `why` is told.
pub fn give_up(why: &str) {
    if hooks_are_on() {
        memory::keeping_errno(|| {
            stop(Ended::Confined);
            process::complain("heapreel: recording has ended: ");
            process::complain(why);
            process::complain("\n");
        });
    }
}

/// Whether this process drains itself, and so has to call [`stop`] at its end.
pub fn drains_itself() -> bool {
    session::current().is_some_and(|session| !session.output().as_os_str().is_empty())
}

/// Names the allocator beneath the recorder, before the start.
pub fn name_allocator(name: &str) {
    session::name_allocator(name);
}

/// A library is about to be unloaded: what is known of code addresses is void.
pub fn modules_changed() {
    unwind::forget_modules();
    if hooks_are_on() {
        let key = crate::os::clock::end();
        thread::define(&Definition::Generation {
            generation: unwind::generation(),
            key,
        });
    }
}

/// Counts what this process does from now on; false where that cannot be.
pub fn count() -> bool {
    counters::start()
}

/// Whether calls are counted.
pub fn is_counting() -> bool {
    switch::is_counting()
}

/// Ends a game frame.
pub fn frame_mark(id: LoopId) {
    if switch::is_counting() {
        counters::frame_end(id.0);
    }
    if hooks_are_on() {
        thread::rare(&Rare::FrameMark { id });
    }
}

/// The number of a loop.
pub fn loop_id(name: &str, source: FrameSource, symbol: &str) -> LoopId {
    names::game_loop(name, source, symbol)
}

/// The number of a mark's or phase's name.
pub fn name_id(text: &str) -> NameId {
    names::name(text)
}

/// Notes a named instant.
pub fn mark(name: NameId) {
    if hooks_are_on() {
        thread::rare(&Rare::Mark { name });
    }
}

/// Begins a phase.
pub fn phase_begin(name: NameId) {
    if hooks_are_on() {
        thread::rare(&Rare::PhaseBegin { name });
    }
}

/// Ends a phase.
pub fn phase_end(name: NameId) {
    if hooks_are_on() {
        thread::rare(&Rare::PhaseEnd { name });
    }
}

/// The number of a segment.
pub fn segment_id(name: &str, budget: u64) -> SegmentId {
    names::segment(name, budget)
}

/// Changes this thread's segment; gives back what it was.
pub fn set_segment(id: SegmentId) -> SegmentId {
    told::enter(id)
}

/// Says what this thread means to the frame.
pub fn thread_role(role: Role) {
    if hooks_are_on() {
        thread::define_mine(|id| Definition::ThreadRole { id, role });
    }
}

/// Names this thread.
pub fn thread_name(name: &str) {
    if hooks_are_on() {
        let define = |id: ThreadId| Definition::ThreadName {
            id,
            name: Cow::Owned(name.to_owned()),
        };
        thread::define_mine(define);
    }
}
