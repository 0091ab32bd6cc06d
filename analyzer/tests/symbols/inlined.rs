//! Functions, inlined levels and lines, from every kind of debug information.

use crate::build::*;
use heapreel_analyzer::symbols::{ModuleFile, ModuleOutcome, resolve_module, short_name};

/// Debug information of this version and packing gives all levels.
#[track_caller]
fn check_c(flags: &[&str]) {
    let Some(program) = build("calls.c", flags) else {
        return;
    };
    let resolved = assert_all_levels(&program, &nowhere());
    let file = program.file.clone();
    let wanted = ModuleOutcome::Resolved {
        file,
        debug_file: None,
        has_lines: true,
        verified: true,
    };
    assert_eq!(resolved.outcome, wanted);
    assert!(!resolved.outcome.is_incomplete());
}

#[test]
fn dwarf_5() {
    check_c(&["-gdwarf-5"]);
}

#[test]
fn dwarf_4() {
    check_c(&["-gdwarf-4"]);
}

#[test]
fn dwarf_3_and_2() {
    check_c(&["-gdwarf-3", "-gno-strict-dwarf"]);
    check_c(&["-gdwarf-2", "-gno-strict-dwarf"]);
}

#[test]
fn compressed_with_zlib() {
    check_c(&["-gz=zlib"]);
    check_c(&["-gz=zlib-gnu"]);
}

#[test]
fn compressed_with_zstd() {
    let Some(program) = build("calls.c", &[]) else {
        return;
    };
    if !has_tool("objcopy") {
        return;
    }
    if !try_run(
        "objcopy",
        &["--compress-debug-sections=zstd", program.path()],
    ) {
        return skip("this objcopy cannot compress with zstd");
    }
    assert_all_levels(&program, &nowhere());
}

#[test]
fn split_into_dwo_files() {
    check_c(&["-gsplit-dwarf", "-gdwarf-5"]);
    check_c(&["-gsplit-dwarf", "-gdwarf-4"]);
}

#[test]
fn split_and_packed() {
    let Some(program) = build("calls.c", &["-gsplit-dwarf", "-gdwarf-4"]) else {
        return;
    };
    if !has_tool("dwp") {
        return;
    }
    let package = program.beside("calls.dwp");
    run(
        "dwp",
        &["-e", program.path(), "-o", package.to_str().expect("UTF-8")],
    );
    std::fs::remove_file(program.beside("calls.dwo")).expect("the compiler wrote it");
    assert_all_levels(&program, &nowhere());
}

#[test]
fn the_line_is_that_of_the_call_and_not_of_what_follows() {
    let Some(program) = build("calls.c", &[]) else {
        return;
    };
    let module = ModuleFile {
        path: program.path(),
        build_id: BUILD_ID,
    };
    let resolve = |svma| {
        resolve_module(&module, &[svma], &nowhere())
            .frames
            .remove(0)
    };

    let wanted = expected(&[("last_call", marked("calls.c", "last_call"))]);
    assert_eq!(summary(&resolve(program.returns["last"] - 1)), wanted);
    // The address itself is another place: otherwise this test would prove nothing.
    assert_ne!(summary(&resolve(program.returns["last"])), wanted);
    let local = expected(&[("only_local", marked("calls.c", "only_local"))]);
    assert_eq!(summary(&resolve(program.returns["local"] - 1)), local);
    assert_ne!(summary(&resolve(program.returns["local"])), local);
}

#[test]
fn many_addresses_keep_their_order() {
    let Some(program) = build("calls.c", &[]) else {
        return;
    };
    let module = ModuleFile {
        path: program.path(),
        build_id: BUILD_ID,
    };
    let (inlined, last) = (program.returns["inlined"] - 1, program.returns["last"] - 1);
    let resolved = resolve_module(&module, &[last, u64::MAX, inlined, 0, last], &nowhere());
    let names: Vec<Option<&str>> = resolved
        .frames
        .iter()
        .map(|frames| frames.last().map(|frame| frame.function.as_str()))
        .collect();
    assert_eq!(
        names,
        [
            Some("last_call"),
            None,
            Some("outer"),
            None,
            Some("last_call")
        ]
    );
}

#[test]
fn cpp() {
    for flags in [&["-gdwarf-5"], &["-gdwarf-4"]] {
        let Some(program) = build("calls.cpp", flags) else {
            return;
        };
        let line = |mark| marked("calls.cpp", mark);
        let (frames, _) = program.resolve("inlined", &nowhere());
        let wanted = [
            (
                "game::Cache<std::vector<int, std::allocator<int> > >::fill(std::vector<int, std::allocator<int> >)",
                line("fill"),
            ),
            ("game::TerrainTile::decode(int)", line("decode")),
            (
                "game::TerrainTile::load(std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > const&)",
                line("load"),
            ),
        ];
        assert_eq!(summary(&frames), expected(&wanted));
        let short: Vec<String> = frames
            .iter()
            .map(|frame| short_name(&frame.function))
            .collect();
        assert_eq!(
            short,
            [
                "game::Cache::fill",
                "game::TerrainTile::decode",
                "game::TerrainTile::load"
            ]
        );

        let (frames, _) = program.resolve("hidden", &nowhere());
        assert_eq!(
            summary(&frames),
            expected(&[("game::(anonymous namespace)::hidden()", line("hidden"))])
        );
        let (frames, _) = program.resolve("lambda", &nowhere());
        assert_eq!(
            summary(&frames),
            expected(&[(
                "main::{lambda(int)#1}::operator()(int) const",
                line("lambda")
            )])
        );
    }
}

#[test]
fn rust_legacy_and_v0() {
    for (mangling, load, closure) in [
        (
            "-Csymbol-mangling-version=legacy",
            "<calls::terrain::Tile<T> as calls::terrain::Load>::load",
            "calls::main::{{closure}}",
        ),
        (
            "-Csymbol-mangling-version=v0",
            "<calls::terrain::Tile<u64> as calls::terrain::Load>::load",
            "calls::main::{closure#0}",
        ),
    ] {
        // Legacy mangling is for nightly compilers only since v0 became the default.
        let unlocked = [mangling, "-Zunstable-options"];
        let is_legacy = mangling.ends_with("legacy");
        let Some(program) =
            build_rust(&[mangling]).or_else(|| is_legacy.then(|| build_rust(&unlocked))?)
        else {
            continue;
        };
        let line = |mark| marked("calls.rs", mark);
        let (frames, _) = program.resolve("inlined", &nowhere());
        let wanted = [
            ("calls::terrain::decode", line("decode")),
            ("calls::terrain::unpack", line("unpack")),
            (load, line("load")),
        ];
        assert_eq!(summary(&frames), expected(&wanted));
        assert_eq!(short_name(&frames[2].function), "<Tile as Load>::load");

        let (frames, _) = program.resolve("closure", &nowhere());
        assert_eq!(
            summary(&frames[..1]),
            expected(&[(closure, line("closure"))])
        );
        assert!(
            frames.len() > 1 && frames[1].function.starts_with("calls::call"),
            "{frames:?}"
        );
    }
}
