//! What the game knows about itself, as one JSON object.
//!
//! **The instant.** Totals stand for the stretch between the marks "begin" and "truth".
//! Both are set by the main thread while no other thread allocates. The notes lie in memory
//! taken before "begin", and the JSON is made after "truth", so neither is in the totals.
//!
//! Sizes are requested bytes, addresses are hexadecimal strings, frames count from 0 and
//! are those of the loop that the main thread runs, unless another loop is named.

use crate::bounded::Bounded;
use crate::cli::Scene;
use crate::frame_log::LoopTruth;
use crate::game::Game;
use crate::scenes::Facts;
use crate::tally::Counts;
use serde::Serialize;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;

/// Everything.
#[derive(Serialize)]
pub struct Truth {
    /// The scene played.
    pub scene: &'static str,
    /// The seed of its dice.
    pub seed: u64,
    /// Frames of the main thread's loop.
    pub frames: u64,
    /// Calls and bytes of the whole process.
    pub tally: Ending,
    /// Every loop with its frames, the main thread's first.
    pub loops: Vec<LoopTruth>,
    /// What the scene did on purpose.
    #[serde(flatten)]
    pub notes: Notes,
    /// What only this scene knows.
    pub facts: Facts,
}

impl Truth {
    /// Puts together what game and scene know.
    pub fn gather(
        scene: Scene,
        seed: u64,
        game: Game,
        other_loops: Vec<LoopTruth>,
        facts: Facts,
    ) -> Self {
        let frames = game.frame();
        let (main_loop, notes, tally) = game.into_parts();
        Self {
            scene: scene.name(),
            seed,
            frames,
            tally,
            loops: std::iter::once(main_loop).chain(other_loops).collect(),
            notes,
            facts,
        }
    }

    /// Writes the object and a line end to the file, or to standard output for `-`.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut text = serde_json::to_vec(self)?;
        text.push(b'\n');
        if path.as_os_str() == "-" {
            io::stdout().write_all(&text)
        } else {
            std::fs::write(path, text)
        }
    }
}

/// One line for a person.
impl fmt::Display for Truth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.tally.between;
        write!(
            f,
            "skirmish {}: {} frames, {} allocations, {} reallocations, {} deallocations",
            self.scene,
            self.frames,
            counts.blocks_made(),
            counts.reallocations,
            counts.deallocations
        )
    }
}

/// An address as JSON can hold it without loss.
pub fn hexadecimal(address: usize) -> String {
    format!("{address:#x}")
}

/// What was counted between the marks "begin" and "truth".
#[derive(Default, Serialize)]
pub struct Ending {
    /// Since the process started, up to the mark "begin".
    begin: Counts,
    /// Since the process started, up to the mark "truth".
    end: Counts,
    /// Between the two.
    between: Counts,
    /// Blocks made between them and not freed, less those freed that are older.
    live_blocks_more: i64,
    /// The same in bytes.
    live_bytes_more: i64,
    /// The most bytes that were live at once between them, older blocks included.
    peak_live_bytes: u64,
}

impl Ending {
    /// The totals between two countings.
    pub fn between(begin: Counts, end: Counts, peak_live_bytes: u64) -> Self {
        let between = end - begin;
        Self {
            begin,
            end,
            between,
            live_blocks_more: between.live_blocks(),
            live_bytes_more: between.live_bytes(),
            peak_live_bytes,
        }
    }
}

/// What a scene did on purpose.
#[derive(Serialize)]
pub struct Notes {
    /// Frames made long.
    pub spikes: Bounded<SpikeTruth>,
    /// Calls of the allocator made slow.
    pub slow_calls: Bounded<SlowCallTruth>,
    /// Blocks that nobody frees.
    pub leaks: Bounded<LeakTruth>,
    /// Phases, in the order of their ends.
    pub phases: Bounded<PhaseTruth>,
    /// Marks between "begin" and "truth".
    pub marks: Bounded<MarkTruth>,
}

impl Notes {
    /// Empty, with room for what a scene of some thousands of frames does.
    pub fn new() -> Self {
        Self {
            spikes: Bounded::new(256),
            slow_calls: Bounded::new(256),
            leaks: Bounded::new(256),
            phases: Bounded::new(256),
            marks: Bounded::new(256),
        }
    }
}

/// A frame made long on purpose.
#[derive(Serialize)]
pub struct SpikeTruth {
    /// Which one.
    pub frame: u64,
    /// What the game was doing.
    pub reason: &'static str,
    /// The function that did it.
    pub site: &'static str,
    /// Whether it is the allocator's time that makes the frame long.
    pub explained_by_allocation: bool,
    /// Blocks made by it.
    pub allocations: u64,
    /// Bytes asked for by it.
    pub bytes: u64,
    /// How long it took, the recorder's own time included.
    pub nanos: u64,
}

/// A call of the allocator made slow on purpose.
#[derive(Serialize)]
pub struct SlowCallTruth {
    /// The frame it fell into.
    pub frame: u64,
    /// The function that called.
    pub site: &'static str,
    /// The entry called: `realloc` or `alloc_zeroed`.
    pub call: &'static str,
    /// The size asked for.
    pub bytes: u64,
    /// How long it took, the recorder's own time included.
    pub nanos: u64,
}

/// Blocks that nobody frees.
#[derive(Serialize)]
pub struct LeakTruth {
    /// The function that made them.
    pub site: &'static str,
    /// How often it did so.
    pub times: u64,
    /// Blocks each time.
    pub blocks_each: u64,
    /// Blocks altogether.
    pub blocks: u64,
    /// Bytes altogether.
    pub bytes: u64,
}

/// A stretch in which long frames are no spikes.
#[derive(Serialize)]
pub struct PhaseTruth {
    /// Its name.
    pub name: &'static str,
    /// The frame it began in.
    pub first_frame: u64,
    /// The frame it ended in, shortly before that frame's mark.
    pub last_frame: u64,
}

/// A named instant.
#[derive(Serialize)]
pub struct MarkTruth {
    /// Its name.
    pub name: &'static str,
    /// The frame it fell into.
    pub frame: u64,
}
