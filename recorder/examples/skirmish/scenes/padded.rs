//! *padded*: frame times and allocation counts that have nothing to do with each other.
//!
//! How long a frame lasts is decided first, by dice of its own; whatever its allocations
//! take, it is padded with arithmetic up to that length. Some frames are long, some
//! allocate a lot, and which ones are which is independent. Whoever says that allocation
//! explains the long ones is wrong.

use super::{Facts, Played};
use crate::game::Game;
use crate::random::Random;
use crate::truth::SpikeTruth;
use crate::work;
use serde::Serialize;
use std::time::{Duration, Instant};

/// The truth about both.
#[derive(Serialize)]
pub struct PaddedFacts {
    long_frames: u64,
    busy_frames: u64,
    /// Long and busy by chance.
    both: u64,
    most_allocations_in_a_frame: u64,
}

/// Plays the scene.
pub fn play(game: &mut Game) -> Played {
    let startup = game.begin_phase("startup");
    let mut lengths = game.random.fork(1);
    let mut amounts = game.random.fork(2);
    let mut facts = PaddedFacts {
        long_frames: 0,
        busy_frames: 0,
        both: 0,
        most_allocations_in_a_frame: 0,
    };
    game.end_phase(startup);
    while game.running() {
        // Frame 0 began with the start-up and is nobody's example.
        let start = Instant::now();
        let length = frame_length(&mut lengths);
        let amount = allocation_count(&mut amounts);
        facts.note(length, amount);
        game.log.temporary(|| EffectSystem::spawn_sparks(amount));
        pad_frame(start + length);
        if length >= LONG {
            note_long_frame(game, start);
        }
        game.end_frame();
    }
    game.finish();
    Played::quietly(Facts::Padded(facts))
}

/// From here on a frame is a long one.
const LONG: Duration = Duration::from_micros(5000);
/// From here on a frame is a busy one.
const BUSY: u64 = 300;

/// One frame in twenty is long.
fn frame_length(dice: &mut Random) -> Duration {
    let micros = if dice.one_in(20) {
        dice.within(5000..9000)
    } else {
        dice.within(1400..1800)
    };
    Duration::from_micros(micros)
}

/// One frame in twenty allocates a lot, the others anything from nothing to a little.
fn allocation_count(dice: &mut Random) -> u64 {
    if dice.one_in(20) {
        dice.within(BUSY..600)
    } else {
        dice.within(0..40)
    }
}

impl PaddedFacts {
    fn note(&mut self, length: Duration, amount: u64) {
        let (long, busy) = (length >= LONG, amount >= BUSY);
        self.long_frames += u64::from(long);
        self.busy_frames += u64::from(busy);
        self.both += u64::from(long && busy);
        self.most_allocations_in_a_frame = self.most_allocations_in_a_frame.max(amount);
    }
}

fn note_long_frame(game: &mut Game, start: Instant) {
    game.note_spike(SpikeTruth {
        frame: game.frame(),
        reason: "the frame is padded with arithmetic",
        site: "pad_frame",
        explained_by_allocation: false,
        allocations: 0,
        bytes: 0,
        nanos: start.elapsed().as_nanos() as u64,
    });
}

/// Arithmetic up to the frame's end.
#[inline(never)]
fn pad_frame(end: Instant) {
    work::until(end);
}

/// Sparks and smoke.
struct EffectSystem;

impl EffectSystem {
    /// Exactly `amount` blocks, all gone when it returns.
    #[inline(never)]
    fn spawn_sparks(amount: u64) {
        let mut newest = None;
        for number in 0..amount {
            newest = Some(Box::new(Spark {
                heat: number,
                older: newest,
            }));
        }
        while let Some(mut spark) = newest {
            std::hint::black_box(spark.heat);
            newest = spark.older.take();
        }
    }
}

struct Spark {
    heat: u64,
    older: Option<Box<Spark>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally;

    #[test]
    fn a_spark_is_a_block_that_does_not_stay() {
        let before = tally::this_thread();
        EffectSystem::spawn_sparks(37);
        let counts = tally::this_thread() - before;
        assert_eq!((counts.allocations, counts.deallocations), (37, 37));
    }

    #[test]
    fn long_and_busy_frames_are_unrelated() {
        let random = Random::new(42);
        let (mut lengths, mut amounts) = (random.fork(1), random.fork(2));
        let (mut long, mut busy, mut both) = (0, 0, 0);
        for _ in 0..100_000 {
            let is_long = frame_length(&mut lengths) >= LONG;
            let is_busy = allocation_count(&mut amounts) >= BUSY;
            long += u32::from(is_long);
            busy += u32::from(is_busy);
            both += u32::from(is_long && is_busy);
        }
        // A twentieth of a twentieth.
        assert!((4500..5500).contains(&long) && (4500..5500).contains(&busy));
        assert!((200..300).contains(&both), "{both}");
    }
}
