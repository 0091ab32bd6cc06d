//! Threads, descriptors and address space that have run out.

use crate::case::{Case, WAYS, Way};

/// No thread can be started. `heapreel record` needs none in the program.
#[test]
fn no_threads_left() {
    let case = Case {
        limits: "threads=0",
        ..Case::new(
            r#"
            recorded "$OUT/t.hreel" 3 20000 1
            if [ "$WAY" = Wrapper ]; then look "$OUT/t.hreel"; fi
            "#,
        )
    };
    let Some((plain, outcome)) = case.run_both(Way::Wrapper) else {
        return;
    };
    outcome.assert_same_as(&plain);
    outcome.assert_untold();
    outcome.assert_whole();
    let Some(outcome) = case.run(Way::Alone) else {
        return;
    };
    outcome.assert_same_as(&plain);
    outcome.assert_told_once(&["no thread can be started", "`heapreel record`"]);
    assert!(outcome.scratch.traces().is_empty());
}

/// From a single free descriptor on, which the loader itself needs, everything is recorded.
#[test]
fn few_descriptors() {
    for limits in ["nofile=3", "nofile=4", "nofile=5", "nofile=6", "nofile=7"] {
        let case = Case {
            limits,
            ..Case::new(
                r#"
                recorded "$OUT/t.hreel" 3 5000 4
                if [ "$(cat "$OUT/code")" = 7 ]; then look "$OUT/t.hreel"; fi
                "#,
            )
        };
        for way in WAYS {
            let Some((plain, outcome)) = case.run_both(way) else {
                return;
            };
            outcome.assert_same_as(&plain);
            if plain.code == "7\n" {
                outcome.assert_untold();
                outcome.assert_whole();
            }
        }
    }
}

/// Seven parts of eight of a limited address space are left to the program.
#[test]
fn little_address_space() {
    for limits in ["as=60000000", "as=80000000", "as=100000000", "as=500000000"] {
        let case = Case {
            limits,
            ..Case::new(
                r#"
                recorded "$OUT/t.hreel" 3 20000 1
                look "$OUT/t.hreel"
                "#,
            )
        };
        case.same_in(&WAYS, |_, outcome| {
            outcome.assert_untold();
            outcome.assert_accounted();
        });
    }
}

/// Where an eighth is too little for the recorder, the program has it all.
#[test]
fn hardly_any_address_space() {
    for limits in [
        "as=9000000",
        "as=12000000",
        "as=16000000",
        "as=20000000",
        "as=24000000",
    ] {
        let case = Case {
            limits,
            ..Case::new(r#"recorded "$OUT/t.hreel" 3 1000 1"#)
        };
        for way in WAYS {
            let Some((plain, outcome)) = case.run_both(way) else {
                return;
            };
            outcome.assert_same_as(&plain);
            let lines = outcome.complaints().len();
            assert!(lines <= 1, "{way:?} {limits}: {}", outcome.stderr);
        }
    }
}
