//! What recording a call costs, measured at the start.

use crate::backtrace::{CallSite, Request};
use crate::os::clock;
use crate::thread::{define, with_mine};
use heapreel_format::{Definition, Entry};

/// Measures what recording costs and defines it.
pub(crate) fn calibrate() {
    const TURNS: u64 = 16;
    const ROUNDS: u64 = 5;
    crate::session::first_definitions();
    // The least of a few rounds: the others met an interruption.
    let empty = (0..TURNS).map(|_| ticks_of(|| {})).min().unwrap_or(0);
    let turns = |work: &mut dyn FnMut()| {
        let round = |work: &mut dyn FnMut()| ticks_of(|| (0..TURNS).for_each(|_| work())) / TURNS;
        (0..ROUNDS).map(|_| round(work)).min().unwrap_or(0)
    };
    let clocks = turns(&mut || _ = (clock::start(), clock::end()));
    let mut backtrace = 0;
    with_mine(|state, level| {
        backtrace = turns(&mut || {
            let sought =
                state.seek_backtrace(level, Request::new(Entry::Unknown, 0), CallSite::UNKNOWN);
            _ = state.stack_id(level, &sought);
        });
    });
    let writing = turns(&mut write_once);
    define(&Definition::Calibration {
        alloc_ticks: (clocks + backtrace + writing) as u32,
        dealloc_ticks: (clocks + writing) as u32,
        empty_latency_ticks: empty as u32,
    });
}

fn ticks_of(work: impl FnOnce()) -> u64 {
    let start = clock::start();
    work();
    clock::end() - start
}

/// Encodes one event into memory that nobody reads.
fn write_once() {
    let mut room = [0; heapreel_format::MAX_EVENT_BYTES];
    let mut state = heapreel_format::DeltaState::default();
    let mut event = crate::hooks::blank(1000, 1040);
    event.address = 0x7f00_1234_5670;
    event.size = 48;
    std::hint::black_box(heapreel_format::RecordWriter::new(&mut room).alloc(&mut state, &event));
    std::hint::black_box(&room);
}
