//! Events a second of the frame arenas and of the object pool.

mod support;

use heapreel_models::arena::{Arenas, Parameters as Arena};
use heapreel_models::pool::{Parameters as Slots, Pool};
use support::{Shape, measure, measure_with_books, run};

fn main() {
    let events = 2_000_000;
    let frames = Shape {
        events,
        live: 2000,
        max_size: 4096,
        frame_events: 5000,
        dies_in_frame: true,
    };
    let events_in_frames = run(&frames);
    measure("arena", &events_in_frames, || {
        Box::new(Arenas::new(Arena::default()))
    });
    measure_with_books("arena with books", &events_in_frames, || {
        Box::new(Arenas::new(Arena::default()))
    });
    for live in [2_000, 100_000] {
        let objects = Shape {
            events,
            live,
            max_size: 64,
            frame_events: 5000,
            dies_in_frame: false,
        };
        let objects = run(&objects);
        measure(&format!("pool {live} live"), &objects, || {
            let parameters = Slots {
                block: 64,
                capacity: 200_000,
                ..Slots::default()
            };
            Box::new(Pool::new(parameters).unwrap())
        });
    }
}
