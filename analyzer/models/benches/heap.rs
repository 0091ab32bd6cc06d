//! Events a second of the segment heap, by policy and number of live blocks.

mod support;

use heapreel_models::heap::{Coalesce, Heap, Parameters};
use support::{Shape, measure, measure_with_books, run};

fn main() {
    for live in [2_000, 100_000] {
        let shape = Shape {
            events: 2_000_000,
            live,
            max_size: 4096,
            frame_events: 5000,
            dies_in_frame: false,
        };
        let events = run(&shape);
        for preset in Parameters::PRESETS {
            let parameters = Parameters::preset(preset).unwrap();
            measure(&format!("heap:{preset} {live} live"), &events, || {
                Box::new(Heap::new(parameters.clone()).unwrap())
            });
        }
        measure_with_books(&format!("heap:best with books {live}"), &events, || {
            Box::new(Heap::new(Parameters::default()).unwrap())
        });
        let coalesce = Coalesce::Deferred(64);
        measure(&format!("heap:best deferred {live}"), &events, || {
            let parameters = Parameters {
                coalesce,
                ..Parameters::default()
            };
            Box::new(Heap::new(parameters).unwrap())
        });
    }
}
