//! Game frames of programs that say nothing of them: ended by calls that show a picture, or
//! by a function that the user names.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use support::compile;
use support::record::{Recording, heapreel, record_with};
use support::run::run;
use support::scratch::Scratch;

/// Pictures that each run shows.
const PICTURES: u64 = 30;

/// The library, a program that is linked with it, bound at start or when first called, and
/// one that is not.
struct Built {
    library: PathBuf,
    linked: [PathBuf; 2],
    loose: PathBuf,
    _folder: Scratch,
}

fn built() -> Option<Built> {
    let made = compile::c_with("libpictures.c", &["-shared", "-fPIC"])?;
    let folder = Scratch::new();
    let library = folder.join("libpictures.so");
    compile::copy(&made, &library);
    let made = made.display().to_string();
    let linked = |binding: &str| compile::c_with("pictures.c", &["-DLINKED", binding, &made]);
    Some(Built {
        linked: [linked("-Wl,-z,now")?, linked("-Wl,-z,lazy")?],
        loose: compile::c_with("pictures.c", &[])?,
        library,
        _folder: folder,
    })
}

#[track_caller]
fn recorded(options: &[&str], program: &Path, arguments: &[&str]) -> Recording {
    let options = [&["--no-symbols", "--keep-all"], options].concat();
    let recording = record_with(&options, program, arguments);
    assert_eq!(recording.ran.code, Some(0), "{}", recording.ran.stderr);
    recording
}

/// By loop: its name, where its frames come from, how many there are.
fn loops(recording: &Recording) -> Vec<(String, String, u64)> {
    let report = run(heapreel().arg("report").arg(&recording.trace).arg("--json"));
    let report: Value = serde_json::from_str(&report.stdout).expect("a report");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let loops = report["loops"].as_array().expect("loops").iter();
    loops
        .map(|it| {
            let frames = it["frames"].as_array().map_or(0, Vec::len) as u64;
            (text(&it["name"]), text(&it["source"]), frames)
        })
        .collect()
}

fn one_loop(name: &str, source: &str, frames: u64) -> Vec<(String, String, u64)> {
    vec![(name.to_owned(), source.to_owned(), frames)]
}

#[test]
fn a_picture_that_is_shown_through_two_libraries_is_one_frame() {
    let Some(built) = built() else { return };
    let source = "calls of SDL_RenderPresent, which shows a picture";
    for program in &built.linked {
        let recording = recorded(&[], program, &["linked"]);
        let expected = one_loop("SDL_RenderPresent", source, PICTURES - 1);
        assert_eq!(loops(&recording), expected, "{}", program.display());
    }
    let library = built.library.display().to_string();
    let recording = recorded(&[], &built.loose, &["loaded", &library]);
    assert_eq!(
        loops(&recording),
        one_loop("SDL_RenderPresent", source, PICTURES - 1)
    );
}

#[test]
fn functions_that_other_functions_give_are_seen() {
    let Some(built) = built() else { return };
    let library = built.library.display().to_string();
    for (way, name) in [("given", "glXSwapBuffers"), ("vulkan", "vkQueuePresentKHR")] {
        let recording = recorded(&[], &built.loose, &[way, &library]);
        let source = format!("calls of {name}, which shows a picture");
        assert_eq!(loops(&recording), one_loop(name, &source, PICTURES - 1));
    }
}

#[test]
fn a_game_that_marks_its_frames_keeps_them() {
    let Some(built) = built() else { return };
    let recording = recorded(&[], &built.linked[0], &["own"]);
    let loops = loops(&recording);
    assert_eq!(
        loops[0],
        (
            "main".to_owned(),
            "marked by the game".to_owned(),
            PICTURES / 2 - 1
        )
    );
}

#[test]
fn nothing_is_found_that_is_not_there_and_nothing_ends_frames_unasked() {
    let Some(built) = built() else { return };
    recorded(&[], &built.loose, &["absent"]);
    let recording = recorded(&["--no-present-marks"], &built.linked[0], &["linked"]);
    assert_eq!(loops(&recording), []);
}

#[test]
fn a_function_that_the_user_names_ends_frames_and_keeps_its_arguments() {
    let Some(built) = built() else { return };
    for program in &built.linked {
        let recording = recorded(&["--frame-symbol", "game_frame"], program, &["asked"]);
        let expected = one_loop("game_frame", "calls of game_frame", PICTURES - 1);
        assert_eq!(loops(&recording), expected);
        assert!(
            !recording.ran.stderr.contains("game_frame"),
            "{}",
            recording.ran.stderr
        );
    }
}

#[test]
fn a_function_that_ends_no_frame_is_told() {
    let Some(built) = built() else { return };
    let symbols = ["--frame-symbol", "game_frame", "--frame-symbol", "no_such"];
    let recording = recorded(&symbols, &built.linked[0], &["linked"]);
    let said = &recording.ran.stderr;
    assert!(
        said.contains("game_frame: no call of it was seen"),
        "{said}"
    );
    assert!(
        said.contains("no_such: neither the program nor a library"),
        "{said}"
    );
    let refused = run(heapreel().args(["record", "--frame-symbol", "a b", "--", "true"]));
    assert_eq!(refused.code, Some(2));
}
