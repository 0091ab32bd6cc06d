//! What a process has is as it was: descriptors, threads, signals, errno, the layout of its
//! blocks. A program prints them; recorded or not, it must print the same.

mod support;

use support::compile;
use support::record::{assert_sound, record};
use support::run::plain;

#[track_caller]
fn assert_same(mode: &str) {
    let Some(program) = compile::c_with("undisturbed.c", &["-lm"]) else {
        return;
    };
    let alone = plain(&program, &[mode]);
    let recording = record(&program, &[mode]);
    let ran = &recording.ran;
    assert_eq!(
        (&ran.stdout, ran.code),
        (&alone.stdout, alone.code),
        "{ran:?}"
    );
    assert_sound(&recording.info());
}

#[test]
fn descriptors_threads_and_signals() {
    assert_same("state");
}

#[test]
fn a_program_that_closes_every_descriptor() {
    assert_same("close");
}

#[test]
fn a_namespace_only_for_one_thread() {
    assert_same("unshare");
}

#[test]
fn errno() {
    assert_same("errno");
}

#[test]
fn the_layout_of_blocks() {
    assert_same("layout");
}
