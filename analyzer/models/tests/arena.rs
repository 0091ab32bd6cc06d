//! The frame arenas: invariants R1 to R7, and the rows of seed 003.

mod support;

use heapreel_models::arena::{Arenas, Parameters, recommended};
use heapreel_models::{BlockId, FailureCause, Model, Moment, Request};
use proptest::prelude::*;
use std::collections::BTreeMap;
use support::{Op, Outcome, Run, Shape};

const MIB: u64 = 1 << 20;

fn ask(size: u64, align: u64) -> Request {
    Request {
        size,
        align,
        zeroed: false,
    }
}

fn at(frame: u32, thread: u32) -> Moment {
    Moment {
        frame,
        thread,
        site: frame * 10 + thread,
        ..Moment::default()
    }
}

const SHAPE: Shape = Shape {
    ops: 300,
    max_size: 8 << 10,
    max_align_log2: 8,
    segments: 1,
    threads: 3,
};

fn small(lifetime_frames: u32) -> Arenas {
    Arenas::new(Parameters {
        capacity: 32 << 10,
        lifetime_frames,
        ..Parameters::default()
    })
}

/// A cursor for each thread, by hand.
#[derive(Default)]
struct Cursors {
    used: BTreeMap<u32, u64>,
    sizes: BTreeMap<u32, u64>,
    padding: BTreeMap<u32, u64>,
}

proptest! {
    #![proptest_config(support::config(96))]

    #[test]
    fn p0_to_p8_and_r5(ops in support::ops(SHAPE), lifetime in 1_u32..4) {
        let run = support::drive(Box::new(small(lifetime)), &ops, 7);
        prop_assert_eq!(run.model().counters().locks, 0);
        support::check_repeatable(|| Box::new(small(lifetime)), &ops);
    }

    #[test]
    fn r1_to_r4_a_cursor_for_each_thread(ops in support::ops(SHAPE)) {
        let mut arenas = small(1);
        let (mut cursors, mut next, mut live) = (Cursors::default(), 0, Vec::new());
        let mut moment = Moment::default();
        for op in ops {
            match op {
                Op::Allocate { size, align, thread, .. } => {
                    moment.thread = thread;
                    let used = cursors.used.entry(thread).or_default();
                    let align = if align == 0 { 16 } else { align };
                    let start = used.next_multiple_of(align);
                    let end = start + size.max(1);
                    match arenas.allocate(&moment, BlockId(next), ask(size, align)) {
                        Ok(placed) => {
                            // R2: each block lies at the cursor, so they ascend.
                            prop_assert_eq!(placed.address % (32 << 10), start);
                            prop_assert_eq!(placed.address % align, 0);
                            *cursors.sizes.entry(thread).or_default() += size.max(1);
                            *cursors.padding.entry(thread).or_default() += start - *used;
                            *used = end;
                            live.push(BlockId(next));
                        }
                        Err(_) => prop_assert!(end > 32 << 10),
                    }
                    next += 1;
                    prop_assert_eq!(arenas.cursor(thread), Some(cursors.used[&thread]));
                }
                Op::Free { pick, .. } if !live.is_empty() => {
                    arenas.free(&moment, live.swap_remove(pick % live.len()));
                }
                Op::FrameEnd => {
                    arenas.frame_end(&moment);
                    moment.frame += 1;
                    for (&thread, used) in &mut cursors.used {
                        // R4 and R3.
                        let parts = cursors.sizes.get(&thread).unwrap_or(&0)
                            + cursors.padding.get(&thread).unwrap_or(&0);
                        prop_assert_eq!(*used, parts);
                        *used = 0;
                        prop_assert!(matches!(arenas.cursor(thread), Some(0)));
                    }
                    cursors.sizes.clear();
                    cursors.padding.clear();
                }
                _ => {}
            }
            for report in arenas.reports() {
                prop_assert!(report.max <= report.capacity);
                prop_assert!(report.recommended >= 2 * report.max);
                prop_assert_eq!(report.recommended % (64 << 10), 0);
            }
        }
    }

    /// R6: a block escapes where it is freed in a later frame than it was allocated in, or
    /// never, `lifetime - 1` frames being allowed.
    #[test]
    fn r6_escapes_are_what_outlives_its_frames(
        ops in support::ops(Shape { max_align_log2: 3, ..SHAPE }),
        lifetime in 1_u32..4,
    ) {
        let ops: Vec<_> = ops.into_iter().filter(|op| !matches!(op, Op::Reallocate { .. })).collect();
        let mut run = Run::new(Box::new(small(lifetime)));
        let (mut born, mut escapes) = (BTreeMap::new(), 0);
        for &op in &ops {
            let frame = run.at.frame;
            match run.step(op) {
                Outcome::Placed(id, _) => drop(born.insert(id, frame)),
                Outcome::Freed(id) => {
                    escapes += u64::from(frame >= born.remove(&id).unwrap() + lifetime);
                }
                _ => {}
            }
        }
        let frame = run.at.frame;
        escapes += born.values().filter(|&&born| frame >= born + lifetime).count() as u64;
        let mut arenas = small(lifetime);
        replay(&mut arenas, &ops);
        prop_assert_eq!(arenas.escapes(), escapes);
        prop_assert_eq!(arenas.escapes(), arenas.dangling() + arenas.used_after_reset());
        prop_assert_eq!(arenas.escaped().len() as u64, escapes);
        let by_site: u64 = arenas.escaped_by_site().values().map(|site| site.count).sum();
        prop_assert_eq!(by_site, escapes);
        // What the trace has live is what the model has, and what dangles.
        let live = arenas.counters().blocks + arenas.dangling();
        prop_assert_eq!(live, run.ledger.live());
    }
}

