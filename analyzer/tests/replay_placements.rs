//! Lists of operations become traces, and those replayed print what real allocators did.

mod support;

use std::path::{Path, PathBuf};
use support::record::heapreel;
use support::run::{Ran, run};
use support::scratch::Scratch;

/// A golden file: a list of operations, or what the real allocator answered.
fn golden(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.join("models/tests/golden").join(name)
}

fn imported(list: &Path, scratch: &Scratch) -> PathBuf {
    let trace = scratch.join("t.hreel");
    let ran = import(list, &trace);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    trace
}

fn import(list: &Path, trace: &Path) -> Ran {
    let mut command = heapreel();
    command.args(["import", "--from", "ops", "--force", "-o"]);
    run(command.arg(trace).arg(list))
}

fn placements(trace: &Path, model: &str) -> String {
    let mut command = heapreel();
    command.arg("replay").arg(trace);
    command.args(["--placements", "--checkpoints", "500", "--model", model]);
    let ran = run(&mut command);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{model}");
    ran.stdout
}

/// Says where two outputs part, rather than showing both.
fn assert_same(name: &str, got: &str, want: &str) {
    let mut lines = got.lines().zip(want.lines()).enumerate();
    if let Some((line, (got, want))) = lines.find(|(_, (got, want))| got != want) {
        panic!("{name}: line {}: {got:?}, the real one {want:?}", line + 1);
    }
    assert!(got == want, "{name}: one of them is shorter");
}

#[test]
fn every_golden_output_of_mimalloc_is_printed_to_the_byte() {
    let scratch = Scratch::new();
    let presets = [
        ("default", "mimalloc:2.0.3"),
        ("capcom4", "mimalloc:2.0.3-4mib"),
        ("capcom8", "mimalloc:2.0.3-8mib"),
    ];
    let mut compared = 0;
    for list in ["st", "mt", "ar"] {
        let trace = imported(&golden(&format!("{list}.trace")), &scratch);
        for (output, model) in presets {
            let name = format!("{list}.mi203-{output}.out");
            let Ok(want) = std::fs::read_to_string(golden(&name)) else {
                continue;
            };
            assert_same(&name, &placements(&trace, model), &want);
            compared += 1;
        }
    }
    assert_eq!(compared, 8, "golden files are missing");
}

#[test]
fn all_models_place_all_blocks_and_print_the_same_twice() {
    let scratch = Scratch::new();
    let list = golden("mt.trace");
    let wanted = std::fs::read_to_string(&list).unwrap();
    let wanted = wanted.lines().filter(|line| line.starts_with('a')).count();
    let trace = imported(&list, &scratch);
    for model in ["virtual:capcom8", "heap:best", "arena", "pool", "recorded"] {
        let first = placements(&trace, model);
        let lines = first.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(lines.count(), wanted, "{model}");
        let checkpoints = first.lines().filter(|line| line.starts_with('#'));
        assert_eq!(checkpoints.count(), 12, "{model}");
        assert_eq!(first, placements(&trace, model), "{model}");
    }
    let heap = placements(&trace, "heap:best");
    // The first payload lies behind its header; 1024 + 128 + 1024 + 256 + 64 MiB of five
    // segments are held from the start to the end.
    assert!(heap.starts_with("2000000020\n"), "{}", &heap[..20]);
    assert_eq!(heap.matches("# 2617245696\n").count(), 12);
    // An imported block's own address is made up: the first lies at 256 MiB.
    assert!(placements(&trace, "recorded").starts_with("10000000\n"));
}

#[test]
fn a_bad_list_is_refused_line_by_line() {
    let scratch = Scratch::new();
    let list = scratch.join("list.txt");
    std::fs::write(&list, "a 0 1 3\nf 0 9\nz\n").unwrap();
    let trace = scratch.join("t.hreel");
    let ran = import(&list, &trace);
    let name = list.display();
    assert_eq!(
        ran.stderr,
        format!(
            "heapreel: {name}: line 2: block 9 is not live here\n\
             heapreel: {name}: line 3: no operation \"z\"; there are a, A, r, f, x, t, m\n"
        )
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(!trace.exists());
}

#[test]
fn wrong_models_and_parameters_are_one_line() {
    let scratch = Scratch::new();
    let list = scratch.join("list.txt");
    std::fs::write(&list, "a 1 3\nf 1\n").unwrap();
    let trace = imported(&list, &scratch);
    for (words, expected) in [
        (
            &["--model", "hepa"][..],
            "no model \"hepa\"; there are heap, ",
        ),
        (
            &["--model", "virtual:x"],
            "no preset \"x\"; there are capcom8, ",
        ),
        (&["--model", "heap,heap"], "--model names heap twice"),
        (&[], "no model: name one by --model"),
        (&["--model", "layout"], "no layout: name a file"),
        (
            &["--model", "virtual", "--set", "virtual.lru=1"],
            "virtual: no parameter \"lru\"; there are slice, ",
        ),
        (
            &["--model", "virtual", "--set", "virtual.slice=3"],
            "virtual: slice cannot be \"3\": a power of two",
        ),
        (
            &["--model", "heap", "--layout", "none.toml"],
            "none.toml: No such file",
        ),
        (
            &["--placements", "--model", "heap,virtual"],
            "--placements prints one model's addresses; --model names 2",
        ),
    ] {
        let mut command = heapreel();
        let ran = run(command.arg("replay").arg(&trace).args(words));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{words:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{words:?}: {}", ran.stderr);
    }
}
