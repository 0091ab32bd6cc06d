//! Debug files apart from the program.

use crate::build::*;
use heapreel_analyzer::symbols::{ModuleOutcome, Options};
use std::path::{Path, PathBuf};

/// A program without debug information, and its debug file at `debug` in its folder.
fn separated(debug: &str) -> Option<(Program, PathBuf)> {
    separated_with(debug, &[])
}

fn separated_with(debug: &str, flags: &[&str]) -> Option<(Program, PathBuf)> {
    let program = build("calls.c", flags)?;
    if !has_tool("objcopy") || !has_tool("strip") {
        return None;
    }
    let debug = program.beside(debug);
    std::fs::create_dir_all(debug.parent()?).expect("a folder");
    run(
        "objcopy",
        &["--only-keep-debug", program.path(), debug.to_str()?],
    );
    run("strip", &[program.path()]);
    Some((program, debug))
}

fn add_link(program: &Program, debug: &Path) {
    let link = format!("--add-gnu-debuglink={}", debug.display());
    run("objcopy", &[&link, program.path()]);
}

#[track_caller]
fn assert_debug_file(program: &Program, options: &Options, debug: &Path) {
    let resolved = assert_all_levels(program, options);
    let debug_file = Some(debug.to_owned());
    let wanted = ModuleOutcome::Resolved {
        file: program.file.clone(),
        debug_file,
        has_lines: true,
        verified: true,
    };
    assert_eq!(resolved.outcome, wanted);
}

#[test]
fn by_build_id() {
    let Some((program, debug)) = separated("root/.build-id/ab/cdef0123.debug") else {
        return;
    };
    let options = Options {
        debug_roots: vec![program.beside("root")],
        ..nowhere()
    };
    assert_debug_file(&program, &options, &debug);
    // The same tree may be named as a folder to search.
    let options = Options {
        search: vec![program.beside("root")],
        ..nowhere()
    };
    assert_debug_file(&program, &options, &debug);
}

#[test]
fn compressed_debug_file_by_build_id() {
    let debug = "root/.build-id/ab/cdef0123.debug";
    let Some((program, debug)) = separated_with(debug, &["-gz=zlib"]) else {
        return;
    };
    let options = Options {
        debug_roots: vec![program.beside("root")],
        ..nowhere()
    };
    assert_debug_file(&program, &options, &debug);
}

#[test]
fn by_link_beside_the_program_and_below() {
    for place in ["calls.debug", ".debug/calls.debug"] {
        let Some((program, debug)) = separated(place) else {
            return;
        };
        add_link(&program, &debug);
        assert_debug_file(&program, &nowhere(), &debug);
    }
}

#[test]
fn by_link_in_the_tree_of_debug_files() {
    let Some((program, debug)) = separated("calls.debug") else {
        return;
    };
    add_link(&program, &debug);
    let folder = program.folder.path().canonicalize().expect("it exists");
    let root = program.beside("root");
    let inside = root.join(folder.strip_prefix("/").expect("absolute"));
    std::fs::create_dir_all(&inside).expect("a folder");
    let moved = inside.join("calls.debug");
    std::fs::rename(&debug, &moved).expect("same file system");
    let options = Options {
        debug_roots: vec![root],
        ..nowhere()
    };
    assert_debug_file(&program, &options, &moved);
}

#[test]
fn a_link_is_followed_only_to_the_file_that_it_means() {
    // Without build-ids in the files only the checksum tells.
    for is_changed in [false, true] {
        let Some((program, debug)) = separated("calls.debug") else {
            return;
        };
        for file in [program.path(), debug.to_str().expect("UTF-8")] {
            run("objcopy", &["--remove-section=.note.gnu.build-id", file]);
        }
        add_link(&program, &debug);
        if is_changed {
            let mut bytes = std::fs::read(&debug).expect("it was just written");
            bytes.push(0);
            std::fs::write(&debug, bytes).expect("it can be changed");
        }
        let module = heapreel_analyzer::symbols::ModuleFile {
            path: program.path(),
            build_id: &[],
        };
        let svma = program.returns["inlined"] - 1;
        let resolved = heapreel_analyzer::symbols::resolve_module(&module, &[svma], &nowhere());
        assert_eq!(
            resolved.frames[0].len(),
            if is_changed { 1 } else { 3 },
            "{}",
            resolved.outcome
        );
    }
}

