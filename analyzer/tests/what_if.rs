//! Traces replayed through models, as a user meets it.

mod support;

use heapreel_format::testing::{TraceBuilder, blank};
use heapreel_format::{
    ContextId, Definition, Entry, Event, EventKind, Rare, Role, SegmentId, ThreadId,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use support::record::heapreel;
use support::run::run;
use support::scratch::Scratch;

const MIB: u64 = 1 << 20;

/// What `heapreel COMMAND TRACE WORDS` prints.
#[track_caller]
fn stdout(command: &str, trace: &Path, words: &[&str]) -> String {
    let ran = run(heapreel().arg(command).arg(trace).args(words));
    let told = (ran.code, ran.stderr.as_str());
    assert_eq!(told, (Some(0), ""), "{command} {words:?}");
    ran.stdout
}

#[track_caller]
fn json(command: &str, trace: &Path, words: &[&str]) -> Value {
    let words: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
    serde_json::from_str(&stdout(command, trace, &words)).expect("JSON")
}

fn number(value: &Value, path: &str) -> u64 {
    let found = value.pointer(path).unwrap_or(&Value::Null);
    found.as_u64().unwrap_or_else(|| panic!("{path}: {found}"))
}

fn written(scratch: &Scratch, bytes: &[u8]) -> PathBuf {
    let path = scratch.join("t.hreel");
    std::fs::write(&path, bytes).unwrap();
    path
}

fn imported(scratch: &Scratch, list: &str) -> PathBuf {
    let (file, trace) = (scratch.join("list.txt"), scratch.join("t.hreel"));
    std::fs::write(&file, list).unwrap();
    let mut command = heapreel();
    command.args(["import", "--from", "ops", "--force"]);
    let ran = run(command.arg(file).arg("-o").arg(&trace));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    trace
}

fn sample(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.join("../traces").join(name)
}

/// The slide's picture: 16 blocks of 4 MiB, of which those under a dot are freed, then a
/// request for 24 MiB.
fn slide(picture: &str) -> String {
    let units = || (0..).zip(picture.chars());
    let mut list: String = units()
        .map(|(id, _)| format!("a {id} {}\n", 4 * MIB))
        .collect();
    for (id, unit) in units() {
        if unit == '.' {
            list += &format!("f {id}\n");
        }
    }
    list + &format!("a 100 {}\n", 24 * MIB)
}

#[test]
fn the_slides_heaps_fail_for_lack_of_a_contiguous_range_and_virtual_does_not() {
    for (picture, longest) in [("....U..U.U.U.U.U", 16), ("U.....U..U.U.U.U", 20)] {
        let scratch = Scratch::new();
        let trace = imported(&scratch, &slide(picture));
        let heap = [
            "--set",
            "heap.segments=Default=64MiB",
            "--set",
            "heap.header=0",
        ];
        let words = [&["--model", "heap,virtual"][..], &heap].concat();
        let replayed = json("replay", &trace, &words);
        let heap = &replayed["models"][0];
        assert_eq!(number(heap, "/tally/no_contiguous"), 1, "{picture}");
        assert_eq!(number(heap, "/end/used"), 24 * MIB);
        let failure = &heap["failures"][0];
        assert_eq!(failure["cause"], "no contiguous range");
        assert_eq!(failure["segment"], "Default");
        assert_eq!(number(failure, "/size"), 24 * MIB);
        assert_eq!(number(failure, "/free"), 40 * MIB);
        assert_eq!(number(failure, "/largest_free"), longest * MIB);
        let ranges = failure["free_sizes"].as_array().unwrap();
        let bytes = ranges
            .iter()
            .map(|class| number(class, "/bytes"))
            .sum::<u64>();
        assert_eq!(bytes, 40 * MIB);
        assert_eq!(number(&replayed, "/models/1/tally/failures"), 0);

        let compared = stdout("compare", &trace, &words);
        let compared = compared.split_whitespace().collect::<Vec<_>>().join(" ");
        let sentence = format!(
            "heap fails 1 request, virtual none; the first in frame 0: 24.0 MiB of Default, \
             no contiguous range, with 40.0 MiB free and {longest}.0 MiB in the longest range"
        );
        assert!(compared.contains(&sentence), "{compared}");
    }
}

#[test]
fn what_is_held_adds_up_for_every_model() {
    let trace = sample("openworld.hreel");
    let models = "heap,virtual,mimalloc,arena,pool,recorded";
    let replayed = json("replay", &trace, &["--model", models]);
    let reports = replayed["models"].as_array().unwrap();
    assert_eq!(reports.len(), 6);
    for report in reports {
        let name = report["model"].as_str().unwrap();
        let end = &report["end"];
        let [held, used] = ["/held", "/used"].map(|path| number(end, path));
        assert_eq!(
            held,
            used + number(end, "/meta") + number(end, "/free"),
            "{name}"
        );
        let waste = report["waste"].as_array().unwrap().iter();
        let waste: u64 = waste.map(|cause| number(cause, "/bytes")).sum();
        assert_eq!(waste, held - number(end, "/requested"), "{name}");
        assert!(number(report, "/peak_held") >= held, "{name}");
        assert!(!report["fidelity"].as_str().unwrap().is_empty(), "{name}");
    }
    assert_eq!(number(&replayed, "/fed/frames"), 119);
    // Blocks from before the recording: `heapreel info` counts them too.
    assert_eq!(number(&replayed, "/fed/unknown"), 12);
}

#[test]
fn models_side_by_side_do_what_each_does_alone() {
    let trace = sample("openworld.hreel");
    let models = ["heap:tlsf", "virtual:capcom4", "mimalloc", "heap:first"];
    let together = json("replay", &trace, &["--model", &models.join(",")]);
    for (at, model) in models.iter().enumerate() {
        let alone = json("replay", &trace, &["--model", model]);
        assert_eq!(alone["models"][0], together["models"][at], "{model}");
    }
}

#[test]
fn a_row_for_each_frame_counts_what_the_frame_table_counts() {
    let trace = sample("openworld.hreel");
    let columns = |csv: &str, names: &[&str]| -> Vec<Vec<String>> {
        let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let header = lines.next().unwrap();
        let at = |name: &&str| header.iter().position(|title| title == name);
        let at: Vec<_> = names.iter().map(|name| at(name).expect(name)).collect();
        let cells = |line: Vec<&str>| at.iter().map(|at| line[*at].to_owned()).collect();
        lines.map(cells).collect()
    };
    let names = ["frame", "allocations", "reallocations"];
    let frames = columns(&stdout("frames", &trace, &["--csv"]), &names);
    let replayed = stdout("replay", &trace, &["--model", "heap,virtual", "--csv"]);
    let replayed = columns(&replayed, &names);
    assert_eq!(frames.len(), 119);
    assert_eq!(replayed.len(), 2 * 119);
    assert!(replayed[..119] == frames[..] && replayed[119..] == frames[..]);
}

fn segment(id: u16, name: &'static str, budget: u64) -> Definition<'static> {
    Definition::Segment {
        id: SegmentId(id),
        name: name.into(),
        budget,
    }
}

/// Segment 2 is "Temp" with a budget of 1 MiB; three blocks of 400 KiB go there.
fn over_budget() -> Vec<u8> {
    let mut trace =
        TraceBuilder::new()
            .define(segment(2, "Temp", MIB))
            .stack(1, Entry::Malloc, &[0x1001]);
    for block in 0..3 {
        let at = 2_000 + block * 100;
        trace = trace.event(heapreel_format::Event {
            address: 0x10_0000 * (block + 1),
            size: 400 << 10,
            segment: SegmentId(2),
            stack: heapreel_format::StackId(1),
            ..heapreel_format::testing::blank(1, at, at + 10, heapreel_format::EventKind::Alloc)
        });
    }
    trace.free(1, 3_000, 3_010, 0x10_0000).bytes()
}

#[test]
fn budgets_of_the_trace_bound_a_heap_and_warn_a_virtual_one() {
    let scratch = Scratch::new();
    let trace = written(&scratch, &over_budget());
    let replayed = json("replay", &trace, &["--model", "heap,virtual"]);
    let [heap, virtual_memory] = [0, 1].map(|at| &replayed["models"][at]);
    assert_eq!(number(heap, "/tally/exhausted"), 1);
    assert_eq!(heap["failures"][0]["segment"], "Temp");
    assert_eq!(number(virtual_memory, "/tally/failures"), 0);
    let exceeded = &virtual_memory["exceeded"][0];
    assert_eq!(exceeded["segment"], "Temp");
    assert_eq!(number(exceeded, "/budget"), MIB);
    // Ticks are nanoseconds since 1000; a block's instant is the end of its call.
    assert_eq!(number(exceeded, "/from_nanos"), 1_210);
    assert_eq!(number(exceeded, "/until_nanos"), 2_000);

    let more = ["--model", "heap", "--set", "heap.segment.Temp=2MiB"];
    let replayed = json("replay", &trace, &more);
    assert_eq!(number(&replayed, "/models/0/tally/failures"), 0);
    let rows = replayed["models"][0]["segments"].as_array().unwrap();
    let temp = rows.iter().find(|row| row["name"] == "Temp").unwrap();
    assert_eq!(number(temp, "/budget"), 2 * MIB);
    assert_eq!(number(temp, "/blocks"), 2);
    assert_eq!(number(temp, "/requested"), 800 << 10);
}

#[test]
fn a_layout_sends_requests_by_rule_and_a_model_takes_the_rest() {
    let scratch = Scratch::new();
    let trace = written(&scratch, &over_budget());
    let file = scratch.join("heapreel.toml");
    let text = "
        [model.pool]
        block = \"1MiB\"
        [layout]
        default = \"general\"
        [layout.instance.general]
        model = \"heap\"
        [layout.instance.big]
        model = \"pool:fail\"
        set = { capacity = 2 }
        on_full = \"general\"
        [[layout.rule]]
        into = \"big\"
        segment = \"Temp\"
        size = \"100KiB..\"
    ";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let instances = |words: &[&str]| {
        let words = [words, &["--layout", file]].concat();
        let replayed = json("replay", &trace, &words);
        let rows = replayed["models"][0]["instances"].clone();
        let rows = rows.as_array().unwrap().clone();
        let facts = |row: &Value| {
            let name = row["name"].as_str().unwrap().to_owned();
            let numbers = ["/routed", "/given_away", "/end/blocks"];
            (name, numbers.map(|path| number(row, path)))
        };
        rows.iter().map(facts).collect::<Vec<_>>()
    };
    let expected = [
        ("general".to_owned(), [0, 0, 1]),
        ("big".to_owned(), [3, 1, 1]),
    ];
    assert_eq!(instances(&[]), expected);
    assert_eq!(instances(&["--model", "virtual"]), expected);
}

/// Threads 2 and 3 allocate; then thread 1, the program's first, goes on for so long.
fn silent_threads(nanos: u64) -> TraceBuilder {
    TraceBuilder::new()
        .stack(1, Entry::Malloc, &[0x1001])
        .alloc(2, 2_000, 2_010, 0x1000, 100, 1)
        .alloc(3, 2_000, 2_020, 0x2000, 100, 1)
        .alloc(1, 3_000, 3_010, 0x3000, 100, 1)
        .alloc(1, 4_000 + nanos, 4_010 + nanos, 0x4000, 100, 1)
}

#[test]
fn threads_that_fall_silent_leave_their_heaps() {
    let scratch = Scratch::new();
    let heaps = |trace: TraceBuilder| {
        let trace = written(&scratch, &trace.bytes());
        let replayed = json("replay", &trace, &["--model", "virtual"]);
        let report = &replayed["models"][0];
        let all = report["heaps"].as_array().unwrap().len() as u64;
        let left = number(report, "/abandoned_heaps");
        (all - left, left, number(&replayed, "/fed/silent_threads"))
    };
    assert_eq!(heaps(silent_threads(2_000_000_000)), (1, 2, 2));
    assert_eq!(heaps(silent_threads(900_000_000)), (3, 0, 0));
    let told = silent_threads(0).rare(3, 3_500, Rare::ThreadExit);
    assert_eq!(heaps(told), (2, 1, 0));
}

#[test]
fn threads_of_the_background_share_a_heap() {
    let background = |thread| Definition::ThreadRole {
        id: ThreadId(thread),
        role: Role::Background,
    };
    let scratch = Scratch::new();
    let trace = silent_threads(0)
        .define(background(2))
        .define(background(3));
    let trace = written(&scratch, &trace.bytes());
    let replayed = json("replay", &trace, &["--model", "virtual"]);
    let heaps = replayed["models"][0]["heaps"].as_array().unwrap();
    let kinds: Vec<_> = heaps
        .iter()
        .map(|heap| heap["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["shared", "own"]);
}

#[test]
fn a_damaged_trace_is_replayed_and_said_to_be() {
    let scratch = Scratch::new();
    let bytes = std::fs::read(sample("openworld.hreel")).unwrap();
    let trace = written(&scratch, &bytes[..bytes.len() / 2]);
    let ran = run(heapreel()
        .arg("replay")
        .arg(&trace)
        .args(["--model", "heap"]));
    assert_eq!(ran.code, Some(2));
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("lower bounds"), "{}", ran.stderr);
    assert!(ran.stdout.contains("most requested"), "{}", ran.stdout);
}

#[test]
fn a_sweep_is_the_replays_of_all_combinations() {
    let trace = sample("openworld.hreel");
    let vary = [
        "--vary",
        "virtual.slice_shift=14..16",
        "--vary",
        "virtual.lru_entries=0,64",
    ];
    let swept = json("sweep", &trace, &vary);
    let rows = swept["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        let [shift, entries] = [0, 1].map(|at| row["values"][at].as_str().unwrap());
        let shift = format!("virtual.slice_shift={shift}");
        let entries = format!("virtual.lru_entries={entries}");
        let words = ["--model", "virtual", "--set", &shift, "--set", &entries];
        let alone = json("replay", &trace, &words);
        let alone = &alone["models"][0];
        assert_eq!(row["peak_held"], alone["peak_held"]);
        assert_eq!(row["mean_waste"], alone["mean_waste"]);
        assert_eq!(row["failures"], alone["tally"]["failures"]);
    }
    assert!(rows.iter().any(|row| row["best"] == true));
    for row in rows {
        assert_eq!(row["best"] == true, !row["at_peak"].is_null());
    }
}

#[test]
fn a_sweep_names_the_sizes_that_decide() {
    let scratch = Scratch::new();
    let trace = TraceBuilder::new()
        .alloc(1, 2_000, 2_010, 0x1000, 100, 0)
        .alloc(1, 2_020, 2_030, 0x2000, 100, 0)
        .alloc(1, 2_040, 2_050, 0x3000, 1_000, 0)
        .free(1, 2_060, 2_070, 0x1000);
    let trace = written(&scratch, &trace.bytes());
    let vary = [
        "--model",
        "heap",
        "--set",
        "heap.segments=Default=64KiB",
        "--vary",
        "heap.header=16,32",
    ];
    let swept = json("sweep", &trace, &vary);
    // Blocks are rounded up to 16 bytes and have a header each.
    let class = |from: u64, to: u64, blocks: u64, size: u64, header: u64| {
        serde_json::json!({
            "from": from,
            "to": to,
            "blocks": blocks,
            "requested": blocks * size,
            "held": blocks * (size.next_multiple_of(16) + header),
        })
    };
    for (row, header) in [(0, 16), (1, 32)] {
        let held = &swept["rows"][row]["at_peak"];
        let small = class(97, 112, 2, 100, header);
        let great = class(897, 1_024, 1, 1_000, header);
        assert_eq!(held["classes"], serde_json::json!([small, great]));
        let for_blocks = 2 * (112 + header) + 1_008 + header;
        assert_eq!(held["idle"], 65_536 - for_blocks);
    }
    let mut command = heapreel();
    let told = run(command.arg("sweep").arg(&trace).args(vary)).stdout;
    let at = |words: &str| {
        told.find(words)
            .unwrap_or_else(|| panic!("{words}: {told}"))
    };
    // Two blocks make twice the difference of one.
    assert!(at("97..112 B") < at("897..1,024 B"));
}

#[test]
fn rules_see_segments_contexts_phases_sites_and_threads() {
    let scratch = Scratch::new();
    let name = |id: u32, text: &'static str| Definition::Name {
        id: heapreel_format::NameId(id),
        text: text.into(),
    };
    let thread = Definition::ThreadName {
        id: ThreadId(2),
        name: "audio".into(),
    };
    let trace = TraceBuilder::new()
        .define(name(1, "loading"))
        .define(thread)
        .stack(1, Entry::Malloc, &[0x1001])
        .frame_mark(1, 1_500, 0)
        .alloc(1, 2_000, 2_010, 0x1000, 100, 1)
        .frame_mark(1, 2_500, 0)
        .rare(
            1,
            2_600,
            Rare::PhaseBegin {
                name: heapreel_format::NameId(1),
            },
        )
        .alloc(1, 2_700, 2_710, 0x2000, 100, 1)
        .alloc(2, 2_700, 2_720, 0x3000, 100, 1)
        .rare(
            1,
            2_800,
            Rare::PhaseEnd {
                name: heapreel_format::NameId(1),
            },
        )
        .frame_mark(1, 3_000, 0)
        .alloc(1, 3_100, 3_110, 0x4000, 100, 1);
    let trace = written(&scratch, &trace.bytes());
    let routed = |rule: &str| routed(&scratch, &trace, rule);
    assert_eq!(routed("phase = \"load*\""), 2);
    assert_eq!(routed("thread = \"audio\""), 1);
    assert_eq!(routed("frames = \"0..1\""), 1);
    assert_eq!(routed("segment = \"Default\""), 4);
    assert_eq!(routed("site = \"0x1001\""), 4);
    assert_eq!(routed("site = \"nobody\""), 0);
}

/// How many allocations a rule sends to an instance of its own.
fn routed(scratch: &Scratch, trace: &Path, rule: &str) -> u64 {
    let file = scratch.join("heapreel.toml");
    let text = format!(
        "[layout]\ndefault = \"general\"\ninstance.general.model = \"heap\"\n\
         instance.other.model = \"virtual\"\n[[layout.rule]]\ninto = \"other\"\n{rule}\n"
    );
    std::fs::write(&file, text).unwrap();
    let replayed = json("replay", trace, &["--layout", file.to_str().unwrap()]);
    number(&replayed, "/models/0/instances/1/routed")
}

/// Four blocks: freed before the first mark, freed in their frame, after two marks, never;
/// and one that is resized on its way.
#[test]
fn rules_know_how_long_blocks_will_live() {
    let scratch = Scratch::new();
    let trace = TraceBuilder::new()
        .stack(1, Entry::Malloc, &[0x1001])
        .alloc(1, 1_000, 1_010, 0x1000, 10, 1)
        .free(1, 1_100, 1_110, 0x1000)
        .frame_mark(1, 1_500, 0)
        .alloc(1, 2_000, 2_010, 0x1000, 20, 1)
        .alloc(1, 2_100, 2_110, 0x2000, 30, 1)
        .alloc(1, 2_200, 2_210, 0x3000, 40, 1)
        .alloc(1, 2_300, 2_310, 0x4000, 50, 1)
        .free(2, 2_400, 2_410, 0x1000)
        .frame_mark(1, 2_500, 0)
        .realloc(1, 2_600, 2_610, 0x4000, 0x5000, 500, 1)
        .frame_mark(1, 3_500, 0)
        .free(1, 3_600, 3_610, 0x2000)
        .frame_mark(1, 4_500, 0)
        .free(1, 4_600, 4_610, 0x5000);
    let trace = written(&scratch, &trace.bytes());
    for (lifetime, blocks) in [
        ("0", 2),
        ("1", 0),
        ("2", 1),
        ("3", 1),
        ("\"..=2\"", 3),
        ("\"3..\"", 2),
        ("\"permanent\"", 1),
    ] {
        let rule = format!("lifetime = {lifetime}");
        assert_eq!(routed(&scratch, &trace, &rule), blocks, "{rule}");
    }
}

#[test]
fn rules_see_the_kinds_of_contexts() {
    let scratch = Scratch::new();
    let context = |id, parent, kind: &'static str, name: &'static str| Definition::Context {
        id: ContextId(id),
        parent: ContextId(parent),
        kind: kind.into(),
        name: name.into(),
    };
    let block = |key: u64, context| Event {
        address: key << 8,
        size: 100,
        context: ContextId(context),
        ..blank(1, key, key + 10, EventKind::Alloc)
    };
    let trace = TraceBuilder::new()
        .define(context(1, 0, "level", "forest"))
        .define(context(2, 1, "asset", "rock_07"))
        .event(block(1_000, 0))
        .event(block(1_100, 1))
        .event(block(1_200, 2));
    let trace = written(&scratch, &trace.bytes());
    for (tag, blocks) in [
        ("level", 2),
        ("asset", 1),
        ("asset:rock_*", 1),
        ("level:forest", 2),
        ("forest", 0),
    ] {
        let rule = format!("tag = \"{tag}\"");
        assert_eq!(routed(&scratch, &trace, &rule), blocks, "{rule}");
    }
}

/// What the instances lose and why, each for itself and all together.
#[test]
fn a_layout_tells_its_instances_waste_by_cause() {
    let scratch = Scratch::new();
    let rules = scratch.join("heapreel.toml");
    let text = "[layout]\ndefault = \"general\"\n\
         [layout.instance.general]\nmodel = \"heap\"\nset = { segments = \"Default=64MiB\" }\n\
         [layout.instance.paged]\nmodel = \"virtual\"\n\
         [[layout.rule]]\ninto = \"paged\"\nsize = \"..=4KiB\"\n";
    std::fs::write(&rules, text).unwrap();
    let trace = sample("leak.hreel");
    let words = ["--layout", rules.to_str().unwrap()];
    let replayed = json("replay", &trace, &words);
    let report = &replayed["models"][0];
    let causes = |of: &Value| -> BTreeMap<String, u64> {
        let rows = of["waste"].as_array().unwrap().iter();
        rows.map(|row| {
            let cause = row["cause"].as_str().unwrap().to_owned();
            (cause, number(row, "/bytes"))
        })
        .collect()
    };
    let mut sum = BTreeMap::new();
    for instance in report["instances"].as_array().unwrap() {
        let its = causes(instance);
        let end = |path| number(&instance["end"], path);
        let lost = its.values().sum::<u64>();
        assert_eq!(lost, end("/held") - end("/requested"), "{instance}");
        assert!(number(instance, "/peak_used") >= end("/used"), "{instance}");
        its.into_iter()
            .for_each(|(cause, bytes)| *sum.entry(cause).or_insert(0) += bytes);
    }
    assert_eq!(causes(report), sum);
    // Of the heap and of the pages.
    assert!(sum["free"] > 60 << 20 && sum["page tails"] > 0, "{sum:?}");
    let text = stdout("replay", &trace, &words);
    assert!(text.contains("page tails") && text.contains("most used"));
}

/// The example of docs/models.md: threads of a name go to an instance of their own.
#[test]
fn the_rules_for_a_game_without_segments_are_read() {
    let scratch = Scratch::new();
    let trace = TraceBuilder::new()
        .stack(1, Entry::Malloc, &[0x1001])
        .define(Definition::ThreadName {
            id: ThreadId(2),
            name: "ottd:savegame".into(),
        })
        .alloc(1, 1_000, 1_010, 0x1000, 100, 1)
        .alloc(2, 2_000, 2_010, 0x2000, 4 << 20, 1);
    let trace = written(&scratch, &trace.bytes());
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openttd.toml");
    let replayed = json("replay", &trace, &["--layout", rules]);
    let rows = replayed["models"][0]["instances"].as_array().unwrap();
    let routed = rows
        .iter()
        .map(|row| (row["name"].as_str(), number(row, "/routed")));
    let names = ["general", "savegame", "text", "view"].map(Some);
    let expected = names.into_iter().zip([1, 1, 0, 0]);
    assert_eq!(routed.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}
