//! A made-up recording for tests and pictures, the same at every run.

use crate::metric::Metric;
use crate::view_model::{
    Blamed, Fact, Finding, FrameLoop, FrameRow, LiveCurve, LivePoint, Mark, Phase, Severity,
    SpikeCause, Spread, ViewModel,
};

const BUDGET: f64 = 1.0 / 60.0;
const MIB: f64 = 1024.0 * 1024.0;

/// A game of so many frames: it loads for 40 of them, loads again in the middle,
/// and stutters now and then.
pub fn model(frames: usize) -> ViewModel {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut rows = Vec::with_capacity(frames);
    let mut live = vec![LivePoint::default()];
    let mut now = 0.12;
    let mut bytes = 3.0 * MIB;
    for number in 0..frames {
        let row = frame(number, frames, now, &mut random);
        bytes += match row.in_phase {
            true => 0.9 * MIB,
            false => 6_000.0 * (random.unit() - 0.35),
        };
        if number == frames / 2 {
            bytes *= 0.55;
        }
        let row = FrameRow {
            live_bytes: bytes as u64,
            ..row
        };
        now = row.end;
        live.push(LivePoint {
            time: row.start + 0.4 * row.time,
            bytes: bytes + row.bytes as f64,
        });
        live.push(LivePoint { time: now, bytes });
        rows.push(row);
    }
    let at = |index: usize| rows.get(index).map_or(0.0, |row| row.start);
    let phases = vec![
        phase("loading: forest", &rows, 0),
        phase("loading: cave", &rows, frames / 2),
    ];
    let marks = vec![
        mark("level loaded", at(LOADING)),
        mark("boss appears", at(frames * 3 / 4)),
    ];
    let peak = live
        .iter()
        .copied()
        .max_by(|a, b| a.bytes.total_cmp(&b.bytes));
    let worst = rows
        .iter()
        .filter(|row| row.spike)
        .max_by(|a, b| a.time.total_cmp(&b.time));
    ViewModel {
        title: "sample.hreel".to_owned(),
        findings: findings(worst.map_or(0, |row| row.number)),
        process: process(),
        totals: totals(&rows),
        loops: vec![game_loop(rows)],
        live: LiveCurve::new(live, peak),
        marks,
        phases,
        missing: Vec::new(),
        duration: now,
    }
}

/// Frames that a load takes.
const LOADING: usize = 40;

fn frame(number: usize, frames: usize, start: f64, random: &mut Random) -> FrameRow {
    let in_phase = number < LOADING || (frames / 2..frames / 2 + LOADING).contains(&number);
    let stutter = !in_phase && random.unit() < 0.004;
    let calls = match (in_phase, stutter) {
        (true, _) => 900.0 + 4_000.0 * random.unit(),
        (_, true) => 180.0 + 600.0 * random.unit(),
        _ => 5.0 + 4.0 * random.unit(),
    };
    let allocator_time = calls * 140e-9 + if stutter { 0.009 * random.unit() } else { 0.0 };
    let work = match (in_phase, stutter) {
        (true, _) => 0.030 + 0.040 * random.unit(),
        (_, true) => 0.019 + 0.004 * random.unit(),
        _ => 0.0135 + 0.0022 * random.unit(),
    };
    let time = work + allocator_time;
    let length = if in_phase { time } else { time.max(BUDGET) };
    FrameRow {
        number: number as u64,
        start,
        end: start + length,
        time,
        recorder_time: calls * 90e-9,
        allocator_time,
        all_allocator_time: allocator_time * 1.2,
        slowest_call: allocator_time / 3.0,
        allocations: calls as u64,
        deallocations: (calls * 0.9) as u64,
        failed: 0,
        bytes: (calls * (90.0 + 400.0 * random.unit())) as u64,
        spike: !in_phase && time > BUDGET,
        in_phase,
        live_bytes: 0,
    }
}

