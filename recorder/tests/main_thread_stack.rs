//! Walks on a process's first thread, whose stack the kernel made and which
//! grows: the test harness has only other threads, so this has none.

#![allow(
    unsafe_code,
    reason = "a forked child; the unwinder is compiled into this test"
)]

#[path = "../src/unwind/mod.rs"]
mod unwind;

use std::hint::black_box;

use unwind::{End, StackBounds, here, init, walk};

fn main() {
    init();
    walks_to_the_start();
    deep_stacks_are_walked();
    a_forked_child_walks_on();
    println!("walks on the first thread: ok");
}

fn walks_to_the_start() {
    let mut bounds = StackBounds::EMPTY;
    let mut out = [0; 256];
    let taken = walk(here(), &mut bounds, &mut out);
    let mut theirs = Vec::new();
    backtrace::trace(|frame| {
        theirs.push(frame.ip() as u64);
        true
    });
    theirs.retain(|&ip| ip != 0);
    assert_eq!(taken.ended, End::Outermost);
    assert!(theirs.ends_with(&out[..taken.len]));
    assert!(bounds.high != 0, "this is a stack that is known");
}

#[inline(never)]
fn deeper(bytes: usize, then: &mut dyn FnMut()) {
    let mut local = [0_u8; 4_000];
    black_box(&mut local);
    match bytes.checked_sub(4_000) {
        None => then(),
        Some(rest) => deeper(rest, then),
    }
    black_box(&local);
}

fn deep_stacks_are_walked() {
    let mut bounds = StackBounds::EMPTY;
    let mut out = vec![0; 20_000];
    let mut lens = Vec::new();
    for megabytes in [1, 6, 2, 6] {
        deeper(megabytes << 20, &mut || {
            let taken = walk(here(), &mut bounds, &mut out);
            assert_eq!(taken.ended, End::Outermost);
            lens.push(taken.len);
        });
    }
    assert_eq!(lens[1], lens[3]);
    assert!(lens[0] > (1 << 20) / 5_000 && lens[1] > 5 * lens[0]);
    assert!(bounds.high - bounds.low >= 6 << 20, "all of it is known");
}

fn a_forked_child_walks_on() {
    let mut bounds = StackBounds::EMPTY;
    let mut out = [0; 256];
    // SAFETY: the process has one thread; the child walks and exits at once.
    let child = unsafe { libc::fork() };
    let taken = walk(here(), &mut bounds, &mut out);
    if child == 0 {
        let status = i32::from(taken.ended != End::Outermost);
        // SAFETY: ends the child without running what is the parent's.
        unsafe { libc::_exit(status) };
    }
    let mut status = -1;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
}
