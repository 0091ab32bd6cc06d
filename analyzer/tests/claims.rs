//! docs/claims.md does not rot: every command in it is run, and prints what stands there.

#![cfg(unix)]

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::record::heapreel;
use support::run::{Ran, run};
use support::scratch::Scratch;

/// What each row must show: figures of the claim, worked out by hand.
const ROWS: &[(&str, &[&str])] = &[
    ("000-a", &["5 reserve", "a frame        none"]),
    (
        "000-b",
        &[
            "60.0 MiB  4.00 MiB  4.00 MiB",
            "24.0 MiB  40.0 MiB  16.0 MiB",
            "24.0 MiB  40.0 MiB  20.0 MiB",
            "0.600",
            "0.500",
        ],
    ),
    (
        "000-c",
        &["with 8.00 KiB free and 4.00 KiB in the longest range"],
    ),
    ("000-d", &["with 3 combinations", "4KiB, 16KiB or 64KiB"]),
    ("000-e", &["waste           30 %", "page tails"]),
    ("000-f", &["85 %", "59 %", "6 of threads"]),
    ("000-g", &["reset_delay=25", "the same"]),
    ("000-h", &["8.01 MiB reserved", "4.01 MiB reserved"]),
    ("000-i", &["(100 %)", "(0 %)", "(70 %)"]),
    ("000-j", &["tables                              1.00 MiB"]),
    ("000-k", &["82,176", "20.1 MiB in 0, 20.1 MiB in 1"]),
    ("000-l", &["70 blocks wait", "0 blocks wait"]),
    (
        "000-m",
        &["deallocations 203 times", "allocations 1.02 times"],
    ),
    ("000-n", &["over 16.7 ms"]),
    ("003-a", &["6.67"]),
    ("003-b", &["160 ns", "61 ns", "40.0 µs"]),
    (
        "003-c",
        &["Allocation does not explain this frame", "1.0 %"],
    ),
    (
        "003-d",
        &[
            "9.20 ms", "7.10 ms", "13.4 ms", "7.90 ms", "22.8 %", "41.0 %",
        ],
    ),
    ("003-e", &["32.0 MiB held", "4.00 MiB     8.00 MiB"]),
    ("003-f", &["2,870 of 4,096", "70.1 %", "1.43"]),
    ("003-g", &["1.50", "0.75"]),
    ("003-h", &["60 ns     120 ns", "2.0 times"]),
    ("003-i", &["1 of 1 line", "no line of 64 B"]),
    ("003-j", &["1,500 / 750", "750 / 750"]),
    ("003-k", &["3000000010", "3000000060"]),
    ("003-l", &["4000000008"]),
];

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

fn page() -> String {
    std::fs::read_to_string(docs().join("claims.md")).expect("the page")
}

/// A folder with all that the page's commands read.
fn furnished() -> Scratch {
    let scratch = Scratch::new();
    for entry in std::fs::read_dir(docs().join("claims")).expect("its folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        std::fs::copy(&path, scratch.join(&name)).expect("a copy");
    }
    scratch
}

/// Runs a line as a person would type it.
fn typed(line: &str, folder: &Path) -> Ran {
    let program = Path::new(env!("CARGO_BIN_EXE_heapreel"));
    let mut path = program.parent().expect("a folder").as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(folder);
    let ours = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("HEAPREEL_");
    for name in std::env::vars_os().map(|(name, _)| name).filter(ours) {
        shell.env_remove(name);
    }
    run(shell.env("PATH", path).env("LC_ALL", "C"))
}

/// A command of the page and what stands below it.
struct Shown {
    command: String,
    output: Vec<String>,
}

/// All commands, in order.
fn shown(page: &str) -> Vec<Shown> {
    let mut shown: Vec<Shown> = Vec::new();
    let mut lines = page.lines();
    while lines.by_ref().any(|line| line == "```console") {
        let mut block = lines.by_ref().take_while(|line| *line != "```");
        while let Some(line) = block.next() {
            let Some(command) = line.strip_prefix("$ ") else {
                let last = shown.last_mut().expect("a command above its output");
                last.output.push(line.to_owned());
                continue;
            };
            let mut command = command.to_owned();
            while command.ends_with('\\') {
                command.pop();
                command.push_str(block.next().expect("the command goes on").trim());
            }
            let output = Vec::new();
            shown.push(Shown { command, output });
        }
    }
    shown
}

fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Each shown line is printed, in this order; without `…` above it, directly behind the last.
fn compare(shown: &Shown, ran: &Ran) {
    let printed: Vec<String> = ran
        .stdout
        .lines()
        .chain(ran.stderr.lines())
        .map(words)
        .collect();
    let mut at = 0;
    let mut skip = false;
    for line in &shown.output {
        if line.trim() == "…" {
            skip = true;
            continue;
        }
        let wanted = words(line);
        let rest = &printed[at..];
        let found = match skip {
            true => rest.iter().position(|line| *line == wanted),
            false => (rest.first() == Some(&wanted)).then_some(0),
        };
        let Some(found) = found else {
            panic!(
                "{}\ndoes not print\n{line}\nbut\n{}{}",
                shown.command, ran.stdout, ran.stderr
            );
        };
        at += found + 1;
        skip = false;
    }
}

#[test]
fn every_command_prints_what_the_page_says() {
    let scratch = furnished();
    let shown = shown(&page());
    assert!(shown.len() > 60, "{} commands", shown.len());
    for shown in shown {
        let ran = typed(&shown.command, scratch.path());
        let refused = shown
            .output
            .iter()
            .any(|line| line.starts_with("heapreel: "));
        let code = if refused { 2 } else { 0 };
        assert_eq!(ran.code, Some(code), "{}\n{}", shown.command, ran.stderr);
        compare(&shown, &ran);
    }
}

#[test]
fn every_row_has_its_figures() {
    let page = page();
    let sections: Vec<&str> = page.split("\n### ").skip(1).collect();
    assert_eq!(sections.len(), ROWS.len());
    for (section, (row, figures)) in sections.iter().zip(ROWS) {
        assert!(section.starts_with(&format!("{row}: ")), "{row}: {section}");
        assert!(section.contains("\n```console\n$ "), "{row} has no command");
        for figure in *figures {
            assert!(section.contains(figure), "{row} does not say {figure:?}");
        }
    }
}

/// The trace of a list that one of the page's scripts writes.
fn made(scratch: &Scratch, script: &str) -> PathBuf {
    let line =
        format!("awk {script} > t.ops && heapreel import --from ops t.ops -o t.hreel --force");
    let ran = typed(&line, scratch.path());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    scratch.join("t.hreel")
}

