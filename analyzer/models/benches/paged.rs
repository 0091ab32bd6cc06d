//! Events a second of the mimalloc and virtual memory models, over a run that looks like a
//! game's: most blocks are small, half die in their frame, some are freed by other threads.

use std::time::Instant;

use heapreel_models::{
    BlockId, Mimalloc, Model, Moment, Request, SegmentId, ThreadRole, Virtual, mimalloc,
    virtual_memory,
};

/// Events of a run.
const EVENTS: usize = 4_000_000;

/// Events of a game frame.
const FRAME: usize = 5_000;

enum Event {
    Allocate(BlockId, u32),
    Free(BlockId),
    FrameEnd,
}

fn main() {
    for live in [2_000, 100_000] {
        let events = run(live);
        for preset in mimalloc::Parameters::PRESETS {
            let parameters = mimalloc::Parameters::preset(preset).unwrap();
            measure(&format!("mimalloc:{preset}, {live} live"), &events, || {
                Box::new(Mimalloc::new(&parameters).unwrap())
            });
        }
        for preset in virtual_memory::Parameters::PRESETS {
            let parameters = virtual_memory::Parameters::preset(preset).unwrap();
            measure(&format!("virtual:{preset}, {live} live"), &events, || {
                Box::new(Virtual::new(&parameters).unwrap())
            });
        }
    }
}

fn run(live_blocks: usize) -> Vec<(Moment, Event)> {
    let mut random = 0x1234_5678_9abc_def1_u64;
    let mut below = move |limit: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) % limit
    };
    let (mut live, mut young, mut unused, mut next) = (Vec::new(), Vec::new(), Vec::new(), 0);
    let mut at = Moment::default();
    let mut events = Vec::with_capacity(EVENTS);
    while events.len() < EVENTS {
        if events.len() % FRAME == FRAME - 1 {
            events.push((at, Event::FrameEnd));
            at.frame += 1;
            at.nanos += 16_666_667;
            continue;
        }
        at.thread = below(4) as u32;
        at.segment = SegmentId(at.thread as u16);
        let full = live.len() + young.len() > live_blocks / 2 + below(live_blocks as u64) as usize;
        if full {
            let from = if below(2) == 0 && !young.is_empty() {
                &mut young
            } else {
                &mut live
            };
            if from.is_empty() {
                continue;
            }
            let (id, thread) = from.swap_remove(below(from.len() as u64) as usize);
            // One in eight is freed by whoever is at it.
            at.thread = if below(8) == 0 { at.thread } else { thread };
            events.push((at, Event::Free(id)));
            unused.push(id);
        } else {
            let id = unused.pop().unwrap_or_else(|| {
                next += 1;
                BlockId(next - 1)
            });
            let bits = below(12) as u32 + 1;
            let size = below(1 << bits) as u32 + 8;
            events.push((at, Event::Allocate(id, size)));
            if below(2) == 0 { &mut young } else { &mut live }.push((id, at.thread));
        }
    }
    events
}

fn measure(name: &str, events: &[(Moment, Event)], mut model: impl FnMut() -> Box<dyn Model>) {
    let mut best = f64::INFINITY;
    let mut failures = 0;
    for _ in 0..3 {
        let mut model = model();
        model.thread_start(
            &Moment {
                thread: 3,
                ..Moment::default()
            },
            ThreadRole::Low,
        );
        let (start, on_processor) = (Instant::now(), on_processor());
        failures = replay(&mut *model, events);
        let elapsed = start.elapsed().as_secs_f64();
        let own = on_processor
            .zip(self::on_processor())
            .map(|(before, after)| after - before);
        best = best.min(own.unwrap_or(elapsed));
    }
    let pace = events.len() as f64 / best / 1e6;
    println!("{name:<38} {pace:7.2} M events/s   {failures} failures");
}

/// Seconds that this thread was on a processor, where the system tells: on a machine that
/// others use too, the clock on the wall measures them.
fn on_processor() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos: u64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    Some(nanos as f64 / 1e9)
}

fn replay(model: &mut dyn Model, events: &[(Moment, Event)]) -> u64 {
    let mut failures = 0;
    for (at, event) in events {
        match *event {
            Event::Allocate(id, size) => {
                let request = Request {
                    size: u64::from(size),
                    align: 0,
                    zeroed: false,
                };
                failures += u64::from(model.allocate(at, id, request).is_err());
            }
            Event::Free(id) => model.free(at, id),
            Event::FrameEnd => model.frame_end(at),
        }
    }
    failures
}
