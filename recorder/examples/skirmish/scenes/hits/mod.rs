//! *hits*: 400 hits a second at 60 frames a second, each with a label that allocates once.
//!
//! Ordinary frames make six or seven allocations, all from [`DamageLabel::spawn`]. Beside
//! them stand, each at frames of its own:
//! - about every seven seconds one slow call, when `CombatLog::grow` moves its entries:
//!   well over 40 µs, and yet far from a frame's budget;
//! - every ten seconds a frame made long by `TerrainTile::load`, nearly all of it in the
//!   allocator: some thousand small blocks and a few large ones that it has to clear;
//! - every ten seconds a frame made just as long by [`PathFinder::search`], which does not
//!   allocate at all.

mod combat_log;
mod occasions;
mod terrain;

use super::{Facts, Played};
use crate::game::Game;
use crate::random::Random;
use crate::truth::SpikeTruth;
use crate::work::Work;
use combat_log::CombatLog;
use occasions::Occasions;
use serde::Serialize;
use std::time::Instant;
use terrain::Terrain;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally;

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
}
