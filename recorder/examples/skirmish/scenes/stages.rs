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
//! [`EventBus::subscribe`] and 12 from [`DecalPool::stamp`], all during play. All else
//! that is made between the two marks is gone by the second. The renderer is idle whenever
//! a phase begins or ends, so a visit can be accounted for to the block, and which frames
//! share an instant with a phase is the same in every run.

use super::{Facts, Played};
use crate::frame_log::FrameLog;
use crate::game::Game;
use crate::mailbox::Mailbox;
use crate::random::Random;
use crate::tally::{self, Counts};
use crate::telemetry::{self, Role};
use crate::truth::LeakTruth;
use crate::work::Work;
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
            .spawn_scoped(scope, move || render_loop(receiver, render_log, work));
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
        note_leaks(game, self.facts.visits, left);
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
                left = leave_behind();
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

fn note_leaks(game: &mut Game, visits: u64, left: Counts) {
    if left.blocks_made() == 0 {
        return;
    }
    for (site, blocks, size) in [
        (
            "EventBus::subscribe",
            EventBus::LISTENERS,
            size_of::<Listener>(),
        ),
        ("DecalPool::stamp", DecalPool::DECALS, size_of::<Decal>()),
    ] {
        game.note_leak(LeakTruth {
            site,
            times: visits,
            blocks_each: blocks,
            blocks: visits * blocks,
            bytes: visits * blocks * size as u64,
        });
    }
}

/// The 37 blocks of a visit.
fn leave_behind() -> Counts {
    let before = tally::this_thread();
    (0..EventBus::LISTENERS).for_each(EventBus::subscribe);
    (0..DecalPool::DECALS).for_each(DecalPool::stamp);
    tally::this_thread() - before
}

/// Tells everybody what happened.
struct EventBus;

struct Listener {
    event: u64,
    context: [u64; 5],
}

impl EventBus {
    const LISTENERS: u64 = 25;

    /// Nobody ever unsubscribes.
    #[inline(never)]
    fn subscribe(event: u64) {
        let listener = Box::leak(Box::new(Listener {
            event,
            context: [event; 5],
        }));
        std::hint::black_box((listener.event, listener.context));
    }
}

/// Scorch marks on walls.
struct DecalPool;

struct Decal {
    place: [f32; 12],
    texture: u64,
}

impl DecalPool {
    const DECALS: u64 = 12;

    /// The pool forgets whose wall it was.
    #[inline(never)]
    fn stamp(texture: u64) {
        let decal = Box::leak(Box::new(Decal {
            place: [texture as f32; 12],
            texture,
        }));
        std::hint::black_box((decal.place, decal.texture));
    }
}

/// All that belongs to a level.
struct Level {
    entities: Vec<Box<Entity>>,
    tiles: Vec<Vec<u8>>,
    scripts: Vec<String>,
}

struct Entity {
    place: [f32; 4],
    velocity: [f32; 4],
    health: u64,
}

impl Level {
    fn new() -> Self {
        Self {
            entities: Vec::new(),
            tiles: Vec::new(),
            scripts: Vec::new(),
        }
    }

    #[inline(never)]
    fn load_chunk(&mut self, chunk: u64, dice: &mut Random) {
        self.tiles.push(vec![chunk as u8; dice.size(4096..32_768)]);
        for _ in 0..dice.within(10..30) {
            self.entities.push(Entity::spawn(dice));
        }
        for line in 0..2 {
            self.scripts
                .push(format!("on_enter_chunk_{chunk} line {line}"));
        }
    }

    /// What a frame makes and throws away.
    #[inline(never)]
    fn think(&mut self, frame: u64) {
        let mut near = Vec::new();
        let entities = self.entities.iter_mut().skip(frame as usize % 7);
        for entity in entities.step_by(1 + frame as usize % 5) {
            entity.health = entity.health.saturating_sub(1);
            entity.place[0] += entity.velocity[0];
            near.push(entity.health);
        }
        std::hint::black_box(&near);
    }

    /// Keeps `rest` of what is left, of `rest + 1` parts.
    #[inline(never)]
    fn unload_share(&mut self, rest: u64) {
        let keep = |length: usize| length * rest as usize / (rest as usize + 1);
        self.entities.truncate(keep(self.entities.len()));
        self.tiles.truncate(keep(self.tiles.len()));
        self.scripts.truncate(keep(self.scripts.len()));
    }
}

impl Entity {
    #[inline(never)]
    fn spawn(dice: &mut Random) -> Box<Self> {
        Box::new(Self {
            place: [0.0; 4],
            velocity: [dice.within(0..10) as f32; 4],
            health: dice.within(50..100),
        })
    }
}

/// What the renderer needs to know: made by the simulation, freed by the renderer.
struct Snapshot {
    draws: Vec<u64>,
    in_phase: bool,
}

impl Snapshot {
    #[inline(never)]
    fn take(draws: usize, in_phase: bool) -> Self {
        Self {
            draws: (0..draws as u64).collect(),
            in_phase,
        }
    }
}

/// Draws until the simulation ends.
#[inline(never)]
fn render_loop(
    snapshots: &Mailbox<Snapshot>,
    mut log: Option<FrameLog>,
    work: Work,
) -> Option<FrameLog> {
    tally::join_game();
    telemetry::thread_role(Role::Critical);
    if let Some(log) = &mut log {
        log.begin();
        // This thread starts within the phase "startup".
        log.phase_begins();
    }
    while let Some(snapshot) = snapshots.receive() {
        if let Some(log) = &mut log {
            log.follow_phase(snapshot.in_phase);
            log.temporary(|| record_commands(&snapshot.draws));
        }
        work.micros(700);
        drop(snapshot);
        if let Some(log) = &mut log {
            log.end_frame();
        }
        snapshots.done();
    }
    log
}

#[inline(never)]
fn record_commands(draws: &[u64]) {
    let mut commands = Vec::with_capacity(16);
    commands.extend(draws.iter().map(|draw| [*draw, draw + 1]));
    std::hint::black_box(&commands);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_leaves_thirty_seven_blocks() {
        let left = leave_behind();
        assert_eq!(left.blocks_made(), 37);
        assert_eq!(left.live_blocks(), 37);
        let bytes = 25 * size_of::<Listener>() + 12 * size_of::<Decal>();
        assert_eq!(left.requested_bytes, bytes as u64);
    }
}
