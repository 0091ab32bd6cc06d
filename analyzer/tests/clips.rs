//! `heapreel record --clips`: whole traces of a few frames around what happened.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use support::record::{assert_sound, heapreel, info, record_command};
use support::run::{Ran, run};
use support::scratch::Scratch;
use support::{compile, number};

struct Clips {
    scratch: Scratch,
    ran: Ran,
}

impl Clips {
    fn folder(&self) -> PathBuf {
        self.scratch.join("clips")
    }

    /// Paths of all clips, oldest first.
    fn all(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder()).expect("the folder");
        let mut all: Vec<_> = entries.map(|it| it.expect("an entry").path()).collect();
        all.sort();
        all
    }

    /// The one clip whose name ends so.
    #[track_caller]
    fn only(&self, end: &str) -> PathBuf {
        let named = |path: &&PathBuf| path.to_string_lossy().ends_with(end);
        let all = self.all();
        let found: Vec<_> = all.iter().filter(named).collect();
        assert_eq!(found.len(), 1, "{end} in {all:?}, {:?}", self.ran);
        found[0].clone()
    }
}

fn recorded(options: &[&str], arguments: &[&str]) -> Option<Clips> {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recorder/include");
    let program = compile::c_with("clips.c", &["-I", include.to_str().expect("UTF-8")])?;
    let scratch = Scratch::new();
    let mut options = options.to_vec();
    if !options.contains(&"--clips") {
        options.extend(["--clips", "20frames"]);
    }
    let mut command = record_command(&scratch.join("clips"), &options, &program);
    let ran = run(command.args(arguments));
    Some(Clips { scratch, ran })
}

fn answered(command: &str, clip: &Path) -> Value {
    let ran = run(heapreel().arg(command).arg(clip).arg("--json"));
    assert_eq!(
        (ran.code, &*ran.stderr),
        (Some(0), ""),
        "{command}: {ran:?}"
    );
    serde_json::from_str(&ran.stdout).expect("JSON")
}

/// A whole trace of `frames` frames at whose end `kept` of the game's blocks live.
#[track_caller]
fn assert_whole(clip: &Path, frames: u64, why: &str) {
    let told = info(clip, &[]);
    assert_sound(&told);
    assert_eq!(number(&told, "frames"), frames, "{told}");
    assert_eq!(number(&told, "unknown_releases"), 0, "{told}");
    let said = told["clip"].as_str().expect("a clip");
    assert!(said.contains(why), "{said}");
}

/// Live blocks that the game's own function asked for, by `heapreel leaks`.
fn live_of_frames(clip: &Path) -> u64 {
    let told = answered("leaks", clip);
    let sites = told["sites"].as_array().expect("sites");
    let stacks = sites
        .iter()
        .flat_map(|it| it["stacks"].as_array().expect("stacks"));
    let of_frame = |it: &&Value| {
        let place = it["frames"][0]["place"].as_str().unwrap_or_default();
        it["entry"] == "malloc" && place.contains("clips.c")
    };
    let live = stacks.filter(of_frame);
    live.map(|it| number(it, "live_blocks")).sum()
}

#[test]
fn a_call_and_a_crash_make_clips_that_every_report_reads() {
    let Some(clips) = recorded(&[], &["100", "50", "abort"]) else {
        return;
    };
    assert_eq!(clips.ran.code, Some(134), "{:?}", clips.ran);
    let call = clips.only("frame50-call.hreel");
    assert_whole(&call, 20, "after frame 50: boss");
    let crash = clips.only("frame100-crash.hreel");
    assert_whole(&crash, 20, "after frame 100: killed by signal 6 (SIGABRT)");
    assert_eq!((live_of_frames(&call), live_of_frames(&crash)), (50, 100));
    for command in ["frames", "spikes", "contexts"] {
        answered(command, &call);
    }
    assert_eq!(run(heapreel().arg("report").arg(&call)).code, Some(0));
}

#[test]
fn a_game_that_is_killed_leaves_its_last_frames() {
    let Some(clips) = recorded(&["--no-symbols"], &["300", "0", "kill"]) else {
        return;
    };
    assert_eq!(clips.ran.code, Some(137), "{:?}", clips.ran);
    assert_whole(
        &clips.only("frame300-crash.hreel"),
        20,
        "signal 9 (SIGKILL)",
    );
}

#[test]
fn an_orderly_end_without_a_reason_leaves_no_clip() {
    let Some(clips) = recorded(&["--no-symbols"], &["30", "0"]) else {
        return;
    };
    assert_eq!((clips.ran.code, clips.all().len()), (Some(3), 0));
    assert!(
        clips.ran.stderr.contains("no clip was made"),
        "{:?}",
        clips.ran
    );
}

/// A budget that every frame breaks; how many looks the recorder takes is its affair.
#[test]
fn frames_over_budget_make_clips_and_only_the_newest_stay() {
    let script = "sh -c 'echo \"$1\" >>\"${1%/*}/../told\"' on-clip";
    let options = [
        "--no-symbols",
        "--frame-budget",
        "1ns",
        "--clip-every",
        "0s",
        "--keep-clips",
        "1",
        "--on-clip",
        script,
    ];
    let Some(clips) = recorded(&options, &["400", "0", "abort"]) else {
        return;
    };
    let crash = clips.only("frame400-crash.hreel");
    assert_eq!(clips.all(), std::slice::from_ref(&crash));
    let told = std::fs::read_to_string(clips.scratch.join("told")).expect("what was told");
    let told: Vec<_> = told.lines().collect();
    assert!(
        told.len() >= 2 && told[0].ends_with("-budget.hreel"),
        "{told:?}"
    );
    assert_eq!(Path::new(told[told.len() - 1]), crash);
}

#[test]
fn clips_are_small_where_they_have_to_be() {
    let options = ["--no-symbols", "--clip-size", "40KiB"];
    let Some(clips) = recorded(&options, &["100", "0", "abort"]) else {
        return;
    };
    let crash = clips.only("frame100-crash.hreel");
    let bytes = std::fs::metadata(&crash).expect("a file").len();
    assert!(bytes <= 40 << 10, "{bytes}");
    assert_sound(&info(&crash, &[]));
}

#[test]
fn a_signal_to_the_recorder_makes_a_clip_and_the_game_never_sees_it() {
    let made = Scratch::new();
    let file = made.join("made");
    let file = file.to_str().expect("UTF-8");
    let touch = format!(": >'{file}' &&:");
    let options = ["--no-symbols", "--clip-signal", "USR1", "--on-clip", &touch];
    let Some(clips) = recorded(&options, &["40", "until", file]) else {
        return;
    };
    assert_eq!(clips.ran.code, Some(4), "{:?}", clips.ran);
    let all = clips.all();
    assert_eq!(all.len(), 1, "{all:?}");
    let told = info(&all[0], &[]);
    assert_sound(&told);
    let said = told["clip"].as_str().expect("a clip");
    assert!(said.contains("asked for by a signal"), "{said}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (options, advice) in [
        (&["--clips", "0frames"][..], "300frames or 5s"),
        (
            &["--clips", "9frames", "--clip-size", "4"],
            "512KiB or 64MiB",
        ),
        (&["--frame-budget", "5ms"], "--clips"),
    ] {
        let mut command = heapreel();
        let ran = run(command.arg("record").args(options).args(["--", "true"]));
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(advice), "{ran:?}");
    }
}
