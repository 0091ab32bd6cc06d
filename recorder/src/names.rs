//! Numbers for names: segments, loops, marks and phases, by content.
//!
//! A small table without locks; a name is defined once, when it is first met.

use crate::os::memory;
use crate::{switch, text, thread};
use heapreel_format::{Definition, FrameSource, LoopId, NameId, SegmentId};
use std::borrow::Cow;
use std::ffi::CStr;
use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Names that a recording can hold.
const NAMES: usize = 4096;
/// Longest name in bytes; longer ones are cut.
const MAX_NAME_BYTES: usize = 512;

/// The kind of name that a segment's is.
const SEGMENT: u64 = 1;

static HASHES: [AtomicU64; NAMES] = [const { AtomicU64::new(0) }; NAMES];
static NUMBERS: [AtomicU32; NAMES] = [const { AtomicU32::new(0) }; NAMES];
static NEXT_SEGMENT: AtomicU32 = AtomicU32::new(1);
static NEXT_LOOP: AtomicU32 = AtomicU32::new(1);
static NEXT_NAME: AtomicU32 = AtomicU32::new(1);

/// Forgets all numbers but those of segments, which the game may remember: a new recording
/// begins in a forked child, and [`define_kept`] tells it of them.
pub(crate) fn forget() {
    for (hash, number) in HASHES.iter().zip(&NUMBERS) {
        hash.store(0, Relaxed);
        number.store(0, Relaxed);
    }
    for next in [&NEXT_LOOP, &NEXT_NAME] {
        next.store(1, Relaxed);
    }
    for id in 1..KEPT_SEGMENTS {
        if let Some(name) = kept_segment(id).and_then(|kept| kept.name().to_str().ok()) {
            know(SEGMENT, name, id as u32);
        }
    }
}

/// Puts a number back; nobody else is there yet.
fn know(kind: u64, text: &str, id: u32) {
    let hash = hash(kind, text);
    let free = places(hash).find(|index| HASHES[*index].load(Relaxed) == 0);
    if let Some(index) = free {
        HASHES[index].store(hash, Relaxed);
        NUMBERS[index].store(id, Relaxed);
    }
}

/// The number of a segment; "Default" is 0.
pub(crate) fn segment(name: &str, budget: u64) -> SegmentId {
    let name = cut(name);
    if name == "Default" && budget == 0 {
        return SegmentId(0);
    }
    SegmentId(number(SEGMENT, name, &NEXT_SEGMENT, |id| {
        keep_segment(id, name, budget);
        Definition::Segment {
            id: SegmentId(id as u16),
            name: Cow::Borrowed(name),
            budget,
        }
    }) as u16)
}

/// Segments whose names are kept for the counters, "Default" among them.
pub(crate) const KEPT_SEGMENTS: usize = 64;

/// A segment as the game named it.
pub(crate) struct KeptSegment {
    budget: u64,
    /// Ends in a zero.
    name: [u8; MAX_NAME_BYTES + 1],
}

impl KeptSegment {
    pub(crate) fn name(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.name).unwrap_or(c"")
    }

    pub(crate) fn budget(&self) -> u64 {
        self.budget
    }
}

static KEPT: [AtomicPtr<KeptSegment>; KEPT_SEGMENTS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; KEPT_SEGMENTS];

/// The segment of this number, if it has a name and was kept.
pub(crate) fn kept_segment(id: usize) -> Option<&'static KeptSegment> {
    let kept = KEPT.get(id)?.load(Acquire);
    // SAFETY: null, or what `keep_segment` has left for good.
    #[expect(unsafe_code, reason = "kept for good behind an atomic pointer")]
    unsafe {
        kept.as_ref()
    }
}

/// Keeps a segment's name: not in memory of the program's allocator, whose call this may be.
pub(crate) fn keep_segment(id: u32, name: &str, budget: u64) {
    let Some(place) = KEPT.get(id as usize) else {
        return;
    };
    if let Some(room) = memory::keeping_errno(|| memory::reserve(size_of::<KeptSegment>())) {
        let kept = room.as_ptr().cast::<KeptSegment>();
        // SAFETY: fresh zeroed memory of the right size, page-aligned, nobody else's yet.
        #[expect(unsafe_code, reason = "memory straight from the kernel")]
        let segment = unsafe { &mut *kept };
        segment.budget = budget;
        let name = cut(name).bytes().filter(|byte| *byte != 0);
        segment
            .name
            .iter_mut()
            .zip(name)
            .for_each(|(to, from)| *to = from);
        place.store(kept, Release);
    }
}

/// Defines in a recording that begins the segments which were named before.
pub(crate) fn define_kept() {
    for id in 1..KEPT_SEGMENTS {
        if let Some(kept) = kept_segment(id) {
            thread::define(&Definition::Segment {
                id: SegmentId(id as u16),
                name: kept.name().to_string_lossy(),
                budget: kept.budget,
            });
        }
    }
}

/// The number of a loop; "main" from the interface is 0.
pub(crate) fn game_loop(name: &str, source: FrameSource, symbol: &str) -> LoopId {
    let name = cut(name);
    if name == "main" && source == FrameSource::Interface {
        return LoopId(0);
    }
    LoopId(number(2, name, &NEXT_LOOP, |id| Definition::Loop {
        id: LoopId(id as u16),
        name: Cow::Borrowed(name),
        source,
        symbol: Cow::Borrowed(cut(symbol)),
    }) as u16)
}

/// The number of a mark's or phase's name.
pub(crate) fn name(text: &str) -> NameId {
    let text = cut(text);
    NameId(number(3, text, &NEXT_NAME, |id| Definition::Name {
        id: NameId(id),
        text: Cow::Borrowed(text),
    }))
}

fn cut(text: &str) -> &str {
    text::cut(text, MAX_NAME_BYTES)
}

/// FNV-1a over the text; never 0.
fn hash(kind: u64, text: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325u64 ^ kind.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    text.bytes().fold(start, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    }) | 1
}

/// Where a name may stand, in the order to look.
fn places(hash: u64) -> impl Iterator<Item = usize> {
    (0..NAMES).map(move |probe| ((hash >> 32) as usize + probe) % NAMES)
}

fn number<'n>(
    kind: u64,
    text: &str,
    next: &AtomicU32,
    definition: impl FnOnce(u32) -> Definition<'n>,
) -> u32 {
    let hash = hash(kind, text);
    for index in places(hash) {
        let taken = HASHES[index].compare_exchange(0, hash, AcqRel, Acquire);
        match taken {
            Ok(_) => {
                let id = next.fetch_add(1, Relaxed);
                let definition = definition(id);
                if switch::drain_may_run() {
                    thread::define(&definition);
                }
                NUMBERS[index].store(id, Release);
                return id;
            }
            Err(seen) if seen == hash => return wait_for(&NUMBERS[index]),
            Err(_) => {}
        }
    }
    0
}

/// The number that another thread is just about to store. If it never comes (it was
/// killed, or is interrupted by this very thread's handler) the name is 0's.
fn wait_for(number: &AtomicU32) -> u32 {
    for _ in 0..10_000 {
        match number.load(Acquire) {
            0 => std::hint::spin_loop(),
            id => return id,
        }
    }
    0
}