/// The same as `Run`, on a model whose own methods are wanted afterwards.
fn replay(arenas: &mut Arenas, ops: &[Op]) {
    let (mut next, mut live, mut moment) = (0, Vec::new(), Moment::default());
    for &op in ops {
        moment.site += 1;
        match op {
            Op::Allocate {
                size,
                align,
                thread,
                ..
            } => {
                moment.thread = thread;
                if arenas
                    .allocate(&moment, BlockId(next), ask(size, align))
                    .is_ok()
                {
                    live.push(BlockId(next));
                }
                next += 1;
            }
            Op::Free { pick, .. } if !live.is_empty() => {
                arenas.free(&moment, live.swap_remove(pick % live.len()));
            }
            Op::FrameEnd => {
                arenas.frame_end(&moment);
                moment.frame += 1;
            }
            _ => {}
        }
    }
}

#[test]
fn row_003_e_four_arenas_of_eight_mib_sized_at_twice_the_peak() {
    let mut arenas = Arenas::new(Parameters::default());
    for thread in 0..4 {
        arenas
            .allocate(&at(0, thread), BlockId(thread), ask(4 * MIB, 16))
            .unwrap();
    }
    assert_eq!(arenas.counters().held, 32 * MIB);
    for report in arenas.reports() {
        assert_eq!(
            (report.max, report.recommended, report.idle),
            (4 * MIB, 8 * MIB, 4 * MIB)
        );
    }
    // A peak of more than half would have asked for more.
    assert_eq!(recommended(4 * MIB + 1, 2.0), 8 * MIB + (64 << 10));
}

#[test]
fn row_003_k_blocks_are_aligned_for_sse_and_avx() {
    let mut arenas = Arenas::new(Parameters::default());
    let first = arenas.allocate(&at(0, 0), BlockId(0), ask(5, 0)).unwrap();
    let sse = arenas.allocate(&at(0, 0), BlockId(1), ask(20, 0)).unwrap();
    let avx = arenas.allocate(&at(0, 0), BlockId(2), ask(20, 32)).unwrap();
    let offsets = [first, sse, avx].map(|placed| placed.address - first.address);
    assert_eq!(offsets, [0, 16, 64]);
    assert_eq!(arenas.reports()[0].padding, 11 + 28);
    let mut avx = Parameters::default();
    avx.set("default_align", "32").unwrap();
    let mut arenas = Arenas::new(avx);
    arenas.allocate(&at(0, 0), BlockId(0), ask(5, 0)).unwrap();
    let next = arenas.allocate(&at(0, 0), BlockId(1), ask(5, 0)).unwrap();
    assert_eq!(next.address % 32, 0);
}

