//! Counts of what a drain moved.

/// What a number of records were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Allocations, reallocations, deallocations, failed ones.
    pub events: u64,
    /// Frame marks of all loops.
    pub frame_marks: u64,
    /// Game loops that were marked.
    pub loops: u64,
    /// The latest end of a call that is known, in ticks.
    pub last_key: u64,
}

impl Tally {
    /// Game frames: what lies between two marks of the same loop.
    pub fn frames(&self) -> u64 {
        self.frame_marks.saturating_sub(self.loops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_lie_between_marks() {
        let tally = |frame_marks, loops| Tally {
            frame_marks,
            loops,
            ..Tally::default()
        };
        assert_eq!(tally(0, 0).frames(), 0);
        assert_eq!(tally(1, 1).frames(), 0);
        assert_eq!(tally(6, 2).frames(), 4);
    }
}
