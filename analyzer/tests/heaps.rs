//! Heaps that a game announces: figures to the byte, what it forgot, and where an address lies.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use support::record::{Recording, heapreel, record_with};
use support::run::run;
use support::{compile, number};

fn program() -> Option<PathBuf> {
    compile::c("heaps.c")
}

fn json(command: &str, words: &[&str], trace: &Path) -> Value {
    let ran = run(heapreel().arg(command).args(words).arg(trace).arg("--json"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    serde_json::from_str(&ran.stdout).expect("JSON")
}

fn recorded(arguments: &[&str]) -> Option<(Recording, Value)> {
    let recording = record_with(&[], &program()?, arguments);
    let report = json("report", &[], &recording.trace);
    Some((recording, report))
}

fn heap<'a>(report: &'a Value, name: &str) -> &'a Value {
    let heaps = report["heaps"].as_array().expect("heaps");
    let found = heaps.iter().find(|heap| heap["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {heaps:?}"))
}

fn figures(heap: &Value, keys: &[&str]) -> Vec<u64> {
    keys.iter().map(|key| number(heap, key)).collect()
}

fn finding<'a>(report: &'a Value, kind: &str) -> Option<&'a str> {
    let findings = report["findings"].as_array().expect("findings");
    let found = findings.iter().find(|finding| finding["kind"] == kind)?;
    found["text"].as_str()
}

#[test]
fn heaps_are_known_to_the_byte() {
    let Some((_recording, report)) = recorded(&[]) else {
        return;
    };
    let keys = [
        "held_bytes",
        "peak_bytes",
        "live_bytes",
        "live_blocks",
        "allocations",
        "reallocations",
        "deallocations",
        "resets",
        "requested_bytes",
    ];
    let of = |name| figures(heap(&report, name), &keys);
    // Frame 8 begins with the 100 blocks that frame 7 has left.
    assert_eq!(
        of("frame arena"),
        [65_536, 20_000, 0, 0, 1_200, 0, 0, 11, 120_000]
    );
    assert_eq!(
        of("level memory"),
        [1 << 20, 5_096, 4_096, 1, 2, 0, 1, 0, 5_096]
    );
    assert_eq!(
        of("level pool"),
        [4_096, 6 * 48, 4 * 48 + 64, 5, 6, 1, 1, 0, 6 * 48 + 64]
    );
    assert_eq!(
        of("textures"),
        [0, 12 << 20, 12 << 20, 2, 2, 0, 0, 0, 12 << 20]
    );
    let parent = number(heap(&report, "level pool"), "parent") as usize;
    assert_eq!(report["heaps"][parent]["name"], "level memory");
    let site = &heap(&report, "frame arena")["sites"][0];
    assert_eq!(
        (&site["name"], number(site, "calls")),
        (&"arena_take".into(), 1_200)
    );
}

#[test]
fn what_lies_in_heaps_is_counted_once() {
    let Some((recording, report)) = recorded(&[]) else {
        return;
    };
    // The program's own two blocks, whatever the C library takes beside them.
    let live = number(&report["totals"], "live_bytes");
    let memory = (1 << 20) + (64 << 10);
    assert!((memory..memory + 100_000).contains(&live), "{live}");
    let told = run(heapreel().arg("report").arg(&recording.trace)).stdout;
    let (before, gpu) = told
        .split_once("Memory of the graphics processor")
        .expect("a section of its own");
    assert!(
        gpu.contains("textures") && gpu.contains("12.0 MiB"),
        "{gpu}"
    );
    assert!(!before.contains("textures"), "{before}");
}

#[test]
fn a_forgotten_reset_and_a_broken_budget_are_found_and_named() {
    let Some((_recording, report)) = recorded(&[]) else {
        return;
    };
    assert_eq!(
        finding(&report, "heap_not_reset"),
        Some(
            "the heap frame arena is reset each frame, but 1 reset is missing, the first in frame 7"
        )
    );
    let over = finding(&report, "heap_over_budget").expect("a finding");
    let begins = "the heap level memory took 4.98 KiB of its budget of 4.00 KiB, first over it ";
    assert!(over.starts_with(begins), "{over}");
    let forgotten = &heap(&report, "frame arena")["forgotten_resets"];
    assert_eq!(
        figures(forgotten, &["count", "first_frame", "usual_frames"]),
        [1, 7, 1]
    );
}

#[test]
fn what_cannot_be_is_counted_and_told() {
    let Some((_recording, report)) = recorded(&["misuse"]) else {
        return;
    };
    let misused = heap(&report, "misused");
    let keys = [
        "unknown_blocks",
        "given_twice",
        "outside_ranges",
        "after_end",
    ];
    assert_eq!(figures(misused, &keys), [1, 1, 1, 1]);
    assert_eq!(
        figures(&misused["destroyed"], &["left_blocks", "left_bytes"]),
        [2, 32]
    );
    let told = finding(&report, "heap_misused").expect("a finding");
    let begins = "the heap misused was told what cannot be: 1 block given back";
    assert!(told.starts_with(begins), "{told}");
    assert!(finding(&report, "heap_left_blocks").is_some(), "{report}");
}

#[test]
fn an_address_is_named_by_the_heap_that_it_lies_in() {
    let Some((recording, report)) = recorded(&[]) else {
        return;
    };
    let pool = number(&heap(&report, "level pool")["ranges"][0], "address");
    let ask = |offset: u64| {
        let address = format!("{:#x}", pool + offset);
        json("overrun", &[&address], &recording.trace)
    };
    let names = |told: &Value| {
        let heaps = told["heaps"].as_array().expect("heaps");
        let names = heaps
            .iter()
            .map(|heap| heap["heap"].as_str().expect("a name").to_owned());
        names.collect::<Vec<_>>()
    };
    // Eight bytes behind the end of the pool's third block: in no block of the pool, but in
    // one of the heap around it.
    let told = ask(128 + 48 + 8);
    assert_eq!(names(&told), ["level pool", "level memory"]);
    let within = &told["heaps"][0];
    assert_eq!(within["block"], Value::Null);
    assert_eq!(number(&within["previous"], "address"), pool + 128);
    assert_eq!(within["previous"]["function"], "main");
    assert_eq!(number(&within["next"], "address"), pool + 192);
    assert_eq!(number(&told["heaps"][1]["block"], "requested"), 4_096);
    // Where no block lives at all.
    let told = ask(500_000);
    assert_eq!(names(&told), ["level memory"]);
    assert_eq!(told["heaps"][0]["block"], Value::Null);
    // The arena's memory is its own though every block is gone.
    let arena = number(&heap(&report, "frame arena")["ranges"][0], "address");
    let told = json(
        "overrun",
        &[&format!("{:#x}", arena + 160)],
        &recording.trace,
    );
    assert_eq!(names(&told), ["frame arena"]);
    assert_eq!(told["heaps"][0]["previous"], Value::Null);
}