fn game_loop(rows: Vec<FrameRow>) -> FrameLoop {
    let causes = rows
        .iter()
        .filter(|row| row.spike)
        .map(|row| (row.number, cause(row)));
    let causes = causes.collect();
    let spreads = Metric::ALL.map(|metric| spread(metric, &rows)).into();
    let mut game = FrameLoop::new("main", BUDGET, rows);
    game.budget_source = "60 frames a second".to_owned();
    game.causes = causes;
    game.spreads = spreads;
    game
}

fn cause(row: &FrameRow) -> SpikeCause {
    let share = row.allocator_time / (row.time - BUDGET).max(row.allocator_time);
    SpikeCause {
        verdict: format!(
            "Allocation explains {:.0} % of what is above the median.",
            share * 100.0
        ),
        sites: vec![Blamed {
            name: "TerrainTile::load".to_owned(),
            time: crate::units::seconds(row.allocator_time * 0.8),
            detail: "3 calls, 96.0 KiB, the slowest 2.95 ms, in src/terrain.rs:118".to_owned(),
            whole: "game::terrain::TerrainTile::load in /home/game/src/terrain.rs:118".to_owned(),
        }],
    }
}

fn spread(metric: Metric, rows: &[FrameRow]) -> Spread {
    let mut steady: Vec<_> = rows
        .iter()
        .filter(|row| !row.in_phase)
        .map(|row| (metric.of(row), row.number))
        .collect();
    steady.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some(&(max, max_frame)) = steady.last() else {
        return Spread::default();
    };
    let rank = |share: f64| steady[((steady.len() - 1) as f64 * share) as usize].0;
    Spread {
        mean: steady.iter().map(|figure| figure.0).sum::<f64>() / steady.len() as f64,
        p50: rank(0.5),
        p95: rank(0.95),
        p99: rank(0.99),
        max,
        max_frame,
    }
}

fn phase(name: &str, rows: &[FrameRow], first: usize) -> Phase {
    let end = (first + LOADING).min(rows.len());
    Phase {
        name: name.to_owned(),
        start: rows.get(first).map_or(0.0, |row| row.start),
        end: rows[..end].last().map_or(0.0, |row| row.end),
    }
}

fn mark(name: &str, time: f64) -> Mark {
    Mark {
        time,
        name: name.to_owned(),
    }
}

fn findings(worst: u64) -> Vec<Finding> {
    vec![
        Finding {
            severity: Severity::Warning,
            text: format!(
                "frame {worst} took 31.2 ms; 9.8 ms of it in 3 calls from `TerrainTile::load`"
            ),
            command: format!("heapreel spikes sample.hreel --frames {worst}"),
            frame: Some(("main".to_owned(), worst)),
        },
        Finding {
            severity: Severity::Note,
            text:
                "a frame in steady state makes 6 allocations; 5 of them come from `DamageLabel::text`"
                    .to_owned(),
            command: "heapreel report sample.hreel".to_owned(),
            frame: None,
        },
    ]
}

fn process() -> Vec<Fact> {
    vec![
        Fact::new("Program", "skirmish", "The executable that was recorded."),
        Fact::new("Process", "4711", "Its process id."),
        Fact::new(
            "Allocator",
            "glibc 2.36",
            "The allocator beneath the recorder.",
        ),
        Fact::new("Ended", "exit status 0", "How the program came to its end."),
    ]
}

fn totals(rows: &[FrameRow]) -> Vec<Fact> {
    let sum = |of: fn(&FrameRow) -> u64| rows.iter().map(of).sum::<u64>();
    vec![
        Fact::new(
            "Allocations",
            crate::units::count(sum(|row| row.allocations)),
            "Calls that obtained memory.",
        ),
        Fact::new(
            "Deallocations",
            crate::units::count(sum(|row| row.deallocations)),
            "Calls that gave memory back.",
        ),
        Fact::new(
            "Bytes",
            crate::units::bytes(sum(|row| row.bytes) as f64),
            "Bytes that all allocations asked for.",
        ),
    ]
}

/// A small random generator (xorshift), so that every run makes the same model.
struct Random(u64);

impl Random {
    /// A number from 0 up to 1.
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}
