//! What the slides claim, each as a run that is built to show it: rows 000-c to 000-l of the
//! specification.

use heapreel_models::paged::{Geometry, Rules};
use heapreel_models::virtual_memory::{
    CLEAR_BYTES, MappedEntry, PageEntry, Parameters, table_bytes,
};
use heapreel_models::{BlockId, Model, Moment, Request, ThreadRole, Virtual};

fn model(preset: &str, settings: &[(&str, &str)]) -> Virtual {
    let mut parameters = Parameters::preset(preset).expect("the preset exists");
    for (name, value) in settings {
        parameters.set(name, value).unwrap();
    }
    Virtual::new(&parameters).unwrap()
}

fn request(size: u64) -> Request {
    Request {
        size,
        align: 0,
        zeroed: false,
    }
}

fn thread(thread: u32) -> Moment {
    Moment {
        thread,
        ..Moment::default()
    }
}

/// 000-d: pages of 4, 16 or 64 KiB can be mapped.
#[test]
fn three_page_sizes_can_be_mapped() {
    for (granule, works) in [
        ("4KiB", true),
        ("16KiB", true),
        ("64KiB", true),
        ("32KiB", false),
    ] {
        let mut parameters = Parameters::default();
        parameters.set("map_granule", granule).unwrap();
        assert_eq!(Virtual::new(&parameters).is_ok(), works, "{granule}");
    }
}

/// 000-e: a share of 30 % that nobody can use, by construction. 40 threads with one block in
/// each of 12 classes have the floor F = 40·(2 + 12)·64 KiB + 40·8 KiB = 36 160 KiB, and the
/// table of granules 312 KiB; n blocks of 512 KiB fill their pages. R/H = 0.7 for
/// n = (0.7·36 472 - 45) / (0.3·512) = 166.
#[test]
fn thirty_percent_are_out_of_use_by_construction() {
    let mut model = model("stock203", &[]);
    let classes = [8, 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224];
    let mut ids = (0..).map(BlockId);
    for number in 0..40 {
        for size in classes {
            model
                .allocate(&thread(number), ids.next().unwrap(), request(size))
                .unwrap();
        }
    }
    assert_eq!(model.committed(), 36_160 << 10);
    for number in 0..166 {
        let at = thread(number % 40);
        model
            .allocate(&at, ids.next().unwrap(), request(512 << 10))
            .unwrap();
    }
    let report = model.report();
    let share = report.requested as f64 / report.held as f64;
    assert!((share - 0.70).abs() < 0.01, "{share}");
    let waste = report.waste_by_cause;
    assert_eq!(waste.headers, 40 * (128 << 10));
    assert_eq!(waste.thread_blocks, 40 * (8 << 10));
    assert_eq!(waste.tables, 312 << 10);
    assert_eq!(waste.total(), report.held - report.used);
    // Of each page, 4 KiB of blocks are handed out and one of them is used.
    let sizes = classes.iter().map(|size| 4096 / size * size);
    assert_eq!(
        waste.page_tails,
        40 * sizes.clone().map(|bytes| (64 << 10) - bytes).sum::<u64>()
    );
    let used: u64 = classes.iter().sum();
    assert_eq!(waste.free_blocks, 40 * (sizes.sum::<u64>() - used));
}

