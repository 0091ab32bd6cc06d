//! The golden traces, and their replay in the form of the golden outputs.

use std::fmt::Write;
use std::path::Path;

use heapreel_models::{BlockId, Model, Moment, Request};

/// One line of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Allocate {
        thread: u32,
        id: u32,
        size: u64,
        align: u64,
    },
    Reallocate {
        thread: u32,
        id: u32,
        size: u64,
    },
    Free {
        thread: u32,
        id: u32,
    },
    Exit {
        thread: u32,
    },
}

/// A file of the folder `golden`.
pub fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The events of a trace; those of `ar.trace` name no thread.
pub fn events(text: &str, names_threads: bool) -> Vec<Event> {
    text.lines()
        .map(|line| event(line, names_threads))
        .collect()
}

fn event(line: &str, names_threads: bool) -> Event {
    let mut words = line.split_ascii_whitespace();
    let kind = words.next().expect("a line has a kind");
    let mut numbers = words.map(|word| word.parse::<u64>().expect("a number"));
    let mut next = || numbers.next().expect("another number");
    let thread = if names_threads { next() as u32 } else { 0 };
    match kind {
        "a" => Event::Allocate {
            thread,
            id: next() as u32,
            size: next(),
            align: 0,
        },
        "A" => Event::Allocate {
            thread,
            id: next() as u32,
            size: next(),
            align: next(),
        },
        "r" => Event::Reallocate {
            thread,
            id: next() as u32,
            size: next(),
        },
        "f" => Event::Free {
            thread,
            id: next() as u32,
        },
        "x" => Event::Exit { thread },
        _ => panic!("{line:?} is no event"),
    }
}

/// Feeds one event to a model; gives back the address of what was placed.
pub fn apply(model: &mut impl Model, at: &Moment, event: Event) -> Option<u64> {
    match event {
        Event::Allocate {
            thread,
            id,
            size,
            align,
        } => {
            let at = Moment { thread, ..*at };
            let request = Request {
                size,
                align,
                zeroed: false,
            };
            Some(
                model
                    .allocate(&at, BlockId(id), request)
                    .expect("there is memory")
                    .address,
            )
        }
        Event::Reallocate { thread, id, size } => {
            let at = Moment { thread, ..*at };
            Some(
                model
                    .reallocate(&at, BlockId(id), size)
                    .expect("there is memory")
                    .address,
            )
        }
        Event::Free { thread, id } => {
            model.free(&Moment { thread, ..*at }, BlockId(id));
            None
        }
        Event::Exit { thread } => {
            model.thread_exit(&Moment { thread, ..*at });
            None
        }
    }
}

/// A replay in the form of a golden output.
pub fn replay(model: &mut impl Model, events: &[Event]) -> String {
    let mut out = String::new();
    for (index, &event) in events.iter().enumerate() {
        if let Some(address) = apply(model, &Moment::default(), event) {
            writeln!(out, "{:x}", model.comparable(address)).expect("a string takes it");
        }
        if (index + 1).is_multiple_of(500) {
            let figures = model.real_figures();
            let figures: Vec<String> = figures.iter().map(u64::to_string).collect();
            writeln!(out, "# {}", figures.join(" ")).expect("a string takes it");
        }
    }
    out
}

/// The addresses of an output, without the figures.
pub fn addresses(output: &str) -> String {
    let lines = output.lines().filter(|line| !line.starts_with('#'));
    lines.collect::<Vec<_>>().join("\n")
}

/// Says where two outputs part, rather than showing both.
pub fn assert_same(name: &str, got: &str, want: &str) {
    let lines = got.lines().zip(want.lines()).enumerate();
    if let Some((line, (got, want))) = lines.into_iter().find(|(_, (got, want))| got != want) {
        panic!(
            "{name}: line {}: the model says {got:?}, the real one {want:?}",
            line + 1
        );
    }
    assert_eq!(got.lines().count(), want.lines().count(), "{name}: lines");
}