#[test]
fn an_escape_is_found_with_its_site_and_what_it_survived() {
    let mut arenas = Arenas::new(Parameters::default());
    arenas.allocate(&at(5, 0), BlockId(0), ask(100, 0)).unwrap();
    arenas.allocate(&at(5, 0), BlockId(1), ask(200, 0)).unwrap();
    arenas.free(&at(5, 0), BlockId(1));
    arenas.frame_end(&at(5, 0));
    assert_eq!((arenas.escapes(), arenas.dangling()), (1, 1));
    assert_eq!(arenas.block(BlockId(0)), None);
    assert_eq!(arenas.counters().blocks, 0);
    assert_eq!(arenas.escaped()[0].survived, None);
    arenas.free(&at(8, 0), BlockId(0));
    let escape = arenas.escaped()[0];
    assert_eq!(
        (escape.site, escape.size, escape.frame, escape.survived),
        (50, 100, 5, Some(3))
    );
    assert_eq!((arenas.used_after_reset(), arenas.dangling()), (1, 0));
}

#[test]
fn a_block_of_two_frames_needs_two_buffers() {
    let double = Parameters::preset("double").unwrap();
    let mut arenas = Arenas::new(double);
    arenas.allocate(&at(0, 0), BlockId(0), ask(100, 0)).unwrap();
    assert_eq!(arenas.counters().held, 16 * MIB);
    arenas.frame_end(&at(0, 0));
    assert!(arenas.block(BlockId(0)).is_some());
    arenas.frame_end(&at(1, 0));
    assert_eq!((arenas.block(BlockId(0)), arenas.escapes()), (None, 1));
}

#[test]
fn only_the_last_block_grows_in_place() {
    let mut arenas = Arenas::new(Parameters::default());
    let first = arenas
        .allocate(&at(0, 0), BlockId(0), ask(100, 64))
        .unwrap();
    let grown = arenas.reallocate(&at(0, 0), BlockId(0), 200).unwrap();
    assert_eq!((grown.address, grown.moved), (first.address, 0));
    arenas.allocate(&at(0, 0), BlockId(1), ask(8, 0)).unwrap();
    let moved = arenas.reallocate(&at(0, 0), BlockId(0), 300).unwrap();
    assert_eq!((moved.address - first.address, moved.moved), (256, 200));
    let shrunk = arenas.reallocate(&at(0, 0), BlockId(0), 50).unwrap();
    assert_eq!((shrunk.address, shrunk.moved), (moved.address, 0));
    assert_eq!(arenas.cursor(0), Some(256 + 50));
    // Another thread does not move this one's cursor: it copies into its own arena.
    let taken = arenas.reallocate(&at(0, 1), BlockId(0), 60).unwrap();
    assert_eq!((taken.moved, arenas.cursor(0)), (50, Some(256 + 50)));
    assert_eq!(arenas.cursor(1), Some(60));
}

#[test]
fn an_arena_that_is_full_fails_and_one_whose_thread_is_gone_is_given_back() {
    let mut arenas = small(1);
    arenas
        .allocate(&at(0, 3), BlockId(0), ask(32 << 10, 0))
        .unwrap();
    let full = arenas
        .allocate(&at(0, 3), BlockId(1), ask(1, 0))
        .unwrap_err();
    assert_eq!((full.cause, full.free), (FailureCause::Exhausted, 0));
    let never = arenas
        .allocate(&at(0, 3), BlockId(1), ask((32 << 10) + 1, 0))
        .unwrap_err();
    assert_eq!(never.cause, FailureCause::TooLarge);
    arenas.thread_exit(&at(0, 3));
    assert_eq!(
        (
            arenas.counters().held,
            arenas.counters().os.release,
            arenas.escapes()
        ),
        (0, 1, 1)
    );
    assert!(arenas.allocate(&at(0, 3), BlockId(1), ask(1, 0)).is_ok());
}

#[test]
fn every_listed_preset_and_name_is_known() {
    for preset in Parameters::PRESETS {
        Parameters::preset(preset).unwrap();
    }
    for name in Parameters::NAMES {
        let error = Parameters::default()
            .set(name, "?")
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(&format!("{name} cannot be")), "{error}");
    }
    assert!(Parameters::default().set("lifetime_frames", "0").is_err());
}
