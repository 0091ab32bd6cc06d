//! *patrol*: nothing happens for minutes, and then one frame hitches.
//!
//! Each minute of 3,600 frames has one fault at a frame that the dice choose. There are three
//! faults, which take turns; each spends the time of more than a frame in the allocator, on a
//! line of its own. Play it with `--pace 60`.

use super::{Facts, Played};
use crate::game::Game;
use crate::truth::SpikeTruth;
use serde::Serialize;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Frames of a minute.
const MINUTE: u64 = 3_600;
/// What a fault takes, at 60 frames a second one and a half frames.
const HITCH: Duration = Duration::from_millis(25);
/// So large are the blocks of a fault.
const BLOCK: usize = 8 << 20;

/// How often each fault came.
#[derive(Default, Serialize)]
pub struct PatrolFacts {
    rebuild_navmesh: u64,
    reload_banners: u64,
    write_autosave: u64,
}

/// Plays the scene.
pub fn play(game: &mut Game) -> Played {
    let mut dice = game.random.fork(1);
    let mut facts = PatrolFacts::default();
    let mut due = dice.within(60..MINUTE);
    while game.running() {
        walk(game.frame());
        if game.frame() == due {
            let minute = due / MINUTE;
            fault(game, minute, &mut facts);
            due = (minute + 1) * MINUTE + dice.within(0..MINUTE);
        }
        game.end_frame();
    }
    game.finish();
    Played::quietly(Facts::Patrol(facts))
}

fn fault(game: &mut Game, minute: u64, facts: &mut PatrolFacts) {
    let start = Instant::now();
    let (site, blocks) = match minute % 3 {
        0 => {
            facts.rebuild_navmesh += 1;
            ("rebuild_navmesh", rebuild_navmesh(start + HITCH))
        }
        1 => {
            facts.reload_banners += 1;
            ("reload_banners", reload_banners(start + HITCH))
        }
        _ => {
            facts.write_autosave += 1;
            ("write_autosave", write_autosave(start + HITCH))
        }
    };
    game.note_spike(SpikeTruth {
        frame: game.frame(),
        reason: "large blocks are taken and given back again and again",
        site,
        explained_by_allocation: true,
        allocations: blocks,
        bytes: blocks * BLOCK as u64,
        nanos: start.elapsed().as_nanos() as u64,
    });
}

/// The steps of a quiet frame: small blocks that do not stay.
#[inline(never)]
fn walk(frame: u64) {
    for step in 0..40 {
        black_box(Box::new([frame, step]));
    }
}

// Blocks of other types: equal functions would be merged into one.

#[inline(never)]
fn rebuild_navmesh(end: Instant) -> u64 {
    let mut blocks = 0;
    while Instant::now() < end {
        black_box(vec![0u8; BLOCK]);
        blocks += 1;
    }
    blocks
}

#[inline(never)]
fn reload_banners(end: Instant) -> u64 {
    let mut blocks = 0;
    while Instant::now() < end {
        black_box(vec![0u32; BLOCK / 4]);
        blocks += 1;
    }
    blocks
}

#[inline(never)]
fn write_autosave(end: Instant) -> u64 {
    let mut blocks = 0;
    while Instant::now() < end {
        black_box(vec![0u64; BLOCK / 8]);
        blocks += 1;
    }
    blocks
}
