//! What memory is for: contexts of C, C++ and Rust programs, to the byte.

mod support;

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::record::{Recording, assert_sound, heapreel, info, record, record_with};
use support::run::{plain, run};
use support::scratch::Scratch;
use support::undisturbed::last_line;
use support::{compile, number};

/// What a context holds by itself: live blocks, their bytes, instances.
type Held = (u64, u64, u64);

fn ask(trace: &Path, options: &[&str]) -> Value {
    let mut asked = heapreel();
    let ran = run(asked.arg("contexts").arg(trace).args(options).arg("--json"));
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{ran:?}");
    serde_json::from_str(&ran.stdout).expect("JSON")
}

fn contexts(told: &Value) -> &Vec<Value> {
    told["contexts"].as_array().expect("contexts")
}

/// By path, what a program itself held at its end.
fn held(trace: &Path) -> BTreeMap<String, Held> {
    let told = ask(trace, &["--at", "@\"end\""]);
    let row = |it: &Value| {
        let own = &it["own"];
        let held = (
            number(own, "live_blocks"),
            number(own, "live_bytes"),
            number(it, "instances"),
        );
        (it["path"].as_str().expect("a path").to_owned(), held)
    };
    let used = |(_, held): &(String, Held)| *held != (0, 0, 0);
    contexts(&told).iter().map(row).filter(used).collect()
}

fn expected(rows: &[(&str, Held)]) -> BTreeMap<String, Held> {
    rows.iter()
        .map(|(path, held)| ((*path).to_owned(), *held))
        .collect()
}

/// What the C library itself holds outside of any context is no business of ours.
fn without_outside(mut held: BTreeMap<String, Held>) -> BTreeMap<String, Held> {
    held.remove("(no context)");
    held
}

/// Live bytes outside of any context between two marks.
fn outside_between(trace: &Path) -> i64 {
    let at = |mark: &str| {
        let told = ask(trace, &["--at", mark]);
        number(&contexts(&told)[0]["own"], "live_bytes") as i64
    };
    at("@\"end\"") - at("@\"begin\"")
}

fn recorded(arguments: &[&str]) -> Option<Recording> {
    let program = compile::c("contexts.c")?;
    let recording = record(&program, arguments);
    assert_eq!(recording.ran.code, Some(7), "{:?}", recording.ran);
    assert_sound(&recording.info());
    Some(recording)
}

#[test]
fn contexts_nest_and_are_carried_to_a_thread() {
    let Some(recording) = recorded(&["nest"]) else {
        return;
    };
    let long = format!("user:x{}", "ä".repeat(255));
    let rows = [
        ("level:forest", (1, 1_000, 1)),
        (
            "level:forest / asset:rock_07",
            (5, 3 * 2_000 + 200 + 3_000, 4),
        ),
        ("level:forest / asset:rock_07 / system:physics", (1, 500, 1)),
        ("level:forest / asset:tree", (1, 2_000, 1)),
        (long.as_str(), (1, 11, 1)),
    ];
    assert_eq!(without_outside(held(&recording.trace)), expected(&rows));
    assert_eq!(number(&last_line(&recording), "evaluated"), 1);
    // 10 and 20 on the main thread, 40 and 60 on the other, whose own memory comes on top.
    assert!(outside_between(&recording.trace) >= 130);
}

/// Neither without the library nor with one that does not record.
#[test]
fn nothing_is_formatted_where_nothing_is_recorded() {
    let Some(program) = compile::c("contexts.c") else {
        return;
    };
    let mut idle = Command::new(&program);
    idle.arg("nest")
        .env("LD_PRELOAD", support::preload::library());
    for ran in [plain(&program, &["nest"]), run(&mut idle)] {
        assert_eq!(
            (ran.code, ran.stdout.trim()),
            (Some(7), "{\"evaluated\":0}")
        );
    }
}

