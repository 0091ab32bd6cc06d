//! Damaged, forbidden and missing things where the recorder would put its own.

use crate::case::{Case, WAYS, Way};
use crate::support::compile;
use std::fs;

/// Others' leftovers in shared memory: folders and spills of processes that are gone, and
/// what only looks like one.
#[test]
fn leftovers_in_shared_memory() {
    let case = Case::mounting(
        r#"
        mount -t tmpfs -o size=400m tmpfs /dev/shm
        mkdir /dev/shm/heapreel-4194305-00000000 /dev/shm/heapreel-4194306-00000000
        echo text > /dev/shm/heapreel-4194305-00000000/4194305-0a0b0c0d.spill
        truncate -s 2m /dev/shm/heapreel-4194305-0a0b0c0d.spill
        recorded "$OUT/t.hreel" 3 5000 4
        look "$OUT/t.hreel"
        ls -R /dev/shm > "$OUT/left"
        "#,
    );
    case.same_in(&WAYS, |way, outcome| {
        outcome.assert_untold();
        outcome.assert_whole();
        let left = fs::read_to_string(outcome.scratch.join("left")).unwrap();
        // What belongs to another trace stays; an empty folder goes.
        assert!(left.contains("4194305-0a0b0c0d.spill"), "{left}");
        let has_empty = left.contains("heapreel-4194306-00000000");
        assert_eq!(has_empty, way != Way::Wrapper, "{left}");
    });
}

/// Without a wrapper nothing that exists is written to, and nobody waits for a pipe's reader.
#[test]
fn an_output_that_exists() {
    for made in [
        "echo precious > \"$OUT/t.hreel\"",
        "mkdir \"$OUT/t.hreel\"",
        "mkfifo \"$OUT/t.hreel\"",
        "ln -s /dev/full \"$OUT/t.hreel\"",
        "ln -s nowhere \"$OUT/t.hreel\"",
    ] {
        let script = format!(
            "{made}\nrecorded \"$OUT/t.hreel\" 3 5000 4\nls -ld \"$OUT/t.hreel\" > \"$OUT/is\""
        );
        let case = Case::new(Box::leak(script.into_boxed_str()));
        for way in [Way::Alone, Way::Inside] {
            let Some((plain, outcome)) = case.run_both(way) else {
                return;
            };
            outcome.assert_same_as(&plain);
            outcome.assert_told_once(&["t.hreel", "File exists", "choose another name"]);
            let is = |of: &crate::case::Outcome| fs::read_to_string(of.scratch.join("is")).unwrap();
            assert_eq!(is(&outcome)[..1], is(&plain)[..1], "{made}");
        }
    }
}

/// `heapreel record` refuses before anything runs, and replaces what is no folder if it is told to.
#[test]
fn an_output_that_exists_for_the_wrapper() {
    for (made, force, advice) in [
        ("mkdir", "--force", "is a folder; name a file in it"),
        ("mkfifo", "", "--force"),
        ("ln -s nowhere", "", "--force"),
        ("mkfifo", "--force", ""),
        ("ln -s nowhere", "--force", ""),
    ] {
        let script = format!(
            "{made} \"$OUT/t.hreel\"\nOPTIONS={force}\nrecorded \"$OUT/t.hreel\" 3 5000 4\n[ -f \"$OUT/t.hreel\" ] && look \"$OUT/t.hreel\" || true"
        );
        let case = Case::new(Box::leak(script.into_boxed_str()));
        let Some(outcome) = case.run(Way::Wrapper) else {
            return;
        };
        if advice.is_empty() {
            assert_eq!(outcome.code, "7\n", "{}", outcome.stderr);
            outcome.assert_whole();
        } else {
            assert_eq!((&*outcome.code, &*outcome.stdout), ("2\n", ""));
            outcome.assert_told_once(&["t.hreel", advice]);
        }
    }
}

/// A folder that is not there.
#[test]
fn an_output_in_no_folder() {
    let case = Case::new(r#"recorded "$OUT/none/t.hreel" 3 5000 4"#);
    case.same_in(&[Way::Alone, Way::Inside], |_, outcome| {
        outcome.assert_told_once(&["none", "No such file", "make the folder first"]);
    });
}

/// No home, no temporary folder.
#[test]
fn an_environment_without_folders() {
    let case = Case::new(
        r#"
        unset HOME XDG_CACHE_HOME XDG_RUNTIME_DIR
        export TMPDIR=/nonexistent
        recorded "$OUT/t.hreel" 3 5000 4
        look "$OUT/t.hreel"
        "#,
    );
    case.same_in(&WAYS, |_, outcome| {
        outcome.assert_untold();
        outcome.assert_whole();
    });
}

/// The library is put where programs may be loaded from: not into a cache that forbids it or
/// takes nothing, but into the next place.
#[test]
fn a_cache_that_does_not_serve() {
    if std::env::var_os("HEAPREEL_PRELOAD_LIB").is_some() {
        return compile::skipped("a library is named by HEAPREEL_PRELOAD_LIB: none is written out");
    }
    for flags in ["noexec", "ro", "size=4k"] {
        let script = format!(
            r#"
            mkdir "$OUT/cache" "$OUT/runtime"
            mount -t tmpfs -o {flags} tmpfs "$OUT/cache"
            export XDG_CACHE_HOME="$OUT/cache" XDG_RUNTIME_DIR="$OUT/runtime"
            recorded "$OUT/t.hreel" 3 5000 4
            look "$OUT/t.hreel"
            find "$OUT/cache" "$OUT/runtime" -name '*.so*' > "$OUT/libraries"
            "#
        );
        let case = Case::mounting(Box::leak(script.into_boxed_str()));
        let Some((plain, outcome)) = case.run_both(Way::Wrapper) else {
            return;
        };
        outcome.assert_same_as(&plain);
        outcome.assert_untold();
        outcome.assert_whole();
        let libraries = fs::read_to_string(outcome.scratch.join("libraries")).unwrap();
        assert_eq!(libraries.lines().count(), 1, "{flags}: {libraries}");
        assert!(
            libraries.contains("/runtime/heapreel/"),
            "{flags}: {libraries}"
        );
    }
}