#[test]
fn in_a_folder_that_was_named() {
    for place in [
        "symbols/calls.debug",
        "symbols/calls",
        "symbols/anything-at-all",
    ] {
        let Some((program, debug)) = separated(place) else {
            return;
        };
        let options = Options {
            search: vec![program.beside("symbols")],
            ..nowhere()
        };
        assert_debug_file(&program, &options, &debug);
    }
}

#[test]
fn the_program_itself_may_have_moved_or_gone() {
    let Some(mut program) = build("calls.c", &[]) else {
        return;
    };
    let folder = program.beside("moved");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::rename(&program.file, folder.join("renamed")).expect("same file system");
    let options = Options {
        search: vec![folder],
        ..nowhere()
    };
    assert_all_levels(&program, &options);
    // As the kernel names it when it was replaced while it ran.
    program.file = PathBuf::from(format!("{} (deleted)", program.path()));
    assert_all_levels(&program, &options);
}

#[test]
fn a_debug_file_serves_without_its_program() {
    let Some((program, debug)) = separated("root/.build-id/ab/cdef0123.debug") else {
        return;
    };
    std::fs::remove_file(&program.file).expect("it was built");
    let options = Options {
        debug_roots: vec![program.beside("root")],
        ..nowhere()
    };
    let resolved = assert_all_levels(&program, &options);
    let wanted = ModuleOutcome::Resolved {
        file: debug,
        debug_file: None,
        has_lines: true,
        verified: true,
    };
    assert_eq!(resolved.outcome, wanted);
}

#[test]
fn a_debug_file_of_another_build_is_refused() {
    let Some((program, debug)) = separated("root/.build-id/ab/cdef0123.debug") else {
        return;
    };
    let Some(other) = build("calls.c", &["-Wl,--build-id=0x1122334455"]) else {
        return;
    };
    std::fs::copy(&other.file, &debug).expect("it can be replaced");
    std::fs::copy(&other.file, program.beside("calls.debug")).expect("it can be written");
    add_link(&program, &program.beside("calls.debug"));
    let options = Options {
        debug_roots: vec![program.beside("root")],
        search: vec![program.folder.path().to_owned()],
        ..nowhere()
    };
    let (frames, resolved) = program.resolve("inlined", &options);
    assert!(
        frames.iter().all(|frame| frame.line.is_none()),
        "{frames:?}"
    );
    assert!(
        matches!(resolved.outcome, ModuleOutcome::StartsOnly { .. }),
        "{}",
        resolved.outcome
    );
}

#[test]
fn common_parts_moved_out_by_dwz() {
    let Some((program, debug)) = separated("calls.debug") else {
        return;
    };
    if !has_tool("dwz") {
        return;
    }
    add_link(&program, &debug);
    // Two files are needed for anything to be common.
    let twin = program.beside("twin.debug");
    std::fs::copy(&debug, &twin).expect("it can be copied");
    let common = program.beside("common.dwz");
    let paths = [common.as_path(), &debug, &twin].map(|path| path.to_str().expect("UTF-8"));
    run(
        "dwz",
        &["-m", paths[0], "-M", "common.dwz", paths[1], paths[2]],
    );
    assert!(common.exists(), "dwz found nothing in common");
    assert_debug_file(&program, &nowhere(), &debug);

    // In another folder it is found below a root, and missed if it is nowhere.
    let root = program.beside("root");
    std::fs::create_dir_all(root.join(".dwz")).expect("a folder");
    std::fs::rename(&common, root.join(".dwz/common.dwz")).expect("same file system");
    let options = Options {
        debug_roots: vec![root],
        ..nowhere()
    };
    assert_debug_file(&program, &options, &debug);
    let (frames, _) = program.resolve("inlined", &nowhere());
    assert!(
        frames.len() <= 1,
        "without the common part no level can be right: {frames:?}"
    );
}
