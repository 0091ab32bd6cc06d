//! From a file to the picture: sound traces, cut ones, foreign ones.

use heapreel_format::testing::{TraceBuilder, small_trace};
use heapreel_format::{Definition, Ended, Entry, NameId};
use heapreel_viewer::load::Control;
use heapreel_viewer::state::{Command, State};
use heapreel_viewer::view_model::ViewModel;
use heapreel_viewer::{Metric, headless, read_trace};
use std::sync::Arc;

const MILLISECOND: u64 = 1_000_000;
/// Blocks stay live, one a frame.
const SIZE: u64 = 1000;

/// A game of 60 frames of 16 ms; frame 40 takes 46 ms, 30 of them in the allocator.
fn game() -> TraceBuilder {
    let mut trace = TraceBuilder::new()
        .define(Definition::Name {
            id: NameId(1),
            text: "boss appears".into(),
        })
        .stack(1, Entry::Malloc, &[0x5000_1234]);
    let mut now = MILLISECOND;
    trace = trace.frame_mark(1, now, 0);
    for frame in 0..60 {
        let slow = if frame == 40 { 30 * MILLISECOND } else { 0 };
        let (start, end) = (now + 1000, now + 1200 + slow);
        let address = 0x7f00_0000_0000 + frame * 4096;
        trace = trace.alloc(1, start, end, address, SIZE, 1);
        now += 16 * MILLISECOND + slow;
        trace = trace.frame_mark(1, now, 0);
        if frame == 50 {
            trace = trace.mark(1, now, 1);
        }
    }
    trace
}

fn read(bytes: &[u8]) -> Result<ViewModel, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("game.hreel");
    std::fs::write(&path, bytes).unwrap();
    read_trace(path, &Control::default())
}

fn draw(model: ViewModel) {
    let mut state = State::default();
    state.apply(Command::Open("game.hreel".into()));
    state.apply(Command::Loaded(Arc::new(model)));
    headless::render(state, 320, 240);
}

#[test]
fn the_viewer_shows_what_is_in_the_trace() {
    let model = read(&game().bytes()).unwrap();
    assert_eq!(model.title, "game.hreel");
    assert!(model.missing.is_empty(), "{:?}", model.missing);
    let game = &model.loops[0];
    assert_eq!(game.frames().len(), 60);
    let spikes: Vec<_> = game.frames().iter().filter(|frame| frame.spike).collect();
    assert_eq!(spikes.len(), 1);
    assert!((spikes[0].end - spikes[0].start - 0.046).abs() < 1e-6);
    assert!((Metric::AllocatorTime.of(spikes[0]) - 0.030).abs() < 1e-4);
    assert_eq!(Metric::Allocations.of(spikes[0]), 1.0);
    assert!(
        game.causes[&spikes[0].number]
            .verdict
            .contains("explains this spike")
    );
    assert_eq!(model.live.high_water.unwrap().bytes, (60 * SIZE) as f64);
    assert_eq!(model.marks[0].name, "boss appears");
    let total = |name: &str| {
        &model
            .totals
            .iter()
            .find(|fact| fact.name == name)
            .unwrap()
            .value
    };
    assert_eq!(total("Allocations"), "60");
    assert_eq!(total("Live at the end"), "58.6 KiB");
    draw(model);
}

#[test]
fn a_killed_program_is_told_in_the_banner() {
    let model = read(&game().ended(Some(Ended::Signal(9))).bytes()).unwrap();
    let ended = model
        .process
        .iter()
        .find(|fact| fact.name == "Ended")
        .unwrap();
    assert!(ended.value.contains('9'), "{}", ended.value);
    draw(model);
}

#[test]
fn a_trace_without_frames_is_drawn() {
    let model = read(&small_trace()).unwrap();
    assert!(model.loops.is_empty());
    assert!(!model.live.points().is_empty());
    draw(model);
}

#[test]
fn a_trace_cut_anywhere_is_drawn_or_refused_in_one_line() {
    let whole = game().chunk_records(16).bytes();
    let step = (whole.len() / 60).max(1);
    for length in (0..whole.len()).step_by(step) {
        match read(&whole[..length]) {
            Ok(model) => {
                assert!(
                    !model.missing.is_empty(),
                    "{length} of {} bytes",
                    whole.len()
                );
                draw(model);
            }
            Err(message) => assert!(is_one_line(&message), "{message}"),
        }
    }
}

#[test]
fn flipped_bits_never_panic() {
    let whole = game().chunk_records(16).bytes();
    for index in (0..whole.len()).step_by((whole.len() / 80).max(1)) {
        let mut bytes = whole.clone();
        bytes[index] ^= 1 << (index % 8);
        match read(&bytes) {
            Ok(model) => draw(model),
            Err(message) => assert!(is_one_line(&message), "{message}"),
        }
    }
}

#[test]
fn foreign_files_are_refused_in_one_line() {
    let noise: Vec<u8> = (0..10_000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    for bytes in [&b""[..], b"hello\nworld\n", b"heapreel", &noise] {
        let message = read(bytes).unwrap_err();
        assert!(message.contains("game.hreel "), "{message}");
        assert!(is_one_line(&message), "{message}");
    }
    let folder = tempfile::tempdir().unwrap();
    let message = read_trace(folder.path().to_owned(), &Control::default()).unwrap_err();
    assert!(message.contains("folder"), "{message}");
}

fn is_one_line(message: &str) -> bool {
    !message.is_empty() && !message.contains('\n')
}