#[track_caller]
fn json(command: &str, trace: &Path, arguments: &[&str]) -> Value {
    let ran = run(heapreel()
        .arg(command)
        .arg(trace)
        .args(arguments)
        .arg("--json"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    serde_json::from_str(&ran.stdout).expect("JSON")
}

fn float(value: &Value, path: &str) -> f64 {
    let found = value
        .pointer(path)
        .unwrap_or_else(|| panic!("{path} in {value}"));
    found.as_f64().unwrap_or_else(|| panic!("{path}: {found}"))
}

/// 000-m: the statistic itself, and that a steady game has none.
#[test]
fn bursts_are_told_by_the_busiest_frame_over_the_median() {
    let scratch = furnished();
    let frames = json("frames", &made(&scratch, "-f bursts.awk"), &[]);
    // 20 · 99 blocks of 60 to 61 a frame are freed on the way, all others at once.
    let frees = 6034.0 - 99.0 * 20.0;
    let told = float(&frames, "/steady/free_bursts/max_over_median");
    assert_eq!(told, frees / 20.0);
    let allocations = float(&frames, "/steady/allocation_bursts/max_over_median");
    assert_eq!(allocations, 61.0 / 60.0);
}

/// 003-a and 003-b: 6 or 7 in each frame, 6.667 in the mean; 160 ns in the mean.
#[test]
fn four_hundred_labels_a_second() {
    let scratch = furnished();
    let report = json(
        "report",
        &made(&scratch, "-f labels.awk"),
        &["--budget", "10ms"],
    );
    let frames = report["loops"][0]["frames"].as_array().expect("frames");
    let counts: Vec<u64> = frames
        .iter()
        .map(|row| row["allocations"].as_u64().unwrap())
        .collect();
    assert_eq!(&counts[..6], [6, 7, 7, 6, 7, 7]);
    assert!(counts.iter().all(|count| [6, 7].contains(count)));
    let mean = float(&report, "/loops/0/steady/allocations/mean");
    assert!((mean - 400.0 / 60.0).abs() < 1e-9, "{mean}");
    let latency = &report["latency"][0];
    assert_eq!(latency["mean_nanos"], 160);
    assert_eq!(latency["max_nanos"], 40_000);
    let total = float(&report, "/totals/allocator_nanos") / 10.0;
    assert_eq!(total, 399.0 * 60.0 + 40_000.0, "a second");
    // 003-c: none of the peaks is explained, and each is told its share.
    let spikes = &report["loops"][0]["spikes"];
    assert_eq!(
        (&spikes["count"], &spikes["not_explained"]),
        (&3.into(), &3.into())
    );
    for spike in spikes["worst"].as_array().expect("spikes") {
        let share = float(spike, "/share");
        assert!((0.0099..0.0101).contains(&share), "{share}");
        assert_eq!(spike["verdict"], "not_explained");
    }
}

/// 003-d: what the percentages of the means and of the 99th percentiles are.
#[test]
fn before_and_after_in_percent() {
    let scratch = furnished();
    let mut figures = Vec::new();
    for (usual, peak) in [(9_114_286, 13_400_000), (7_083_673, 7_900_000)] {
        let script = format!("-v usual={usual} -v peak={peak} -f frames.awk");
        let frames = json("frames", &made(&scratch, &script), &[]);
        let figure = |name| float(&frames, &format!("/steady/net_nanos/{name}"));
        figures.push((figure("mean"), figure("p99")));
    }
    let percent = |from: f64, to: f64| ((to / from - 1.0) * 1000.0).round() / 10.0;
    assert_eq!(percent(figures[0].0, figures[1].0), -22.8);
    assert_eq!(percent(figures[0].1, figures[1].1), -41.0);
}

/// 003-h: twice, beyond the noise; and not where nothing changed.
#[test]
fn drift_is_told_with_its_noise() {
    let scratch = furnished();
    let report = json("report", &made(&scratch, "-f drift.awk"), &[]);
    let sites = report["drift"]["sites"].as_array().expect("sites");
    let name =
        |row: &Value| report["sites"][row["site"].as_u64().unwrap() as usize]["name"].clone();
    let told: Vec<_> = sites
        .iter()
        .map(|row| (name(row), row["drifts"].clone()))
        .collect();
    assert_eq!(
        told,
        [
            ("World::spawn".into(), true.into()),
            ("Hud::show_label".into(), false.into())
        ]
    );
    let row = &sites[0];
    assert_eq!(
        float(row, "/last_mean_nanos") / float(row, "/first_mean_nanos"),
        2.0
    );
    assert!(float(row, "/noise_nanos") < 1.0);
}

/// 003-i and 003-j, as values.
#[test]
fn shared_lines_and_lines_an_object() {
    let scratch = furnished();
    let import = "heapreel import --from ops counters.ops -o c.hreel";
    assert_eq!(typed(import, scratch.path()).code, Some(0));
    let counters = json("sharing", &scratch.join("c.hreel"), &["--frame", "0"]);
    let pairs = counters["shared"].as_array().expect("pairs");
    assert_eq!((&counters["shared_lines"], pairs.len()), (&1.into(), 6));
    for pair in pairs {
        assert_ne!(pair["one"]["thread"], pair["other"]["thread"]);
        assert_eq!(
            (&pair["one"]["bytes"], &pair["other"]["bytes"]),
            (&16.into(), &16.into())
        );
    }
    // Half of a line of 32 bytes cannot hold all four; a header keeps them apart in pairs.
    let halves = json(
        "sharing",
        &scratch.join("c.hreel"),
        &["--frame", "0", "--line", "32"],
    );
    assert_eq!(halves["shared_lines"], 2);
    let apart = json("sharing", &scratch.join("c.hreel"), &["--frame", "1"]);
    assert_eq!(
        (&apart["shared_lines"], &apart["all"]["blocks"]),
        (&0.into(), &4.into())
    );
    assert_eq!(apart["new_in_frame"]["blocks"], 4);

    let trace = made(&scratch, "-f scattered.awk");
    let lines = |arguments: &[&str]| {
        let told = json("sharing", &trace, arguments);
        let sites = told["sites"].as_array().expect("sites").clone();
        let site = sites
            .into_iter()
            .find(|site| site["name"] == "Projectile::new");
        float(&site.expect("the site"), "/lines_a_block")
    };
    let layout = scratch.join("pool.toml");
    assert_eq!(lines(&["--model", "heap"]), 1.5);
    assert_eq!(lines(&["--layout", &layout.to_string_lossy()]), 0.75);
}
