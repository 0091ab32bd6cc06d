//! The analyzer's answers beside the truth of a game that knows what it did.
//!
//! skirmish carries the recorder itself, so that its allocator sees the very calls that
//! are recorded; under the preload library a Rust reallocation of an over-aligned block
//! would be three calls of the C library.

#[path = "support/mod.rs"]
mod support;

use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use support::{compile, number, record, run, scratch::Scratch};

/// A scene that was played, with what it says of itself.
struct Played {
    _folder: Scratch,
    trace: PathBuf,
    truth: Value,
}

/// One game at a time: what they are asked is how long their frames and calls took.
static STAGE: Mutex<()> = Mutex::new(());

fn play(scene: &str, arguments: &[&str]) -> Played {
    let _alone = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Scratch::new();
    let trace = folder.join("scene.hreel");
    let truth = folder.join("truth.json");
    let mut game = Command::new(compile::example("skirmish"));
    game.arg(scene).args(arguments).arg("--truth").arg(&truth);
    game.env_clear().env("HEAPREEL_OUT", &trace);
    let ran = run::run(&mut game);
    assert_eq!(ran.shell_code(), 0, "{ran:?}");
    let named = run::run(record::heapreel().arg("symbols").arg(&trace));
    assert_eq!(named.shell_code(), 0, "{named:?}");
    let truth = std::fs::read(&truth).expect("the truth");
    Played {
        _folder: folder,
        trace,
        truth: serde_json::from_slice(&truth).expect("JSON"),
    }
}

impl Played {
    fn ask(&self, command: &str, options: &[&str]) -> Value {
        let mut asked = record::heapreel();
        let ran = run::run(
            asked
                .arg(command)
                .arg(&self.trace)
                .args(options)
                .arg("--json"),
        );
        assert_eq!(ran.shell_code(), 0, "{ran:?}");
        serde_json::from_str(&ran.stdout).expect("JSON")
    }

    /// Totals between the marks that the game set around its counting.
    fn totals_agree(&self) {
        let info = self.ask("info", &["--from", "@\"begin\"", "--to", "@\"truth\""]);
        let tally = &self.truth["tally"]["between"];
        let made = number(tally, "allocations") + number(tally, "zeroed_allocations");
        assert_eq!(number(&info, "allocations"), made);
        assert_eq!(
            number(&info, "reallocations"),
            number(tally, "reallocations")
        );
        assert_eq!(
            number(&info, "deallocations"),
            number(tally, "deallocations")
        );
        assert_eq!(
            number(&info, "requested_bytes"),
            number(tally, "requested_bytes")
        );
        let whole = self.ask("info", &[]);
        assert_eq!(number(&whole, "order_anomalies"), 0);
        assert_eq!(number(&whole, "lost_events"), 0);
    }

    /// Live blocks of the sites whose function's name holds `name`.
    fn live_blocks(&self, name: &str) -> u64 {
        let leaks = self.ask("leaks", &["--limit", "1000"]);
        let sites = leaks["sites"].as_array().expect("sites");
        let named = |site: &&Value| site["function"].as_str().is_some_and(|f| f.contains(name));
        sites
            .iter()
            .filter(named)
            .map(|site| number(site, "blocks"))
            .sum()
    }

    fn findings(&self) -> Vec<String> {
        let report = self.ask("report", &[]);
        let findings = report["findings"].as_array().expect("findings").iter();
        findings
            .map(|f| f["kind"].as_str().expect("a kind").to_owned())
            .collect()
    }
}

#[test]
fn every_scene_is_counted_to_the_unit() {
    for (scene, frames) in [
        ("hits", "200"),
        ("stages", "120"),
        ("openworld", "60"),
        ("leak", "100"),
        ("overrun", "30"),
        ("padded", "100"),
        ("patrol", "3700"),
        ("segments", "100"),
    ] {
        play(scene, &["--frames", frames]).totals_agree();
    }
}

#[test]
fn damage_labels_are_named() {
    let played = play("hits", &["--frames", "400"]);
    let report = played.ask("report", &[]);
    let sites = report["sites"].as_array().expect("sites");
    let labels: u64 = sites
        .iter()
        .filter(|site| {
            site["function"]
                .as_str()
                .is_some_and(|f| f.contains("DamageLabel::spawn"))
        })
        .map(|site| number(site, "allocations"))
        .sum();
    assert!(
        labels >= number(&played.truth["facts"], "hits"),
        "{labels} of {}",
        played.truth["facts"]
    );
    let text = run::run(record::heapreel().arg("report").arg(&played.trace)).stdout;
    assert!(text.contains("DamageLabel::spawn"), "{text}");
}

