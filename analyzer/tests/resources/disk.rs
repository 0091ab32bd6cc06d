//! The disk is full, read-only, or gone.

use crate::case::{Case, Outcome, WAYS, Way};
use crate::support::number;

/// The trace takes what fits, and tells the rest.
#[test]
fn a_small_disk() {
    let case = Case::mounting(
        r#"
        mkdir "$OUT/disk"
        mount -t tmpfs -o size=4m tmpfs "$OUT/disk"
        steered "$OUT/disk/t.hreel" 3 60000 4
        begun "$OUT/disk/t.hreel"
        go_on; paused; go_on; paused; go_on
        ended
        look "$OUT/disk/t.hreel"
        [ "$WAY" = Plain ] || "$HEAPREEL" report "$OUT/disk/t.hreel" > "$OUT/report" || true
        "#,
    );
    case.same_in(&WAYS, |_, outcome| {
        outcome.assert_told_once(&["t.hreel: cannot be written", "No space left"]);
        let lost = outcome.assert_accounted();
        assert!(lost > 0, "{}", outcome.stderr);
        let report = std::fs::read_to_string(outcome.scratch.join("report")).unwrap();
        assert!(report.contains("could not be recorded"), "{report}");
    });
}

/// What comes after the disk has room again is recorded, with the definitions that could not
/// be written meanwhile.
#[test]
fn a_disk_that_has_room_again() {
    let case = Case::mounting(
        r#"
        mkdir "$OUT/disk"
        mount -t tmpfs -o size=32m tmpfs "$OUT/disk"
        steered "$OUT/disk/t.hreel" 3 60000 4
        begun "$OUT/disk/t.hreel"
        head -c 64m /dev/zero > "$OUT/disk/filling" 2> /dev/null || true
        go_on; paused
        rm "$OUT/disk/filling"
        go_on; paused; go_on
        ended
        look "$OUT/disk/t.hreel"
        cp "$OUT/disk/t.hreel" "$OUT/copy.hreel" 2> /dev/null || true
        "#,
    );
    case.same_in(&WAYS, |_, outcome| {
        outcome.assert_told_once(&["t.hreel: cannot be written", "No space left"]);
        let (_, work) = outcome.infos();
        assert!(outcome.assert_accounted() > 0);
        // The last stretch, at least, is there.
        assert!(number(&work, "allocations") >= 60_000 * 4, "{work}");
        assert_backtraces_are_known(outcome);
    });
}

/// No event of the trace has a backtrace that the trace does not define.
fn assert_backtraces_are_known(outcome: &Outcome) {
    let trace = heapreel_format::Trace::open(&outcome.scratch.join("copy.hreel")).unwrap();
    for entry in trace.chunks() {
        for event in trace.decode(entry).unwrap().events {
            let stack = event.stack;
            let is_known = stack.0 == 0 || trace.definitions().stacks.contains_key(&stack);
            assert!(is_known, "{:?}: {stack:?}", outcome.way);
        }
    }
}

/// Not even the file's header fits.
#[test]
fn a_disk_without_any_room() {
    let case = Case::mounting(
        r#"
        mkdir "$OUT/disk"
        mount -t tmpfs -o size=64k tmpfs "$OUT/disk"
        head -c 1m /dev/zero > "$OUT/disk/filling" 2> /dev/null || true
        recorded "$OUT/disk/t.hreel" 3 20000 4
        ls "$OUT/disk" > "$OUT/left"
        "#,
    );
    case.same_in(&WAYS, |way, outcome| {
        outcome.assert_told_once(&["No space left", "disk"]);
        let left = std::fs::read_to_string(outcome.scratch.join("left")).unwrap();
        assert_eq!(left, "filling\n", "{way:?}: nothing that cannot be read");
    });
}

#[test]
fn a_folder_that_may_not_be_written_to() {
    let case = Case::mounting(
        r#"
        mkdir "$OUT/disk"
        mount -t tmpfs -o ro tmpfs "$OUT/disk"
        recorded "$OUT/disk/t.hreel" 3 5000 4
        "#,
    );
    case.same_in(&WAYS, |_, outcome| {
        outcome.assert_told_once(&["disk", "trace can", "Read-only file system"]);
    });
}

#[test]
fn a_folder_that_is_removed_while_it_is_written_to() {
    let case = Case::new(
        r#"
        mkdir "$OUT/disk"
        steered "$OUT/disk/t.hreel" 3 60000 4
        go_on; paused
        rm -r "$OUT/disk"
        go_on; paused; go_on
        ended
        ls /dev/shm > "$OUT/left"
        echo $job > "$OUT/job"
        "#,
    );
    case.same_in(&WAYS, |way, outcome| {
        outcome.assert_told_once(&["t.hreel", "the file was removed"]);
        let read = |name| std::fs::read_to_string(outcome.scratch.join(name)).unwrap();
        let own = format!("heapreel-{}-", read("job").trim());
        assert!(!read("left").contains(&own), "{way:?}: {}", read("left"));
    });
}

/// A limit on file sizes: the trace ends below it, and nobody gets a signal.
#[test]
fn a_limit_on_file_sizes() {
    let case = Case {
        limits: "fsize=3000000",
        ..Case::new(
            r#"
            steered "$OUT/t.hreel" 3 100000 4
            begun "$OUT/t.hreel"
            go_on; paused; go_on; paused; go_on
            ended
            look "$OUT/t.hreel"
            "#,
        )
    };
    case.same_in(&[Way::Alone, Way::Inside], |_, outcome| {
        outcome.assert_told_once(&["t.hreel: cannot be written", "File too large"]);
        assert!(outcome.assert_accounted() > 0);
    });
}

/// The wrapper is under the same limit as the program that it starts.
#[test]
fn a_limit_on_the_wrappers_file_sizes() {
    let case = Case::new(
        r#"
        ulimit -S -f 6000
        steered "$OUT/t.hreel" 3 100000 4
        begun "$OUT/t.hreel"
        go_on; paused; go_on; paused; go_on
        ended
        ulimit -S -f unlimited
        look "$OUT/t.hreel"
        "#,
    );
    let Some((plain, outcome)) = case.run_both(Way::Wrapper) else {
        return;
    };
    outcome.assert_same_as(&plain);
    outcome.assert_told_once(&["cannot be written", "File too large"]);
    assert!(outcome.assert_accounted() > 0);
}

/// Below what the least spill takes the program is not recorded.
#[test]
fn a_limit_on_file_sizes_that_is_too_tight() {
    let case = Case {
        limits: "fsize=65536",
        ..Case::new(r#"recorded "$OUT/t.hreel" 3 5000 4"#)
    };
    for way in WAYS {
        let Some((plain, outcome)) = case.run_both(way) else {
            return;
        };
        outcome.assert_same_as(&plain);
        let told = outcome.complaints().join("\n");
        assert!(told.contains("ulimit -f"), "{way:?}: {told}");
        let ours = told.lines().filter(|l| l.contains("not recording")).count();
        assert_eq!(ours, 1, "{way:?}: {told}");
    }
}
