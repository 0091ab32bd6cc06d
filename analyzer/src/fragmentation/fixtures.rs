//! The fragmentation slides as regions, for tests.

use heapreel_models::{BlockId, Region, RunState, SegmentId};

/// Slide 17: 16 units of 4 MB after releasing; 24 used, 40 free, 16 available.
pub const SLIDE_17: &str = "....U..U.U.U.U.U";
/// The same picture on slide 20: 20 available.
pub const SLIDE_20: &str = "U.....U..U.U.U.U";

/// Units of 4 MB as a region; each used one is a block numbered by its position.
pub fn slide(units: &str) -> Region {
    let run = |(at, unit)| match unit {
        'U' => (4 << 20, RunState::Used(BlockId(at as u32))),
        _ => (4 << 20, RunState::Free),
    };
    let runs: Vec<_> = units.chars().enumerate().map(run).collect();
    Region {
        name: "Default".into(),
        segment: Some(SegmentId(0)),
        start: 0x20_0000_0000,
        bytes: runs.iter().map(|run| run.0).sum(),
        runs,
    }
}
