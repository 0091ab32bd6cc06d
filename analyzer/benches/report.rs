//! Events per second of each stage of an analysis, added up one by one.
//!
//! ```text
//! cargo bench -p heapreel-analyzer --bench report                 a made-up game of 8 million events
//! cargo bench -p heapreel-analyzer --bench report -- run.hreel    a trace
//! ```
//!
//! Each stage is run `ROUNDS` times (default 5); the median and the range are printed.

use heapreel_analyzer::replay::{Batch, Dense, Merge, Observer, Player, Span, Step};
use heapreel_analyzer::testing::Game;
use heapreel_analyzer::{Options, analyze_trace};
use heapreel_format::{DecodedChunk, Rare, Trace};
use std::hint::black_box;
use std::time::Instant;

fn main() {
    let file = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let rounds = std::env::var("ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(5);
    // `cargo test --benches` must be quick.
    let quick = std::env::args().any(|argument| argument == "--test") || cfg!(debug_assertions);
    let trace = match &file {
        Some(path) => Trace::open(path.as_ref()).expect("a trace"),
        None => Trace::from_bytes(made_up(quick).bytes()).expect("a sound trace"),
    };
    let events = analyze_trace(&trace, &Options::default(), |_| ())
        .expect("a sound trace")
        .totals
        .events;
    let source = file.as_deref().unwrap_or("made up");
    println!(
        "{source}: {events} events, {:.2} bytes each, {} chunks",
        trace.bytes() as f64 / events as f64,
        trace.chunks().len()
    );
    let measure = |stage: &str, work: fn(&Trace)| {
        let mut rates: Vec<f64> = (0..if quick { 1 } else { rounds })
            .map(|_| {
                let begun = Instant::now();
                work(&trace);
                events as f64 / begun.elapsed().as_secs_f64() / 1e6
            })
            .collect();
        rates.sort_by(f64::total_cmp);
        let (least, median, most) = (rates[0], rates[rates.len() / 2], rates[rates.len() - 1]);
        println!("{stage:<44} {median:>7.1} M events/s  ({least:.1} to {most:.1})");
    };
    measure("decode, one thread", decode);
    measure("decode + merge, one thread", merge);
    measure("decode + merge + live set, one thread", live_set);
    measure("whole analysis, two threads", whole);
}

fn made_up(quick: bool) -> Game {
    Game {
        events: if quick { 20_000 } else { 8_000_000 },
        frame_events: 40_000,
        live_blocks: 50_000,
        stacks: 5_000,
        leak_one_in: 1_000,
        ..Game::default()
    }
}

fn decode(trace: &Trace) {
    let mut decoded = DecodedChunk::default();
    for chunk in trace.chunks() {
        trace
            .decode_into(chunk, &mut decoded)
            .expect("a sound chunk");
        black_box(&decoded);
    }
}

fn merge(trace: &Trace) {
    let dense = Dense::of(trace);
    let mut merge = Merge::new(trace, &dense).expect("a sound trace");
    let mut batch = Batch::default();
    while merge.next_batch(&mut batch).expect("a sound trace") {
        black_box(&batch);
    }
}

/// Sees everything and keeps nothing.
struct Nobody;

impl Observer for Nobody {
    fn on_events(&mut self, span: Span<'_>) {
        black_box(span);
    }

    fn on_rare(&mut self, _: &Step, _: &Rare) {}
}

fn live_set(trace: &Trace) {
    let dense = Dense::of(trace);
    let mut merge = Merge::new(trace, &dense).expect("a sound trace");
    let mut batch = Batch::default();
    let mut player = Player::default();
    while merge.next_batch(&mut batch).expect("a sound trace") {
        player.play(&mut batch, &mut Nobody);
    }
    black_box(player.live_blocks());
}

fn whole(trace: &Trace) {
    black_box(analyze_trace(trace, &Options::default(), |_| ()).expect("a sound trace"));
}
