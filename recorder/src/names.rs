//! Numbers for names: segments, loops, marks and phases, by content.
//!
//! A small table without locks; a name is defined once, when it is first met.

use crate::thread;
use heapreel_format::{Definition, FrameSource, LoopId, NameId, SegmentId};
use std::borrow::Cow;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Names that a recording can hold.
const NAMES: usize = 4096;
/// Longest name in bytes; longer ones are cut.
const MAX_NAME_BYTES: usize = 512;

static HASHES: [AtomicU64; NAMES] = [const { AtomicU64::new(0) }; NAMES];
static NUMBERS: [AtomicU32; NAMES] = [const { AtomicU32::new(0) }; NAMES];
static NEXT_SEGMENT: AtomicU32 = AtomicU32::new(1);
static NEXT_LOOP: AtomicU32 = AtomicU32::new(1);
static NEXT_NAME: AtomicU32 = AtomicU32::new(1);

/// Forgets all numbers: a new recording begins in a forked child.
pub(crate) fn forget() {
    for (hash, number) in HASHES.iter().zip(&NUMBERS) {
        hash.store(0, Relaxed);
        number.store(0, Relaxed);
    }
    for next in [&NEXT_SEGMENT, &NEXT_LOOP, &NEXT_NAME] {
        next.store(1, Relaxed);
    }
}

/// The number of a segment; "Default" is 0.
pub(crate) fn segment(name: &str, budget: u64) -> SegmentId {
    let name = cut(name);
    if name == "Default" && budget == 0 {
        return SegmentId(0);
    }
    SegmentId(number(1, name, &NEXT_SEGMENT, |id| Definition::Segment {
        id: SegmentId(id as u16),
        name: Cow::Borrowed(name),
        budget,
    }) as u16)
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
    let mut end = text.len().min(MAX_NAME_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// FNV-1a over the text; never 0.
fn hash(kind: u64, text: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325u64 ^ kind.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    text.bytes().fold(start, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    }) | 1
}

fn number<'n>(
    kind: u64,
    text: &str,
    next: &AtomicU32,
    definition: impl FnOnce(u32) -> Definition<'n>,
) -> u32 {
    let hash = hash(kind, text);
    for probe in 0..NAMES {
        let index = ((hash >> 32) as usize + probe) % NAMES;
        let taken = HASHES[index].compare_exchange(0, hash, AcqRel, Acquire);
        match taken {
            Ok(_) => {
                let id = next.fetch_add(1, Relaxed);
                thread::define(&definition(id));
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
