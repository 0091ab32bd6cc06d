//! The recording's clock, read from outside.
#![expect(unsafe_code, reason = "reading the time stamp counter is an intrinsic")]

use heapreel_format::{Clock, ClockSource, Definition};

/// This instant on both clocks; `None` where the recording's clock cannot be read from
/// another process.
pub fn pair(clock: &Clock) -> Option<Definition<'static>> {
    let nanos = monotonic_nanos();
    let key = match clock.source {
        ClockSource::Tsc => time_stamp()? >> clock.shift,
        ClockSource::Monotonic => nanos >> clock.shift,
        ClockSource::Counter => return None,
    };
    Some(Definition::ClockPair {
        key,
        monotonic_nanos: nanos,
    })
}

fn monotonic_nanos() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(target_arch = "x86_64")]
fn time_stamp() -> Option<u64> {
    // SAFETY: a recording says Tsc only where the kernel itself uses the counter, and
    // then every process may read it.
    Some(unsafe { std::arch::x86_64::_rdtsc() })
}

#[cfg(not(target_arch = "x86_64"))]
fn time_stamp() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_go_forward() {
        let clock = Clock {
            source: ClockSource::Monotonic,
            ..Clock::default()
        };
        let keys = [(); 2].map(|()| match pair(&clock) {
            Some(Definition::ClockPair { key, .. }) => key,
            other => panic!("{other:?}"),
        });
        assert!(0 < keys[0] && keys[0] <= keys[1]);
        let counter = Clock {
            source: ClockSource::Counter,
            ..Clock::default()
        };
        assert_eq!(pair(&counter), None);
    }
}
