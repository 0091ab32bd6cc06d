//! A Rust program with the recorder inside, that counts its own calls.
//!
//! ```text
//! HEAPREEL_OUT=tally.hreel cargo run --release -p heapreel --example tally
//! ```
//!
//! [`game::Counting`] stands below the recorder and sees what reaches the allocator: the
//! trace must say the same between the marks "tally begin" and "tally end".

#![expect(unsafe_code, reason = "an allocator, and blocks handled by hand")]

mod game;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[global_allocator]
static ALLOCATOR: heapreel::Recorder<game::Counting> = heapreel::Recorder::new(game::Counting);

fn main() {
    let (rounds, steps, seed) = game::arguments();
    STEPS.store(steps, Relaxed);
    game::play(rounds, seed, heapreel::mark, round);
}

static STEPS: AtomicU64 = AtomicU64::new(0);

/// Threads as std makes them, whose own blocks are counted like any other.
fn round(seed: u64) {
    let steps = STEPS.load(Relaxed);
    let threads: Vec<_> = (0..game::THREADS)
        .map(|number| std::thread::spawn(move || game::work(steps, seed, number)))
        .collect();
    for thread in threads {
        thread.join().expect("a thread's work");
    }
}
