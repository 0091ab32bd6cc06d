//! *openworld*: 200 named assets streamed in and out by two dozen threads.
//!
//! The main thread decides each frame which assets come and go; background threads load
//! them, each in the asset's context; critical threads, for which the frame waits, do what a
//! frame needs and throw it away. An asset is freed by the main thread or by a background
//! one, hardly ever by the thread that loaded it. A small proxy of each asset outlives it,
//! among the large blocks: that is what scatters the memory. Textures grow finer in the
//! second half, so old holes do not fit, and now and then the main thread wants a large
//! block in one piece.
//!
//! Which thread does what, and all sizes and lifetimes, are decided by the dice; only the
//! order between threads is not. So totals are the same in every run, and so are the bytes
//! of each asset.

mod asset;
mod crew;
mod world;

use super::{Facts, Played};
use crate::game::Game;
use crate::telemetry;
use asset::Catalogue;
use crew::Crew;
use serde::Serialize;
use std::thread;
use world::World;

const ASSETS: usize = 200;

/// The truth about the assets, at the mark "truth", with the world still there.
#[derive(Serialize)]
pub struct OpenworldFacts {
    critical_threads: u64,
    background_threads: u64,
    loads: u64,
    /// Freed by another thread than the one that loaded them.
    unloads_by_main: u64,
    unloads_by_background: u64,
    assets: Vec<AssetFacts>,
}

/// One asset: what is loaded of it, and the proxy.
#[derive(Serialize)]
struct AssetFacts {
    name: String,
    loads: u64,
    loaded: bool,
    live_blocks: u64,
    live_bytes: u64,
}

/// Plays the scene on `threads` threads, the calling one included.
pub fn play(game: &mut Game, threads: u16, intensity: u32) -> Played {
    let startup = game.begin_phase("startup");
    let catalogue = Catalogue::new();
    let crew = Crew::new(threads.into(), intensity as usize, game.work);
    let mut world = World::new(game, crew.jobs.len());
    let failure = thread::scope(|scope| {
        let handles = crew.start(scope, &catalogue);
        game.end_phase(startup);
        if handles.is_ok() {
            roam(game, &mut world, &crew);
        }
        crew.dismiss();
        // Only a joined thread has freed all of its own.
        let joined = handles.map(|handles| handles.into_iter().for_each(|h| drop(h.join())));
        joined.err().map(|error| {
            format!("cannot start {threads} threads: {error}; ask for fewer with --threads")
        })
    });
    let (critical, background) = (crew.jobs.len() as u64 + 1, crew.streams.len() as u64);
    drop(crew);
    game.finish();
    Played {
        failure,
        ..Played::quietly(Facts::Openworld(OpenworldFacts {
            critical_threads: critical,
            background_threads: background,
            loads: world.loads,
            unloads_by_main: world.unloads_by_main,
            unloads_by_background: world.unloads_by_background,
            assets: world.assets(&catalogue),
        }))
    }
}

#[inline(never)]
fn roam(game: &mut Game, world: &mut World, crew: &Crew) {
    let _level = telemetry::level("archipelago");
    while game.running() {
        world.stream(game.frame(), game.frames, crew);
        world.run_jobs(game, &crew.jobs);
        game.log.temporary(|| world.cull());
        world.open_cinematic(game.frame());
        game.end_frame();
    }
    world.await_all(&crew.results);
}
