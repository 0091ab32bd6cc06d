//! What the benches have in common: a run that looks like a game's, and a stopwatch.

use std::sync::OnceLock;
use std::time::Instant;

use heapreel_models::ledger::{Ledger, Options};
use heapreel_models::{BlockId, FORESIGHT, Model, Moment, Request, SegmentId};

/// One event; frees and reallocations name a live block.
#[derive(Clone, Copy)]
pub enum Event {
    Allocate(BlockId, u32, Moment),
    Reallocate(BlockId, u32, Moment),
    Free(BlockId, Moment),
    FrameEnd(Moment),
}

/// What a run is made of.
pub struct Shape {
    pub events: usize,
    pub live: usize,
    pub max_size: u32,
    pub frame_events: usize,
    pub dies_in_frame: bool,
}

pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    /// Small sizes are the most frequent.
    fn size(&mut self, max: u32) -> u32 {
        let bits = self.below(u64::from(max.ilog2()) + 1);
        (self.below(1 << bits) as u32 + 8).min(max)
    }
}

pub fn run(shape: &Shape) -> Vec<Event> {
    let mut random = Random(0x1234_5678_9ABC_DEF1);
    let (mut live, mut vacant, mut next) = (Vec::new(), Vec::new(), 0);
    let mut events = Vec::with_capacity(shape.events);
    let mut at = Moment::default();
    while events.len() < shape.events {
        at.thread = random.below(4) as u32;
        at.segment = SegmentId(at.thread as u16);
        if events.len() % shape.frame_events == shape.frame_events - 1 {
            if shape.dies_in_frame {
                for (id, thread) in live.drain(..) {
                    events.push(Event::Free(id, Moment { thread, ..at }));
                    vacant.push(id);
                }
            }
            events.push(Event::FrameEnd(at));
            at.frame += 1;
            continue;
        }
        let full = live.len() as u64 * 2 > random.below(shape.live as u64 * 2) + shape.live as u64;
        if full {
            let (id, thread) = live.swap_remove(random.below(live.len() as u64) as usize);
            events.push(Event::Free(id, Moment { thread, ..at }));
            vacant.push(id);
        } else if !live.is_empty() && random.below(32) == 0 {
            let (id, thread) = live[random.below(live.len() as u64) as usize];
            let moment = Moment { thread, ..at };
            events.push(Event::Reallocate(id, random.size(shape.max_size), moment));
        } else {
            let id = vacant.pop().unwrap_or_else(|| {
                next += 1;
                BlockId(next - 1)
            });
            events.push(Event::Allocate(id, random.size(shape.max_size), at));
            live.push((id, at.thread));
        }
    }
    events
}

/// Replays a run five times on a model and prints the best pace.
pub fn measure(name: &str, events: &[Event], mut model: impl FnMut() -> Box<dyn Model>) {
    best_of_five(name, events, || {
        let mut model = model();
        let start = seconds();
        let failures = replay(&mut *model, events);
        (seconds() - start, failures)
    });
}

/// The same with the books of a replay.
pub fn measure_with_books(name: &str, events: &[Event], mut model: impl FnMut() -> Box<dyn Model>) {
    best_of_five(name, events, || {
        let mut ledger = Ledger::new(model(), Options::default());
        let start = seconds();
        keep_books(&mut ledger, events);
        (seconds() - start, ledger.tally().failures)
    });
}

/// By the processor's time where the system tells it: other programs may want it too.
fn best_of_five(name: &str, events: &[Event], run: impl FnMut() -> (f64, u64)) {
    if !wanted(name) {
        return;
    }
    let runs: Vec<_> = std::iter::repeat_with(run).take(5).collect();
    let best = runs.iter().map(|run| run.0).fold(f64::INFINITY, f64::min);
    let pace = events.len() as f64 / best / 1e6;
    println!("{name:<28} {pace:7.2} M events/s   {} failures", runs[0].1);
}

/// Whether a row is asked for: its name has what the command line says, if that says any.
fn wanted(name: &str) -> bool {
    let mut parts = std::env::args()
        .skip(1)
        .filter(|part| !part.starts_with('-'));
    parts.all(|part| name.contains(&part))
}

fn keep_books(ledger: &mut Ledger, events: &[Event]) {
    for events in events.chunks(FORESIGHT) {
        ledger.expect(&old_blocks(events));
        for event in events {
            match *event {
                Event::Allocate(id, size, at) => {
                    let _ = ledger.allocate(&at, id, request(size));
                }
                Event::Reallocate(id, size, at) => {
                    let _ = ledger.reallocate(&at, id, u64::from(size));
                }
                Event::Free(id, at) => drop(ledger.free(&at, id)),
                Event::FrameEnd(at) => ledger.frame_end(&at),
            }
        }
    }
}

/// Seconds that this thread has had a processor for; elapsed ones where that is unknown.
fn seconds() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let run = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = run.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanos.map_or_else(
        || START.get_or_init(Instant::now).elapsed().as_secs_f64(),
        |nanos| nanos / 1e9,
    )
}

fn replay(model: &mut dyn Model, events: &[Event]) -> u64 {
    let mut failures = 0;
    for events in events.chunks(FORESIGHT) {
        model.expect(&old_blocks(events));
        for event in events {
            match *event {
                Event::Allocate(id, size, at) => {
                    failures += u64::from(model.allocate(&at, id, request(size)).is_err());
                }
                Event::Reallocate(id, size, at) => {
                    failures += u64::from(model.reallocate(&at, id, u64::from(size)).is_err());
                }
                Event::Free(id, at) => model.free(&at, id),
                Event::FrameEnd(at) => model.frame_end(&at),
            }
        }
    }
    failures
}

fn request(size: u32) -> Request {
    Request {
        size: u64::from(size),
        align: 0,
        zeroed: false,
    }
}

/// The blocks that some events free or resize.
fn old_blocks(events: &[Event]) -> Vec<BlockId> {
    let old = events.iter().filter_map(|event| match event {
        Event::Free(id, _) | Event::Reallocate(id, ..) => Some(*id),
        Event::Allocate(..) | Event::FrameEnd(_) => None,
    });
    old.collect()
}
