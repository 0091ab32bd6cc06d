//! A frame's figures: the difference between what all threads had counted at its end and
//! at the end of the one before.

use super::thread::{LINES, Line, all};
use crate::os::clock;
use std::array::from_fn;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

/// Words of a line that are no totals which only grow.
const LIVE: usize = 5;
pub(super) const SLOWEST: usize = 7;

/// Figures of one segment, in the order of [`Line::words`].
pub(super) type Figures = [u64; 8];

/// The number of the frame under way, in the upper half.
static STAMP: AtomicU64 = AtomicU64::new(0);
/// Whether somebody ends a frame now.
static BUSY: AtomicBool = AtomicBool::new(false);
/// Odd while the figures below change.
static SEQUENCE: AtomicU32 = AtomicU32::new(0);
static NUMBER: AtomicU64 = AtomicU64::new(0);
static TICKS: AtomicU64 = AtomicU64::new(0);
static LAST: [[AtomicU64; 8]; LINES] = [const { [const { AtomicU64::new(0) }; 8] }; LINES];
/// What all threads had counted when it ended. Changed only by whoever is busy.
static SUMS: [[AtomicU64; 8]; LINES] = [const { [const { AtomicU64::new(0) }; 8] }; LINES];
/// When it ended.
static ENDED: AtomicU64 = AtomicU64::new(0);
/// Lines that any thread ever used are below this one, but for the last of all.
static USED: AtomicU32 = AtomicU32::new(1);
/// The loop that counts, plus one.
static LOOP: AtomicU32 = AtomicU32::new(0);

/// The first frame begins.
pub(super) fn begin() {
    ENDED.store(clock::end(), Relaxed);
}

/// In the child of a fork, whose parent may have been ending a frame.
pub(super) fn unlock() {
    BUSY.store(false, Relaxed);
    SEQUENCE.store(0, Relaxed);
}

/// The frame under way, in the upper half of a word.
#[inline(always)]
pub(super) fn stamp() -> u64 {
    STAMP.load(Relaxed)
}

/// A thread is going to use this line.
pub(super) fn uses(line: usize) {
    USED.fetch_max(line as u32 + 1, Relaxed);
}

/// The lines in use.
pub(super) fn lines() -> usize {
    (USED.load(Relaxed) as usize).min(LINES)
}

/// Ends the frame, if this loop is the one that counts: "main", whose number is 0, or else
/// the one that marked first.
pub(crate) fn end(game_loop: u16) {
    let mark = u32::from(game_loop) + 1;
    if mark == 1 {
        LOOP.store(1, Relaxed);
    }
    let chosen = LOOP
        .compare_exchange(0, mark, Relaxed, Relaxed)
        .unwrap_or_else(|chosen| chosen);
    if chosen != 0 && chosen != mark {
        return;
    }
    // Two threads that end a frame at one instant end one frame.
    if BUSY.swap(true, Acquire) {
        return;
    }
    take();
    BUSY.store(false, Release);
}

fn take() {
    let sequence = SEQUENCE.load(Relaxed);
    SEQUENCE.store(sequence.wrapping_add(1), Relaxed);
    // Whoever sees a new figure sees the odd number as well.
    fence(Release);
    let now = clock::end();
    TICKS.store(now.saturating_sub(ENDED.swap(now, Relaxed)), Relaxed);
    let stamp = stamp();
    for line in 0..lines() {
        take_line(line, stamp);
    }
    STAMP.store(stamp.wrapping_add(1 << 32), Relaxed);
    NUMBER.fetch_add(1, Relaxed);
    SEQUENCE.store(sequence.wrapping_add(2), Release);
}

fn take_line(index: usize, stamp: u64) {
    let (Some(last), Some(before)) = (LAST.get(index), SUMS.get(index)) else {
        return;
    };
    let sum = sum_of_threads(index, stamp);
    for (word, sum) in sum.into_iter().enumerate() {
        let grown = sum.wrapping_sub(before[word].swap(sum, Relaxed));
        let is_level = word == LIVE || word == SLOWEST;
        last[word].store(if is_level { sum } else { grown }, Relaxed);
    }
}

fn sum_of_threads(index: usize, stamp: u64) -> Figures {
    let mut sum: Figures = [0; 8];
    for line in all().filter_map(|counters| counters.lines.get(index)) {
        let mut figures = figures(line);
        figures[SLOWEST] = slowest_in(figures[SLOWEST], stamp);
        add(&mut sum, &figures);
    }
    sum
}

/// Adds figures up; of two slowest calls the slower one counts.
pub(super) fn add(sum: &mut Figures, figures: &Figures) {
    let slowest = sum[SLOWEST].max(figures[SLOWEST]);
    for (to, from) in sum.iter_mut().zip(figures) {
        *to = to.wrapping_add(*from);
    }
    sum[SLOWEST] = slowest;
}

pub(super) fn figures(line: &Line) -> Figures {
    line.words().map(|word| word.load(Relaxed))
}

/// The ticks of the slowest call, if it belongs to this frame.
pub(super) fn slowest_in(word: u64, stamp: u64) -> u64 {
    if word >> 32 == stamp >> 32 {
        word & u64::from(u32::MAX)
    } else {
        0
    }
}

/// The last complete frame.
pub(super) struct Frame {
    /// How many are complete.
    pub(super) number: u64,
    pub(super) ticks: u64,
    pub(super) lines: [Figures; LINES],
}

/// Looks until no frame ends meanwhile; a thread that ends one takes about a microsecond.
pub(super) fn last() -> Frame {
    const LOOKS: u32 = 10_000;
    for _ in 0..LOOKS {
        let before = SEQUENCE.load(Acquire);
        let frame = copy();
        fence(Acquire);
        if before & 1 == 0 && SEQUENCE.load(Relaxed) == before {
            return frame;
        }
        std::hint::spin_loop();
    }
    copy()
}

fn copy() -> Frame {
    Frame {
        number: NUMBER.load(Relaxed),
        ticks: TICKS.load(Relaxed),
        lines: from_fn(|line| from_fn(|word| LAST[line][word].load(Relaxed))),
    }
}
