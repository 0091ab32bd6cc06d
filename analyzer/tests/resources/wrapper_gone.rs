//! `heapreel record` is killed or stopped: the program runs on to its normal end.

use crate::case::{Case, Outcome, Way, succeed};
use crate::support::number;
use heapreel_format::Trace;

/// Killed when the program has said that it is at its n-th pause, or a little later, while it
/// works. All is in trace and spill, each event once, and `recover` makes one file of it.
#[test]
fn killed() {
    for (pause, waits) in [
        (0, true),
        (0, false),
        (1, true),
        (1, false),
        (2, true),
        (3, false),
        (4, true),
        (5, false),
    ] {
        let script = r#"
            steered "$OUT/t.hreel" 6 5000 4
            begun "$OUT/t.hreel"
            for at in 0 1 2 3 4 5; do
                if [ $at != 0 ]; then paused; fi
                if [ "$WAY" = Plain ] || [ $at != $PAUSE ]; then go_on; continue; fi
                if [ $WAITS = false ]; then go_on; fi
                kill -KILL $job
                if [ $WAITS = true ]; then go_on; fi
            done
            ended
            look "$OUT/t.hreel"
            "#;
        let script = format!("PAUSE={pause} WAITS={waits}\n{script}");
        let case = Case::new(Box::leak(script.into_boxed_str()));
        let Some((plain, outcome)) = case.run_both(Way::Wrapper) else {
            return;
        };
        assert_eq!(outcome.stdout, plain.stdout);
        assert_eq!(outcome.code, "137\n", "the wrapper's own");
        outcome.assert_untold();
        outcome.assert_whole();
        assert_ended_by_itself(&outcome);
        assert_recovered(&outcome);
    }
}

/// The exit code is the program's own, though nobody waited for it.
fn assert_ended_by_itself(outcome: &Outcome) {
    let (info, _) = outcome.infos();
    assert_eq!(info["ended"], "exit 7", "{info}");
    assert_eq!(info["complete"], true, "{info}");
}

fn assert_recovered(outcome: &Outcome) {
    let path = |name: &str| outcome.scratch.join(name).display().to_string();
    succeed(&[
        "recover",
        &path("t.hreel"),
        "-o",
        &path("whole.hreel"),
        "--remove-spill",
    ]);
    let spill = Trace::open(&outcome.scratch.join("t.hreel"))
        .unwrap()
        .header()
        .spill
        .clone();
    assert!(!std::path::Path::new(&spill).exists());
    let info = |options: &[&str]| {
        let whole = path("whole.hreel");
        let arguments = [&["info", &whole, "--json"], options].concat();
        serde_json::from_str::<serde_json::Value>(&succeed(&arguments).stdout).unwrap()
    };
    let (_, before) = outcome.infos();
    let after = info(&["--from", "@\"work begin\""]);
    for key in ["events", "allocations", "deallocations", "requested_bytes"] {
        assert_eq!(number(&after, key), number(&before, key), "{key}");
    }
    assert_eq!(info(&[])["from_spill"], 0);
}

/// The trace is gone, or was never begun: a spill is read by itself.
#[test]
fn a_spill_alone() {
    let case = Case::new(
        r#"
        steered "$OUT/t.hreel" 2 1000 4
        go_on; paused
        kill -KILL $job
        ended
        rm "$OUT/t.hreel"
        look /dev/shm/heapreel-$job-*.spill
        rm /dev/shm/heapreel-$job-*.spill
        "#,
    );
    for way in [Way::Alone, Way::Inside] {
        let Some(outcome) = case.run(way) else { return };
        let (info, work) = outcome.infos();
        // No thread has filled a buffer, so the one stretch is there as a whole.
        assert_eq!(number(&work, "allocations"), 4 * 1000, "{way:?}: {info}");
        for key in ["missing_records", "lost_events", "order_anomalies"] {
            assert_eq!(number(&info, key), 0, "{way:?}: {key} in {info}");
        }
    }
}

/// Stopped, the wrapper drains nothing: the program fills its buffers, waits once, and goes
/// on without losing more time. What is in the buffers is recorded, the rest is counted; and
/// its memory has stayed within the limit.
#[test]
fn stopped() {
    let case = Case {
        options: "--buffer-memory 1MiB --table-memory 256KiB",
        ..Case::new(
            r#"
            steered "$OUT/t.hreel" 4 40000 4
            go_on; paused
            if [ "$WAY" = Plain ]; then
                go_on; paused; go_on; paused; go_on
            else
                read -r game rest < /proc/$job/task/$job/children || [ -n "$game" ]
                kill -STOP $job
                go_on; paused
                cat /proc/$game/smaps > "$OUT/smaps"
                kill -CONT $job
                go_on; paused; go_on
            fi
            ended
            look "$OUT/t.hreel"
            "#,
        )
    };
    let Some((plain, outcome)) = case.run_both(Way::Wrapper) else {
        return;
    };
    outcome.assert_same_as(&plain);
    outcome.assert_untold();
    let lost = outcome.assert_accounted();
    // A stretch is about 350,000 events, and a MiB holds no more than that many bytes' worth.
    assert!(lost > 100_000, "{lost} lost");
    let smaps = std::fs::read_to_string(outcome.scratch.join("smaps")).unwrap();
    let memory = spill_memory(&smaps);
    // The header, the trace's header, the threads' slots and the buffers' states.
    let fixed_kib = heapreel_format::spill::BUFFERS_OFFSET as u64 / 1024;
    assert_eq!(memory.size_kib, fixed_kib + 1024 + 256, "{smaps}");
    assert!(
        memory.resident_kib <= 1024 + 256 + 64,
        "{}",
        memory.resident_kib
    );
    assert!(memory.resident_kib >= 1024, "{}", memory.resident_kib);
}

struct SpillMemory {
    size_kib: u64,
    resident_kib: u64,
}

/// What a process has of its spill, from /proc/PID/smaps (proc(5)).
fn spill_memory(smaps: &str) -> SpillMemory {
    let mut lines = smaps.lines().skip_while(|line| !line.ends_with(".spill"));
    lines.next();
    let mut value = |name: &str| {
        let line = lines
            .find(|line| line.starts_with(name))
            .unwrap_or_default();
        let words: Vec<_> = line.split_whitespace().collect();
        words.get(1).and_then(|word| word.parse().ok()).unwrap_or(0)
    };
    SpillMemory {
        size_kib: value("Size:"),
        resident_kib: value("Rss:"),
    }
}