#[test]
fn contexts_past_the_limit_count_for_the_one_around() {
    const LIMIT: u64 = 65_536;
    let Some(recording) = recorded(&["many", "66000"]) else {
        return;
    };
    // One of the limit is the level.
    let beyond = 66_000 - (LIMIT - 1);
    let told = ask(&recording.trace, &[]);
    assert_eq!(number(&told, "not_entered"), beyond);
    let level = &contexts(&told)[contexts(&told).len() - 1];
    let level = contexts(&told)
        .iter()
        .find(|it| it["path"] == "level:crowd")
        .unwrap_or(level);
    assert_eq!(number(&level["own"], "live_bytes"), beyond * 16);
    assert_eq!(number(&level["total"], "live_bytes"), 66_000 * 16);
    assert_eq!(number(level, "instances"), 1);
    let orcs = contexts(&told).iter().filter(|it| it["kind"] == "entity");
    let each = orcs.map(|it| (number(&it["own"], "live_bytes"), number(it, "instances")));
    assert_eq!(each.filter(|orc| *orc == (16, 1)).count() as u64, LIMIT - 1);
    let info = recording.info();
    assert_eq!(number(&info, "contexts_cut"), beyond);
    let text = run(heapreel().arg("info").arg(&recording.trace)).stdout;
    assert!(
        text.contains(&format!("not entered {beyond} times")),
        "{text}"
    );
}

#[test]
fn a_forked_child_is_outside_of_its_parents_contexts() {
    let Some(program) = compile::c("contexts.c") else {
        return;
    };
    let options = ["--no-symbols", "--keep-all"];
    let recording = record_with(&options, &program, &["fork"]);
    assert_eq!(recording.ran.code, Some(7), "{:?}", recording.ran);
    let traces = recording.scratch.traces();
    assert_eq!(traces.len(), 2, "{traces:?}");
    let facts: Vec<Value> = traces.iter().map(|trace| info(trace, &[])).collect();
    facts.iter().for_each(assert_sound);
    let of_child = usize::from(facts[1]["parent_pid"] == facts[0]["pid"]);
    assert_eq!(facts[of_child]["parent_pid"], facts[1 - of_child]["pid"]);
    let (child, parent) = (&traces[of_child], &traces[1 - of_child]);
    let parents = expected(&[
        ("level:forest", (1, 300, 1)),
        ("level:forest / asset:rock", (2, 100 + 200, 1)),
    ]);
    assert_eq!(without_outside(held(parent)), parents);
    let told = ask(child, &[]);
    let named: Vec<_> = contexts(&told)[1..]
        .iter()
        .filter(|it| number(it, "instances") > 0 || number(&it["total"], "allocations") > 0)
        .map(|it| (it["path"].as_str(), number(&it["own"], "live_bytes")))
        .collect();
    assert_eq!(named, [(Some("asset:child's"), 700)]);
    let outside = number(&contexts(&told)[0]["own"], "live_bytes");
    assert!(outside >= 5_000 + 6_000 + 300 + 400, "{told}");
}

#[test]
fn a_handler_may_enter_contexts_at_any_instruction() {
    let Some(recording) = recorded(&["signals"]) else {
        return;
    };
    let line = last_line(&recording);
    let told = ask(&recording.trace, &["--at", "@\"end\""]);
    let instances = |kind: &str| -> u64 {
        let of_kind = contexts(&told).iter().filter(|it| it["kind"] == kind);
        of_kind.map(|it| number(it, "instances")).sum()
    };
    assert_eq!(instances("system"), number(&line, "ticks"));
    assert_eq!(instances("entity"), number(&line, "rounds"));
    // Each block was made in an orc's context, whatever came in between.
    let orcs = contexts(&told).iter().filter(|it| it["kind"] == "entity");
    let own: u64 = orcs.map(|it| number(&it["own"], "allocations")).sum();
    assert_eq!(own, number(&line, "rounds"));
    let outermost = |it: &&Value| it["kind"] == "entity" && number(it, "depth") == 1;
    let depth_1 = contexts(&told).iter().filter(outermost).count();
    assert_eq!(depth_1, 3_000);
}

