//! The log of a fight, whose growth is the rare slow call.

use super::FRAMES_PER_SECOND;
use super::occasions::Occasions;
use crate::game::Game;
use crate::random::Random;
use crate::truth::SlowCallTruth;
use std::time::Instant;

/// One line of the log, with the state of both fighters for the replay.
///
/// Aligned to a cache line. No realloc of C's keeps such an alignment, so to grow is to
/// allocate anew, copy, and free, all inside the one call.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct LogEntry {
    frame: u64,
    damage: u64,
    fighters: [u64; 6],
}

/// All hits of a fight.
pub struct CombatLog {
    entries: Vec<LogEntry>,
    growth: Occasions,
    /// How often it grew.
    pub growths: u64,
    /// How often it started again.
    pub flushes: u64,
}

impl CombatLog {
    /// Lines added by each growth: more than the hits between two.
    const GROWTH: usize = 2944;
    /// Growths until the log is written off and starts small again.
    const GROWTHS_KEPT: u64 = 4;

    /// Empty, with room for the hits until the first growth.
    pub fn new(random: &Random) -> Self {
        Self {
            entries: Vec::with_capacity(Self::GROWTH),
            growth: Occasions::new(random, 7 * FRAMES_PER_SECOND, 0, 0..10),
            growths: 0,
            flushes: 0,
        }
    }

    /// Adds a hit; now and then it has to make room first.
    pub fn record(&mut self, frame: u64, damage: u64, game: &mut Game) {
        let fresh = self.entries.last().is_none_or(|last| last.frame != frame);
        if fresh && frame > 0 && self.growth.now(frame) {
            self.make_room(game);
        }
        self.entries.push(LogEntry {
            frame,
            damage,
            fighters: [damage; 6],
        });
    }

    /// Grows, and after some growths starts again instead.
    fn make_room(&mut self, game: &mut Game) {
        if self.growths == Self::GROWTHS_KEPT * (self.flushes + 1) {
            self.flush();
            return;
        }
        let start = Instant::now();
        self.grow();
        game.note_slow_call(SlowCallTruth {
            frame: game.frame(),
            site: "CombatLog::grow",
            call: "realloc",
            bytes: (self.entries.capacity() * size_of::<LogEntry>()) as u64,
            nanos: start.elapsed().as_nanos() as u64,
        });
        self.growths += 1;
    }

    /// The rare slow call: copies everything to a place with room for more.
    #[inline(never)]
    fn grow(&mut self) {
        let room = self.entries.capacity() + Self::GROWTH - self.entries.len();
        self.entries.reserve_exact(room);
    }

    /// All damage in it.
    pub fn replay(&self) -> u64 {
        let blows = self
            .entries
            .iter()
            .map(|entry| entry.damage.min(entry.fighters[0]));
        blows.sum()
    }

    #[inline(never)]
    fn flush(&mut self) {
        self.entries = Vec::with_capacity(Self::GROWTH);
        self.flushes += 1;
    }
}
