//! The scenes, one file each.

mod hits;
mod leak;
mod openworld;
mod overrun;
mod padded;
mod patrol;
mod segments;
mod stages;

use crate::cli::Scene;
use crate::frame_log::LoopTruth;
use crate::game::Game;
use serde::Serialize;

/// What remains of a scene when it has been played.
pub struct Played {
    /// What only this scene knows.
    pub facts: Facts,
    /// The loops that other threads ran.
    pub other_loops: Vec<LoopTruth>,
    /// What it still has to do when the truth has been told.
    pub last_act: Option<Box<dyn FnOnce()>>,
    /// Why it could not be played, and what to do.
    pub failure: Option<String>,
}

impl Played {
    /// A scene with one loop that ends in peace.
    fn quietly(facts: Facts) -> Self {
        Self {
            facts,
            other_loops: Vec::new(),
            last_act: None,
            failure: None,
        }
    }
}

/// What only one scene knows.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Facts {
    /// Combat.
    Hits(hits::HitsFacts),
    /// Levels.
    Stages(Box<stages::StagesFacts>),
    /// Streaming.
    Openworld(openworld::OpenworldFacts),
    /// The journal and the caches.
    Leak(leak::LeakFacts),
    /// The damaged block and its neighbour.
    Overrun(overrun::OverrunFacts),
    /// Two things that have nothing to do with each other.
    Padded(padded::PaddedFacts),
    /// One hitch a minute.
    Patrol(patrol::PatrolFacts),
    /// The game's own heaps.
    Segments(segments::SegmentsFacts),
}

/// Plays `scene` to its end.
pub fn play(scene: Scene, game: &mut Game) -> Played {
    match scene {
        Scene::Hits => hits::play(game),
        Scene::Stages { leak } => stages::play(game, leak),
        Scene::Openworld { threads, intensity } => openworld::play(game, threads, intensity),
        Scene::Leak => leak::play(game),
        Scene::Overrun { crash } => overrun::play(game, crash),
        Scene::Padded => padded::play(game),
        Scene::Patrol => patrol::play(game),
        Scene::Segments => segments::play(game),
    }
}
