//! The analyzer's values as the viewer's: other units, other order, no new figures.

use crate::metric::Metric;
use crate::units;
use crate::view_model::{
    Blamed, Fact, Finding, FrameLoop, FrameRow, LiveCurve, LivePoint, Mark, Phase, Severity,
    SpikeCause, Spread, ViewModel,
};
use heapreel_analyzer as analyzer;
use std::path::Path;

/// The view of an analysis.
pub fn view_model(analysis: &analyzer::Analysis) -> ViewModel {
    let duration = seconds(analysis.trace.duration_nanos);
    let live = analysis.live_curve.iter().map(|point| LivePoint {
        time: seconds(point.nanos),
        bytes: point.bytes as f64,
    });
    ViewModel {
        title: file_name(&analysis.trace.file),
        loops: analysis
            .loops
            .iter()
            .map(|game| game_loop(analysis, game))
            .collect(),
        live: LiveCurve::new(live.collect(), high_water(&analysis.peak)),
        marks: marks(analysis),
        phases: phases(analysis, duration),
        findings: analysis.findings.iter().map(finding).collect(),
        process: process(analysis),
        totals: totals(analysis),
        missing: missing(&analysis.health),
        duration,
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 * 1e-9
}

fn file_name(path: &str) -> String {
    let name = Path::new(path).file_name();
    name.map_or_else(
        || path.to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

fn high_water(peak: &analyzer::Peak) -> Option<LivePoint> {
    (peak.bytes > 0).then(|| LivePoint {
        time: seconds(peak.nanos),
        bytes: peak.bytes as f64,
    })
}

fn marks(analysis: &analyzer::Analysis) -> Vec<Mark> {
    let mut marks: Vec<_> = analysis
        .marks
        .iter()
        .map(|mark| Mark {
            time: seconds(mark.nanos),
            name: match mark.occurrence {
                0 | 1 => mark.name.clone(),
                later => format!("{} #{later}", mark.name),
            },
        })
        .collect();
    marks.sort_by(|a, b| a.time.total_cmp(&b.time));
    marks
}

fn phases(analysis: &analyzer::Analysis, duration: f64) -> Vec<Phase> {
    let phase = |phase: &analyzer::PhaseAt| Phase {
        name: phase.name.clone(),
        start: seconds(phase.start_nanos),
        end: phase.end_nanos.map_or(duration, seconds),
    };
    analysis.phases.iter().map(phase).collect()
}

fn game_loop(analysis: &analyzer::Analysis, game: &analyzer::LoopAnalysis) -> FrameLoop {
    let frames = game.frames.iter().map(frame).collect();
    let mut view = FrameLoop::new(game.name.clone(), seconds(game.budget_nanos), frames);
    view.budget_source = game.budget_source.clone();
    view.spreads = Metric::ALL
        .map(|metric| spread(metric, &game.steady))
        .into();
    let causes = game.spikes.worst.iter();
    view.causes = causes
        .map(|spike| (spike.frame, cause(analysis, spike)))
        .collect();
    view
}

fn frame(row: &analyzer::FrameRow) -> FrameRow {
    FrameRow {
        number: row.number,
        start: seconds(row.start_nanos),
        end: seconds(row.start_nanos.saturating_add(row.duration_nanos)),
        time: seconds(row.net_nanos),
        recorder_time: seconds(row.recorder_nanos),
        allocator_time: seconds(row.allocator_nanos),
        all_allocator_time: seconds(row.all_threads_allocator_nanos),
        slowest_call: seconds(row.slowest_call_nanos),
        allocations: row.allocations.saturating_add(row.reallocations),
        deallocations: row.deallocations,
        failed: row.failed,
        bytes: row.requested_bytes,
        live_bytes: row.live_bytes,
        spike: row.spike,
        in_phase: row.in_phase,
    }
}

fn spread(metric: Metric, steady: &analyzer::LoopSummary) -> Spread {
    let (of, unit) = match metric {
        Metric::FrameTime => (&steady.net_nanos, 1e-9),
        Metric::Allocations => (&steady.allocations, 1.0),
        Metric::Bytes => (&steady.requested_bytes, 1.0),
        Metric::AllocatorTime => (&steady.allocator_nanos, 1e-9),
    };
    let scaled = |value: u64| value as f64 * unit;
    Spread {
        mean: of.mean * unit,
        p50: scaled(of.p50),
        p95: scaled(of.p95),
        p99: scaled(of.p99),
        max: scaled(of.max),
        max_frame: of.max_frame,
    }
}

fn cause(analysis: &analyzer::Analysis, spike: &analyzer::Spike) -> SpikeCause {
    let excess = units::seconds(seconds(spike.excess_nanos));
    let share = format!("{:.0} %", spike.share * 100.0);
    let verdict = match spike.verdict {
        analyzer::Verdict::Explained => {
            format!(
                "Allocation explains this spike: {share} of the {excess} above the median frame."
            )
        }
        analyzer::Verdict::Partly => {
            format!("Allocation explains a part: {share} of the {excess} above the median frame.")
        }
        analyzer::Verdict::NotExplained => {
            format!(
                "Allocation does not explain this spike: {share} of the {excess} above the median frame."
            )
        }
        analyzer::Verdict::CannotTell => {
            "Whether allocation explains this spike cannot be told from this trace.".to_owned()
        }
    };
    let sites = spike.sites.iter();
    SpikeCause {
        verdict,
        sites: sites.filter_map(|part| blamed(analysis, part)).collect(),
    }
}

fn blamed(analysis: &analyzer::Analysis, part: &analyzer::SpikeSite) -> Option<Blamed> {
    let site = analysis.sites.get(part.site as usize)?;
    let place = site.place.as_deref().unwrap_or(&site.module);
    Some(Blamed {
        name: site.name.clone(),
        time: units::seconds(seconds(part.nanos)),
        detail: format!(
            "{}, {}, the slowest {}, in {}",
            units::counted(part.calls, "call"),
            units::bytes(part.bytes as f64),
            units::seconds(seconds(part.slowest_nanos)),
            short_place(place),
        ),
        whole: format!("{} in {place}", site.function),
    })
}

/// The end of a path: a file and the folder it lies in.
fn short_place(place: &str) -> &str {
    let slashes = place.rmatch_indices('/');
    match slashes.map(|(at, _)| at).nth(1) {
        Some(at) => &place[at + 1..],
        None => place,
    }
}

fn finding(finding: &analyzer::Finding) -> Finding {
    Finding {
        severity: match finding.severity {
            analyzer::Severity::Note => Severity::Note,
            analyzer::Severity::Warning => Severity::Warning,
            analyzer::Severity::Error => Severity::Error,
        },
        text: finding.text.clone(),
        command: finding.command.clone(),
        frame: finding.frame.clone(),
    }
}

/// What the banner says; empty for a whole trace.
fn missing(health: &analyzer::HealthFacts) -> Vec<String> {
    match health.complete {
        true => Vec::new(),
        false => health.remarks.clone(),
    }
}

fn process(analysis: &analyzer::Analysis) -> Vec<Fact> {
    let trace = &analysis.trace;
    let ended = analysis.health.ended.as_deref().unwrap_or("not known");
    let recorded = match trace.preload {
        true => "from outside, by preloading",
        false => "from inside, by the crate",
    };
    let facts = [
        Fact::new(
            "Executable",
            file_name(&trace.executable),
            trace.executable.clone(),
        ),
        Fact::new(
            "Command line",
            trace.arguments.join(" "),
            trace.arguments.join(" "),
        ),
        Fact::new("Process", trace.pid.to_string(), "Its process id."),
        Fact::new("Ended", ended, "How the program came to its end."),
        Fact::new(
            "Allocator",
            trace.allocator.clone(),
            "The allocator beneath the recorder.",
        ),
        Fact::new(
            "Recorded",
            recorded,
            format!("Recorder {}.", trace.recorder),
        ),
        Fact::new("Machine", trace.machine.clone(), trace.machine.clone()),
        Fact::new(
            "Trace",
            units::bytes(trace.bytes as f64),
            "Length of the trace file.",
        ),
    ];
    let known = facts.into_iter().filter(|fact| !fact.value.is_empty());
    known.collect()
}

fn totals(analysis: &analyzer::Analysis) -> Vec<Fact> {
    let totals = &analysis.totals;
    let count =
        |name: &str, value: u64, meaning: &str| Fact::new(name, units::count(value), meaning);
    let bytes = |name: &str, value: u64, meaning: &str| {
        Fact::new(name, units::bytes(value as f64), meaning)
    };
    let time = |name: &str, nanos: u64, meaning: &str| {
        Fact::new(name, units::seconds(seconds(nanos)), meaning)
    };
    let mut facts = vec![
        count(
            "Allocations",
            totals.allocations,
            "Calls that obtained a new block.",
        ),
        count(
            "Reallocations",
            totals.reallocations,
            "Calls that changed a block's size.",
        ),
        count(
            "Deallocations",
            totals.deallocations,
            "Calls that gave a block back.",
        ),
        bytes(
            "Bytes asked for",
            totals.requested_bytes,
            "By all allocations and reallocations.",
        ),
        bytes(
            "High water",
            analysis.peak.bytes,
            "The most bytes in use at once.",
        ),
        bytes(
            "Live at the end",
            totals.live_bytes,
            "Bytes asked for and never given back.",
        ),
        time(
            "Allocator time",
            totals.allocator_nanos,
            "Time in the allocator of all threads.",
        ),
        time(
            "Recording",
            analysis.recording.total_nanos,
            "Estimated time that recording cost, on all threads; taken off frame times.",
        ),
    ];
    if totals.failed_allocations > 0 {
        let meaning = "Requests that the allocator refused.";
        facts.push(count("Failed requests", totals.failed_allocations, meaning));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_shortened_to_folder_and_file() {
        assert_eq!(short_place("/home/a/game/src/tile.rs:7"), "src/tile.rs:7");
        assert_eq!(short_place("src/tile.rs:7"), "src/tile.rs:7");
        assert_eq!(short_place("skirmish"), "skirmish");
        assert_eq!(short_place("//"), "/");
        assert_eq!(short_place(""), "");
    }

    #[test]
    fn a_phase_without_end_lasts_until_the_recording_ends() {
        let analysis = analyzer::Analysis {
            phases: vec![analyzer::PhaseAt {
                name: "loading".to_owned(),
                start_nanos: 1_000_000_000,
                end_nanos: None,
            }],
            trace: analyzer::TraceFacts {
                clip: None,
                file: "runs/a.hreel".to_owned(),
                duration_nanos: 3_000_000_000,
                ..Default::default()
            },
            ..Default::default()
        };
        let model = view_model(&analysis);
        assert_eq!((model.phases[0].start, model.phases[0].end), (1.0, 3.0));
        assert_eq!(model.title, "a.hreel");
    }

    #[test]
    fn allocations_and_reallocations_are_one_figure() {
        let row = analyzer::FrameRow {
            allocations: 3,
            reallocations: u64::MAX,
            ..Default::default()
        };
        assert_eq!(frame(&row).allocations, u64::MAX);
    }
}
