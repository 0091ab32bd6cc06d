//! *hits*: 400 hits a second at 60 frames a second, each with a label that allocates once.
//!
//! Ordinary frames make six or seven allocations, all from [`DamageLabel::spawn`]. Beside
//! them stand, each at frames of its own:
//! - about every seven seconds one slow call, when [`CombatLog::grow`] moves its entries:
//!   well over 40 µs, and yet far from a frame's budget;
//! - every ten seconds a frame made long by [`TerrainTile::load`], nearly all of it in the
//!   allocator: some thousand small blocks and a few large ones that it has to clear;
//! - every ten seconds a frame made just as long by [`PathFinder::search`], which does not
//!   allocate at all.

use super::{Facts, Played};
use crate::game::Game;
use crate::random::Random;
use crate::tally;
use crate::truth::{SlowCallTruth, SpikeTruth};
use crate::work::Work;
use serde::Serialize;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::time::Instant;

const FRAMES_PER_SECOND: u64 = 60;
const HITS_PER_SECOND: u64 = 400;

/// The truth about the hits.
#[derive(Serialize)]
pub struct HitsFacts {
    site: &'static str,
    hits: u64,
    hits_per_second: u64,
    frames_per_second: u64,
    most_labels_at_once: u64,
    log_growths: u64,
    log_flushes: u64,
    /// What the log adds up to: all damage since its last flush.
    damage_in_log: u64,
}

/// Plays the scene.
pub fn play(game: &mut Game) -> Played {
    let startup = game.begin_phase("startup");
    let mut arena = Arena::new(game);
    game.end_phase(startup);
    while game.running() {
        arena.update(game);
        game.end_frame();
    }
    let facts = arena.facts();
    drop(arena);
    game.finish();
    Played::quietly(Facts::Hits(facts))
}

/// The place of the fight.
struct Arena {
    dice: Random,
    labels: Vec<DamageLabel>,
    log: CombatLog,
    terrain: Terrain,
    terrain_loads: Occasions,
    searches: Occasions,
    hits: u64,
    most_labels: usize,
}

impl Arena {
    fn new(game: &Game) -> Self {
        Self {
            dice: game.random.fork(1),
            labels: Vec::with_capacity(1024),
            log: CombatLog::new(&game.random),
            terrain: Terrain::new(),
            terrain_loads: Occasions::new(&game.random, 600, 300, 10..20),
            searches: Occasions::new(&game.random, 600, 540, 20..30),
            hits: 0,
            most_labels: 0,
        }
    }

    #[inline(never)]
    fn update(&mut self, game: &mut Game) {
        simulate_bodies(&game.work, &mut self.dice);
        self.resolve_hits(game);
        self.draw();
        self.terrain.forget_one(game.frame());
        if self.terrain_loads.now(game.frame()) {
            self.terrain.enter_region(game);
        }
        if self.searches.now(game.frame()) {
            PathFinder::search_noted(game);
        }
    }

    #[inline(never)]
    fn resolve_hits(&mut self, game: &mut Game) {
        let frame = game.frame();
        self.labels.retain(|label| label.expires > frame);
        for _ in 0..hits_in(frame) {
            let damage = self.dice.within(3..2000);
            self.labels
                .push(DamageLabel::spawn(damage, frame, &mut self.dice));
            self.log.record(frame, damage, game);
            self.hits += 1;
        }
        self.most_labels = self.most_labels.max(self.labels.len());
    }

    #[inline(never)]
    fn draw(&self) {
        let letters = self.labels.iter().map(|label| label.text.len());
        std::hint::black_box((letters.sum::<usize>(), self.terrain.ground()));
    }

    fn facts(&self) -> HitsFacts {
        HitsFacts {
            site: "DamageLabel::spawn",
            hits: self.hits,
            hits_per_second: HITS_PER_SECOND,
            frames_per_second: FRAMES_PER_SECOND,
            most_labels_at_once: self.most_labels as u64,
            log_growths: self.log.growths,
            log_flushes: self.log.flushes,
            damage_in_log: self.log.replay(),
        }
    }
}

/// 400 a second do not divide by 60 frames: 6, 7, 7, 6, 7, 7, …
fn hits_in(frame: u64) -> u64 {
    let until = |frame: u64| frame * HITS_PER_SECOND / FRAMES_PER_SECOND;
    until(frame + 1) - until(frame)
}

/// Physics and animation: what an ordinary frame spends its time on.
#[inline(never)]
fn simulate_bodies(work: &Work, dice: &mut Random) {
    work.micros(dice.within(1000..1500));
}

/// A number that floats above the one who was hit, for about a second.
struct DamageLabel {
    expires: u64,
    text: String,
}

impl DamageLabel {
    /// One allocation: the text's estimated length is enough for every damage.
    #[inline(never)]
    fn spawn(damage: u64, frame: u64, dice: &mut Random) -> Self {
        let text = if dice.one_in(8) {
            format!("critical hit -{damage}")
        } else {
            format!("hit for {damage}")
        };
        let expires = frame + dice.within(50..70);
        Self { expires, text }
    }
}

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
struct CombatLog {
    entries: Vec<LogEntry>,
    growth: Occasions,
    growths: u64,
    flushes: u64,
}

impl CombatLog {
    /// Lines added by each growth: more than the hits between two.
    const GROWTH: usize = 2944;
    /// Growths until the log is written off and starts small again.
    const GROWTHS_KEPT: u64 = 4;

    fn new(random: &Random) -> Self {
        Self {
            entries: Vec::with_capacity(Self::GROWTH),
            growth: Occasions::new(random, 7 * FRAMES_PER_SECOND, 0, 0..10),
            growths: 0,
            flushes: 0,
        }
    }

