//! Each kind of finding fires where it should and is silent on a healthy game.

use heapreel_analyzer::report::{markdown, report_document, text};
use heapreel_analyzer::{Analysis, Options, analyze_trace};
use heapreel_format::testing::{TraceBuilder, blank};
use heapreel_format::{Definition, Ended, Entry, Event, EventKind, NameId, Rare, Trace};

/// One millisecond in ticks of the made-up clock.
const MS: u64 = 1_000_000;
const FRAMES: u64 = 200;
const FRAME: u64 = 10 * MS;

/// A game of 200 frames of 10 ms, with ten short-lived blocks in each.
struct Game {
    builder: TraceBuilder,
    now: u64,
    next_address: u64,
}

impl Game {
    fn new() -> Game {
        let builder = TraceBuilder::new()
            .stack(1, Entry::Malloc, &[0x1001])
            .stack(2, Entry::Malloc, &[0x2001])
            .define(Definition::Calibration {
                alloc_ticks: 100,
                dealloc_ticks: 50,
                empty_latency_ticks: 0,
            })
            .frame_mark(1, 10 * MS, 0);
        Game {
            builder,
            now: 10 * MS,
            next_address: 0x7f00_0000_0000,
        }
    }

    /// A frame that does `more` somewhere in it and takes `length` in all.
    fn frame(mut self, length: u64, more: impl FnOnce(Game) -> Game) -> Game {
        let end = self.now + length;
        for _ in 0..10 {
            let address = self.address();
            self = self.call(1, 200, address, 64).free(address);
        }
        self = more(self);
        assert!(self.now < end, "a frame holds what happens in it");
        self.now = end;
        self.builder = self.builder.frame_mark(1, end, 0);
        self
    }

    fn frames(self, count: u64, mut more: impl FnMut(Game) -> Game) -> Game {
        (0..count).fold(self, |game, _| game.frame(FRAME, &mut more))
    }

    fn address(&mut self) -> u64 {
        self.next_address += 4096;
        self.next_address
    }

    fn call(mut self, stack: u32, latency: u64, address: u64, size: u64) -> Game {
        let start = self.now + 100;
        self.now = start + latency;
        self.builder = self.builder.alloc(1, start, self.now, address, size, stack);
        self
    }

    fn free(mut self, address: u64) -> Game {
        let start = self.now + 100;
        self.now = start + 100;
        self.builder = self.builder.free(1, start, self.now, address);
        self
    }

    fn leak(mut self, size: u64) -> Game {
        let address = self.address();
        self.call(2, 200, address, size)
    }

    fn told(self) -> Analysis {
        told(self.builder)
    }
}

fn told(builder: TraceBuilder) -> Analysis {
    let trace = Trace::from_bytes(builder.bytes()).expect("a sound trace");
    analyze_trace(&trace, &Options::default(), |_| ()).expect("a sound trace")
}

fn kinds(analysis: &Analysis) -> Vec<&str> {
    analysis
        .findings
        .iter()
        .map(|finding| finding.kind.as_str())
        .collect()
}

#[test]
fn a_healthy_game_has_no_findings() {
    let told = Game::new().frames(FRAMES, |game| game).told();
    assert_eq!(kinds(&told), [""; 0]);
    let report = text(&report_document(&told), false);
    assert!(report.contains("Nothing stands out"), "{report}");
}

#[test]
fn a_spike_of_the_allocator_is_explained() {
    let told = Game::new()
        .frames(100, |game| game)
        .frame(31 * MS, |game| {
            (0..3).fold(game, |mut game, _| {
                let address = game.address();
                game.call(2, 6 * MS, address, 1 << 20).free(address)
            })
        })
        .frames(99, |game| game)
        .told();
    assert_eq!(kinds(&told), ["spikes_explained"]);
    let finding = &told.findings[0];
    assert_eq!(
        finding.text,
        "frame 100 took 31.0 ms; 18.0 ms of it in 3 calls from 0x2001"
    );
    assert_eq!(finding.command, "heapreel spikes TRACE --frames 100");
    assert_eq!(finding.frame, Some(("main".to_owned(), 100)));
}

