//! The mimalloc model keeps its books under random runs, and its sizes are the real one's.

mod paged_support;

use heapreel_models::mimalloc::Parameters;
use heapreel_models::paged::Geometry;
use heapreel_models::{BlockId, FailureCause, Mimalloc, Model, Moment, PageSource, Request};
use paged_support::random::{Player, Step, config, steps};
use proptest::prelude::*;

fn model(preset: &str) -> Mimalloc {
    let parameters = Parameters::preset(preset).expect("the preset exists");
    Mimalloc::new(&parameters).expect("the preset is sound")
}

fn play(model: &mut Mimalloc, player: &mut Player, steps: &[Step]) {
    for (number, step) in steps.iter().enumerate() {
        player.play(model, *step);
        if number % 64 == 0 {
            model.audit().unwrap();
            player.check(model);
        }
    }
    model.audit().unwrap();
}

proptest! {
    #![proptest_config(config(24))]

    #[test]
    fn the_books_are_right_at_any_time(
        steps in steps(2000, 6, 23),
        preset in prop::sample::select(Parameters::PRESETS),
    ) {
        let (mut model, mut player) = (model(preset), Player::new());
        play(&mut model, &mut player, &steps);
        player.free_all(&mut model);
        model.audit().unwrap();
        prop_assert!(player.failures.is_empty());
    }

    #[test]
    fn a_run_from_a_checkpoint_is_the_run_from_the_start(steps in steps(1500, 4, 23)) {
        let (mut model, mut player) = (model("2.0.3-options"), Player::new());
        play(&mut model, &mut player, &steps[..steps.len() / 2]);
        let (mut later, mut later_player) = (model.checkpoint(), player.clone());
        for step in &steps[steps.len() / 2..] {
            player.play(&mut model, *step);
            later_player.play(&mut *later, *step);
        }
        prop_assert_eq!(player.hash, later_player.hash);
        prop_assert_eq!(model.counters(), later.counters());
        prop_assert_eq!(model.regions(), later.regions());
    }

    #[test]
    fn the_same_run_gives_the_same(steps in steps(1500, 4, 23)) {
        let hash = || {
            let (mut model, mut player) = (model("2.0.3"), Player::new());
            play(&mut model, &mut player, &steps);
            player.hash
        };
        prop_assert_eq!(hash(), hash());
    }
}

/// The table of section 2.1: what follows from a slice, a segment and a medium page.
#[test]
fn sizes_follow_from_the_macros() {
    let kib = |bytes: u64| bytes >> 10;
    let row = |geometry: Geometry| {
        (
            (
                kib(geometry.slice_bytes),
                geometry.segment_bytes >> 20,
                geometry.slices(),
            ),
            (
                geometry.header_bytes(),
                geometry.header_slices(),
                geometry.usable_slices(),
            ),
            (kib(geometry.small_max()), kib(geometry.medium_page_bytes)),
            (kib(geometry.medium_max()), geometry.large_max() >> 20),
            (geometry.size_classes(), geometry.top_bin()),
        )
    };
    assert_eq!(
        row(Geometry::STOCK),
        (
            (64, 64, 1024),
            (82_288, 2, 1022),
            (16, 512),
            (128, 32),
            (49, 52)
        )
    );
    assert_eq!(
        row(Geometry::SLIDE_MACROS),
        ((16, 4, 256), (20_656, 2, 254), (4, 128), (32, 2), (41, 44))
    );
    assert_eq!(
        row(Geometry::SLIDE_CAPTIONS),
        ((16, 8, 512), (41_200, 3, 509), (4, 128), (32, 4), (41, 44))
    );
}

/// Threads that hold one block in each of some classes: section 2.6's floor.
#[test]
fn a_thread_costs_a_segment_header_and_a_page_for_each_class() {
    for (preset, kib) in [
        ("2.0.3", 36_160),
        ("2.0.3-4mib", 9_280),
        ("2.0.3-8mib", 9_920),
    ] {
        let mut model = model(preset);
        let classes = [8, 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224];
        let mut id = 0;
        for thread in 0..40 {
            for size in classes {
                let request = Request {
                    size,
                    align: 0,
                    zeroed: false,
                };
                model
                    .allocate(
                        &Moment {
                            thread,
                            ..Moment::default()
                        },
                        BlockId(id),
                        request,
                    )
                    .unwrap();
                id += 1;
            }
        }
        assert_eq!(model.held(), kib << 10, "{preset}");
    }
}

/// A block with a segment of its own moves the real one's statistic for ever, not ours.
#[test]
fn the_statistic_drifts_and_what_is_held_does_not() {
    let mut model = model("2.0.3");
    let at = Moment::default();
    for _ in 0..3 {
        let request = Request {
            size: 40 << 20,
            align: 0,
            zeroed: false,
        };
        model.allocate(&at, BlockId(0), request).unwrap();
        model.free(&at, BlockId(0));
    }
    // 40 MiB and 128 KiB of header are rounded up to 44 MiB.
    let drift = 3 * ((4 << 20) - (128 << 10));
    assert_eq!(model.held(), 8 << 10);
    assert_eq!(model.statistic(), (8 << 10) + drift);
}

