//! A trace holds all that is needed to read it: the program may be gone or changed.

#[path = "support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::{compile, record, run, scratch::Scratch};

/// Allocates from functions with names of their own, whose lines are known.
const GAME: &str = r"
#include <stdlib.h>
static void *volatile kept;
__attribute__((noinline)) void spawn_wolf(int hunger) {
    kept = malloc(40 + hunger); /* line 5 */
}
__attribute__((noinline)) void forest_grow(int trees) {
    for (int i = 0; i < trees; i++)
        spawn_wolf(i % 7); /* line 9 */
}
int main(void) {
    forest_grow(3000);
    return 0;
}
";

fn build(folder: &Scratch, source: &str) -> Option<PathBuf> {
    let path = folder.join("forest.c");
    std::fs::write(&path, source).expect("a source file");
    let program = folder.join("forest");
    let built = Command::new("cc")
        .args(["-g", "-O1", "-fno-builtin", "-o"])
        .args([&program, &path])
        .status();
    match built {
        Ok(status) => {
            assert!(status.success(), "the program must compile");
            Some(program)
        }
        Err(error) => {
            compile::skipped(&format!("no C compiler: {error}"));
            None
        }
    }
}

fn record_to(trace: &Path, options: &[&str], program: &Path) {
    let ran = run::run(&mut record::record_command(trace, options, program));
    assert_eq!(ran.shell_code(), 0, "{ran:?}");
}

fn leaks(trace: &Path) -> String {
    let mut command = record::heapreel();
    run::run(command.arg("leaks").arg(trace)).stdout
}

#[test]
fn names_stay_when_the_program_is_gone() {
    let folder = Scratch::new();
    let Some(program) = build(&folder, GAME) else {
        return;
    };
    let trace = folder.join("here.hreel");
    record_to(&trace, &[], &program);
    std::fs::remove_file(&program).expect("to remove the program");
    std::fs::remove_file(folder.join("forest.c")).expect("to remove its source");
    let elsewhere = Scratch::new();
    let copy = elsewhere.join("copy.hreel");
    std::fs::rename(&trace, &copy).expect("to move the trace");
    let text = leaks(&copy);
    for name in [
        "spawn_wolf",
        "forest_grow",
        "main",
        "forest.c:5",
        "forest.c:9",
    ] {
        assert!(text.contains(name), "{name} is missing:\n{text}");
    }
}

#[test]
fn a_rebuilt_program_gives_no_wrong_line() {
    let folder = Scratch::new();
    let Some(program) = build(&folder, GAME) else {
        return;
    };
    let trace = folder.join("old.hreel");
    record_to(&trace, &["--no-symbols"], &program);
    // The same functions, twenty lines further down, over the old program.
    build(&folder, &format!("{}{GAME}", "\n".repeat(20)));
    let added = run::run(record::heapreel().arg("symbols").arg(&trace));
    assert!(
        added.stderr.contains("forest") || added.stdout.contains("forest"),
        "{added:?}"
    );
    let text = leaks(&trace);
    for wrong in ["forest.c:", "spawn_wolf", "forest_grow"] {
        assert!(
            !text.contains(wrong),
            "{wrong} is of another build:\n{text}"
        );
    }
    assert!(text.contains("forest+0x"), "{text}");
}
