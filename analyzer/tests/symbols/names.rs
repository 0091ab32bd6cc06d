//! Names without debug information.

use crate::build::*;
use heapreel_analyzer::symbols::{ModuleFile, ModuleOutcome, resolve_module};

#[test]
fn symbol_table_only() {
    let Some(program) = build("calls.c", &[]) else {
        return;
    };
    if !has_tool("strip") {
        return;
    }
    run("strip", &["--strip-debug", program.path()]);
    let (frames, resolved) = program.resolve("inlined", &nowhere());
    assert_eq!(summary(&frames), [("outer".to_owned(), None)]);
    let (frames, _) = program.resolve("local", &nowhere());
    assert_eq!(summary(&frames), [("only_local".to_owned(), None)]);
    let (frames, _) = program.resolve("last", &nowhere());
    assert_eq!(
        summary(&frames),
        [("last_call".to_owned(), None)],
        "not the function after it"
    );
    let file = program.file.clone();
    let wanted = ModuleOutcome::SymbolTableOnly {
        file,
        debug_file: None,
        exported_only: false,
        damage: None,
        verified: true,
    };
    assert_eq!(resolved.outcome, wanted);
    assert!(
        resolved
            .outcome
            .to_string()
            .ends_with("has no debug information: names without lines")
    );
}

#[test]
fn exported_names_of_a_stripped_file() {
    let Some(program) = build("calls.c", &["-rdynamic"]) else {
        return;
    };
    if !has_tool("strip") {
        return;
    }
    run("strip", &[program.path()]);
    let (frames, resolved) = program.resolve("inlined", &nowhere());
    assert_eq!(summary(&frames), [("outer".to_owned(), None)]);
    // Not exported: it must not get the name of an exported neighbour.
    let (frames, _) = program.resolve("local", &nowhere());
    assert_eq!(frames.len(), 1);
    assert!(frames[0].function.starts_with("sub_"), "{frames:?}");
    assert!(matches!(
        resolved.outcome,
        ModuleOutcome::SymbolTableOnly {
            exported_only: true,
            ..
        }
    ));
}

#[test]
fn functions_of_a_stripped_file_are_told_apart_by_their_start() {
    let Some(program) = build("calls.c", &[]) else {
        return;
    };
    if !has_tool("strip") || !has_tool("nm") {
        return;
    }
    let starts = starts_by_name(program.path());
    run("strip", &[program.path()]);
    for (call, function) in [
        ("inlined", "outer"),
        ("local", "only_local"),
        ("last", "last_call"),
    ] {
        let (frames, resolved) = program.resolve(call, &nowhere());
        let wanted = format!("sub_{:x}", starts[function]);
        assert_eq!(summary(&frames), [(wanted, None)]);
        let file = program.file.clone();
        assert_eq!(
            resolved.outcome,
            ModuleOutcome::StartsOnly {
                file,
                verified: true
            }
        );
    }
}

#[test]
fn a_stripped_program_gives_no_lines_of_a_symbol_it_does_not_contain() {
    let Some(program) = build("calls.c", &[]) else {
        return;
    };
    let module = ModuleFile {
        path: program.path(),
        build_id: BUILD_ID,
    };
    let resolved = resolve_module(&module, &[0, 1, 0x10, u64::MAX - 1], &nowhere());
    assert!(
        resolved.frames.iter().all(Vec::is_empty),
        "{:?}",
        resolved.frames
    );
}

fn starts_by_name(path: &str) -> std::collections::BTreeMap<String, u64> {
    let output = std::process::Command::new("nm")
        .arg(path)
        .output()
        .expect("nm was found before");
    let text = String::from_utf8(output.stdout).expect("text");
    let symbol = |line: &str| {
        let mut words = line.split(' ');
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        Some((words.nth(1)?.to_owned(), address))
    };
    text.lines().filter_map(symbol).collect()
}

#[test]
fn fedoras_symbol_table_within_a_stripped_file() {
    let Some(program) = build("calls.c", &[]) else {
        return;
    };
    if !has_tool("objcopy") || !has_tool("strip") || !has_tool("xz") {
        return;
    }
    let mini = program.beside("mini");
    let path = mini.to_str().expect("UTF-8");
    run(
        "objcopy",
        &["--strip-debug", "--only-keep-debug", program.path(), path],
    );
    run("xz", &[path]);
    run("strip", &[program.path()]);
    run(
        "objcopy",
        &[
            &format!("--add-section=.gnu_debugdata={path}.xz"),
            program.path(),
        ],
    );
    for (call, function) in [
        ("inlined", "outer"),
        ("local", "only_local"),
        ("last", "last_call"),
    ] {
        let (frames, resolved) = program.resolve(call, &nowhere());
        assert_eq!(
            summary(&frames),
            [(function.to_owned(), None)],
            "{}",
            resolved.outcome
        );
    }
}