#[test]
fn allocations_of_each_frame_are_the_games_own() {
    let played = play("hits", &["--frames", "300"]);
    let frames = played.ask("frames", &[]);
    let rows = frames["frames"].as_array().expect("rows");
    let own = played.truth["loops"][0]["per_frame"]["own_thread"]["allocations"].as_array();
    let own = own.expect("a count per frame");
    // The game's frame 0 holds its start-up and ends at the first mark; the trace's
    // frame 0 begins there.
    assert_eq!(rows.len(), own.len() - 1);
    for (row, truth) in rows.iter().zip(&own[1..]) {
        assert_eq!(row["allocations"], *truth, "{row}");
    }
}

#[test]
fn what_each_visit_leaves_is_found_to_the_block() {
    let played = play("stages", &["--frames", "300", "--leak"]);
    let visits = number(&played.truth["facts"], "visits");
    assert!(visits >= 2, "{visits}");
    assert_eq!(played.live_blocks("EventBus::subscribe"), 25 * visits);
    assert_eq!(played.live_blocks("DecalPool::stamp"), 12 * visits);
    assert!(played.findings().contains(&"leaks".to_owned()));
}

#[test]
fn a_steady_leak_is_told_from_caches() {
    let played = play("leak", &["--frames", "600"]);
    let truth = &played.truth["leaks"]["first"][0];
    assert_eq!(
        played.live_blocks("QuestJournal::add_entry"),
        number(truth, "blocks")
    );
    for healthy in ["GlyphCache::rasterize", "RouteCache::find"] {
        let leaks = played.ask("report", &[])["growth"].to_string();
        assert!(!leaks.contains(healthy), "{leaks}");
    }
}

/// Frame times that have nothing to do with allocation are not blamed on it. Where other
/// programs want the processor too, calls that the scheduler interrupts do take long, and
/// are rightly blamed: so one of a few runs has to be left alone.
#[test]
fn padding_is_not_explained_by_allocation() {
    const RUNS: u32 = 5;
    let blamed: Vec<_> = (0..RUNS).map_while(|_| wrongly_blamed()).collect();
    assert!(
        (blamed.len() as u32) < RUNS,
        "explained and all spikes, in each run: {blamed:?}"
    );
}

/// The spikes that are explained, and all, of a run in which too many are.
fn wrongly_blamed() -> Option<(u64, u64)> {
    let played = play("padded", &["--frames", "300"]);
    let spikes = played.ask("spikes", &[]);
    let explained = number(&spikes, "explained");
    let all = number(&spikes, "count");
    assert!(all >= number(&played.truth["facts"], "long_frames") / 2);
    let is_told = played
        .findings()
        .contains(&"spikes_not_explained".to_owned());
    (!is_told || explained * 5 > all).then_some((explained, all))
}

/// The trouble of the talk, in a world that streams: a heap that is 3 % larger than what was
/// ever asked for has room for the cinematic and not in one piece; pages serve it.
#[test]
fn an_open_world_outgrows_a_heap_that_has_room_for_it() {
    let played = play("openworld", &[]);
    let peak = number(&played.ask("report", &[])["peak"], "bytes");
    let capacity = format!("heap.segments=Default={}KiB", (peak * 103 / 100) >> 10);
    let heap = ["--model", "heap", "--set", &capacity];
    let whole = played.ask("frag", &heap);
    assert!(number(&whole["failures"], "no_contiguous") > 0, "{peak}");
    assert_eq!(whole["failures"]["exhausted"], 0);
    let first = &whole["first_failure"];
    let figure = |key| number(first, key);
    assert!(figure("largest_free") < figure("size") && figure("size") < figure("free"));

    let frame = figure("frame").to_string();
    let then = played.ask("frag", &[&heap[..], &["--frame", &frame]].concat());
    assert!(number(&then["whole"], "free_ranges") > 1);
    assert!(number(&then["whole"], "free") > figure("size"));
    let paged = played.ask("frag", &["--model", "virtual"]);
    assert_eq!(paged["failures"]["failures"], 0);
}