#[test]
fn scopes_of_cpp_end_with_their_block() {
    let Some(program) = compile::cpp("contexts.cpp") else {
        return;
    };
    let recording = record(&program, &[""; 0]);
    assert_eq!(recording.ran.code, Some(7), "{:?}", recording.ran);
    let rows = [
        ("level:forest", (2, 1_000 + 1, 1)),
        ("level:forest / asset:rock", (2, 2_000 + 500, 1)),
        ("level:forest / system:loader 3", (1, 30, 1)),
    ];
    let mut held = without_outside(held(&recording.trace));
    // The thread and what was thrown are the C++ library's own.
    let level = held.get_mut("level:forest").expect("the level");
    assert!(level.0 >= 2 && level.1 >= 1_001, "{level:?}");
    *level = (2, 1_001, 1);
    held.retain(|path, _| rows.iter().any(|(known, _)| known == path));
    assert_eq!(held, expected(&rows));
}

/// The header with the strictest of compilers, enabled and left out.
#[test]
fn the_header_compiles_without_a_warning() {
    let flags = [
        "-Wall",
        "-Wextra",
        "-pedantic",
        "-Wshadow",
        "-Werror",
        "-fsyntax-only",
    ];
    let use_all = |language: &str| {
        let scope = match language {
            "c" => "",
            _ => {
                "HEAPREEL_CONTEXT(\"a\", \"b\");\nHEAPREEL_CONTEXT(\"a\", \"%d\", 1);\nHEAPREEL_CONTEXT_RESUME(here);"
            }
        };
        format!(
            "#include \"heapreel.h\"\nvoid work(const char *name);\nvoid work(const char *name) {{\n\
             uint64_t here = HEAPREEL_CONTEXT_CURRENT();\n\
             uint64_t a = HEAPREEL_CONTEXT_BEGIN(\"asset\", \"%s\", name);\n\
             uint64_t b = HEAPREEL_CONTEXT_BEGIN(\"asset\", \"plain\");\n\
             uint64_t c = HEAPREEL_CONTEXT_ENTER(here);\n{scope}\n\
             HEAPREEL_CONTEXT_LEAVE(c);\nHEAPREEL_CONTEXT_END(b);\nHEAPREEL_CONTEXT_END(a);\n}}\n"
        )
    };
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recorder/include");
    let scratch = Scratch::new();
    for (compiler, standard, language) in [
        ("cc", "-std=c99", "c"),
        ("cc", "-std=c11", "c"),
        ("c++", "-std=c++11", "cpp"),
        ("c++", "-std=c++17", "cpp"),
    ] {
        let source: PathBuf = scratch.join(&format!("header.{language}"));
        std::fs::write(&source, use_all(language)).expect("a source");
        for disable in ["-DENABLED", "-DHEAPREEL_DISABLE"] {
            let mut command = Command::new(compiler);
            command.args([standard, disable]).args(flags);
            command.arg("-I").arg(&header).arg(&source);
            let Ok(output) = command.output() else {
                compile::skipped(&format!("no {compiler}"));
                continue;
            };
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{command:?}: {told}");
        }
    }
}

/// skirmish's openworld by itself, and under the preload library, which the crate within
/// passes its contexts on to.
#[test]
fn live_bytes_of_each_asset_are_the_games_own() {
    for is_wrapped in [false, true] {
        let scratch = Scratch::new();
        let (trace, truth) = (scratch.join("t.hreel"), scratch.join("truth.json"));
        let game = compile::example("skirmish");
        let mut command = if is_wrapped {
            support::record::record_command(&trace, &["--no-symbols"], &game)
        } else {
            let mut command = Command::new(&game);
            command.env_clear().env("HEAPREEL_OUT", &trace);
            command
        };
        command.args(["openworld", "--frames", "200"]);
        let ran = run(command.arg("--truth").arg(&truth));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let truth = std::fs::read(&truth).expect("the truth");
        let truth: Value = serde_json::from_slice(&truth).expect("JSON");
        assert_assets(&trace, &truth["facts"]);
    }
}

