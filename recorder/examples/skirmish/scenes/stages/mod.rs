//! *stages*: levels entered and left, with loading phases and two loops.
//!
//! The main thread simulates (loop "sim"), another one draws every second state (loop
//! "render"). A visit takes 100 frames of the simulation:
//!
//! ```text
//! |-- loading, 24 frames --|-------- play, 70 frames --------|- unloading, 6 frames -|
//!      phase "loading"     ^ mark "level loaded"                phase "unloading"    ^
//!                                                                   mark "level left"
//! ```
//!
//! With `--leak` each visit leaves exactly 37 blocks behind: 25 from
//! `EventBus::subscribe` and 12 from `DecalPool::stamp`, all during play. All else
//! that is made between the two marks is gone by the second. The renderer is idle whenever
//! a phase begins or ends, so a visit can be accounted for to the block, and which frames
//! share an instant with a phase is the same in every run.

mod left_behind;
mod level;
mod render;

use super::{Facts, Played};
use crate::frame_log::FrameLog;
use crate::game::Game;
use crate::mailbox::Mailbox;
use crate::random::Random;
use crate::tally::{self, Counts};
use level::Level;
use render::Snapshot;
use serde::Serialize;
use std::io;
use std::thread;

const LOADING_FRAMES: u64 = 24;
const PLAY_FRAMES: u64 = 70;
const LEAVING_FRAMES: u64 = 6;
const VISIT_FRAMES: u64 = LOADING_FRAMES + PLAY_FRAMES + LEAVING_FRAMES;

/// Visits noted one by one; later ones stay zero in the lists.
const VISITS_NOTED: usize = 32;

/// The truth about the visits.
#[derive(Serialize)]
pub struct StagesFacts {
    visits: u64,
    frames_per_visit: u64,
    blocks_left_per_visit: u64,
    bytes_left_per_visit: u64,
    /// What the main thread made between "level loaded" and "level left", visit by visit.
    allocations_in_visit: [u64; VISITS_NOTED],
    bytes_in_visit: [u64; VISITS_NOTED],
}

/// Plays as many whole visits as there are frames for, and the rest in the menu.
pub fn play(game: &mut Game, leak: bool) -> Played {
    let startup = game.begin_phase("startup");
    let snapshots = Mailbox::new(1);
    let render_log = game.render_log.take();
    let work = game.work;
    let mut tour = Tour::new(game, &snapshots);
    let render_log = thread::scope(|scope| {
        let receiver = &snapshots;
        let renderer = thread::Builder::new()
            .name("render".into())
            .spawn_scoped(scope, move || {
                render::render_loop(receiver, render_log, work)
            });
        game.end_phase(startup);
        let renderer = renderer?;
        tour.visit_all(game, leak);
        snapshots.close();
        io::Result::Ok(renderer.join().ok().flatten())
    });
    let facts = tour.facts;
    drop(snapshots);
    game.finish();
    let (render_log, failure) = match render_log {
        Ok(log) => (log, None),
        Err(error) => (
            None,
            Some(format!("cannot start a second thread: {error}; allow it")),
        ),
    };
    Played {
        other_loops: render_log.map(FrameLog::into_truth).into_iter().collect(),
        failure,
        ..Played::quietly(Facts::Stages(Box::new(facts)))
    }
}

/// One visit after the other.
struct Tour<'a> {
    dice: Random,
    snapshots: &'a Mailbox<Snapshot>,
    facts: StagesFacts,
}

impl<'a> Tour<'a> {
    fn new(game: &Game, snapshots: &'a Mailbox<Snapshot>) -> Self {
        Self {
            dice: game.random.fork(1),
            snapshots,
            facts: StagesFacts {
                visits: 0,
                frames_per_visit: VISIT_FRAMES,
                blocks_left_per_visit: 0,
                bytes_left_per_visit: 0,
                allocations_in_visit: [0; VISITS_NOTED],
                bytes_in_visit: [0; VISITS_NOTED],
            },
        }
    }

    fn visit_all(&mut self, game: &mut Game, leak: bool) {
        let mut left = Counts::default();
        while game.frames - game.frame() >= VISIT_FRAMES {
            let mut level = self.enter_level(game);
            let before = tally::this_thread();
            left = self.play_level(game, &mut level, leak);
            self.leave_level(game, level);
            self.note_visit(tally::this_thread() - before);
        }
        while game.running() {
            self.draw_menu(game);
        }
        left_behind::note_leaks(game, self.facts.visits, left);
        self.facts.blocks_left_per_visit = left.blocks_made();
        self.facts.bytes_left_per_visit = left.requested_bytes;
    }

    fn note_visit(&mut self, counts: Counts) {
        let visit = self.facts.visits as usize;
        if visit < VISITS_NOTED {
            self.facts.allocations_in_visit[visit] = counts.blocks_made();
            self.facts.bytes_in_visit[visit] = counts.requested_bytes;
        }
        self.facts.visits += 1;
    }

    #[inline(never)]
    fn enter_level(&mut self, game: &mut Game) -> Level {
        self.snapshots.wait_until_idle();
        let loading = game.begin_phase("loading");
        let mut level = Level::new();
        for chunk in 0..LOADING_FRAMES {
            level.load_chunk(chunk, &mut self.dice);
            game.work.micros(2500);
            if chunk + 1 < LOADING_FRAMES {
                self.end_frame(game, 40, true);
            }
        }
        self.snapshots.wait_until_idle();
        game.end_phase(loading);
        game.mark("level loaded");
        game.end_frame();
        level
    }

    /// Gives what the visit leaves behind.
    #[inline(never)]
    fn play_level(&mut self, game: &mut Game, level: &mut Level, leak: bool) -> Counts {
        let mut left = Counts::default();
        for frame in 0..PLAY_FRAMES {
            game.work.micros(self.dice.within(900..1300));
            game.log.temporary(|| level.think(frame));
            if leak && frame == 3 {
                left = left_behind::leave_behind();
            }
            self.end_frame(game, 200, false);
        }
        left
    }

    #[inline(never)]
    fn leave_level(&mut self, game: &mut Game, mut level: Level) {
        self.snapshots.wait_until_idle();
        let unloading = game.begin_phase("unloading");
        for rest in (1..LEAVING_FRAMES).rev() {
            level.unload_share(rest);
            game.work.micros(1500);
            self.end_frame(game, 40, true);
        }
        drop(level);
        self.snapshots.wait_until_idle();
        game.end_phase(unloading);
        game.mark("level left");
        game.end_frame();
    }

    #[inline(never)]
    fn draw_menu(&mut self, game: &mut Game) {
        game.work.micros(800);
        self.end_frame(game, 20, false);
    }

    /// Every second state goes to the renderer.
    fn end_frame(&mut self, game: &mut Game, draws: usize, in_phase: bool) {
        if game.frame() % 2 == 1 {
            self.snapshots.send(Snapshot::take(draws, in_phase));
        }
        game.end_frame();
    }
}