/// A run of 40 threads, 5 of which work for the frame: blocks of many sizes, freed in bursts,
/// some of them by other threads.
fn crowd(model: &mut Virtual) -> (f64, u64) {
    for number in 0..40 {
        let role = if number < 5 {
            ThreadRole::Performance
        } else {
            ThreadRole::Low
        };
        model.thread_start(&thread(number), role);
    }
    let mut random = 1_u64;
    let mut next = move |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % below
    };
    let mut live: Vec<BlockId> = Vec::new();
    let mut unused: Vec<BlockId> = (0..200_000).rev().map(BlockId).collect();
    let (mut waste, mut frames) = (0.0, 0.0);
    for frame in 0..200 {
        let at = |thread| Moment {
            thread,
            frame,
            nanos: u64::from(frame) * 16_666_667,
            ..Moment::default()
        };
        for _ in 0..400 {
            let bits = 4 + next(9);
            let size = (1 << bits) + next(1 << bits);
            let id = unused.pop().expect("enough numbers");
            model
                .allocate(&at(next(40) as u32), id, request(size))
                .unwrap();
            live.push(id);
        }
        let burst = if frame % 20 == 19 {
            live.len() * 3 / 4
        } else {
            live.len() / 50
        };
        for _ in 0..burst {
            let id = live.swap_remove(next(live.len() as u64) as usize);
            model.free(&at(next(40) as u32), id);
            unused.push(id);
        }
        model.frame_end(&at(0));
        waste += model.report().waste;
        frames += 1.0;
    }
    model.audit().unwrap();
    (
        waste / frames,
        model.mapping().maps + model.mapping().unmaps,
    )
}

/// 000-f: 40 threads in 40 heaps, and in 6; and the steps between stock and all measures.
#[test]
fn each_measure_lowers_the_waste() {
    let small = ("phys_budget", "2GiB");
    let waste = |preset, settings: &[(&str, &str)]| crowd(&mut model(preset, settings)).0;
    let stock = waste("stock203", &[small]);
    let slide_sizes = [
        ("slice", "16KiB"),
        ("medium_page", "128KiB"),
        ("segment", "8MiB"),
    ];
    let at_once = [
        ("allow_decommit", "true"),
        ("reset_delay", "0"),
        ("segment_decommit_delay", "0"),
        ("retire_cycles_small", "0"),
        ("retire_cycles_medium", "0"),
    ];
    let fine = [small, ("map_granule", "16KiB")];
    let returned = waste("stock203", &[&[small], &at_once[..]].concat());
    let sized = waste("stock203", &[&fine[..], &slide_sizes].concat());
    let shared = waste(
        "stock203",
        &[&fine[..], &slide_sizes, &[("heaps", "roles")]].concat(),
    );
    let all = waste(
        "stock203",
        &[&fine[..], &slide_sizes, &[("heaps", "roles")], &at_once[..]].concat(),
    );
    assert!(
        stock > returned && returned > sized,
        "{stock} {returned} {sized}"
    );
    assert!(sized > shared && shared > all, "{sized} {shared} {all}");

    let per_thread = waste("capcom8", &[("heaps", "per_thread")]);
    let six = waste("capcom8", &[]);
    assert!(six < per_thread, "{six} {per_thread}");
    let mut six = model("capcom8", &[]);
    crowd(&mut six);
    assert_eq!(six.heaps().len(), 6);
}

/// What the granule and the kept runs cost and save: fewer calls for more memory.
#[test]
fn kept_runs_trade_memory_for_calls() {
    let run = |granule, entries| {
        crowd(&mut model(
            "capcom8",
            &[
                ("map_granule", granule),
                ("lru_entries", entries),
                ("reset_delay", "0"),
                // A table of granules of 16 KiB for little memory, so that it does not decide.
                ("phys_budget", "128MiB"),
            ],
        ))
    };
    let (fine, coarse) = (run("16KiB", "0"), run("64KiB", "0"));
    assert!(
        fine.1 > coarse.1 && fine.0 < coarse.0,
        "{fine:?} {coarse:?}"
    );
    let (kept, more) = (run("64KiB", "2"), run("64KiB", "16"));
    assert!(
        coarse.1 > kept.1 && kept.1 > more.1,
        "{coarse:?} {kept:?} {more:?}"
    );
    assert!(
        coarse.0 < kept.0 && kept.0 < more.0,
        "{coarse:?} {kept:?} {more:?}"
    );
}

