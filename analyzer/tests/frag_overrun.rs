//! `heapreel frag` and `heapreel overrun`, as a user meets them.

use heapreel_format::testing::{TraceBuilder, blank};
use heapreel_format::{Definition, Entry, Event, EventKind, NameId, SegmentId, StackId};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// A folder with traces, and commands run in it.
struct Folder(TempDir);

impl Folder {
    fn with<const N: usize>(traces: [(&str, TraceBuilder); N]) -> Folder {
        let folder = Folder(tempfile::tempdir().expect("a temporary folder"));
        for (name, trace) in traces {
            std::fs::write(folder.path(name), trace.bytes()).expect("a file in it");
        }
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, line: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_heapreel"))
            .args(line.split_whitespace())
            .current_dir(self.0.path())
            .output()
            .expect("heapreel runs")
    }

    #[track_caller]
    fn text(&self, line: &str) -> String {
        let output = self.run(line);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*stderr), (Some(0), ""), "{line}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    #[track_caller]
    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.text(&format!("{line} --json"))).expect("JSON")
    }

    /// What is told of a mistake, in one line.
    #[track_caller]
    fn mistake(&self, line: &str) -> String {
        let output = self.run(line);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert_eq!(
            (output.stdout.len(), stderr.lines().count()),
            (0, 1),
            "{line}: {stderr}"
        );
        stderr
    }
}

/// Writes what a game does, one call a microsecond.
struct Game {
    trace: TraceBuilder,
    now: u64,
}

impl Game {
    fn new() -> Game {
        let trace = TraceBuilder::new()
            .stack(1, Entry::Malloc, &[0x1001, 0x5001])
            .stack(2, Entry::Malloc, &[0x2001, 0x5001]);
        Game { trace, now: 2_000 }.frame()
    }

    fn step(&mut self) -> (u64, u64) {
        self.now += 1_000;
        (self.now, self.now + 10)
    }

    fn alloc(self, address: u64, size: u64) -> Game {
        self.alloc_in(address, size, 0, 1)
    }

    fn alloc_in(mut self, address: u64, size: u64, segment: u16, stack: u32) -> Game {
        let (start, end) = self.step();
        let event = Event {
            address,
            size,
            stack: StackId(stack),
            segment: SegmentId(segment),
            ..blank(1, start, end, EventKind::Alloc)
        };
        Game {
            trace: self.trace.event(event),
            ..self
        }
    }

    fn free(mut self, address: u64) -> Game {
        let (start, end) = self.step();
        Game {
            trace: self.trace.free(1, start, end, address),
            ..self
        }
    }

    /// A frame ends.
    fn frame(mut self) -> Game {
        let (start, _) = self.step();
        Game {
            trace: self.trace.frame_mark(1, start, 0),
            ..self
        }
    }

    fn mark(mut self, name: u32) -> Game {
        let (start, _) = self.step();
        Game {
            trace: self.trace.mark(1, start, name),
            ..self
        }
    }

    fn define(self, definition: Definition<'static>) -> Game {
        Game {
            trace: self.trace.define(definition),
            ..self
        }
    }
}

