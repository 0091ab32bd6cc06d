//! Frames as their marks come by.

use crate::definition::LoopId;
use std::collections::VecDeque;

/// A frame that has just ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// As the whole recording counts them, from 1.
    pub(super) number: u64,
    /// Ticks.
    pub(super) took: u64,
    /// Long frames are no spikes in it.
    pub(super) in_phase: bool,
}

/// Marks of the loop that was marked first: its frames are the game's.
#[derive(Default)]
pub(super) struct Frames {
    game_loop: Option<LoopId>,
    /// Keys of the marks that are kept.
    marks: VecDeque<u64>,
    last: Option<u64>,
    number: u64,
    open_phases: u32,
    /// A phase was open at some time since the last mark.
    was_in_phase: bool,
}

impl Frames {
    /// A mark; gives the frame that it ends.
    pub(super) fn mark(&mut self, key: u64, id: LoopId) -> Option<Frame> {
        if *self.game_loop.get_or_insert(id) != id {
            return None;
        }
        self.marks.push_back(key);
        let in_phase = self.was_in_phase;
        self.was_in_phase = self.open_phases > 0;
        let before = self.last.replace(key)?;
        self.number += 1;
        Some(Frame {
            number: self.number,
            took: key.saturating_sub(before),
            in_phase,
        })
    }

    pub(super) fn phase_begins(&mut self) {
        self.open_phases += 1;
        self.was_in_phase = true;
    }

    pub(super) fn phase_ends(&mut self) {
        self.open_phases = self.open_phases.saturating_sub(1);
    }

    /// Frames that have ended.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn game_loop(&self) -> LoopId {
        self.game_loop.unwrap_or_default()
    }

    /// Key of the last mark, 0 before any.
    pub(super) fn last(&self) -> u64 {
        self.last.unwrap_or(0)
    }

    /// Key of the mark `count` frames before the last one up to `end`.
    pub(super) fn before(&self, end: u64, count: u32) -> Option<u64> {
        let behind = self.marks.partition_point(|key| *key <= end);
        let at = behind.checked_sub(1 + count as usize)?;
        self.marks.get(at).copied()
    }

    /// Key of the last mark that is not behind `key`.
    pub(super) fn at_or_before(&self, key: u64) -> Option<u64> {
        let behind = self.marks.partition_point(|mark| *mark <= key);
        self.marks.get(behind.checked_sub(1)?).copied()
    }

    /// Key of the mark in the middle of those behind `begin`.
    pub(super) fn middle(&self, begin: u64) -> Option<u64> {
        let from = self.marks.partition_point(|mark| *mark <= begin);
        let at = from + (self.marks.len() - from) / 2;
        self.marks.get(at).copied()
    }

    pub(super) fn forget_before(&mut self, key: u64) {
        let gone = self.marks.partition_point(|mark| *mark < key);
        self.marks.drain(..gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_lie_between_marks_and_know_phases() {
        let mut frames = Frames::default();
        assert_eq!(frames.mark(100, LoopId(3)), None);
        assert_eq!(frames.mark(150, LoopId(1)), None);
        let frame = frames.mark(130, LoopId(3)).unwrap();
        assert_eq!((frame.number, frame.took, frame.in_phase), (1, 30, false));
        frames.phase_begins();
        frames.phase_ends();
        assert!(frames.mark(160, LoopId(3)).unwrap().in_phase);
        assert!(!frames.mark(190, LoopId(3)).unwrap().in_phase);
        assert_eq!(frames.before(u64::MAX, 2), Some(130));
        assert_eq!(frames.before(165, 2), Some(100));
        assert_eq!(frames.before(165, 3), None);
        assert_eq!(frames.at_or_before(159), Some(130));
        frames.forget_before(160);
        assert_eq!(frames.before(u64::MAX, 1), Some(160));
        assert_eq!(frames.number(), 3);
    }
}
