//! The stack as it was at the last backtrace, so that the next one reads only what
//! has changed since.
//!
//! A walk goes really, rule by rule, from the innermost frame until it meets a frame
//! that is known with the same return address *and* stack pointer (and frame pointer,
//! where that still matters to an outer rule). From there the known frames are
//! checked, inner to outer: the slot that held a frame's return address must hold it
//! still, and the slot of a saved frame pointer likewise. What the rules would read is
//! exactly what is compared, so by induction the result is that of a whole walk. At
//! the first difference the walk goes on really from that frame, until it meets a
//! known one again.
//!
//! Not so a comparison by value alone: old return addresses stay in unused stack.
//!
//! Frames whose rule reads anything but those slots (signal frames, realigned frames)
//! are always left really. On stacks that are not the thread's own nothing is taken
//! for known: they may be unmapped behind our back.

#![expect(unsafe_code, reason = "reads the stack")]

use super::cache;
use super::step::{Cursor, Frame, Link, read};
use crate::unwind::linux::StackBounds;

/// Frames that are remembered. Of a deeper stack the outer half is forgotten.
const ROOM: usize = 512;

/// A frame that was met, and how its caller was found.
#[derive(Clone, Copy)]
struct Known {
    frame: Frame,
    /// See [`Link::fp_at`]: how its caller was found.
    fp_at: u64,
    /// Of the return addresses from the outermost one to this.
    hash: u64,
    /// The rule of this frame reads the frame pointer.
    reads_fp: bool,
    /// The rule of this frame, or of an outer one that gets it passed on, does.
    fp_matters: bool,
}

/// What must still hold for a frame's caller to be the same: two words on the stack.
#[derive(Clone, Copy)]
struct Check {
    /// The slot of the return address, and what it held.
    ra_at: u64,
    ra: u64,
    /// The slot of the saved frame pointer where that matters further out, else the
    /// same as above.
    fp_at: u64,
    fp: u64,
}

impl Check {
    const NONE: Check = Check {
        ra_at: 0,
        ra: 0,
        fp_at: 0,
        fp: 0,
    };

    /// Holds always: there is no caller.
    fn passes() -> Check {
        let at = &raw const ZERO as u64;
        Check {
            ra_at: at,
            ra: 0,
            fp_at: at,
            fp: 0,
        }
    }

    /// Holds never: the caller is to be found by unwinding.
    fn fails() -> Check {
        Check {
            ra: 1,
            ..Check::passes()
        }
    }

    /// Of the link from `inner` to `outer`, its caller.
    #[inline(always)]
    fn of(inner: &Known, outer: &Known) -> Check {
        if inner.fp_at == Link::SPECIAL {
            return Check::fails();
        }
        let Frame { ra, sp, fp } = outer.frame;
        let ra_at = sp.wrapping_sub(8);
        // A frame pointer that is passed on is the inner one's, which has been checked.
        let is_read = outer.fp_matters && inner.fp_at != Link::PASSED_ON;
        Check {
            ra_at,
            ra,
            fp_at: if is_read { inner.fp_at } else { ra_at },
            fp: if is_read { fp } else { ra },
        }
    }

    /// # Safety
    ///
    /// It is the check of a frame that is on this thread's own stack now.
    #[inline(always)]
    unsafe fn holds(&self) -> bool {
        // SAFETY: the frame's rule puts the caller's return address and saved frame
        // pointer where they were before, which was found to be mapped; a thread's own
        // stack stays so.
        unsafe { read(self.ra_at) == self.ra && read(self.fp_at) == self.fp }
    }
}

/// Read by checks that need no stack.
static ZERO: u64 = 0;

/// What lies outside the outermost frame that is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beyond {
    /// To be seen by trying.
    Unknown,
    /// Nothing, by that frame's rule.
    Nothing,
}

/// A thread's stack as far as it is known. All zeros know nothing.
pub(crate) struct KnownStack {
    /// Outermost first.
    frames: [Known; ROOM],
    /// How each of them is left.
    checks: [Check; ROOM],
    len: usize,
    /// What a walk met that was not known, innermost first.
    fresh: [Known; ROOM],
    fresh_len: usize,
    /// Frames below this stack pointer are most likely other ones each time.
    restless_below: u64,
    /// How often that was so.
    restless_turns: u32,
    beyond: Beyond,
    generation: u32,
}