fn assert_assets(trace: &Path, facts: &Value) {
    let told = ask(trace, &["--kind", "asset", "--at", "@\"truth\""]);
    let assets = facts["assets"].as_array().expect("assets");
    let mut loaded = 0;
    for asset in assets {
        let name = asset["name"].as_str().expect("a name");
        let known = contexts(&told).iter().find(|it| it["name"] == name);
        let (blocks, bytes, instances) = known.map_or((0, 0, 0), |it| {
            let own = &it["total"];
            let instances = number(it, "instances");
            (
                number(own, "live_blocks"),
                number(own, "live_bytes"),
                instances,
            )
        });
        assert_eq!(
            bytes,
            number(asset, "live_bytes"),
            "{name} in {}",
            trace.display()
        );
        assert_eq!(blocks, number(asset, "live_blocks"), "{name}");
        assert_eq!(instances, number(asset, "loads"), "{name}");
        loaded += u64::from(bytes > 0);
    }
    assert!(loaded > 50, "{loaded}");
    // In the tree of all, every asset lies in the level that it was loaded for.
    let all = ask(trace, &["--at", "@\"truth\""]);
    assert!(contexts(&all).iter().all(|it| it["name"] != "(unknown)"));
    let path = |it: &&Value| it["kind"] == "asset";
    let in_level = |it: &Value| {
        let path = it["path"].as_str().expect("a path");
        path.starts_with("level:archipelago / asset:")
    };
    assert!(contexts(&all).iter().filter(path).all(in_level));
}

#[test]
fn a_trace_without_contexts_tells_how_to_get_some() {
    let Some(program) = compile::c("hello.c") else {
        return;
    };
    let recording = record(&program, &[""; 0]);
    let told = ask(&recording.trace, &[]);
    assert!(contexts(&told).is_empty());
    let text = run(heapreel().arg("contexts").arg(&recording.trace)).stdout;
    assert!(
        text.contains("heapreel::context!(\"asset\", name)"),
        "{text}"
    );
    assert!(text.contains("HEAPREEL_CONTEXT_BEGIN"), "{text}");
}

#[test]
fn reports_show_contexts_and_unknown_kinds_suggest_one() {
    let Some(recording) = recorded(&["nest"]) else {
        return;
    };
    let trace = &recording.trace;
    let show = |arguments: &[&str]| run(heapreel().args(arguments).arg(trace));
    let tree = show(&["contexts"]).stdout;
    assert!(tree.contains("└ system:physics"), "{tree}");
    let limited = show(&["contexts", "--limit", "1"]).stdout;
    assert!(limited.contains("more; --limit 0 shows all"), "{limited}");
    let flat = show(&["contexts", "--flat", "--sort", "instances", "--markdown"]).stdout;
    assert!(
        flat.contains("| level:forest / asset:rock\\_07 | 4 |"),
        "{flat}"
    );
    let report = show(&["report"]).stdout;
    assert!(
        report.contains("Contexts, each with all that are within it"),
        "{report}"
    );
    let leaks = show(&["leaks", "--limit", "0"]).stdout;
    assert!(
        leaks.contains("level:forest / asset:rock_07 (5.86 KiB in 3 blocks)"),
        "{leaks}"
    );
    let unknown = show(&["contexts", "--kind", "assets"]);
    assert_eq!(unknown.code, Some(2));
    let advice = "has no contexts of kind \"assets\"; did you mean \"asset\"?";
    assert!(unknown.stderr.contains(advice), "{}", unknown.stderr);
}