/// The mechanism behind "little memory is returned": taking a page puts off what is to go,
/// so a span's memory goes late, here when its thread exits, or at once if nothing is kept.
#[test]
fn taking_pages_puts_off_what_is_to_go() {
    let at = |millis: u64| Moment {
        nanos: millis * 1_000_000,
        ..Moment::default()
    };
    let place = |model: &mut Mimalloc, millis, id, size| {
        let request = Request {
            size,
            align: 0,
            zeroed: false,
        };
        model.allocate(&at(millis), BlockId(id), request).unwrap();
    };
    let run = |reset_delay: &str, exit: u64| {
        let mut parameters = Parameters::preset("2.0.3-options").unwrap();
        parameters.eager_commit = false;
        parameters.set("reset_delay", reset_delay).unwrap();
        let mut model = Mimalloc::new(&parameters).unwrap();
        for id in 0..3 {
            place(&mut model, 0, id, 1 << 20);
        }
        model.free(&at(0), BlockId(0));
        let after_free = model.counters().os.decommit;
        for millis in (20..=200).step_by(20) {
            place(&mut model, millis, 3, 256 << 10);
            model.free(&at(millis), BlockId(3));
        }
        let after_use = model.counters().os.decommit;
        model.thread_exit(&at(exit));
        model.audit().unwrap();
        (after_free, after_use, model.counters().os.decommit)
    };
    assert_eq!(run("25", 224), (0, 0, 0));
    assert_eq!(run("25", 225), (0, 0, 1));
    assert_eq!(run("0", 225), (1, 11, 11));
}

/// A page source with so many bytes.
#[derive(Clone)]
struct Bounded {
    space: heapreel_models::AddressSpace,
    left: u64,
}

impl PageSource for Bounded {
    fn reserve(&mut self, bytes: u64, align: u64) -> Option<u64> {
        self.space.reserve(bytes, align)
    }
    fn release(&mut self, address: u64, bytes: u64) {
        self.space.release(address, bytes);
    }
    fn commit(&mut self, _address: u64, bytes: u64) -> bool {
        self.left
            .checked_sub(bytes)
            .inspect(|left| self.left = *left)
            .is_some()
    }
    fn decommit(&mut self, _address: u64, bytes: u64) {
        self.left += bytes;
    }
    fn checkpoint(&self) -> Box<dyn PageSource> {
        Box::new(self.clone())
    }
}

#[test]
fn a_source_without_memory_makes_requests_fail_and_nothing_else() {
    let space = heapreel_models::AddressSpace::new(1 << 40, 1 << 44);
    let source = Bounded {
        space,
        left: 1 << 20,
    };
    let parameters = Parameters::preset("2.0.3-8mib").unwrap();
    let mut model = Mimalloc::with_source(&parameters, Box::new(source)).unwrap();
    let at = Moment::default();
    let request = |size| Request {
        size,
        align: 0,
        zeroed: false,
    };
    let failed = model
        .allocate(&at, BlockId(0), request(8 << 20))
        .unwrap_err();
    assert_eq!(failed.cause, FailureCause::Exhausted);
    let fits = (0..)
        .find(|id| model.allocate(&at, BlockId(*id), request(1000)).is_err())
        .unwrap();
    // A page has 15 blocks of 1024 bytes; a MiB has 64 slices, three of them the header.
    assert_eq!(fits, 61 * 15);
    model.audit().unwrap();
    let failed = model
        .allocate(&at, BlockId(fits), request(1 << 60))
        .unwrap_err();
    assert_eq!(failed.cause, FailureCause::TooLarge);
    model.free(&at, BlockId(0));
    model.allocate(&at, BlockId(0), request(1000)).unwrap();
}

#[test]
fn parameters_are_set_by_name_and_checked() {
    let mut parameters = Parameters::default();
    for name in Parameters::NAMES {
        parameters
            .set(name, "1")
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let error = parameters.set("slize", "1").unwrap_err().to_string();
    assert!(
        error.starts_with(r#"no parameter "slize"; there are slice, segment, "#),
        "{error}"
    );
    let error = Mimalloc::new(&parameters).err().unwrap().to_string();
    assert_eq!(
        error,
        r#"slice cannot be "1": a power of two from 4 KiB to 256 KiB"#
    );
    let error = Parameters::preset("2.2").unwrap_err().to_string();
    assert_eq!(
        error,
        r#"no preset "2.2"; there are 2.0.3, 2.0.3-4mib, 2.0.3-8mib, 2.0.3-options"#
    );
}
