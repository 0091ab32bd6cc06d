//! `assert_allocs!`, many tests at once: each counts its own thread.

use heapreel::assert_allocs;
use std::alloc::System;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[global_allocator]
static ALLOC: heapreel::Recorder<System> = heapreel::Recorder::system();

/// What an assertion that fails says.
fn failure(work: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(work)).expect_err("the assertion holds");
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => (*payload.downcast::<&str>().expect("a text")).to_owned(),
    }
}

#[inline(never)]
fn spawn_monster(bytes: usize) -> Vec<u8> {
    black_box(Vec::with_capacity(black_box(bytes)))
}

#[test]
fn the_closure_s_value_comes_back() {
    let sum = assert_allocs!(0, || black_box(2) + black_box(3));
    assert_eq!(sum, 5);
    let block = assert_allocs!(1, || spawn_monster(100));
    assert_eq!(block.capacity(), 100);
}

#[test]
fn every_kind_of_request_counts_once() {
    assert_allocs!(1, || drop(spawn_monster(10)));
    assert_allocs!(1, || drop(black_box(vec![0u8; black_box(100)])));
    let mut grows = spawn_monster(10);
    assert_allocs!(1, || grows.reserve_exact(1000));
    assert_allocs!(1, || grows.shrink_to(10));
    assert_allocs!(0, || drop(grows));
}

#[test]
fn a_request_that_fails_counts() {
    let mut block: Vec<u8> = Vec::new();
    let refused = assert_allocs!(1, || block.try_reserve_exact(isize::MAX as usize));
    assert!(refused.is_err());
}

#[test]
fn ranges() {
    let three = || (0..3).for_each(|_| drop(spawn_monster(10)));
    assert_allocs!(3, three);
    assert_allocs!(3u64, three);
    assert_allocs!(3usize, three);
    assert_allocs!(..=3, three);
    assert_allocs!(..4, three);
    assert_allocs!(2.., three);
    assert_allocs!(1..4, three);
    assert_allocs!(3..=5, three);
    assert_allocs!(.., three);
    for (text, expected) in [
        (failure(|| assert_allocs!(..=2, three)), "..=2"),
        (failure(|| assert_allocs!(..3, three)), "..3"),
        (failure(|| assert_allocs!(4.., three)), "4.."),
        (failure(|| assert_allocs!(1..3, three)), "1..3"),
        (failure(|| assert_allocs!(4..=9, three)), "4..=9"),
        (failure(|| assert_allocs!(-1, three)), "-1"),
    ] {
        let first = format!("3 allocations, expected {expected}\n");
        assert!(text.starts_with(&first), "{text}");
    }
}

#[test]
fn a_failure_names_the_call_sites_most_frequent_first() {
    let boxes = line!() + 5;
    let text = failure(|| {
        assert_allocs!(0, || {
            drop(spawn_monster(500));
            for _ in 0..2 {
                drop(black_box(Box::new([0u8; 24])));
            }
        });
    });
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "3 allocations, expected 0");
    assert_eq!(lines[1], "  2 allocations of 48 bytes in all:");
    assert!(lines[2].contains("closure"), "{text}");
    assert!(lines[3].contains(&format!("{}:{boxes}", file!())), "{text}");
    let second = lines
        .iter()
        .position(|line| *line == "  1 allocation of 500 bytes in all:")
        .expect("the other site");
    assert!(lines[second + 1].contains("spawn_monster"), "{text}");
    assert!(
        lines[second + 4].contains(&format!("{}:{}", file!(), boxes - 2)),
        "{text}"
    );
    // A heading each, two lines for each function.
    assert_eq!(lines.len(), 1 + 3 + 5, "{text}");
    // The backtrace ends with the closure.
    assert!(!text.contains("heapreel::assertion"), "{text}");
    assert!(!text.contains("std::"), "{text}");
}

#[test]
fn more_call_sites_than_are_remembered_are_counted() {
    /// A backtrace of its own for each depth.
    #[inline(never)]
    fn deep(depth: u32) {
        drop(spawn_monster(8));
        if depth > 0 {
            deep(depth - 1);
        }
        black_box(depth);
    }
    let text = failure(|| assert_allocs!(0, || deep(39)));
    assert!(text.starts_with("40 allocations, expected 0\n"), "{text}");
    assert!(
        text.ends_with("and 8 allocations beyond the first 32 call sites"),
        "{text}"
    );
}

#[test]
fn within_each_other() {
    let blocks = assert_allocs!(3, || {
        let first = spawn_monster(1);
        let others = assert_allocs!(2, || [spawn_monster(2), spawn_monster(3)]);
        assert_allocs!(0, || ());
        (first, others)
    });
    drop(blocks);
    let text = failure(|| {
        assert_allocs!(1, || {
            assert_allocs!(1, || drop(spawn_monster(7)));
            drop(spawn_monster(8));
        });
    });
    // The outer one tells of what the inner one found in order.
    assert!(text.contains("of 7 bytes in all"), "{text}");
}

#[test]
fn a_panic_of_the_closure_goes_on_and_ends_the_count() {
    let text = failure(|| {
        assert_allocs!(0, || {
            drop(spawn_monster(1));
            panic!("the game's own");
        })
    });
    assert_eq!(text, "the game's own");
    // What comes now belongs to nobody.
    drop(spawn_monster(1));
    assert_allocs!(0, || ());
    // The outer one goes on counting after a panic within an inner one.
    assert_allocs!(1.., || {
        _ = failure(|| assert_allocs!(0, || panic!("inner")));
        drop(spawn_monster(1));
    });
}

#[test]
fn telling_of_a_failure_is_no_allocation_of_the_closure_around() {
    let mut inner = String::new();
    let outer = failure(|| {
        assert_allocs!(1, || {
            inner = failure(|| assert_allocs!(0, || drop(spawn_monster(1))));
        });
    });
    assert!(inner.starts_with("1 allocation, expected 0\n"), "{inner}");
    // What the panic itself takes is counted; looking the symbols up would come before it.
    assert!(outer.contains("of 1 bytes in all"), "{outer}");
    assert!(!outer.contains("tell_failure"), "{outer}");
}

#[test]
fn other_threads_are_not_counted() {
    let (go, gone) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            go.wait();
            (0..1000).for_each(|_| drop(spawn_monster(100)));
            gone.wait();
        });
        assert_allocs!(0, || {
            go.wait();
            gone.wait();
        });
    });
}
