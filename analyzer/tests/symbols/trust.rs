//! Which files are used at all.

use crate::build::*;
use heapreel_analyzer::symbols::{
    ModuleFile, ModuleOutcome, NoFileReason, Options, resolve_module, resolve_modules,
};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

fn outcome(path: &str, build_id: &[u8], options: &Options) -> ModuleOutcome {
    let resolved = resolve_module(&ModuleFile { path, build_id }, &[0x1234], options);
    assert_eq!(resolved.frames, [vec![]], "no name may come from nowhere");
    resolved.outcome
}

#[test]
fn another_build_is_never_used() {
    let Some(program) = build("calls.c", &[]) else {
        return;
    };
    let module = ModuleFile {
        path: program.path(),
        build_id: &[0xab, 0xcd],
    };
    let options = Options {
        search: vec![program.folder.path().to_owned()],
        ..nowhere()
    };
    let resolved = resolve_module(&module, &[program.returns["inlined"] - 1], &options);
    assert_eq!(resolved.frames, [vec![]]);
    let wanted = ModuleOutcome::BuildIdDiffers {
        file: program.file.clone(),
        expected: vec![0xab, 0xcd],
        found: BUILD_ID.to_owned(),
    };
    assert_eq!(resolved.outcome, wanted);
    let text = format!(
        "{:?} is another build than the one recorded (build-id abcdef0123, recorded abcd)",
        program.file
    );
    assert_eq!(wanted.to_string(), text);
}

#[test]
fn a_file_that_lost_its_build_id_is_another_build() {
    let Some(program) = build("calls.c", &["-Wl,--build-id=none"]) else {
        return;
    };
    let (frames, resolved) = program.resolve("inlined", &nowhere());
    assert!(frames.is_empty());
    assert!(
        matches!(resolved.outcome, ModuleOutcome::BuildIdDiffers { ref found, .. } if found.is_empty())
    );
}

#[test]
fn without_a_build_id_the_date_decides() {
    let Some(program) = build("calls.c", &["-Wl,--build-id=none"]) else {
        return;
    };
    let module = ModuleFile {
        path: program.path(),
        build_id: &[],
    };
    let svmas = [program.returns["inlined"] - 1];
    let now = SystemTime::now() + Duration::from_secs(60);
    let options = |recorded_until| Options {
        recorded_until,
        ..nowhere()
    };
    for trusted in [None, Some(now)] {
        let resolved = resolve_module(&module, &svmas, &options(trusted));
        assert_eq!(resolved.frames[0].len(), 3);
        assert!(matches!(
            resolved.outcome,
            ModuleOutcome::Resolved {
                verified: false,
                ..
            }
        ));
        assert!(resolved.outcome.is_incomplete());
    }
    let before = Some(SystemTime::UNIX_EPOCH);
    let resolved = resolve_module(&module, &svmas, &options(before));
    assert_eq!(resolved.frames, [vec![]]);
    assert_eq!(
        resolved.outcome,
        ModuleOutcome::ChangedSince {
            file: program.file.clone()
        }
    );
}

#[test]
fn what_is_no_file() {
    for (path, reason) in [
        ("linux-vdso.so.1", NoFileReason::Vdso),
        ("[vdso]", NoFileReason::Vdso),
        ("[anon:jit]", NoFileReason::Anonymous),
        ("", NoFileReason::Anonymous),
        ("/memfd:code (deleted)", NoFileReason::Anonymous),
        ("/no/such/game (deleted)", NoFileReason::Deleted),
        ("/no/such/game", NoFileReason::Missing),
    ] {
        for build_id in [&[][..], BUILD_ID] {
            assert_eq!(
                outcome(path, build_id, &nowhere()),
                ModuleOutcome::NoFile { reason },
                "{path:?}"
            );
        }
    }
}

#[test]
fn what_cannot_be_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    std::fs::write(path("text"), "hello").expect("written");
    std::fs::write(path("empty"), "").expect("written");
    std::fs::write(path("32-bit"), b"\x7fELF\x01\x01\x01").expect("written");
    std::fs::write(path("cut"), b"\x7fELF\x02\x01\x01").expect("written");
    for (name, cause) in [
        ("text", "not an ELF file"),
        ("empty", "not an ELF file"),
        ("32-bit", "not a 64-bit little-endian ELF file"),
        (
            "cut",
            "damaged elf file: invalid elf header size or alignment",
        ),
        ("", "not a regular file"),
    ] {
        let path = path(name);
        let wanted = ModuleOutcome::Unreadable {
            file: PathBuf::from(&path),
            cause: cause.to_owned(),
        };
        assert_eq!(outcome(&path, &[], &nowhere()), wanted);
        assert_eq!(outcome(&path, BUILD_ID, &nowhere()), wanted);
    }
}

#[test]
fn after_the_deadline_addresses_are_counted_instead() {
    let Some(program) = build("calls.c", &[]) else {
        return;
    };
    let module = ModuleFile {
        path: program.path(),
        build_id: BUILD_ID,
    };
    let svmas = [program.returns["inlined"] - 1, program.returns["last"] - 1];
    let late = Options {
        deadline: Some(Instant::now()),
        ..nowhere()
    };
    let resolved = resolve_module(&module, &svmas, &late);
    assert_eq!(
        (resolved.skipped, resolved.frames),
        (2, vec![vec![], vec![]])
    );
    let early = Options {
        deadline: Some(Instant::now() + Duration::from_secs(3600)),
        ..nowhere()
    };
    assert_eq!(resolve_module(&module, &svmas, &early).skipped, 0);
}

#[test]
fn several_modules_at_once() {
    let (Some(one), Some(two)) = (build("calls.c", &[]), build("calls.cpp", &[])) else {
        return;
    };
    let (first, second) = (
        [one.returns["last"] - 1],
        [two.returns["inlined"] - 1, two.returns["hidden"] - 1],
    );
    let modules = [
        (
            ModuleFile {
                path: one.path(),
                build_id: BUILD_ID,
            },
            &first[..],
        ),
        (
            ModuleFile {
                path: "/no/such/library.so",
                build_id: &[],
            },
            &[][..],
        ),
        (
            ModuleFile {
                path: two.path(),
                build_id: BUILD_ID,
            },
            &second[..],
        ),
    ];
    let mut done = Vec::new();
    let resolved = resolve_modules(&modules, &nowhere(), |at| done.push(at));
    done.sort_unstable();
    assert_eq!(done, [0, 1, 2]);
    let levels: Vec<Vec<usize>> = resolved
        .iter()
        .map(|module| module.frames.iter().map(Vec::len).collect())
        .collect();
    assert_eq!(levels, [vec![1], vec![], vec![3, 1]]);
    assert!(resolve_modules(&[], &nowhere(), |_| {}).is_empty());
}