/// 000-g: eager commit off, memory back at once from segments, after 25 ms from spans; the
/// last is what mimalloc does anyway.
#[test]
fn the_slides_options() {
    let parameters = Parameters::default();
    assert!(!parameters.eager_commit);
    assert_eq!(parameters.segment_decommit_delay, 0);
    assert_eq!(parameters.reset_delay, 25);
    assert_eq!(parameters.reset_delay, Rules::STOCK.reset_delay);
    const { assert!(Rules::STOCK.eager_commit) };
}

/// 000-h: 8 MiB, 128 KiB, 16 KiB, small blocks up to 4 KiB; the slide's macros make 4 MiB.
#[test]
fn the_slides_sizes_and_their_conflict() {
    let captions = Parameters::preset("capcom8").unwrap().geometry();
    assert_eq!(captions, Geometry::SLIDE_CAPTIONS);
    assert_eq!(
        (captions.segment_bytes, captions.slice_bytes),
        (8 << 20, 16 << 10)
    );
    assert_eq!(
        (captions.medium_page_bytes, captions.small_max()),
        (128 << 10, 4 << 10)
    );
    let macros = Parameters::preset("capcom4").unwrap().geometry();
    // The segment's shift is 8 and 14 for the slice: 22. For 8 MiB the 8 had to be 9.
    assert_eq!(macros.segment_bytes, 1 << (8 + 14));
    assert_eq!(captions.segment_bytes, 1 << (9 + 14));
    assert_eq!(
        Parameters::default(),
        Parameters::preset("capcom8").unwrap()
    );
}

/// A model in which each thread's block of 1 MiB is one run of granules that is mapped when
/// the block is made and given back when it is freed; a small block keeps the segment.
fn runs(threads: u32, lru_entries: &str) -> Virtual {
    let settings = [
        ("free_mode", "direct"),
        ("reset_delay", "0"),
        ("lru_entries", lru_entries),
    ];
    let mut model = model("capcom8", &settings);
    for number in 0..threads {
        model
            .allocate(&thread(number), BlockId(number + 1), request(8))
            .unwrap();
    }
    model
}

fn use_run(model: &mut Virtual, number: u32) {
    model
        .allocate(&thread(number), BlockId(0), request(1 << 20))
        .unwrap();
    model.free(&thread(number), BlockId(0));
}

/// Hits of all wanted runs in `cycles` after as many to warm up.
fn hits(model: &mut Virtual, cycles: u32, mut cycle: impl FnMut(&mut Virtual, u32)) -> (u64, u64) {
    (0..cycles).for_each(|number| cycle(model, number));
    let before = model.mapping();
    (cycles..2 * cycles).for_each(|number| cycle(model, number));
    let after = model.mapping();
    let hits = after.hits - before.hits;
    (hits, hits + after.misses - before.misses)
}

/// 000-i: 16 runs in turn are all still mapped, of 17 none is, and none without a list.
#[test]
fn sixteen_runs_in_turn_hit_and_seventeen_miss() {
    let rate = |threads, entries| {
        hits(&mut runs(threads, entries), 5, |model, _| {
            (0..threads).for_each(|number| use_run(model, number));
        })
    };
    assert_eq!(rate(16, "16"), (80, 80));
    assert_eq!(rate(17, "16"), (0, 85));
    assert_eq!(rate(16, "0"), (0, 80));
}

/// 000-i: ten runs a cycle, seven of which were given back among the last sixteen: 70 %.
#[test]
fn seven_of_ten_runs_are_still_mapped() {
    let mut model = runs(7 + 12, "16");
    let cycle = |model: &mut Virtual, number: u32| {
        (0..7).for_each(|hot| use_run(model, hot));
        (0..3).for_each(|cold| use_run(model, 7 + (number * 3 + cold) % 12));
    };
    assert_eq!(hits(&mut model, 20, cycle), (140, 200));
}

