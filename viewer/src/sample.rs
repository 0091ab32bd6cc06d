//! A made-up recording for tests and pictures, the same at every run.

use crate::view_model::{
    Fact, Finding, FrameLoop, FrameRow, LiveCurve, LivePoint, Mark, Phase, Severity, ViewModel,
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
        loops: vec![FrameLoop::new("main", BUDGET, rows)],
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
        allocations: calls as u64,
        deallocations: (calls * 0.9) as u64,
        bytes: (calls * (90.0 + 400.0 * random.unit())) as u64,
        spike: !in_phase && time > BUDGET,
        in_phase,
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
                "frame {worst} took 31.2 ms; 9.8 ms of it in 3 calls from TerrainTile::load"
            ),
            command: format!("heapreel spikes sample.hreel --frames {worst}"),
            frame: Some(("main".to_owned(), worst)),
        },
        Finding {
            severity: Severity::Note,
            text:
                "a frame in steady state makes 6 allocations; 5 of them come from DamageLabel::text"
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
