//! What a frame does besides memory: arithmetic whose length is known beforehand.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// How much arithmetic this machine does in a microsecond.
#[derive(Clone, Copy)]
pub struct Work {
    rounds_per_micro: u64,
}

impl Work {
    /// Measures the machine, about a millisecond long. The fastest of several attempts
    /// counts, because whatever disturbs one only ever makes it slower.
    pub fn calibrate() -> Self {
        const ROUNDS: u64 = 50_000;
        let fastest = (0..16)
            .map(|_| {
                let start = Instant::now();
                stir(ROUNDS);
                start.elapsed()
            })
            .min()
            .unwrap_or(Duration::from_micros(50));
        let nanos = fastest.as_nanos().max(1) as u64;
        Self {
            rounds_per_micro: (ROUNDS * 1000 / nanos).max(1),
        }
    }

    /// Computes for about `micros` microseconds, always the same number of steps.
    pub fn micros(&self, micros: u64) {
        stir(self.rounds_per_micro * micros);
    }
}

/// Computes until `end`, however long that is.
pub fn until(end: Instant) {
    while Instant::now() < end {
        stir(50);
    }
}

fn stir(rounds: u64) {
    let mut state = black_box(0x2545_F491_4F6C_DD1D_u64);
    for _ in 0..rounds {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
}
