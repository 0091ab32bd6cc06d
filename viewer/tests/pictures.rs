//! Pictures of each state against stored ones.
//!
//! `HEAPREEL_UPDATE_PICTURES=1 cargo test -p heapreel-viewer` stores new ones.
//! A picture fits when at most one pixel in 500 differs by more than 24 of 255 in
//! a channel: text may be shaped a little differently on another processor, while
//! a moved line or a missing bar is far beyond that.

use eframe::egui::Theme;
use heapreel_viewer::state::{Command, Document, State};
use heapreel_viewer::view_model::ViewModel;
use heapreel_viewer::{Metric, headless, sample};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::PathBuf;
use std::sync::Arc;

const WIDTH: u32 = 960;
const HEIGHT: u32 = 600;
/// Largest difference of a channel that counts as equal.
const CHANNEL: u8 = 24;
/// One pixel in so many may differ.
const ONE_IN: usize = 500;

fn opened(model: ViewModel, theme: Theme) -> State {
    let mut state = State {
        theme,
        ..State::default()
    };
    state.apply(Command::Open("sample.hreel".into()));
    state.apply(Command::Loaded(Arc::new(model)));
    state
}

fn png_of(state: State) -> Vec<u8> {
    let mut bytes = Vec::new();
    headless::write_png(&headless::render(state, WIDTH, HEIGHT), &mut bytes).unwrap();
    bytes
}

fn pixels(png: impl std::io::BufRead + std::io::Seek) -> Vec<u8> {
    let mut reader = png::Decoder::new(png).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut pixels).unwrap();
    pixels
}

/// How many pixels differ visibly.
fn differing(one: &[u8], other: &[u8]) -> usize {
    assert_eq!(one.len(), other.len(), "the pictures differ in size");
    let pairs = one.chunks(3).zip(other.chunks(3));
    let visible = |(a, b): &(&[u8], &[u8])| a.iter().zip(*b).any(|(a, b)| a.abs_diff(*b) > CHANNEL);
    pairs.filter(visible).count()
}

#[track_caller]
fn compare(name: &str, state: State) {
    let drawn = png_of(state);
    let stored = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/snapshots")
        .join(format!("{name}.png"));
    if std::env::var_os("HEAPREEL_UPDATE_PICTURES").is_some() {
        fs::write(&stored, &drawn).unwrap();
    }
    let file = File::open(&stored).unwrap_or_else(|error| panic!("{}: {error}", stored.display()));
    let expected = pixels(BufReader::new(file));
    let found = pixels(std::io::Cursor::new(&drawn));
    let wrong = differing(&expected, &found);
    let allowed = (WIDTH * HEIGHT) as usize / ONE_IN;
    if wrong > allowed {
        let beside = std::env::temp_dir().join(format!("heapreel-viewer-{name}.png"));
        fs::write(&beside, &drawn).unwrap();
        panic!(
            "{wrong} pixels differ, {allowed} may; see {}",
            beside.display()
        );
    }
}

#[test]
fn timeline_in_dark() {
    compare("timeline-dark", opened(sample::model(2000), Theme::Dark));
}

#[test]
fn timeline_in_light_with_a_frame_chosen_and_a_banner() {
    let model = ViewModel {
        missing: vec![
            "the file is cut".to_owned(),
            "7 records are missing".to_owned(),
        ],
        ..sample::model(2000)
    };
    let mut state = opened(model, Theme::Light);
    state.apply(Command::SetMetric(Metric::AllocatorTime));
    state.apply(Command::GoTo {
        in_loop: None,
        number: 1000,
    });
    compare("timeline-light-frame", state);
}

#[test]
fn help_sheet() {
    let mut state = opened(sample::model(300), Theme::Dark);
    state.apply(Command::ToggleHelp);
    compare("help", state);
}

#[test]
fn no_frame_marks() {
    let model = ViewModel {
        loops: Vec::new(),
        ..sample::model(300)
    };
    compare("no-frames", opened(model, Theme::Dark));
}

#[test]
fn a_trace_that_could_not_be_opened() {
    let state = State {
        document: Document::Failed {
            path: "/home/someone/readme.txt".into(),
            message: "/home/someone/readme.txt is not a heapreel trace".to_owned(),
        },
        ..State::default()
    };
    compare("failed", state);
}

#[test]
fn the_same_trace_gives_the_same_bytes() {
    let png = || png_of(opened(sample::model(5000), Theme::Dark));
    assert_eq!(png(), png());
}

#[test]
fn a_difference_is_noticed() {
    let picture = |budget: usize| png_of(opened(sample::model(budget), Theme::Dark));
    let (one, other) = (picture(300), picture(301));
    let wrong = differing(
        &pixels(std::io::Cursor::new(one)),
        &pixels(std::io::Cursor::new(other)),
    );
    assert!(wrong > (WIDTH * HEIGHT) as usize / ONE_IN, "{wrong}");
}
