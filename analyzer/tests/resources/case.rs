//! One program, run plainly and recorded under the same circumstances.

use crate::support::record::heapreel;
use crate::support::run::{Ran, run};
use crate::support::scratch::Scratch;
use crate::support::{compile, namespace, number, preload};
use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// How a program is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Not at all.
    Plain,
    /// By `heapreel record`.
    Wrapper,
    /// By the preload library alone, which drains on a thread of the process.
    Alone,
    /// By the crate within the program.
    Inside,
}

pub const WAYS: [Way; 3] = [Way::Wrapper, Way::Alone, Way::Inside];

/// What the scripts of all cases may use:
///
/// `recorded TRACE ARGUMENTS…` runs the program; `look TRACE` asks `heapreel info` about it;
/// `steered TRACE ARGUMENTS…` runs it beside the script, up to its first pause; the script has
/// it go on by `go_on`, waits for the next pause by `paused` and for its end by `ended`.
/// `begun TRACE` waits until the trace file has all that came before the first pause.
/// $OUT is a folder of the run's own, $UNDER a command that the program is run under.
const PRELUDE: &str = r#"
run_it() {
    trace=$1; shift
    case $WAY in
    Plain | Inside) [ "$WAY" = Plain ] || export HEAPREEL_OUT="$trace"
        exec $UNDER "$PROGRAM" "$@" ;;
    Alone) export HEAPREEL_OUT="$trace"
        exec $UNDER env LD_PRELOAD="$LIBRARY" "$PROGRAM" "$@" ;;
    Wrapper) exec "$HEAPREEL" record --no-symbols $OPTIONS -o "$trace" -- $UNDER "$PROGRAM" "$@" ;;
    esac
}
recorded() {
    code=0; (run_it "$@") < /dev/null > "$OUT/stdout" 2> "$OUT/stderr" || code=$?
    echo $code > "$OUT/code"
}
steered() {
    mkfifo "$OUT/go" "$OUT/said"
    (run_it "$@") < "$OUT/go" > "$OUT/said" 2> "$OUT/stderr" &
    job=$!
    exec 3> "$OUT/go" 4< "$OUT/said"
    paused
}
begun() {
    if [ "$WAY" = Plain ]; then return; fi
    until "$HEAPREEL" info --json --from '@"work begin"' "$1" > "$OUT/begun" 2>&1 &&
        grep -q '"from_spill": 0' "$OUT/begun"; do sleep 0.05; done
}
paused() { read -r line <&4; echo "$line" >> "$OUT/stdout"; }
go_on() { echo >&3; }
ended() {
    exec 3>&-
    cat <&4 >> "$OUT/stdout"
    code=0; wait $job || code=$?
    echo $code > "$OUT/code"
}
look() {
    if [ "$WAY" = Plain ]; then return; fi
    "$HEAPREEL" info --json "$1" > "$OUT/info" 2>> "$OUT/said_by_info" || true
    "$HEAPREEL" info --json --from '@"work begin"' "$1" > "$OUT/work" 2>> "$OUT/said_by_info" || true
}
"#;

/// A script, and whether it needs mounts of its own.
pub struct Case {
    pub script: &'static str,
    pub mounts: bool,
    /// Options of `heapreel record`.
    pub options: &'static str,
    /// Limits under which the program runs, as the program `limits` takes them.
    pub limits: &'static str,
}

impl Case {
    /// With mounts of its own.
    pub const fn mounting(script: &'static str) -> Case {
        Case {
            mounts: true,
            ..Case::new(script)
        }
    }

    pub const fn new(script: &'static str) -> Case {
        Case {
            script,
            mounts: false,
            options: "",
            limits: "",
        }
    }

    /// One run; `None` where something that it needs is not there, which was said.
    pub fn run(&self, way: Way) -> Option<Outcome> {
        self.run_program(program(way)?, way)
    }

    /// The program that `way` has, without and with its recorder.
    pub fn run_both(&self, way: Way) -> Option<(Outcome, Outcome)> {
        let program = program(way)?;
        let plain = self.run_program(program.clone(), Way::Plain)?;
        Some((plain, self.run_program(program, way)?))
    }

    /// The program ends and prints as without its recorder, in each of these ways; `check`
    /// looks at the rest. Nothing where a program cannot be had, which was told.
    pub fn same_in(&self, ways: &[Way], check: impl Fn(Way, &Outcome)) {
        for way in ways {
            let Some((plain, outcome)) = self.run_both(*way) else {
                return;
            };
            outcome.assert_same_as(&plain);
            check(*way, &outcome);
        }
    }

    fn run_program(&self, program: PathBuf, way: Way) -> Option<Outcome> {
        let scratch = Scratch::new();
        let under = if self.limits.is_empty() {
            OsString::new()
        } else {
            let launcher = compile::c("limits.c")?;
            format!("{} {} --", launcher.display(), self.limits).into()
        };
        let variables: [(&str, OsString); 7] = [
            ("WAY", format!("{way:?}").into()),
            ("PROGRAM", program.into()),
            ("HEAPREEL", env!("CARGO_BIN_EXE_heapreel").into()),
            ("LIBRARY", preload::library().into()),
            ("OPTIONS", self.options.into()),
            ("UNDER", under),
            ("OUT", scratch.path().into()),
        ];
        let script = format!("{PRELUDE}\n{}", self.script);
        let ran = if self.mounts {
            namespace::run_script(&script, &variables)?
        } else {
            let mut command = Command::new("sh");
            command.args(["-euc", &script]).envs(variables);
            run(&mut command)
        };
        assert_eq!(ran.code, Some(0), "{way:?}: the script: {ran:?}");
        Some(Outcome::read(way, scratch))
    }
}