/// 000-j: a table of 8 bytes for each 64 KiB of physical memory; fields of 64 bits in all.
#[test]
fn the_table_has_eight_bytes_for_each_granule() {
    assert_eq!(size_of::<PageEntry>(), 8);
    assert_eq!(size_of::<MappedEntry>(), 8);
    let full = PageEntry::new((1 << 48) - 1, 15, 4095);
    assert_eq!(full.0, u64::MAX);
    let full = MappedEntry::new((1 << 44) - 1, 65_535, true);
    assert_eq!(full.0 >> 61, 0, "three bits stay for misc");
    assert_eq!(full.0, u64::MAX >> 3);
    assert_eq!(table_bytes(512 << 20, 64 << 10), 64 << 10);
    let model = model("capcom8", &[("phys_budget", "8GiB")]);
    assert_eq!(model.waste().tables, 1 << 20);
}

/// 000-k: memory is cleared 256 bytes at a time: 256 times for a granule.
#[test]
fn a_granule_is_cleared_in_256_steps() {
    let mut model = model("capcom8", &[]);
    let at = Moment::default();
    model.allocate(&at, BlockId(0), request(20 << 20)).unwrap();
    let mapping = model.mapping();
    assert_eq!((mapping.maps, mapping.zeroed), (1, 321 << 16));
    assert_eq!(mapping.clear_iterations(), 321 * 256);
    assert_eq!(mapping.clear_iterations(), mapping.zeroed / CLEAR_BYTES);
    model.free(&at, BlockId(0));
    model.allocate(&at, BlockId(0), request(20 << 20)).unwrap();
    assert_eq!(model.mapping().hits, 1);
    assert_eq!(
        model.mapping().zeroed,
        2 * (321 << 16),
        "what was used is cleared again"
    );
}

/// What was still mapped is only cleared again if it is told to.
#[test]
fn a_hit_can_go_without_clearing() {
    let mut model = model("capcom8", &[("zero_on_hit", "false")]);
    for _ in 0..3 {
        model
            .allocate(&Moment::default(), BlockId(0), request(20 << 20))
            .unwrap();
        model.free(&Moment::default(), BlockId(0));
    }
    assert_eq!(
        (model.mapping().hits, model.mapping().zeroed),
        (2, 321 << 16)
    );
}

/// 000-l: of N blocks that were freed at once, each allocation of their owner works off 100:
/// ceil(N / 100) allocations for all.
#[test]
fn a_burst_of_frees_drains_a_hundred_at_a_time() {
    for burst in [1, 100, 101, 1000, 2870] {
        let mut model = model("capcom8", &[]);
        for id in 0..burst {
            model
                .allocate(&thread(0), BlockId(id), request(48))
                .unwrap();
        }
        for id in 0..burst {
            // Who frees makes no difference.
            model.free(&thread(id % 2), BlockId(id));
        }
        let mut left = vec![model.heaps()[0].queued];
        while left.last() != Some(&0) {
            // The allocations of others drain nothing.
            model
                .allocate(&thread(1), BlockId(5000), request(48))
                .unwrap();
            let id = 5000 + left.len() as u32;
            model
                .allocate(&thread(0), BlockId(id), request(48))
                .unwrap();
            left.push(model.heaps()[0].queued);
        }
        let expected: Vec<u64> = (0..=burst.div_ceil(100))
            .map(|calls| u64::from(burst.saturating_sub(calls * 100)))
            .collect();
        assert_eq!(left, expected);
        assert_eq!(model.heaps()[0].queued_peak, u64::from(burst));
        assert_eq!(model.report().gc_steps, u64::from(burst));
    }
}

/// The floor of section 2.6 for the slide's sizes, in the model with one heap for each
/// thread.
#[test]
fn the_floor_of_forty_threads() {
    for (preset, kib) in [("stock203", 36_160), ("capcom4", 9_280), ("capcom8", 9_920)] {
        let mut model = model(preset, &[("heaps", "per_thread")]);
        let classes = [8, 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224];
        for number in 0..40 {
            for (class, size) in classes.into_iter().enumerate() {
                let id = BlockId(number * 12 + class as u32);
                model.allocate(&thread(number), id, request(size)).unwrap();
            }
        }
        assert_eq!(model.committed(), kib << 10, "{preset}");
    }
}

