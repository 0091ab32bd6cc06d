//! When rare things happen.

use crate::random::Random;
use std::ops::Range;

/// Frames at which something rare happens: once in each period, a few frames off.
///
/// Periods and offsets are multiples of 60 and the bands of jitter do not overlap, so no
/// two occasions share a frame.
pub struct Occasions {
    dice: Random,
    period: u64,
    jitter: Range<u64>,
    next: u64,
    due: u64,
}

impl Occasions {
    /// Every `period` frames from frame `offset` on; the first is never in frame 0.
    pub fn new(random: &Random, period: u64, offset: u64, jitter: Range<u64>) -> Self {
        let mut dice = random.fork(1000 + jitter.start);
        let next = if offset == 0 { period } else { offset };
        let due = next + dice.within(jitter.clone());
        Self {
            dice,
            period,
            jitter,
            next,
            due,
        }
    }

    /// Whether this is such a frame; to be asked once in each.
    pub fn now(&mut self, frame: u64) -> bool {
        let now = frame == self.due;
        if now {
            self.next += self.period;
            self.due = self.next + self.dice.within(self.jitter.clone());
        }
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_occasions_never_share_a_frame() {
        let random = Random::new(42);
        let mut all = [
            Occasions::new(&random, 420, 0, 0..10),
            Occasions::new(&random, 600, 300, 10..20),
            Occasions::new(&random, 600, 540, 20..30),
        ];
        for frame in 0..20_000 {
            let due = all.iter_mut().filter_map(|o| o.now(frame).then_some(()));
            assert!(due.count() <= 1, "frame {frame}");
        }
    }
}
