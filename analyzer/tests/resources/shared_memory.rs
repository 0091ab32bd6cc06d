//! Shared memory is full, or becomes so: records go elsewhere, or are counted as lost, and
//! never does a store to memory that is not there end the program.

use crate::case::{Case, WAYS, Way};
use crate::support::number;

/// Nothing at all fits in: the spill is put into the temporary folder or beside the trace.
#[test]
fn full_from_the_start() {
    let case = Case::mounting(
        r#"
        mount -t tmpfs -o size=64k tmpfs /dev/shm
        head -c 1m /dev/zero > /dev/shm/filling 2> /dev/null || true
        recorded "$OUT/t.hreel" 3 20000 4
        look "$OUT/t.hreel"
        ls "$OUT" > "$OUT/left"
        "#,
    );
    case.same_in(&WAYS, |way, outcome| {
        outcome.assert_untold();
        outcome.assert_whole();
        let left = std::fs::read_to_string(outcome.scratch.join("left")).unwrap();
        assert!(!left.contains("spill"), "{way:?}: {left}");
    });
}

/// No place has room: the program is not recorded, and one line says so.
#[test]
fn no_room_anywhere() {
    let case = Case::mounting(
        r#"
        mkdir "$OUT/disk"
        mount -t tmpfs -o size=64k tmpfs /dev/shm
        mount -t tmpfs -o size=64k tmpfs "$OUT/disk"
        export TMPDIR="$OUT/disk" XDG_CACHE_HOME="$OUT/cache"
        for place in /dev/shm "$OUT/disk"; do
            head -c 1m /dev/zero > "$place/filling" 2> /dev/null || true
        done
        recorded "$OUT/disk/t.hreel" 2 5000 2
        "#,
    );
    case.same_in(&WAYS, |_, outcome| {
        outcome.assert_told_once(&["heapreel: not recording", "No space", "free some space"]);
    });
}

/// Full from the first pause on: what was provided before is used again and again.
#[test]
fn full_in_the_middle() {
    let case = Case::mounting(
        r#"
        mount -t tmpfs -o size=16m tmpfs /dev/shm
        steered "$OUT/t.hreel" 3 20000 4
        go_on; paused
        head -c 32m /dev/zero > /dev/shm/filling 2> /dev/null || true
        go_on; paused; go_on
        ended
        look "$OUT/t.hreel"
        "#,
    );
    case.same_in(&WAYS, |_, outcome| {
        outcome.assert_untold();
        outcome.assert_accounted();
    });
}

/// Readers take what is in the spill of a killed program, and touch no page that was never
/// provided: there is none to be had.
#[test]
fn a_spill_is_read_while_shared_memory_is_full() {
    let case = Case::mounting(
        r#"
        mount -t tmpfs -o size=16m tmpfs /dev/shm
        steered "$OUT/t.hreel" 3 20000 4
        go_on; paused
        head -c 32m /dev/zero > /dev/shm/filling 2> /dev/null || true
        go_on; paused
        kill -KILL $job
        ended
        look "$OUT/t.hreel"
        "#,
    );
    for way in [Way::Alone, Way::Inside] {
        let Some(outcome) = case.run(way) else { return };
        assert_eq!(outcome.code, "137\n");
        let (info, work) = outcome.infos();
        // Two stretches of four threads, each call with its allocation.
        let lost = number(&info, "lost_events");
        assert!(
            number(&work, "allocations") + lost >= 2 * 20_000 * 4,
            "{info}"
        );
        assert!(number(&work, "allocations") <= 160_000, "{work}");
        assert_eq!(number(&info, "missing_records"), 0, "{info}");
        assert_eq!(number(&info, "order_anomalies"), 0, "{info}");
    }
}
