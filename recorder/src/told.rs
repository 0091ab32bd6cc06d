//! What a game tells, as one function of plain numbers and text.
//!
//! A game that carries the crate may run under the preload library, which then
//! records, while the crate's copy of the recorder stays off. What the game tells its
//! copy is passed on to the library's through this function.
#![expect(unsafe_code, reason = "a function of another copy of this code")]

use crate::text::{Text, cut};
use crate::{context_table, counters, heap_records, hooks, names, session, switch, thread};
use heapreel_format::{
    ContextId, Definition, FrameSource, HeapId, HeapKind, LoopId, NameId, Rare, Role, SegmentId,
};
use std::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Release},
};

/// Asks for a loop's number.
pub(crate) const LOOP: u32 = 0;
/// Asks for the number of a mark's or phase's name.
pub(crate) const NAME: u32 = 1;
/// Asks for a segment's number; its budget goes along.
pub(crate) const SEGMENT: u32 = 2;
/// Ends a frame of the loop with this number.
pub(crate) const FRAME: u32 = 3;
/// Notes the mark with this number.
pub(crate) const MARK: u32 = 4;
/// Begins the phase with this number.
pub(crate) const PHASE_BEGIN: u32 = 5;
/// Ends it.
pub(crate) const PHASE_END: u32 = 6;
/// Makes the segment with this number this thread's; answers with the one before.
pub(crate) const ENTER: u32 = 7;
/// Sets this thread's role: 1 critical, 2 background.
pub(crate) const ROLE: u32 = 8;
/// Enters a context: the text is its kind, so many bytes long, and its name behind that.
/// Answers with the one before, or [`NOT_ENTERED`].
pub(crate) const CONTEXT_ENTER: u32 = 16;
/// Asks for this thread's context.
pub const CONTEXT_CURRENT: u32 = 17;
/// Makes this context the thread's; answers with the one before.
pub(crate) const CONTEXT_RESUME: u32 = 18;

/// Announces a heap: the text is its name, the number where its kind, parent and budget lie.
pub(crate) const HEAP_CREATE: u32 = 32;
/// Tells what a heap does: the number is where that lies.
const HEAP_DEED: u32 = 33;

pub use crate::heap_records::HeapDeed;

/// The number given belongs to another recording: that of a process which this one was
/// forked from. Who kept it has to ask anew.
pub(crate) const STALE: u64 = u64::MAX - 1;
/// No context was entered, so none is to be left.
pub const NOT_ENTERED: u64 = u64::MAX;

/// Text by address and length, so that nothing need be copied to end it with a zero.
type Tell = unsafe extern "C" fn(u32, *const u8, usize, u64) -> u64;

static OTHER: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// From now on another copy is told.
///
/// # Safety
///
/// `other` is a function of type [`Tell`] that stays loaded.
pub(crate) unsafe fn pass_on_to(other: *mut ()) {
    OTHER.store(other, Release);
}

/// Whether anybody records what is told.
#[inline(always)]
pub(crate) fn recording() -> bool {
    hooks::active() && switch::recording() == switch::ON || !OTHER.load(Acquire).is_null()
}

/// Whether anybody records or counts what is told.
#[inline(always)]
pub(crate) fn listening() -> bool {
    hooks::active() || !OTHER.load(Acquire).is_null()
}

/// Tells whichever copy records.
pub(crate) fn tell(kind: u32, text: &str, number: u64) -> u64 {
    let other = OTHER.load(Acquire);
    if other.is_null() {
        return told(kind, text, number);
    }
    // SAFETY: `pass_on_to`'s promise; the text is live during the call.
    let answer = unsafe {
        let tell: Tell = std::mem::transmute(other);
        tell(kind, text.as_ptr(), text.len(), number)
    };
    if kind == SEGMENT {
        // The other copy numbers, this one counts.
        names::keep_segment(answer as u32, text, number);
    }
    if answer != STALE {
        count(kind, number);
    }
    answer
}

/// What concerns the counters; of a segment the one before.
fn count(kind: u32, number: u64) -> Option<u16> {
    if switch::is_counting() {
        match kind {
            FRAME => counters::frame_end(number as u16),
            ENTER => return Some(counters::enter_segment(number as u16)),
            _ => {}
        }
    }
    None
}

/// Makes a segment this thread's; gives back the one before.
pub(crate) fn enter(id: SegmentId) -> SegmentId {
    let counted = count(ENTER, u64::from(id.0));
    if switch::recording() == switch::ON {
        return thread::change_place(|place| place.segment = id).segment;
    }
    SegmentId(counted.unwrap_or_default())
}

