//! The command line.

use crate::telemetry::GameLoop;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// A small headless game that knows what it does with memory.
///
/// Plays one scene and ends. Run it under `heapreel record`, or with HEAPREEL_OUT set,
/// and compare the report with what `--truth` says.
#[derive(Parser)]
#[command(name = "skirmish", version)]
pub struct Arguments {
    /// Flags of every scene.
    #[command(flatten)]
    pub common: Common,
    /// The scene to play [default: hits].
    #[command(subcommand)]
    pub scene: Option<Scene>,
}

/// Flags of every scene.
#[derive(Args)]
pub struct Common {
    /// Play so many frames; each scene has a default that takes one to four seconds.
    #[arg(long, global = true, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub frames: Option<u32>,
    /// Seed of every decision the game makes.
    #[arg(long, global = true, value_name = "N", default_value = "42")]
    pub seed: u64,
    /// Write what really happened to this file as JSON, or to standard output for `-`.
    #[arg(long, global = true, value_name = "FILE")]
    pub truth: Option<PathBuf>,
    /// Keep to so many frames a second instead of playing as fast as possible.
    #[arg(long, global = true, value_name = "FPS",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub pace: Option<u32>,
}

/// The scenes.
#[derive(Subcommand, Clone, Copy)]
pub enum Scene {
    /// Combat: damage labels, 400 a second; a log that grows slowly; three kinds of spike.
    Hits,
    /// Levels entered and left, with loading phases and two loops.
    Stages {
        /// Leave 37 blocks behind on each visit.
        #[arg(long)]
        leak: bool,
    },
    /// 200 named assets streamed in and out by threads of both roles.
    Openworld {
        /// Threads, the main one included.
        #[arg(long, value_name = "N", default_value = "24",
              value_parser = clap::value_parser!(u16).range(3..=200))]
        threads: u16,
        /// How much happens in a frame, for long benchmarks.
        #[arg(long, value_name = "TIMES", default_value = "1",
              value_parser = clap::value_parser!(u32).range(1..=1000))]
        intensity: u32,
    },
    /// A journal that is never cleared beside caches that level off.
    Leak,
    /// A write past the end of a known block.
    Overrun {
        /// Write on into the neighbour, whose owner notices and aborts.
        #[arg(long)]
        crash: bool,
    },
    /// Long frames and many allocations, each at their own time.
    Padded,
    /// Quiet minutes with one hitch in each, of three kinds; for `--pace 60`.
    Patrol,
    /// Five segments, each with a budget and a first-fit heap of its own.
    Segments,
}

impl Scene {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hits => "hits",
            Self::Stages { .. } => "stages",
            Self::Openworld { .. } => "openworld",
            Self::Leak => "leak",
            Self::Overrun { .. } => "overrun",
            Self::Padded => "padded",
            Self::Patrol => "patrol",
            Self::Segments => "segments",
        }
    }

    /// Frames to play where nobody says how many.
    pub fn default_frames(self) -> u64 {
        match self {
            Self::Hits => 1800,
            Self::Stages { .. } => 800,
            Self::Leak => 1200,
            Self::Overrun { .. } => 120,
            Self::Patrol => 3 * 3600,
            Self::Openworld { .. } | Self::Padded | Self::Segments => 600,
        }
    }

    /// The loop that the main thread runs.
    pub fn main_loop(self) -> GameLoop {
        match self {
            Self::Stages { .. } => GameLoop::Sim,
            _ => GameLoop::Main,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn flags_may_stand_on_either_side_of_the_scene() {
        for line in ["skirmish --frames 9 leak", "skirmish leak --frames 9"] {
            let arguments = Arguments::parse_from(line.split(' '));
            assert_eq!(arguments.common.frames, Some(9));
        }
    }

    #[test]
    fn no_frames_at_all_is_refused() {
        assert!(Arguments::try_parse_from(["skirmish", "hits", "--frames", "0"]).is_err());
    }
}