/// The picture of slides 17 and 20: 24 MiB are used in pieces of 4, 40 are free and scattered.
/// A heap cannot place 24 MiB; granules need not lie together.
#[test]
fn scattered_free_memory_serves_a_long_request() {
    for picture in ["....U..U.U.U.U.U", "U.....U..U.U.U.U"] {
        // Each block of 4 MiB has a segment, with a header of 48 KiB: one granule.
        let mut model = model("capcom8", &[("phys_budget", "65MiB"), ("reset_delay", "0")]);
        let at = Moment::default();
        for id in 0..15 {
            model.allocate(&at, BlockId(id), request(4 << 20)).unwrap();
        }
        for (id, _) in (0..15)
            .zip(picture.chars())
            .filter(|(_, unit)| *unit == '.')
        {
            model.free(&at, BlockId(id));
        }
        model.allocate(&at, BlockId(20), request(24 << 20)).unwrap();
    }
}

/// The physical pages behind the model's addresses: it maps, so it is numbered here, in the
/// order of mapping; a page that goes back is the next one to be used.
struct Pages {
    of: std::collections::BTreeMap<u64, u32>,
    free: Vec<u32>,
    next: u32,
}

impl Pages {
    fn map(&mut self, address: u64, bytes: u64) -> Vec<u32> {
        let pages = (address..address + bytes).step_by(4096);
        let numbers = pages.map(|page| {
            let number = self.free.pop().unwrap_or(self.next);
            self.next = self.next.max(number + 1);
            self.of.insert(page, number);
            number
        });
        numbers.collect()
    }

    fn unmap(&mut self, address: u64) {
        let number = self.of.remove(&address).expect("a mapped page");
        self.free.push(number);
    }
}

/// 000-c: a block of 8 KiB over pages of 4 KiB: memory is full but for two pages that lie
/// apart, and they serve it, side by side in addresses.
#[test]
fn two_pages_that_lie_apart_serve_a_block_of_two() {
    // 256 pages are a segment, six of them its header; sixteen more are another one's header
    // and ten of its pages.
    let settings = [
        ("slice", "4KiB"),
        ("segment", "1MiB"),
        ("medium_page", "4KiB"),
        ("map_granule", "4KiB"),
        ("phys_budget", "1088KiB"),
        ("reset_delay", "0"),
        ("free_mode", "direct"),
        ("lru_entries", "0"),
    ];
    let mut model = model("capcom8", &settings);
    let at = Moment::default();
    let mut pages = Pages {
        of: Default::default(),
        free: Vec::new(),
        next: 0,
    };
    let mut addresses = Vec::new();
    for id in 0..260 {
        let placed = model.allocate(&at, BlockId(id), request(4096)).unwrap();
        pages.map(placed.address, 4096);
        addresses.push(placed.address);
    }
    assert_eq!(model.free_physical(), 0, "272 pages are in use");
    for id in [2, 4] {
        model.free(&at, BlockId(id));
        pages.unmap(addresses[id as usize]);
    }
    assert_eq!(model.free_physical(), 8192);
    let before = model.mapping().maps;
    let placed = model.allocate(&at, BlockId(300), request(8192)).unwrap();
    assert_eq!(
        (model.free_physical(), model.mapping().maps),
        (0, before + 1)
    );
    let behind = pages.map(placed.address, 8192);
    assert_eq!(behind.len(), 2);
    assert!(
        behind[0].abs_diff(behind[1]) == 2,
        "{behind:?} are not neighbours"
    );
    // The word for a kept run tells such runs apart.
    assert!(MappedEntry::new(placed.address >> 12, 2, true).sparse());
    // No third page is free.
    assert!(model.allocate(&at, BlockId(301), request(4096)).is_err());
}
