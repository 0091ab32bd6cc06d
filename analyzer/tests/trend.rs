//! Clips of a long run with rare faults, grouped by who is to blame; in the trace's own time.

mod support;

use heapreel_format::clips::{Clip, ClipLength, ClipPlan, Clips};
use heapreel_format::testing::{TraceBuilder, header};
use heapreel_format::{
    CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind, Definition, Entry, FileHeader, SymbolFrame,
    SymbolTable, TraceWriter,
};
use serde_json::Value;
use std::io::Write;
use std::sync::mpsc::channel;
use support::number;
use support::record::heapreel;
use support::run::run;
use support::scratch::Scratch;

const FRAME: u64 = 16_000_000;
const FAULT: u64 = 30_000_000;
/// An hour at 60 frames a second, about.
const FRAMES: u64 = 216_000;
/// Address of the usual calls, and of those at fault.
const USUAL: u64 = 0x5000_0010;
const FAULTY: [(u64, &str, u32); 3] = [
    (0x5000_0110, "Boss::spawn", 41),
    (0x5000_0210, "Log::flush", 57),
    (0x5000_0310, "Map::load", 93),
];

/// What a frame does beyond the usual.
fn fault(frame: u64) -> Option<usize> {
    match frame % 36_000 {
        9_000 => Some(0),
        18_000 if frame < 150_000 => Some(1),
        27_000 if frame < 80_000 => Some(2),
        _ => None,
    }
}

/// A frame that takes as long without a call to blame.
fn is_padded(frame: u64) -> bool {
    frame == 100_000
}

/// The run, chunk by chunk, each behind the promise that nothing before it is to come.
fn play(clips: &mut Clips) {
    let mut run = TraceBuilder::new()
        .chunk_records(500)
        .define(Definition::Module {
            id: 1,
            generation: 0,
            path: "/usr/games/example".into(),
            bias: 0x5000_0000,
            start: 0x5000_0000,
            end: 0x5001_0000,
            build_id: Vec::new().into(),
            key: 0,
        })
        .define(Definition::Calibration {
            alloc_ticks: 40,
            dealloc_ticks: 20,
            empty_latency_ticks: 10,
        })
        .stack(1, Entry::Malloc, &[USUAL]);
    for (number, (address, ..)) in FAULTY.iter().enumerate() {
        run = run.stack(number as u32 + 2, Entry::Malloc, &[*address]);
    }
    let mut key = 2_000;
    run = run.frame_mark(1, key, 0);
    for frame in 1..=FRAMES {
        let block = 0x7f00_0000 + frame % 7 * 4096;
        run = run
            .alloc(1, key + 100, key + 150, block, 24, 1)
            .free(1, key + 200, key + 230, block);
        let mut length = FRAME;
        if let Some(at) = fault(frame) {
            let (start, big) = (key + 300, 0x8000_0000);
            let end = start + FAULT;
            run = run.alloc(1, start, end, big, 1 << 20, at as u32 + 2).free(
                1,
                end + 10,
                end + 20,
                big,
            );
            length += FAULT;
        }
        if is_padded(frame) {
            length += FAULT;
        }
        key += length;
        run = run.frame_mark(1, key, 0);
    }
    let bytes = run.bytes();
    let mut at = header().to_bytes().len();
    while at < bytes.len() {
        let front = &bytes[at..];
        let chunk = ChunkHeader::from_bytes(front.first_chunk().expect("a header")).expect("sound");
        let length = CHUNK_HEADER_BYTES + chunk.stored as usize;
        if chunk.kind == ChunkKind::Events {
            let mut writer = TraceWriter::resume(Vec::new());
            writer.watermark(chunk.first_key).expect("small");
            clips
                .write_all(&writer.finish().expect("memory"))
                .expect("sound");
        }
        clips.write_all(&front[..length]).expect("sound");
        at += length;
    }
}

fn symbols() -> Vec<u8> {
    let mut table = SymbolTable::default();
    for (address, function, line) in [(USUAL, "frame", 7)].iter().chain(&FAULTY) {
        let function_at = table.strings.len() as u32;
        table.strings.push((*function).to_owned());
        table.strings.push("src/game.rs".to_owned());
        let frame = SymbolFrame {
            function: function_at,
            file: Some(function_at + 1),
            line: Some(*line),
        };
        table.addresses.push((0, *address, vec![frame]));
    }
    let mut writer = TraceWriter::resume(Vec::new());
    writer.symbols(&table).expect("small");
    writer.finish().expect("memory")
}

fn clips_of_an_hour() -> Vec<Clip> {
    let plan = ClipPlan {
        length: ClipLength::Frames(300),
        budget_nanos: Some(16_670_000),
        most_bytes: 64 << 20,
        every_nanos: 60_000_000_000,
    };
    let (sender, receiver) = channel();
    let made = move |clip| sender.send(clip).expect("it is listened to");
    let program: FileHeader = header();
    let mut clips = Clips::new(program, plan, Box::new(made));
    play(&mut clips);
    drop(clips);
    receiver.into_iter().collect()
}

#[test]
fn rare_faults_of_an_hour_are_groups_that_name_their_lines() {
    let scratch = Scratch::new();
    for clip in clips_of_an_hour() {
        let path = scratch.join(&format!("{:06}.hreel", clip.frame));
        std::fs::write(path, [clip.bytes, symbols()].concat()).expect("a file");
    }
    let ran = run(heapreel().arg("trend").arg(scratch.path()).arg("--json"));
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{ran:?}");
    let told: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let groups = told["groups"].as_array().expect("groups");
    let row = |it: &Value| {
        let text = |key: &str| it[key].as_str().unwrap_or("-").to_owned();
        (text("blamed"), text("place"), number(it, "clips"))
    };
    let rows: Vec<_> = groups.iter().map(row).collect();
    let expected = [
        ("Boss::spawn", "src/game.rs:41", 6),
        ("Log::flush", "src/game.rs:57", 4),
        ("Map::load", "src/game.rs:93", 2),
        ("(allocation does not explain)", "-", 1),
    ];
    let expected = expected.map(|(name, place, clips)| (name.to_owned(), place.to_owned(), clips));
    assert_eq!(rows, expected, "{told:#}");
    assert_eq!(number(&told, "clips"), 13);
    let ran = run(heapreel().arg("trend").arg(scratch.path()));
    assert!(ran.stdout.contains("13 clips in 4 groups"), "{ran:?}");
}

#[test]
fn a_whole_recording_is_no_clip_and_no_clips_are_none() {
    let scratch = Scratch::new();
    let ran = run(heapreel().arg("trend").arg(scratch.path()));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("There are no clips."), "{ran:?}");
    let path = scratch.join("run.hreel");
    std::fs::write(&path, heapreel_format::testing::small_trace()).expect("a file");
    let ran = run(heapreel().arg("trend").arg(&path));
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("no clip"), "{ran:?}");
}
