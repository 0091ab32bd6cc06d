//! Ticks as nanoseconds.

use heapreel_format::Clock;

/// Converts keys and durations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    start: u64,
    nanos_per_tick: f64,
}

impl Times {
    pub(crate) fn of(clock: &Clock) -> Times {
        // A header from elsewhere may say nonsense: then a tick is a nanosecond.
        let rate = clock.ticks_per_second;
        let sound = rate.is_finite() && rate > 0.0;
        Times {
            start: clock.start,
            nanos_per_tick: if sound { 1e9 / rate } else { 1.0 },
        }
    }

    /// When recording started, in ticks.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// A duration in nanoseconds.
    pub(crate) fn nanos(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.nanos_per_tick).round() as u64
    }

    /// A fractional number of ticks in nanoseconds.
    pub(crate) fn nanos_f64(&self, ticks: f64) -> f64 {
        ticks * self.nanos_per_tick
    }

    /// A key in nanoseconds since recording started.
    pub(crate) fn since_start(&self, key: u64) -> u64 {
        self.nanos(key.saturating_sub(self.start))
    }

    /// Nanoseconds as ticks.
    pub(crate) fn ticks(&self, nanos: u64) -> u64 {
        (nanos as f64 / self.nanos_per_tick).round() as u64
    }

    /// The key so many nanoseconds after recording started.
    pub(crate) fn key_at(&self, nanos: u64) -> u64 {
        self.start.saturating_add(self.ticks(nanos))
    }
}