/// Enters a context with whichever copy records.
#[inline]
pub fn enter_context(kind: &str, name: &str) -> u64 {
    if OTHER.load(Acquire).is_null() {
        return entered(kind, name);
    }
    pass_on_context(kind, name)
}

/// Out of line: the room for both texts would cost those who need none.
#[inline(never)]
fn pass_on_context(kind: &str, name: &str) -> u64 {
    const BYTES: usize = context_table::MAX_TEXT_BYTES;
    let mut both = Text::<{ 2 * BYTES }>::new();
    both.push(cut(kind, BYTES));
    let kind = both.as_str().len() as u64;
    both.push(cut(name, BYTES));
    tell(CONTEXT_ENTER, both.as_str(), kind)
}

/// Makes a context this thread's with whichever copy records; answers with the one before.
#[inline]
pub fn resume_context(context: u64) -> u64 {
    if !OTHER.load(Acquire).is_null() {
        return tell(CONTEXT_RESUME, "", context);
    }
    if switch::recording() != switch::ON {
        return 0;
    }
    resumed(context)
}

/// A number as it is told: with the number of the recording in which it means something.
#[inline(always)]
fn tagged(id: u32) -> u64 {
    u64::from(session::number()) << 32 | u64::from(id)
}

/// What was tagged; `None` where another recording did it. A number without a tag means
/// the same in all, or comes from a version that had none.
#[inline(always)]
fn untagged(number: u64) -> Option<u32> {
    let tag = (number >> 32) as u32;
    (tag == 0 || tag == session::number()).then_some(number as u32)
}

/// A heap as [`HEAP_CREATE`] passes it on.
#[repr(C)]
struct NewHeap {
    kind: u64,
    parent: u64,
    budget: u64,
}

/// What a heap does as [`HEAP_DEED`] passes it on.
#[repr(C)]
struct PassedDeed {
    heap: u64,
    /// 0 to 5, in the order of [`HeapDeed`].
    deed: u64,
    old_address: u64,
    address: u64,
    /// Size or length.
    bytes: u64,
}

impl PassedDeed {
    fn new(heap: u64, deed: HeapDeed) -> PassedDeed {
        let (deed, old_address, address, bytes) = match deed {
            HeapDeed::Range { address, length } => (0, 0, address, length),
            HeapDeed::Alloc { address, size } => (1, 0, address, size),
            HeapDeed::Realloc {
                old_address,
                address,
                size,
            } => (2, old_address, address, size),
            HeapDeed::Free { address } => (3, 0, address, 0),
            HeapDeed::Reset => (4, 0, 0, 0),
            HeapDeed::Destroy => (5, 0, 0, 0),
        };
        PassedDeed {
            heap,
            deed,
            old_address,
            address,
            bytes,
        }
    }

    /// `None` where a later version has added a deed.
    #[inline(always)]
    fn deed(&self) -> Option<HeapDeed> {
        let (old_address, address, size) = (self.old_address, self.address, self.bytes);
        Some(match self.deed {
            0 => HeapDeed::Range {
                address,
                length: size,
            },
            1 => HeapDeed::Alloc { address, size },
            2 => HeapDeed::Realloc {
                old_address,
                address,
                size,
            },
            3 => HeapDeed::Free { address },
            4 => HeapDeed::Reset,
            5 => HeapDeed::Destroy,
            _ => return None,
        })
    }
}

/// The kinds of heaps by the numbers of heapreel.h.
pub fn heap_kind(number: u64) -> HeapKind {
    match number {
        1 => HeapKind::Pool,
        2 => HeapKind::Arena,
        3 => HeapKind::Gpu,
        4 => HeapKind::FileMapped,
        _ => HeapKind::General,
    }
}

/// Announces a heap to whichever copy records; answers with its number, 0 where nobody does.
pub fn create_heap(name: &str, kind: HeapKind, parent: u64, budget: u64) -> u64 {
    if OTHER.load(Acquire).is_null() {
        return created(name, kind, parent, budget);
    }
    let heap = NewHeap {
        kind: kind as u64,
        parent,
        budget,
    };
    tell(
        HEAP_CREATE,
        name,
        (&raw const heap).expose_provenance() as u64,
    )
}

