//! *leak*: a quest journal that only ever grows, beside caches that level off.
//!
//! Every frame leaves exactly two blocks behind, from [`QuestJournal::add_entry`]. The
//! glyph cache grows for some seconds and then is full; the route cache pushes out an old
//! route for each new one. Neither leaks, and both are given back at the end.

use super::{Facts, Played};
use crate::game::Game;
use crate::random::Random;
use crate::tally::{self, Counts};
use crate::truth::LeakTruth;
use serde::Serialize;
use std::collections::VecDeque;

/// The truth about journal and caches.
#[derive(Serialize)]
pub struct LeakFacts {
    leaked_blocks_per_frame: u64,
    /// What grows and stops.
    healthy: [HealthyCache; 2],
}

#[derive(Serialize)]
struct HealthyCache {
    site: &'static str,
    entries: u64,
    /// The first frame after its last growth.
    level_from_frame: u64,
}

/// Plays the scene.
pub fn play(game: &mut Game) -> Played {
    let startup = game.begin_phase("startup");
    let mut dice = game.random.fork(1);
    let mut journal = QuestJournal::default();
    let mut glyphs = GlyphCache::new();
    let mut routes = RouteCache::new();
    game.end_phase(startup);
    while game.running() {
        let frame = game.frame();
        simulate_quests(game, &mut dice);
        journal.add_entry_counted(frame);
        glyphs.look_up(frame, &mut dice);
        routes.find(frame, &mut dice);
        game.log.temporary(|| draw_hints(frame));
        game.end_frame();
    }
    let healthy = [glyphs.facts(), routes.facts()];
    game.note_leak(journal.forget());
    drop((glyphs, routes));
    game.finish();
    Played::quietly(Facts::Leak(LeakFacts {
        leaked_blocks_per_frame: QuestJournal::BLOCKS_PER_ENTRY,
        healthy,
    }))
}

#[inline(never)]
fn simulate_quests(game: &Game, dice: &mut Random) {
    game.work.micros(dice.within(900..1200));
}

/// All that ever happened to the player, newest first.
#[derive(Default)]
struct QuestJournal {
    newest: Option<Box<QuestEntry>>,
    entries: u64,
    counts: Counts,
}

struct QuestEntry {
    text: String,
    place: [u64; 6],
    older: Option<Box<QuestEntry>>,
}

impl QuestJournal {
    const BLOCKS_PER_ENTRY: u64 = 2;

    fn add_entry_counted(&mut self, frame: u64) {
        let before = tally::this_thread();
        self.add_entry(frame);
        let counts = tally::this_thread() - before;
        self.entries += 1;
        self.counts.allocations += counts.blocks_made();
        self.counts.requested_bytes += counts.requested_bytes;
    }

    /// The leak: nothing ever removes an entry.
    #[inline(never)]
    fn add_entry(&mut self, frame: u64) {
        let text = format!("something happened, it was frame {frame}");
        self.newest = Some(Box::new(QuestEntry {
            text,
            place: [frame; 6],
            older: self.newest.take(),
        }));
    }

    /// Loses the journal, as a game does that quits without tidying up.
    fn forget(self) -> LeakTruth {
        let newest = self.newest.as_ref();
        debug_assert!(newest.is_none_or(
            |entry| entry.text.len() > 8 && entry.place[0] > 0 || entry.older.is_none()
        ));
        let truth = LeakTruth {
            site: "QuestJournal::add_entry",
            times: self.entries,
            blocks_each: Self::BLOCKS_PER_ENTRY,
            blocks: self.counts.allocations,
            bytes: self.counts.requested_bytes,
        };
        std::mem::forget(self);
        truth
    }
}

/// Pictures of letters: made when first needed, kept, and at some time all there.
struct GlyphCache {
    glyphs: Vec<Option<Box<[u8; 256]>>>,
    known: u64,
    level_from: u64,
}

impl GlyphCache {
    const GLYPHS: usize = 300;

    fn new() -> Self {
        let mut glyphs = Vec::new();
        glyphs.resize_with(Self::GLYPHS, || None);
        Self {
            glyphs,
            known: 0,
            level_from: 0,
        }
    }

    /// Common letters come soon, rare ones later.
    #[inline(never)]
    fn look_up(&mut self, frame: u64, dice: &mut Random) {
        for _ in 0..4 {
            let number = dice.size(0..Self::GLYPHS).min(dice.size(0..Self::GLYPHS));
            if self.glyphs[number].is_none() {
                self.glyphs[number] = Some(Self::rasterize(number));
                self.known += 1;
                self.level_from = frame + 1;
            }
        }
    }

    #[inline(never)]
    fn rasterize(number: usize) -> Box<[u8; 256]> {
        Box::new([number as u8; 256])
    }

    fn facts(&self) -> HealthyCache {
        HealthyCache {
            site: "GlyphCache::rasterize",
            entries: self.known,
            level_from_frame: self.level_from,
        }
    }
}

/// The last routes found, so many and no more.
struct RouteCache {
    routes: VecDeque<Vec<u16>>,
    level_from: u64,
}

impl RouteCache {
    const ROUTES: usize = 128;

    fn new() -> Self {
        Self {
            routes: VecDeque::with_capacity(Self::ROUTES),
            level_from: 0,
        }
    }

    #[inline(never)]
    fn find(&mut self, frame: u64, dice: &mut Random) {
        if self.routes.len() == Self::ROUTES {
            self.routes.pop_front();
        } else {
            self.level_from = frame + 1;
        }
        let mut route = Vec::with_capacity(dice.size(16..200));
        route.push(frame as u16);
        self.routes.push_back(route);
    }

    fn facts(&self) -> HealthyCache {
        HealthyCache {
            site: "RouteCache::find",
            entries: self.routes.len() as u64,
            level_from_frame: self.level_from,
        }
    }
}

/// What every frame makes and throws away.
#[inline(never)]
fn draw_hints(frame: u64) {
    let hint = format!("press any key ({frame})");
    let mut vertices = Vec::with_capacity(hint.len() * 6);
    vertices.extend(hint.bytes());
    std::hint::black_box(&vertices);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_two_blocks() {
        let mut journal = QuestJournal::default();
        for frame in 0..2000 {
            journal.add_entry_counted(frame);
        }
        assert_eq!(journal.counts.allocations, 2 * 2000);
        // A list this long must not be dropped by recursion in a test's small stack.
        let mut next = journal.newest.take();
        while let Some(mut entry) = next {
            next = entry.older.take();
        }
    }
}