fn segment(id: u16, name: &'static str) -> Definition<'static> {
    Definition::Segment {
        id: SegmentId(id),
        name: name.into(),
        budget: 0,
    }
}

/// Sixteen units of 4 MiB fill a segment of 64; those marked `.` are given back, the
/// first of them in frame 0, the others in frame 1; in frame 2 one of 24 MiB is wanted.
fn slide(units: &str) -> TraceBuilder {
    let unit = |at: usize| 0x7f00_0000_0000 + at as u64 * 4 * MIB;
    let mut game = (0..16).fold(Game::new(), |game, at| game.alloc(unit(at), 4 * MIB));
    let free: Vec<_> = units.match_indices('.').map(|(at, _)| at).collect();
    game = game.free(unit(free[0])).frame();
    game = free[1..].iter().fold(game, |game, at| game.free(unit(*at)));
    game.frame().alloc(0x7f10_0000_0000, 24 * MIB).frame().trace
}

const SLIDE_17: &str = "....U..U.U.U.U.U";
const SLIDE_20: &str = "U.....U..U.U.U.U";
const SEGMENT: &str = "--model heap --set heap.segments=Default=64MiB --set heap.header=0";

/// Used, free, avail in MiB, and `ext_frag`, of the one segment.
fn told(picture: &Value) -> (u64, u64, u64, f64) {
    let segment = &picture["segments"][0];
    let mib = |key: &str| segment[key].as_u64().expect("bytes") / MIB;
    let share = segment["ext_frag"].as_f64().expect("a share");
    (
        mib("used"),
        mib("free"),
        mib("avail"),
        (share * 1e6).round() / 1e6,
    )
}

#[test]
fn the_fragmentation_slides_print_their_numbers() {
    let folder = Folder::with([("17.hreel", slide(SLIDE_17)), ("20.hreel", slide(SLIDE_20))]);
    for (trace, avail, ext_frag) in [("17", 16, 0.6), ("20", 20, 0.5)] {
        let line = format!("frag {trace}.hreel {SEGMENT} --frame");
        let before = folder.json(&format!("{line} 0"));
        assert_eq!(told(&before), (60, 4, 4, 0.0), "{trace}");
        let after = folder.json(&format!("{line} 1"));
        assert_eq!(told(&after), (24, 40, avail, ext_frag), "{trace}");
        let measures = after["measures"].as_array().expect("measures");
        let measure = |id: &str| {
            let found = measures.iter().find(|measure| measure["id"] == id);
            found.expect("the measure")["value"]
                .as_f64()
                .expect("a value")
        };
        assert!((measure("ext_frag") - ext_frag).abs() < 1e-12, "{trace}");
        let wanted = folder.json(&format!("{line} 2"));
        assert_eq!(wanted["failures"]["no_contiguous"], 1, "{trace}");
        assert_eq!(told(&wanted), (24, 40, avail, ext_frag), "{trace}");
        let paged = folder.json(&format!("frag {trace}.hreel --model virtual --frame 2"));
        assert_eq!(paged["failures"]["failures"], 0, "{trace}");
    }
}

#[test]
fn the_map_is_drawn_in_characters_and_in_letters() {
    let folder = Folder::with([("t.hreel", slide(SLIDE_17))]);
    let line = format!("frag t.hreel {SEGMENT} --width 16 --frame 1");
    let text = folder.text(&line);
    assert!(
        text.contains("Default 64.0 MiB |····█··█·█·█·█·█|\n"),
        "{text}"
    );
    assert!(
        text.contains("Default  24.0 MiB  40.0 MiB  16.0 MiB"),
        "{text}"
    );
    assert!(!text.contains('\x1b'), "{text}");
    let text = folder.text(&format!("{line} --colour site"));
    assert!(text.contains("|····A··A·A·A·A·A|\n"), "{text}");
    assert!(text.contains("A 0x1001: 24.0 MiB in 6 blocks"), "{text}");
    let text = folder.text(&format!("frag t.hreel {SEGMENT} --frame 2"));
    assert!(
        text.contains("1 request failed up to here: 1 for lack of contiguous space"),
        "{text}"
    );
    assert!(
        text.contains("The first, in frame 2: 24.0 MiB for 0x1001 in Default, with 40.0 MiB free"),
        "{text}"
    );
    // The size of the request that failed.
    assert!(text.contains("frag_index(24.0 MiB)"), "{text}");
}

#[test]
fn the_map_is_written_as_a_picture() {
    let folder = Folder::with([("t.hreel", slide(SLIDE_17))]);
    let line = format!("frag t.hreel {SEGMENT} --png map.png");
    folder.text(&line);
    let picture = std::fs::read(folder.path("map.png")).expect("a picture");
    assert!(picture.starts_with(b"\x89PNG"));
    let described = "Default at 0x2000000000, 64.0 MiB";
    assert!(
        picture
            .windows(described.len())
            .any(|at| at == described.as_bytes())
    );
    assert!(folder.mistake(&line).contains("exists already"));
    folder.text(&format!("{line} --force"));
}

#[test]
fn a_series_follows_the_frames() {
    let folder = Folder::with([("t.hreel", slide(SLIDE_17))]);
    let line = format!("frag t.hreel {SEGMENT} --every");
    let csv = folder.text(&format!("{line} 1 --csv"));
    let avail: Vec<_> = csv
        .lines()
        .map(|row| row.split(',').nth(13).expect("a cell"))
        .collect();
    // The last row is the stretch behind the last mark.
    assert_eq!(
        avail,
        ["avail", "4194304", "16777216", "16777216", "16777216"]
    );
    let json = folder.json(&format!("{line} 2"));
    let frames: Vec<_> = json["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| (row["frame"].as_u64(), row["failures"].as_u64()))
        .collect();
    assert_eq!(frames, [(Some(0), Some(0)), (Some(2), Some(1))]);
    let text = folder.text(&format!("{line} 1"));
    assert!(text.contains("as each frame ended"), "{text}");
}

#[test]
fn recorded_shows_the_real_addresses() {
    let folder = Folder::with([("t.hreel", slide(SLIDE_17))]);
    let picture = folder.json("frag t.hreel --frame 0");
    assert_eq!(picture["model"], "recorded");
    let region = &picture["regions"][0];
    // The first unit is free, so the region begins with the second.
    assert_eq!(region["start"], 0x7f00_0000_0000_u64 + 4 * MIB);
    assert_eq!(region["used"], 60 * MIB);
    assert_eq!(picture["segments"][0]["segment"], "Default");
}

#[test]
fn a_place_is_a_frame_a_time_or_a_mark() {
    let game = Game::new()
        .define(Definition::Name {
            id: NameId(7),
            text: "loaded".into(),
        })
        .alloc(0x7f00_0000_1000, 100)
        .mark(7)
        .alloc(0x7f00_0000_2000, 100)
        .frame()
        .alloc(0x7f00_0000_3000, 100);
    let folder = Folder::with([("t.hreel", game.trace)]);
    let blocks =
        |place: &str| folder.json(&format!("frag t.hreel {place}"))["counters"]["blocks"].as_u64();
    assert_eq!(blocks(""), Some(3));
    assert_eq!(blocks("--frame last"), Some(3));
    assert_eq!(blocks("--frame 0"), Some(2));
    assert_eq!(blocks("--at 0"), Some(0));
    assert_eq!(blocks("--at 1"), Some(2));
    assert_eq!(blocks("--at @loaded"), Some(1));
    assert_eq!(blocks("--at 3.1us"), Some(1));
    assert!(
        folder
            .mistake("frag t.hreel --frame 9")
            .contains("has no such frame")
    );
    assert!(
        folder
            .mistake("frag t.hreel --at 9s")
            .contains("the recording is")
    );
    assert!(
        folder
            .mistake("frag t.hreel --at @load")
            .contains("did you mean \"loaded\"?")
    );
    let empty = folder.text("frag t.hreel --at 0");
    assert!(
        empty.contains("No block is live at this moment: choose another one"),
        "{empty}"
    );
}

/// Two blocks side by side and a third that is freed; later its address has a new owner.
fn neighbours() -> TraceBuilder {
    Game::new()
        .alloc_in(0x7f00_0000_1000, 100, 0, 1)
        .alloc_in(0x7f00_0000_1080, 48, 0, 2)
        .frame()
        .alloc_in(0x7f00_0000_1200, 500, 0, 1)
        .free(0x7f00_0000_1200)
        .frame()
        .alloc_in(0x7f00_0000_1200, 300, 0, 2)
        .free(0x7f00_0000_1200)
        .trace
}

/// (suspicion, requested bytes) of the suspects.
fn suspects(answer: &Value) -> Vec<(String, u64)> {
    let list = answer["suspects"].as_array().expect("suspects");
    list.iter()
        .map(|suspect| {
            let why = suspect["suspicion"].as_str().expect("a word").to_owned();
            (why, suspect["requested"].as_u64().expect("bytes"))
        })
        .collect()
}

fn suspect(why: &str, bytes: u64) -> (String, u64) {
    (why.to_owned(), bytes)
}

#[test]
fn a_recorded_address_names_the_block_in_front_and_past_owners() {
    let folder = Folder::with([("t.hreel", neighbours())]);
    // Byte 5 behind the first block of 100.
    let behind = folder.json("overrun 0x7f0000001068 t.hreel");
    assert_eq!(suspects(&behind), [suspect("overrun", 100)]);
    assert_eq!(behind["suspects"][0]["distance"], 5);
    assert_eq!(behind["suspects"][0]["allocated"]["function"], "0x1001");
    assert_eq!(behind["next"]["allocated"]["function"], "0x2001");
    let inside = folder.json("overrun 0x7f00000010a0 t.hreel");
    assert_eq!(
        suspects(&inside),
        [suspect("owner", 48), suspect("overrun", 100)]
    );
    assert_eq!(inside["block"]["serial"], 2);

    let freed = folder.json("overrun 0x7f0000001210 t.hreel");
    let owners: Vec<_> = freed["holders"]
        .as_array()
        .expect("owners")
        .iter()
        .map(|owner| {
            (
                owner["requested"].as_u64(),
                owner["allocated"]["frame"].as_u64(),
            )
        })
        .collect();
    assert_eq!(owners, [(Some(300), Some(2)), (Some(500), Some(1))]);
    let text = folder.text("overrun 0x7f0000001210 t.hreel");
    assert!(
        text.contains("Owners of this address, newest first"),
        "{text}"
    );
    let earlier = folder.json("overrun 0x7f0000001210 t.hreel --frame 1");
    assert_eq!(earlier["holders"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_simulated_address_is_looked_up_through_the_headers() {
    let folder = Folder::with([("t.hreel", neighbours())]);
    // 100 bytes need 144 with header and granule: the second block's header is at 0x90.
    let header = folder.json("overrun 0x2000000094 t.hreel --model heap");
    assert_eq!(header["part"], "header");
    assert_eq!(
        suspects(&header),
        [suspect("overrun", 100), suspect("underrun", 48)]
    );
    assert_eq!(header["segment"], "Default");
    let text = folder.text("overrun 0x2000000094 t.hreel --model heap");
    assert!(
        text.contains("1. Written past the end: block 1 of 100 B, allocated by 0x1001 in frame 0"),
        "{text}"
    );
    assert!(text.contains("in the header of block 2 of 48 B"), "{text}");
    // Where the third lay: its last owner is suspected first.
    let free = folder.json("overrun 0x2000000140 t.hreel --model heap");
    assert_eq!(free["part"], "free");
    assert_eq!(suspects(&free)[0], suspect("use_after_free", 300));
    assert_eq!(free["suspects"][0]["freed"]["frame"], 2);
    assert_eq!(free["holders"].as_array().map(Vec::len), Some(2));
}

#[test]
fn an_address_of_nobody_says_what_to_do() {
    let folder = Folder::with([
        ("t.hreel", neighbours()),
        ("empty.hreel", TraceBuilder::new()),
    ]);
    let outside = folder.text("overrun 0x7f0000001010 t.hreel --model heap");
    assert!(
        outside.contains("is none of this model's; the nearest region"),
        "{outside}"
    );
    assert!(outside.contains("leave --model away"), "{outside}");
    let empty = folder.text("overrun 0x7f0000001010 empty.hreel");
    assert!(empty.contains("No block is live at this moment"), "{empty}");
    assert!(
        empty.contains("Suspects, likeliest first\n  None: "),
        "{empty}"
    );
}

/// A trace that comes with the project.
fn sample(name: &str) -> String {
    let traces = concat!(env!("CARGO_MANIFEST_DIR"), "/../traces");
    format!("{traces}/{name}.hreel")
}

#[test]
fn the_writer_of_the_fourteenth_slot_is_named() {
    let folder = Folder::with([]);
    // skirmish's grid of 13 slots, 52 bytes, lies at …330: this is its fourteenth slot.
    let line = format!("overrun 0x560cb6ce8364 {} --frame 60", sample("overrun"));
    let told = folder.json(&line);
    let first = &told["suspects"][0];
    assert_eq!(first["suspicion"], "overrun");
    let function = "skirmish::scenes::overrun::InventoryGrid::open";
    assert_eq!(first["allocated"]["function"], function);
    assert_eq!(
        (&first["distance"], &first["requested"]),
        (&1.into(), &52.into())
    );
    let text = folder.text(&line);
    assert!(
        text.contains("  skirmish::scenes::overrun::InventoryGrid::open  ./rec"),
        "{text}"
    );
}

#[test]
fn an_open_world_fails_in_a_heap_that_is_large_enough_and_not_in_virtual() {
    let folder = Folder::with([]);
    let openworld = sample("openworld");
    let heap = folder.json(&format!(
        "frag {openworld} --model heap --set heap.segments=Default=69MiB --frame 118"
    ));
    assert_eq!(heap["failures"]["no_contiguous"], 1);
    assert_eq!(heap["failures"]["failures"], 1);
    let first = &heap["first_failure"];
    let figure = |key: &str| first[key].as_u64().expect("bytes");
    assert!(figure("largest_free") < figure("size") && figure("size") < figure("free"));
    let site = "skirmish::scenes::openworld::asset::load_texture";
    assert_eq!(first["site"], site);
    let paged = folder.json(&format!("frag {openworld} --model virtual --frame 118"));
    assert_eq!(paged["failures"]["failures"], 0);
}

/// A level that loads `level` MiB, leaves, and then plays `sound` MiB.
fn level(level: u64, sound: u64) -> TraceBuilder {
    Game::new()
        .define(segment(1, "Level"))
        .define(segment(2, "Sound"))
        .alloc_in(0x7f00_0000_0000, level * MIB, 1, 1)
        .frame()
        .free(0x7f00_0000_0000)
        .alloc_in(0x7f80_0000_0000, sound * MIB, 2, 2)
        .frame()
        .trace
}

#[test]
fn several_traces_share_capacities() {
    let folder = Folder::with([
        ("forest.hreel", level(90, 10)),
        ("city.hreel", level(30, 40)),
    ]);
    let line = "frag forest.hreel city.hreel --model heap --margin 0";
    let told = folder.json(line);
    let segments: Vec<_> = told["segments"]
        .as_array()
        .expect("segments")
        .iter()
        .map(|segment| {
            let capacity = &segment["capacity"];
            let needs = capacity["bytes"].as_u64().expect("bytes");
            (
                segment["segment"].as_str(),
                needs / MIB,
                capacity["set_by"].as_str(),
            )
        })
        .collect();
    assert_eq!(
        segments,
        [
            (Some("Level"), 90, Some("forest.hreel")),
            (Some("Sound"), 40, Some("city.hreel"))
        ]
    );
    // 90 and 40 MiB with a header each, though never more than 90 were live at once.
    assert_eq!(told["sum_of_peaks"], 130 * MIB + 64);
    assert_eq!(told["peak_of_sum"]["bytes"], 90 * MIB + 32);
    assert_eq!(told["set_aside"], 40 * MIB + 32);
    let shared = told["shared"]["bytes"].as_u64().expect("bytes");
    assert!((90 * MIB..110 * MIB).contains(&shared), "{shared}");
    assert_eq!(told["loads"][0]["shared_failures"], 0);
    let text = folder.text(line);
    assert!(text.contains("heap needs 130 MiB, virtual "), "{text}");
    let with_margin = folder.json("frag forest.hreel city.hreel --margin 50");
    let fixed = with_margin["fixed"].as_u64().expect("bytes");
    assert_eq!(fixed / MIB, 195);
}

#[test]
fn mistakes_are_one_line() {
    let folder = Folder::with([
        ("t.hreel", neighbours()),
        ("still.hreel", TraceBuilder::new()),
    ]);
    for (line, told) in [
        ("frag t.hreel --model hepa", "no model \"hepa\""),
        ("frag t.hreel --model heap,virtual", "frag shows one model"),
        ("frag t.hreel --frame soon", "is no frame; write its number"),
        ("frag t.hreel --region Nowhere", "has no region \"Nowhere\""),
        (
            "frag t.hreel --model heap --every 1 --region x",
            "has no segment \"x\"",
        ),
        ("frag t.hreel --request 8MB", "such as 4096"),
        ("frag still.hreel --every 1", "has no frame marks"),
        ("frag still.hreel --frame 3", "has no frame marks"),
        ("frag t.hreel t.hreel --frame 1", "are for one trace"),
        (
            "frag t.hreel t.hreel --model virtual",
            "weighed in heap against virtual",
        ),
        ("frag nothing.hreel", "nothing.hreel"),
        ("frag t.hreel --csv", "--every"),
        ("overrun rdi t.hreel", "is no address; write it as 0x"),
        (
            "overrun 0x10 t.hreel --model heap,virtual",
            "is one model's",
        ),
        ("overrun 0x10 nothing.hreel", "nothing.hreel"),
        ("overrun 0x10", "TRACE"),
    ] {
        let line_told = folder.mistake(line);
        assert!(line_told.contains(told), "{line}: {line_told}");
    }
}