impl KnownStack {
    /// Knows nothing.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the recorder's are made of zeroed memory")
    )]
    pub(crate) const EMPTY: KnownStack = KnownStack {
        frames: [Known::NONE; ROOM],
        checks: [Check::NONE; ROOM],
        len: 0,
        fresh: [Known::NONE; ROOM],
        fresh_len: 0,
        restless_below: 0,
        restless_turns: 0,
        beyond: Beyond::Unknown,
        generation: 0,
    };

    /// Forgets everything.
    pub(crate) fn forget(&mut self) {
        self.len = 0;
    }

    /// Brings the knowledge up to date with `innermost`, a frame of the calling thread
    /// (see [`walk`](super::walk()) for what that means). Only the innermost `depth`
    /// frames have to be right. Returns whether those are the same as last time.
    #[inline(always)]
    pub(crate) fn update(
        &mut self,
        innermost: Frame,
        depth: usize,
        bounds: &mut StackBounds,
    ) -> bool {
        let generation = cache::generation();
        if generation != self.generation {
            self.generation = generation;
            self.len = 0;
        }
        self.fresh_len = 0;
        let Some(mut cursor) = Cursor::new(innermost, bounds) else {
            self.len = 0;
            return false;
        };
        let end = if cursor.on_own_stack() { self.len } else { 0 };
        let end = self.skip_inner(end, innermost.sp);
        match self.meet(end, depth, &mut cursor) {
            Met::Agreed => {
                let unchanged = end == self.len;
                self.len = end;
                unchanged
            }
            Met::Until(end) => {
                self.walk_on(end, depth, cursor.at, bounds);
                false
            }
        }
    }

    /// How many frames are known.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether the innermost `depth` return addresses are these.
    pub(crate) fn is(&self, addresses: &[u64], depth: usize) -> bool {
        let known = self.frames.get(..self.len).unwrap_or(&[]);
        let innermost = known.iter().rev().take(depth).map(|known| known.frame.ra);
        innermost.eq(addresses.iter().copied())
    }

    /// A hash of the innermost `depth` return addresses.
    #[inline(always)]
    pub(crate) fn hash(&self, depth: usize) -> u64 {
        if self.len <= depth {
            return self
                .frames
                .get(self.len.wrapping_sub(1))
                .map_or(0, |known| known.hash);
        }
        let kept = self.frames.get(self.len - depth..self.len).unwrap_or(&[]);
        kept.iter().fold(0, |hash, known| mix(hash, known.frame.ra))
    }

    /// Writes the innermost return addresses, innermost first; says how many.
    pub(crate) fn copy_to(&self, out: &mut [u64]) -> usize {
        let known = self.frames.get(..self.len).unwrap_or(&[]);
        let mut len = 0;
        for (place, known) in out.iter_mut().zip(known.iter().rev()) {
            *place = known.frame.ra;
            len += 1;
        }
        len
    }

    /// Whether the frame before place `end` is this one, the frame pointer included
    /// where it matters.
    #[inline(always)]
    fn knows(&self, end: usize, frame: &Frame) -> bool {
        self.frames.get(end.wrapping_sub(1)).is_some_and(|known| {
            known.frame.sp == frame.sp
                && known.frame.ra == frame.ra
                && (known.frame.fp == frame.fp || !known.fp_matters)
        })
    }

    /// From the frame before `end`, which the cursor has really met: how far outwards
    /// the stack is as it was. Leaves the cursor at the last frame that is.
    #[inline(always)]
    fn agrees_outwards(&mut self, end: usize, depth: usize, cursor: &mut Cursor) -> Met {
        // The outermost frame that has to be right is not left if others lie outside.
        let outermost = match (self.fresh_len + end).saturating_sub(depth) {
            0 => 0,
            beyond => beyond + 1,
        };
        let checks = self.checks.get(outermost..end).unwrap_or(&[]);
        // SAFETY: inner to outer, each frame is on the stack if the one inside it is and
        // its check holds, and the innermost was really met.
        match checks.iter().rposition(|check| unsafe { !check.holds() }) {
            None => Met::Agreed,
            Some(failed) => self.stop_at(outermost + failed, end, cursor),
        }
    }

    /// The frame at `last` and those inside it are as they were, but for frame pointers
    /// that did not matter: they may from now on.
    #[inline(never)]
    fn stop_at(&mut self, last: usize, end: usize, cursor: &mut Cursor) -> Met {
        let mut fp = cursor.at.fp;
        for known in self
            .frames
            .get_mut(last..end)
            .unwrap_or(&mut [])
            .iter_mut()
            .rev()
        {
            known.frame.fp = fp;
            cursor.move_to(known.frame);
            if known.fp_at > Link::SPECIAL {
                // SAFETY: see `Check::holds`: the slot of a frame on the stack.
                fp = unsafe { read(known.fp_at) };
            }
        }
        Met::Until(last)
    }

    /// Takes the frame that the cursor is at: from the frames known before `end` if
    /// it is the innermost one of them, else as a fresh one.
    #[inline(always)]
    fn meet(&mut self, end: usize, depth: usize, cursor: &mut Cursor) -> Met {
        if !(self.knows(end, &cursor.at) && cursor.on_own_stack()) {
            self.add_fresh(Known::new(cursor.at));
            return Met::Until(end);
        }
        let met = self.agrees_outwards(end, depth, cursor);
        if let Met::Until(first) = met {
            self.refresh(first, end);
        }
        met
    }

    /// Goes on from the last fresh frame, which is `at`; the frames before `end` may lie
    /// outside it.
    #[inline(never)]
    fn walk_on(&mut self, mut end: usize, depth: usize, at: Frame, bounds: &mut StackBounds) {
        let Some(mut cursor) = Cursor::new(at, bounds) else {
            return self.append_fresh(0);
        };
        let mut first_try = true;
        while self.fresh_len < ROOM {
            match cursor.step(bounds) {
                Ok(link) => self.link_last(link),
                Err(_) => {
                    self.end_last(cursor.is_outermost());
                    return self.append_fresh(0);
                }
            }
            if cursor.at.sp < self.restless_below {
                self.add_fresh(Known::new(cursor.at));
                continue;
            }
            end = self.skip_inner(end, cursor.at.sp);
            match self.meet(end, depth, &mut cursor) {
                Met::Agreed => {
                    self.learn_rest(cursor.at.sp, first_try);
                    return self.append_fresh(end);
                }
                Met::Until(first) => end = first,
            }
            first_try = false;
        }
        self.beyond = Beyond::Unknown;
        self.append_fresh(0);
    }

    /// Notes from where on the stack was as before.
    ///
    /// PERF: a look at each frame whether it is known costs as much as to leave it
    /// really, and a frame that is known below others that are not is no gain. So known
    /// ones are looked for where they were met last time, and now and then sooner.
    #[inline(always)]
    fn learn_rest(&mut self, sp: u64, first_try: bool) {
        const PATIENCE: u32 = 8;
        if !first_try {
            self.restless_below = sp;
            return;
        }
        self.restless_turns = self.restless_turns.wrapping_add(1);
        if self.restless_turns.is_multiple_of(PATIENCE) {
            let [innermost, ..] = &self.fresh;
            self.restless_below = innermost.frame.sp / 2 + sp / 2;
        }
    }

    /// The place behind the first known frame that is not deeper than `sp`.
    #[inline(always)]
    fn skip_inner(&self, mut end: usize, sp: u64) -> usize {
        while let Some(known) = self.frames.get(end.wrapping_sub(1))
            && known.frame.sp < sp
        {
            end -= 1;
        }
        end
    }

    /// Known frames whose outer ones have changed: they are hashed anew.
    fn refresh(&mut self, first: usize, end: usize) {
        for index in (first..end).rev() {
            if let Some(known) = self.frames.get(index).copied() {
                self.add_fresh(known);
            }
        }
    }

    #[inline(always)]
    fn add_fresh(&mut self, known: Known) {
        if let Some(place) = self.fresh.get_mut(self.fresh_len) {
            *place = known;
            self.fresh_len += 1;
        }
    }

    #[inline(always)]
    fn link_last(&mut self, link: Link) {
        if let Some(last) = self.fresh.get_mut(self.fresh_len.wrapping_sub(1)) {
            last.fp_at = link.fp_at;
            last.reads_fp = link.reads_fp;
        }
    }

    fn end_last(&mut self, is_outermost: bool) {
        self.beyond = if is_outermost {
            Beyond::Nothing
        } else {
            Beyond::Unknown
        };
        self.link_last(Link {
            fp_at: Link::SPECIAL,
            reads_fp: !is_outermost,
        });
    }

    /// Puts the fresh frames behind the first `kept` known ones.
    #[inline(always)]
    fn append_fresh(&mut self, kept: usize) {
        let kept = self.make_room(kept);
        let mut outer = self
            .frames
            .get(kept.wrapping_sub(1))
            .map_or(Known::NONE, |outer| *outer);
        let mut hash = outer.hash;
        let fresh = self.fresh.get(..self.fresh_len).unwrap_or(&[]);
        let places = self.frames.get_mut(kept..).unwrap_or(&mut []);
        let checks = self.checks.get_mut(kept..).unwrap_or(&mut []);
        for ((place, check), known) in places.iter_mut().zip(checks).zip(fresh.iter().rev()) {
            hash = mix(hash, known.frame.ra);
            let passed_on = known.fp_at == Link::PASSED_ON;
            let known = Known {
                hash,
                fp_matters: known.reads_fp || passed_on && outer.fp_matters,
                ..*known
            };
            *check = Check::of(&known, &outer);
            *place = known;
            outer = known;
        }
        if kept == 0
            && let Some(outermost) = self.checks.first_mut()
        {
            *outermost = match self.beyond {
                Beyond::Nothing => Check::passes(),
                Beyond::Unknown => Check::fails(),
            };
        }
        self.len = kept + self.fresh_len;
    }

    /// Forgets outer frames where all of them would be too many; how many of `kept`
    /// are left. The hashes of what is left are too high up to be asked for.
    #[inline(always)]
    fn make_room(&mut self, kept: usize) -> usize {
        if kept + self.fresh_len <= ROOM {
            kept
        } else {
            self.forget_outer(kept)
        }
    }

    #[cold]
    fn forget_outer(&mut self, kept: usize) -> usize {
        let left = (ROOM / 2).min(ROOM - self.fresh_len).min(kept);
        for index in 0..left {
            let moved = self.frames.get(kept - left + index).copied();
            let check = self.checks.get(kept - left + index).copied();
            if let (Some(moved), Some(place)) = (moved, self.frames.get_mut(index)) {
                *place = moved;
            }
            if let (Some(moved), Some(place)) = (check, self.checks.get_mut(index)) {
                *place = moved;
            }
        }
        if let Some(outermost) = self.checks.first_mut() {
            *outermost = Check::fails();
        }
        self.beyond = Beyond::Unknown;
        left
    }
}

/// What became of a frame that was met.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Met {
    /// It is known, and so are all outside it that were asked for.
    Agreed,
    /// It, and known ones outside it if any, are fresh frames now; those before this
    /// place may still be as they were.
    Until(usize),
}

impl Known {
    const NONE: Known = Known {
        frame: Frame {
            ra: 0,
            sp: 0,
            fp: 0,
        },
        fp_at: 0,
        hash: 0,
        reads_fp: false,
        fp_matters: false,
    };

    #[inline(always)]
    fn new(frame: Frame) -> Known {
        Known {
            frame,
            fp_at: Link::SPECIAL,
            hash: 0,
            reads_fp: true,
            fp_matters: true,
        }
    }
}

/// The hash of one more return address.
#[inline(always)]
fn mix(hash: u64, address: u64) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    (hash.rotate_left(23) ^ address).wrapping_mul(FACTOR)
}