/// The program for a way; `None` with a line where it cannot be built.
fn program(way: Way) -> Option<PathBuf> {
    match way {
        Way::Inside => Some(compile::example("stretches")),
        _ => compile::c("resources.c"),
    }
}

/// What a run left.
pub struct Outcome {
    pub way: Way,
    pub scratch: Scratch,
    pub stdout: String,
    pub stderr: String,
    pub code: String,
}

impl Outcome {
    fn read(way: Way, scratch: Scratch) -> Outcome {
        let text = |name: &str| fs::read_to_string(scratch.join(name)).unwrap_or_default();
        Outcome {
            way,
            stdout: text("stdout"),
            stderr: text("stderr"),
            code: text("code"),
            scratch,
        }
    }

    /// The program did what it does when it is not recorded.
    #[track_caller]
    pub fn assert_same_as(&self, plain: &Outcome) {
        let (way, stderr) = (self.way, &self.stderr);
        assert_eq!(self.code, plain.code, "{way:?}: {stderr}");
        assert_eq!(self.stdout, plain.stdout, "{way:?}: {stderr}");
    }

    /// What we said on stderr beside the summary of a finished recording.
    pub fn complaints(&self) -> Vec<&str> {
        let is_summary = |line: &&str| {
            line.contains("to read it: ")
                || line.contains(" events, ")
                || line.contains("event LOST")
        };
        self.stderr
            .lines()
            .filter(|line| line.starts_with("heapreel: ") && !is_summary(line))
            .collect()
    }

    /// One line, with these words in it.
    #[track_caller]
    pub fn assert_told_once(&self, words: &[&str]) {
        let complaints = self.complaints();
        assert_eq!(complaints.len(), 1, "{:?}: {}", self.way, self.stderr);
        for word in words {
            let line = complaints[0];
            assert!(line.contains(word), "{:?}: {word:?} in {line}", self.way);
        }
    }

    /// Nothing to complain of.
    #[track_caller]
    pub fn assert_untold(&self) {
        assert!(
            self.complaints().is_empty(),
            "{:?}: {}",
            self.way,
            self.stderr
        );
    }

    /// What `heapreel info` said of the whole trace, and of the counted part.
    #[track_caller]
    pub fn infos(&self) -> (Value, Value) {
        let read = |name: &str| {
            let text = fs::read_to_string(self.scratch.join(name)).unwrap_or_default();
            let said = fs::read_to_string(self.scratch.join("said_by_info")).unwrap_or_default();
            serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("{:?}: {error}: {text:?} {said}", self.way))
        };
        (read("info"), read("work"))
    }

    /// Every event that the program counted is in the trace or counted as lost, and no other.
    /// Gives how many are lost.
    #[track_caller]
    pub fn assert_accounted(&self) -> u64 {
        let (info, work) = self.infos();
        let lost = number(&info, "lost_events");
        let count = self.count();
        let context = format!(
            "{:?}\nprogram: {count}\ntrace: {info}\n{}",
            self.way, self.stderr
        );
        assert_eq!(events(&work) + lost, events(&count), "{context}");
        for key in [
            "missing_records",
            "unreadable_records",
            "order_anomalies",
            "damaged_parts",
        ] {
            assert_eq!(number(&info, key), 0, "{key}: {context}");
        }
        if lost > 0 {
            let remarks = info["remarks"].to_string();
            let said = format!("{lost} events could not be recorded");
            assert!(remarks.contains(&said), "{context}");
        }
        lost
    }

    /// Nothing was lost, and the sums are the program's.
    #[track_caller]
    pub fn assert_whole(&self) {
        assert_eq!(self.assert_accounted(), 0, "{}", self.stderr);
        let (_, work) = self.infos();
        crate::support::tally::assert_equal(&self.count(), &work);
    }

    /// The program's own count.
    #[track_caller]
    fn count(&self) -> Value {
        let line = self.stdout.lines().find(|line| line.starts_with('{'));
        serde_json::from_str(line.unwrap_or_default())
            .unwrap_or_else(|error| panic!("{:?}: {error}: {}", self.way, self.stdout))
    }
}

/// Calls of all kinds.
fn events(info: &Value) -> u64 {
    let keys = ["allocations", "reallocations", "deallocations"];
    let failed = info["failed_allocations"].as_u64().unwrap_or(0);
    keys.iter().map(|key| number(info, key)).sum::<u64>() + failed
}

/// A command of the program under test that must succeed.
#[track_caller]
pub fn succeed(arguments: &[&str]) -> Ran {
    let ran = run(heapreel().args(arguments));
    assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
    ran
}
