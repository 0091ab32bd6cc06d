//! The recording's clock: the processor's time stamp counter where the kernel
//! itself trusts it, else CLOCK_MONOTONIC.
//!
//! Ticks are the counter without its low bits (8 cycles, about 3 ns): two calls of
//! different threads on the same block are always further apart, since the block's
//! address has to travel between their cores, and short numbers make short records.
//! Equal ticks are ordered by the rule "releases before acquisitions".
#![expect(unsafe_code, reason = "reads the processor's and the kernel's clocks")]

use heapreel_format::{Clock, ClockSource};
use std::arch::x86_64::{__cpuid, __rdtscp, _rdtsc};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Low bits of the counter that are dropped.
pub(crate) const SHIFT: u32 = 3;

static USE_TSC: AtomicBool = AtomicBool::new(true);

/// The instant before a call: nothing the call stores is visible before it.
#[inline(always)]
pub(crate) fn start() -> u64 {
    if USE_TSC.load(Relaxed) {
        // SAFETY: the instruction has no preconditions on x86-64.
        (unsafe { _rdtsc() }) >> SHIFT
    } else {
        monotonic_nanos()
    }
}

/// The instant before a block is given back. Its address may come from another thread:
/// whatever had to be loaded to know it was loaded before this instant, or the release
/// could seem earlier than the acquisition; and nothing the call stores is visible
/// before it.
#[inline(always)]
pub(crate) fn release() -> u64 {
    end()
}

/// The instant after a call: everything the call loaded was loaded before it.
#[inline(always)]
pub(crate) fn end() -> u64 {
    if USE_TSC.load(Relaxed) {
        let mut processor = 0;
        // SAFETY: writes the processor's number to a local.
        (unsafe { __rdtscp(&raw mut processor) }) >> SHIFT
    } else {
        monotonic_nanos()
    }
}

/// CLOCK_MONOTONIC in nanoseconds.
pub(crate) fn monotonic_nanos() -> u64 {
    nanos_of(libc::CLOCK_MONOTONIC)
}

fn nanos_of(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to a local.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Chooses the clock and measures its rate.
pub(crate) fn set_up() -> Clock {
    let tsc = tsc_can_be_trusted();
    USE_TSC.store(tsc, Relaxed);
    let (source, shift, ticks_per_second) = if tsc {
        (
            ClockSource::Tsc,
            SHIFT as u8,
            tsc_rate() / f64::from(1u32 << SHIFT),
        )
    } else {
        (ClockSource::Monotonic, 0, 1e9)
    };
    let start_monotonic_nanos = monotonic_nanos();
    let start = end();
    let start_unix_nanos = nanos_of(libc::CLOCK_REALTIME);
    Clock {
        source,
        shift,
        ticks_per_second,
        start,
        start_monotonic_nanos,
        start_unix_nanos,
    }
}

/// The counter runs at one rate on all cores (CPUID 8000_0007h, EDX bit 8), has
/// `rdtscp` (8000_0001h, EDX bit 27), and the kernel keeps time by it.
fn tsc_can_be_trusted() -> bool {
    let invariant = __cpuid(0x8000_0000).eax >= 0x8000_0007
        && __cpuid(0x8000_0007).edx & 1 << 8 != 0
        && __cpuid(0x8000_0001).edx & 1 << 27 != 0;
    let source = std::fs::read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    invariant && source.is_ok_and(|name| name.starts_with(b"tsc"))
}

/// Counts a second, from the wrapper's measurement or by one of a millisecond:
/// good to about 1 in 10,000; the drain's clock pairs refine it.
fn tsc_rate() -> f64 {
    if let Some(rate) = std::env::var("HEAPREEL_TSC_HZ")
        .ok()
        .and_then(|text| text.parse::<f64>().ok())
        && (1e8..1e11).contains(&rate)
    {
        return rate;
    }
    let (nanos, count) = pair();
    loop {
        let (now, then) = pair();
        if now - nanos >= 1_000_000 {
            return (then - count) as f64 * 1e9 / (now - nanos) as f64;
        }
    }
}

/// Both clocks at one instant, the best of a few tries.
fn pair() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..4 {
        // SAFETY: see `start`.
        let before = unsafe { _rdtsc() };
        let nanos = monotonic_nanos();
        // SAFETY: see `start`.
        let after = unsafe { _rdtsc() };
        best = best.min((after - before, nanos, before + (after - before) / 2));
    }
    (best.1, best.2)
}
