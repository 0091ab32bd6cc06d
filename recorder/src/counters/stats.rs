//! What was counted, as a game reads it.

use super::frame::{self, Figures};
use super::thread::{LINES, OTHERS, mine};
use super::{Counters, duration};
use crate::names;
use crate::switch;
use std::array::from_fn;
use std::ffi::CStr;
use std::time::Duration;

/// What was counted of a frame, a thread or a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Blocks given out.
    pub allocations: u64,
    /// Blocks given back.
    pub deallocations: u64,
    /// Blocks that were given another size, moved or not.
    pub reallocations: u64,
    /// Calls that got no memory.
    pub failed: u64,
    /// Bytes asked for by allocations and reallocations.
    pub bytes: u64,
    /// Bytes allocated since counting began and not given back. What was allocated before is
    /// never in it. Of a single thread it is what that thread allocated less what it gave
    /// back, so it falls below zero where a thread gives back the blocks of others. Under
    /// `heapreel record` C and C++ calls are counted by usable size, everything else by the
    /// size that was asked for.
    pub live_bytes: i64,
    /// Time in the allocator.
    pub allocator_time: Duration,
    /// The longest single call; of a thread the longest in the frame that is under way.
    pub slowest_call: Duration,
}

/// What was counted in one segment.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SegmentCounts {
    name: &'static CStr,
    /// Its budget in bytes; 0 is none.
    pub budget: u64,
    /// A block counts where it was allocated, whoever gives it back and from where.
    pub counts: Counts,
}

impl SegmentCounts {
    /// The segment's name: "Default" for what belongs to no other, "(others)" for all
    /// segments together that were named after the first 62.
    pub fn name(&self) -> &'static str {
        self.name.to_str().unwrap_or("?")
    }

    #[doc(hidden)]
    pub fn c_name(&self) -> &'static CStr {
        self.name
    }
}

/// What was counted, all together and by segment: 4 KiB, without any memory beside.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Frames that were complete; 0 while [`frame_stats`] has nothing to tell yet.
    pub frames: u64,
    /// How long the last complete one took.
    pub frame_time: Duration,
    /// All segments together.
    pub total: Counts,
    lines: [Figures; LINES],
}

impl Stats {
    /// The segments in which something was counted, "Default" first.
    pub fn segments(&self) -> impl Iterator<Item = SegmentCounts> + '_ {
        let used = |(_, figures): &(usize, &Figures)| figures.iter().any(|word| *word != 0);
        let lines = self.lines.iter().enumerate();
        lines.filter(used).map(|(line, figures)| {
            let kept = (line != OTHERS)
                .then(|| names::kept_segment(line))
                .flatten();
            SegmentCounts {
                name: kept.map_or(unnamed(line), |kept| kept.name()),
                budget: kept.map_or(0, |kept| kept.budget()),
                counts: counts(figures),
            }
        })
    }

    /// The segment of this name, with nothing counted where it was not used.
    pub fn segment(&self, name: &str) -> Counts {
        let mut named = self.segments().filter(|segment| segment.name() == name);
        named
            .next()
            .map_or(Counts::default(), |segment| segment.counts)
    }

    fn of(frames: u64, frame_time: Duration, lines: [Figures; LINES]) -> Stats {
        let mut total: Figures = [0; 8];
        for figures in &lines {
            frame::add(&mut total, figures);
        }
        Stats {
            frames,
            frame_time,
            total: counts(&total),
            lines,
        }
    }
}

fn unnamed(line: usize) -> &'static CStr {
    match line {
        0 => c"Default",
        OTHERS => c"(others)",
        _ => c"?",
    }
}

fn counts(figures: &Figures) -> Counts {
    let [
        allocations,
        deallocations,
        reallocations,
        failed,
        bytes,
        live,
        ticks,
        slowest,
    ] = *figures;
    Counts {
        allocations,
        deallocations,
        reallocations,
        failed,
        bytes,
        live_bytes: live as i64,
        allocator_time: duration(ticks),
        slowest_call: duration(slowest),
    }
}

/// What all threads did in the last complete frame of the loop "main", or of the first loop
/// that was marked where there is no "main". Live bytes are those at its end.
///
/// ```
/// use std::alloc::System;
///
/// #[global_allocator]
/// static ALLOC: heapreel::Recorder<System> = heapreel::Recorder::system();
///
/// heapreel::count();
/// for turn in 0..3 {
///     let monsters = vec![0u64; 100];
///     heapreel::frame_mark();
///     let frame = heapreel::frame_stats();
///     assert_eq!(frame.frames, turn + 1);
///     assert!(frame.total.allocations >= 1 && frame.total.live_bytes >= 800);
///     drop(monsters);
/// }
/// ```
pub fn frame_stats() -> Stats {
    let frame = frame::last();
    Stats::of(frame.number, duration(frame.ticks), frame.lines)
}

/// What the calling thread did since counting began, or since it began itself. The
/// difference of two is what happened between them.
pub fn thread_stats() -> Stats {
    let counters = if switch::is_counting() { mine() } else { None };
    let lines = counters.map_or([[0; 8]; LINES], lines_of);
    Stats::of(0, Duration::ZERO, lines)
}

fn lines_of(counters: &Counters) -> [Figures; LINES] {
    let stamp = frame::stamp();
    from_fn(|line| {
        let now = frame::figures(&counters.lines[line]);
        let before = frame::figures(&counters.before[line]);
        from_fn(|word| match word {
            frame::SLOWEST => frame::slowest_in(now[word], stamp),
            _ => now[word].wrapping_sub(before[word]),
        })
    })
}