    fn record(&mut self, frame: u64, damage: u64, game: &mut Game) {
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

    fn replay(&self) -> u64 {
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

/// The tiles of the region last entered.
struct Terrain {
    tiles: Vec<TerrainTile>,
    forget_from: u64,
}

impl Terrain {
    const TILES: usize = 12;

    fn new() -> Self {
        Self {
            tiles: Vec::with_capacity(Self::TILES),
            forget_from: 0,
        }
    }

    /// All tiles in one frame, as only a game without streaming does.
    #[inline(never)]
    fn enter_region(&mut self, game: &mut Game) {
        let (before, start) = (tally::this_thread(), Instant::now());
        for number in 0..Self::TILES {
            self.tiles.push(TerrainTile::load(number as u64));
        }
        let counts = tally::this_thread() - before;
        self.forget_from = game.frame() + 3 * FRAMES_PER_SECOND;
        game.note_spike(SpikeTruth {
            frame: game.frame(),
            reason: "a region's terrain is loaded in one frame",
            site: "TerrainTile::load",
            explained_by_allocation: true,
            allocations: counts.blocks_made(),
            bytes: counts.requested_bytes,
            nanos: start.elapsed().as_nanos() as u64,
        });
    }

    /// What the bodies stand on.
    fn ground(&self) -> usize {
        let tiles = self.tiles.iter();
        let patches = tiles.clone().filter_map(|tile| tile.patches.last());
        patches.map(|patch| usize::from(patch[0])).sum::<usize>()
            + tiles.map(|tile| tile.heights.len()).sum::<usize>()
    }

    /// Gives old tiles back one a frame, so that this is no spike.
    fn forget_one(&mut self, frame: u64) {
        if frame >= self.forget_from {
            self.tiles.pop();
        }
    }
}

/// A height, its slope and its surface.
#[repr(align(64))]
struct HeightSample {
    height: f32,
}

/// A piece of ground.
struct TerrainTile {
    heights: Box<[MaybeUninit<HeightSample>]>,
    patches: Vec<Box<[u8; 160]>>,
}

impl TerrainTile {
    const SAMPLES: usize = 1 << 16;
    const PATCHES: usize = 400;

    /// A large cleared block, which the aligned allocation clears itself, page by page,
    /// and a few hundred small ones.
    #[inline(never)]
    fn load(number: u64) -> Self {
        let mut heights = Box::<[HeightSample]>::new_zeroed_slice(Self::SAMPLES);
        for sample in heights.iter_mut().step_by(4096) {
            let height = number as f32;
            std::hint::black_box(sample.write(HeightSample { height }).height);
        }
        let mut patches = Vec::with_capacity(Self::PATCHES);
        patches.resize_with(Self::PATCHES, || Box::new([number as u8; 160]));
        Self { heights, patches }
    }
}

/// Finds ways.
struct PathFinder;

impl PathFinder {
    fn search_noted(game: &mut Game) {
        let start = Instant::now();
        Self::search(&game.work);
        game.note_spike(SpikeTruth {
            frame: game.frame(),
            reason: "a search through the whole map, without any allocation",
            site: "PathFinder::search",
            explained_by_allocation: false,
            allocations: 0,
            bytes: 0,
            nanos: start.elapsed().as_nanos() as u64,
        });
    }

    /// Long, and it allocates nothing.
    #[inline(never)]
    fn search(work: &Work) {
        work.micros(20_000);
    }
}

/// Frames at which something rare happens: once in each period, a few frames off.
///
/// Periods and offsets are multiples of 60 and the bands of jitter do not overlap, so no
/// two occasions share a frame.
struct Occasions {
    dice: Random,
    period: u64,
    jitter: Range<u64>,
    next: u64,
    due: u64,
}

impl Occasions {
    /// Every `period` frames from frame `offset` on; the first is never in frame 0.
    fn new(random: &Random, period: u64, offset: u64, jitter: Range<u64>) -> Self {
        let mut dice = random.fork(1000 + jitter.start);
        let next = if offset == 0 { period } else { offset };
        let due = next + dice.within(jitter.clone());
        Self {
            dice,
            period,
            jitter,
            next,
            due,
        }
    }

    /// Whether this is such a frame; to be asked once in each.
    fn now(&mut self, frame: u64) -> bool {
        let now = frame == self.due;
        if now {
            self.next += self.period;
            self.due = self.next + self.dice.within(self.jitter.clone());
        }
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_hundred_hits_a_second_are_six_or_seven_a_frame() {
        let hits: Vec<u64> = (0..60).map(hits_in).collect();
        assert_eq!(hits[..4], [6, 7, 7, 6]);
        assert_eq!(hits.iter().sum::<u64>(), 400);
    }

    #[test]
    fn a_label_is_one_allocation() {
        let mut dice = Random::new(7);
        for damage in [3, 1999] {
            for _ in 0..50 {
                let before = tally::this_thread();
                let label = DamageLabel::spawn(damage, 0, &mut dice);
                let counts = tally::this_thread() - before;
                assert_eq!((counts.allocations, counts.reallocations), (1, 0));
                assert!(label.text.ends_with(&damage.to_string()));
            }
        }
    }

    #[test]
    fn rare_occasions_never_share_a_frame() {
        let random = Random::new(42);
        let mut all = [
            Occasions::new(&random, 420, 0, 0..10),
            Occasions::new(&random, 600, 300, 10..20),
            Occasions::new(&random, 600, 540, 20..30),
        ];
        for frame in 0..20_000 {
            let due = all.iter_mut().filter_map(|o| o.now(frame).then_some(()));
            assert!(due.count() <= 1, "frame {frame}");
        }
    }
}
