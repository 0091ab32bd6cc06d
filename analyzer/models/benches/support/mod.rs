//! What the benches have in common: a run that looks like a game's, and a stopwatch.

use std::time::Instant;

use heapreel_models::{BlockId, Model, Moment, Request, SegmentId};

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

/// Replays a run three times and prints the best pace.
pub fn measure(name: &str, events: &[Event], mut model: impl FnMut() -> Box<dyn Model>) {
    let mut best = f64::INFINITY;
    let mut failures = 0;
    for _ in 0..3 {
        let mut model = model();
        let start = Instant::now();
        failures = replay(&mut *model, events);
        best = best.min(start.elapsed().as_secs_f64());
    }
    let pace = events.len() as f64 / best / 1e6;
    println!("{name:<24} {pace:7.2} M events/s   {failures} failures");
}

fn replay(model: &mut dyn Model, events: &[Event]) -> u64 {
    let mut failures = 0;
    for event in events {
        match *event {
            Event::Allocate(id, size, at) => {
                let request = Request {
                    size: u64::from(size),
                    align: 0,
                    zeroed: false,
                };
                failures += u64::from(model.allocate(&at, id, request).is_err());
            }
            Event::Reallocate(id, size, at) => {
                failures += u64::from(model.reallocate(&at, id, u64::from(size)).is_err());
            }
            Event::Free(id, at) => model.free(&at, id),
            Event::FrameEnd(at) => model.frame_end(&at),
        }
    }
    failures
}
