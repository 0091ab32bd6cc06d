//! skirmish: a small headless game that plays the scenes in which games lose memory and
//! time, with a fixed seed, and knows the truth about each.
//!
//! ```text
//! cargo run --release --example skirmish -- hits
//! cargo run --release --example skirmish -- stages --leak --truth truth.json
//! ```
//!
//! The analyzer's tests compare its answers with that truth; see `truth.rs` for what the
//! figures stand for.

#![expect(
    clippy::vec_box,
    reason = "small blocks scattered over the heap are what the scenes are about"
)]

mod bounded;
mod cli;
mod first_fit;
mod frame_log;
mod game;
mod mailbox;
mod mapping;
mod random;
mod scenes;
mod tally;
mod telemetry;
mod truth;
mod work;

use clap::Parser;
use cli::{Arguments, Scene};
use game::Game;
use scenes::Played;
use std::path::Path;
use std::process::ExitCode;
use truth::Truth;

/// Wrong arguments, or a file that cannot be written.
const EXIT_MISUSE: u8 = 2;

fn main() -> ExitCode {
    let Arguments { common, scene } = Arguments::parse();
    let scene = scene.unwrap_or(Scene::Hits);
    tally::join_game();
    telemetry::thread_role(telemetry::Role::Critical);

    let mut game = Game::new(&common, scene.default_frames(), scene.main_loop());
    game.begin();
    let Played {
        facts,
        other_loops,
        last_act,
        failure,
    } = scenes::play(scene, &mut game);
    let truth = Truth::gather(scene, common.seed, game, other_loops, facts);
    let failure = failure.or_else(|| tell(&truth, common.truth.as_deref()).err());
    if let Some(failure) = failure {
        eprintln!("skirmish: {failure}");
        return ExitCode::from(EXIT_MISUSE);
    }
    // Nothing returns from a crash, so it comes after the truth about it.
    if let Some(last_act) = last_act {
        last_act();
    }
    ExitCode::SUCCESS
}

/// The whole truth to where it was asked for, or one line about it to standard output.
fn tell(truth: &Truth, path: Option<&Path>) -> Result<(), String> {
    match path {
        Some(path) => truth.write(path).map_err(|error| {
            let path = path.display();
            format!("{path}: {error}; name a file that can be written")
        }),
        None => {
            println!("{truth}");
            Ok(())
        }
    }
}