#[test]
fn a_spike_of_something_else_is_not_explained() {
    let told = Game::new()
        .frames(100, |game| game)
        .frame(31 * MS, |game| game)
        .frames(99, |game| game)
        .told();
    assert_eq!(kinds(&told), ["spikes_not_explained"]);
    assert!(
        told.findings[0]
            .text
            .starts_with("1 of 1 spike frame is not explained by allocation: frame 100")
    );
}

#[test]
fn a_long_frame_in_a_phase_is_no_spike() {
    let mut game = Game::new().frames(100, |game| game);
    let loading = NameId(1);
    game.builder = game
        .builder
        .rare(1, game.now + 1, Rare::PhaseBegin { name: loading });
    game.now += 1;
    let mut game = game.frame(500 * MS, |game| game);
    game.builder = game
        .builder
        .rare(1, game.now + 1, Rare::PhaseEnd { name: loading });
    game.now += 1;
    let told = game.frames(99, |game| game).told();
    assert_eq!(kinds(&told), [""; 0]);
    // The frame in which the phase ended overlaps it too.
    assert_eq!(told.loops[0].steady.frames_in_phases, 2);
}

#[test]
fn many_calls_in_every_frame_are_a_finding() {
    let busy = |game: Game| {
        (0..1_000).fold(game, |mut game, _| {
            let address = game.address();
            game.call(2, 200, address, 16).free(address)
        })
    };
    let told = Game::new().frames(50, busy).told();
    assert_eq!(kinds(&told), ["calls_per_frame"]);
    let text = &told.findings[0].text;
    assert!(
        text.contains("1,010 allocations") && text.contains("0x2001"),
        "{text}"
    );
}

#[test]
fn blocks_that_stay_are_a_leak_only_after_an_orderly_end() {
    let leaking = || {
        let mut number = 0;
        Game::new().frames(FRAMES, move |game| {
            number += 1;
            if number % 5 == 0 {
                game.leak(100)
            } else {
                game
            }
        })
    };
    let orderly = leaking().told();
    assert_eq!(kinds(&orderly), ["leaks"]);
    assert_eq!(
        orderly.findings[0].text,
        "3.91 KiB in 40 blocks were never given back, all from 0x2001"
    );
    let killed = told(leaking().builder.ended(Some(Ended::Signal(9))));
    assert_eq!(kinds(&killed), ["leaks"]);
    assert!(
        killed.findings[0]
            .text
            .contains("live when the process ended abruptly")
    );
    assert!(!killed.leaks.leaked);
}

#[test]
fn a_few_blocks_of_start_up_are_no_leak() {
    let mut game = Game::new();
    let frames = TraceBuilder::new()
        .stack(2, Entry::Malloc, &[0x2001])
        .alloc(1, 2_000, 2_100, 0x5000, 1 << 20, 2);
    game.builder = frames
        .frame_mark(1, 10 * MS, 0)
        .stack(1, Entry::Malloc, &[0x1001]);
    assert_eq!(kinds(&game.frames(FRAMES, |game| game).told()), [""; 0]);
}

#[test]
fn steady_growth_is_a_finding_though_all_is_given_back() {
    let mut kept = Vec::new();
    let mut game = Game::new().frames(FRAMES, |mut game| {
        let address = game.address();
        kept.push(address);
        game.call(2, 200, address, 2_000)
    });
    game = kept.into_iter().fold(game, Game::free);
    let told = game.told();
    assert_eq!(kinds(&told), ["growth"]);
    assert_eq!(told.growth[0].name, "0x2001");
}

#[test]
fn a_failed_request_is_told() {
    let mut game = Game::new().frames(FRAMES, |game| game);
    let at = game.now + 10;
    let failed = Event {
        size: 1 << 50,
        stack: heapreel_format::StackId(2),
        ..blank(1, at, at + 50, EventKind::FailedAlloc)
    };
    game.builder = game.builder.event(failed);
    let told = game.told();
    assert_eq!(kinds(&told), ["failed"]);
    assert_eq!(
        told.findings[0].text,
        "1 request failed, 1 of them from 0x2001"
    );
}

