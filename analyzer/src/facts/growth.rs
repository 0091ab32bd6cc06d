//! Live bytes of every backtrace at a few instants, to tell growth from a level.

/// Instants kept at most; then every second one is dropped.
const MAX_INSTANTS: usize = 48;
/// Distance of the first instants, in ticks.
const FIRST_GAP: u64 = 1 << 14;

/// Live bytes by backtrace at instants of equal distance.
#[derive(Clone, Debug)]
pub(crate) struct Samples {
    /// (key, live bytes of each backtrace); shorter lists end in zeros.
    pub(crate) instants: Vec<(u64, Vec<u64>)>,
    gap: u64,
    next: u64,
}

impl Samples {
    pub(crate) fn new(start: u64) -> Samples {
        Samples {
            instants: Vec::new(),
            gap: FIRST_GAP,
            next: start.saturating_add(FIRST_GAP),
        }
    }

    /// Whether an instant is due before the step with this key.
    #[inline]
    pub(crate) fn due(&self, key: u64) -> bool {
        key >= self.next
    }

    /// Notes what is live at `key`.
    pub(crate) fn take(&mut self, key: u64, live: impl Iterator<Item = u64>) {
        let mut bytes: Vec<u64> = live.collect();
        let used = bytes
            .iter()
            .rposition(|bytes| *bytes > 0)
            .map_or(0, |last| last + 1);
        bytes.truncate(used);
        self.instants.push((key, bytes));
        if self.instants.len() >= MAX_INSTANTS {
            let mut number = 0;
            self.instants.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            self.gap = self.gap.saturating_mul(2);
        }
        self.next = key.saturating_add(self.gap);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_stay_few_and_keep_their_distance() {
        let mut samples = Samples::new(0);
        for key in (0..100_000_000).step_by(1000) {
            if samples.due(key) {
                samples.take(key, [key, 0].into_iter());
            }
        }
        let count = samples.instants.len();
        assert!(
            (MAX_INSTANTS / 2 - 1..MAX_INSTANTS).contains(&count),
            "{count}"
        );
        assert!(samples.instants.is_sorted());
        // Zeros at the end are left out.
        assert!(samples.instants.iter().all(|(key, bytes)| bytes == &[*key]));
    }
}