fn created(name: &str, kind: HeapKind, parent: u64, budget: u64) -> u64 {
    if switch::recording() != switch::ON {
        return 0;
    }
    let parent = HeapId(untagged(parent).unwrap_or(0));
    tagged(heap_records::create(name, kind, parent, budget).0)
}

/// Tells what a heap does to whichever copy records. What is said of a heap of another
/// recording, that of a parent, is not taken down.
#[inline(always)]
pub fn heap(number: u64, deed: HeapDeed) {
    if OTHER.load(Acquire).is_null() {
        do_heap(number, deed);
    } else {
        let passed = PassedDeed::new(number, deed);
        tell(
            HEAP_DEED,
            "",
            (&raw const passed).expose_provenance() as u64,
        );
    }
}

#[inline(always)]
fn do_heap(number: u64, deed: HeapDeed) {
    if switch::recording() == switch::ON
        && let Some(id) = untagged(number)
        && id != 0
    {
        heap_records::publish(HeapId(id), deed);
    }
}

/// What another copy passes on by the address where it lies.
fn passed_on(kind: u32, text: &str, number: u64) -> u64 {
    let address = number as usize;
    if kind == HEAP_CREATE {
        let heap = std::ptr::with_exposed_provenance::<NewHeap>(address);
        // SAFETY: `create_heap` of the other copy, whose value lives during the call.
        let heap = unsafe { &*heap };
        return created(text, heap_kind(heap.kind), heap.parent, heap.budget);
    }
    let passed = std::ptr::with_exposed_provenance::<PassedDeed>(address);
    // SAFETY: `heap` of the other copy, whose value lives during the call.
    let passed = unsafe { &*passed };
    if let Some(deed) = passed.deed() {
        do_heap(passed.heap, deed);
    }
    0
}

#[inline]
fn entered(kind: &str, name: &str) -> u64 {
    context_table::enter(kind, name).map_or(NOT_ENTERED, tell_context)
}

/// After a fork the child works outside of its parent's contexts.
#[inline(always)]
fn resumed(context: u64) -> u64 {
    let id = ContextId(untagged(context).unwrap_or(0));
    tell_context(context_table::resume(id))
}

/// Outside of any context is the same everywhere.
#[inline(always)]
fn tell_context(id: ContextId) -> u64 {
    if id == ContextId::NONE {
        0
    } else {
        tagged(id.0)
    }
}

/// Acts on what was told. Kinds that a later version added are 0.
pub fn told(kind: u32, text: &str, number: u64) -> u64 {
    match kind {
        SEGMENT => return u64::from(names::segment(text, number).0),
        ENTER => return u64::from(enter(SegmentId(number as u16)).0),
        // It will be told again by the number that it has now: not to be counted twice.
        FRAME if untagged(number).is_none() => return STALE,
        FRAME => _ = count(FRAME, number),
        _ => {}
    }
    if switch::recording() != switch::ON {
        return 0;
    }
    match kind {
        CONTEXT_ENTER => {
            let (kind, name) = text.split_at_checked(number as usize).unwrap_or(("", text));
            return entered(kind, name);
        }
        CONTEXT_CURRENT => return tell_context(context_table::current()),
        CONTEXT_RESUME => return resumed(number),
        HEAP_CREATE | HEAP_DEED => return passed_on(kind, text, number),
        _ => {}
    }
    let Some(number) = untagged(number) else {
        return STALE;
    };
    let name = NameId(number);
    match kind {
        LOOP => {
            let id = names::game_loop(text, FrameSource::Interface, "");
            return tagged(id.0.into());
        }
        NAME => return tagged(names::name(text).0),
        FRAME => thread::rare(&Rare::FrameMark {
            id: LoopId(number as u16),
        }),
        MARK => thread::rare(&Rare::Mark { name }),
        PHASE_BEGIN => thread::rare(&Rare::PhaseBegin { name }),
        PHASE_END => thread::rare(&Rare::PhaseEnd { name }),
        ROLE => thread::define_mine(|id| Definition::ThreadRole {
            id,
            role: match number {
                1 => Role::Critical,
                2 => Role::Background,
                _ => Role::Unknown,
            },
        }),
        _ => {}
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_another_recording_are_refused() {
        let ours = tagged(7);
        let theirs = ours + (1 << 32);
        assert_eq!((untagged(ours), untagged(theirs)), (Some(7), None));
        assert_eq!(untagged(7), Some(7));
        // Before it is counted, too.
        assert_eq!(told(FRAME, "", theirs), STALE);
    }
}