#[test]
fn a_cut_trace_is_not_to_be_trusted() {
    let bytes = Game::new().frames(FRAMES, |game| game).builder.bytes();
    let cut = Trace::from_bytes(bytes[..bytes.len() * 2 / 3].to_vec()).expect("a cut trace");
    let told = analyze_trace(&cut, &Options::default(), |_| ()).expect("a cut trace");
    assert_eq!(kinds(&told)[0], "untrusted");
    let report = text(&report_document(&told), false);
    let trouble = report
        .find("This trace is not complete")
        .expect("a section on health");
    assert!(
        trouble < report.find("Findings").expect("findings"),
        "{report}"
    );
}

#[test]
fn both_renderers_have_all_sections() {
    let told = Game::new().frames(FRAMES, |game| game.leak(4_000)).told();
    let document = report_document(&told);
    for report in [text(&document, false), markdown(&document)] {
        for section in [
            "Findings",
            "Overview",
            "Frames of main",
            "Latency by size class",
            "Slowest calls",
            "Call sites by count",
            "Call sites by bytes",
            "Call sites by time",
            "high-water mark",
            "Segments",
            "Leaks",
            "Growth",
            "Lifetimes",
            "Threads",
            "What recording cost",
            "health",
        ] {
            assert!(report.contains(section), "{section} is missing:\n{report}");
        }
    }
}

#[test]
fn calls_that_cost_twice_as_much_at_the_end_are_a_finding() {
    let game = |late: u64| {
        let mut frame = 0;
        let calls = Game::new().frames(FRAMES, |mut game| {
            frame += 1;
            // Ten calls of 20 µs, 2 % of the frame, and in the second half `late` times that.
            let cost = if frame > FRAMES / 2 {
                20_000 * late
            } else {
                20_000
            };
            for _ in 0..10 {
                let address = game.address();
                game = game.call(2, cost, address, 64).free(address);
            }
            game
        });
        calls.told()
    };
    let told = game(2);
    assert!(kinds(&told).contains(&"drift"), "{:?}", kinds(&told));
    let finding = told.findings.iter().find(|it| it.kind == "drift").unwrap();
    assert!(
        finding
            .text
            .contains("costs 40.0 µs in the last tenth of frames, 20.0 µs in the first: 2.0 times"),
        "{}",
        finding.text
    );
    let drift = &told.drift;
    assert_eq!(drift.frames, FRAMES / 10);
    let sites = drift
        .sites
        .iter()
        .map(|row| (row.drifts, row.first_calls, row.last_calls));
    assert_eq!(
        sites.collect::<Vec<_>>(),
        [(true, 200, 200), (false, 200, 200)]
    );
    assert!(!kinds(&game(1)).contains(&"drift"));
}

#[test]
fn the_command_of_a_spike_has_the_budget_that_was_given() {
    let builder = Game::new()
        .frames(20, |game| game)
        .frame(13 * MS, |game| game)
        .builder;
    let trace = Trace::from_bytes(builder.bytes()).expect("a sound trace");
    let command = |budget_nanos| {
        let options = Options {
            budget_nanos,
            ..Options::default()
        };
        let told = analyze_trace(&trace, &options, |_| ()).expect("a sound trace");
        let found = told
            .findings
            .iter()
            .find(|it| it.kind.starts_with("spikes"));
        found.map(|finding| finding.command.clone())
    };
    assert_eq!(command(None), None, "13 ms are below 1.5 times the median");
    for (budget, told) in [
        (12 * MS, "12ms"),
        (12_500_000, "12500us"),
        (11_111_111, "11111111ns"),
    ] {
        let expected = format!("heapreel spikes TRACE --budget {told}");
        assert_eq!(command(Some(budget)), Some(expected));
    }
}
