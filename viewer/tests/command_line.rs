//! The program as a script meets it.

use heapreel_format::testing::small_trace;
use std::path::Path;
use std::process::{Command, Output};

fn viewer(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heapreel-viewer"))
        .args(arguments)
        .current_dir(folder)
        .env_remove("DISPLAY")
        .env_remove("WAYLAND_DISPLAY")
        .env_remove("WAYLAND_SOCKET")
        .output()
        .unwrap()
}

fn only_line(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn a_screenshot_needs_no_display_and_is_the_same_each_time() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.hreel"), small_trace()).unwrap();
    let png = |name: &str| {
        let arguments = ["a.hreel", "--screenshot", name, "--size", "400x300"];
        let output = viewer(&arguments, folder.path());
        assert!(output.status.success(), "{output:?}");
        std::fs::read(folder.path().join(name)).unwrap()
    };
    let (one, other) = (png("one.png"), png("other.png"));
    assert!(one.starts_with(b"\x89PNG"));
    assert_eq!(one, other);
}

#[test]
fn what_cannot_be_done_is_one_line_and_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("a.hreel"), small_trace()).unwrap();
    std::fs::write(here.join("text.hreel"), "hello").unwrap();
    let text = only_line(&viewer(&["text.hreel", "--screenshot", "a.png"], here));
    assert!(text.starts_with("heapreel-viewer: text.hreel "), "{text}");
    let missing = only_line(&viewer(&["none.hreel", "--screenshot", "a.png"], here));
    assert!(missing.contains("none.hreel"), "{missing}");
    let nowhere = only_line(&viewer(&["a.hreel", "--screenshot", "no/a.png"], here));
    assert!(nowhere.contains("no/a.png"), "{nowhere}");
    let frame = ["a.hreel", "--screenshot", "a.png", "--frame", "7"];
    assert!(only_line(&viewer(&frame, here)).contains("no frame 7"));
    assert!(!here.join("a.png").exists());
}

#[test]
fn without_a_display_the_window_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let output = viewer(&["a.hreel"], folder.path());
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("--screenshot"), "{text}");
}
