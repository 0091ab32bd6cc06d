//! The recorded blocks at their addresses.

mod support;

use heapreel_models::lookup::{Part, Suspicion};
use heapreel_models::recorded::{Announced, Parameters, Recorded};
use heapreel_models::{BlockId, Identity, Model, Moment, Request, RunState, SegmentId, metrics};
use proptest::prelude::*;

fn ask(size: u64) -> Request {
    Request {
        size,
        align: 0,
        zeroed: false,
    }
}

fn place(model: &mut Recorded, id: u32, address: u64, size: u64, segment: u16) {
    model.recorded(address, size);
    let at = Moment {
        segment: SegmentId(segment),
        ..Moment::default()
    };
    assert_eq!(
        model.allocate(&at, BlockId(id), ask(size)).unwrap().address,
        address
    );
}

fn used(id: u32) -> RunState {
    RunState::Used(BlockId(id))
}

#[test]
fn blocks_that_lie_close_together_are_a_region() {
    let mut model = Recorded::new(Parameters {
        gap: 0x1_0000,
        ..Parameters::default()
    });
    place(&mut model, 0, 0x1000_0010, 0x100, 1);
    place(&mut model, 1, 0x1000_0200, 0x40, 1);
    place(&mut model, 2, 0x2000_0ff0, 0x20, 1);
    place(&mut model, 3, 0x2001_1010, 0x20, 2);
    let regions = model.regions();
    let ranges: Vec<_> = regions
        .iter()
        .map(|region| (region.start, region.bytes))
        .collect();
    assert_eq!(ranges, [(0x1000_0000, 0x1000), (0x2000_0000, 0x1_2000)]);
    let free = RunState::Free;
    let first = [
        (0x10, free),
        (0x100, used(0)),
        (0xf0, free),
        (0x40, used(1)),
        (0xdc0, free),
    ];
    assert_eq!(regions[0].runs, first);
    assert_eq!(regions[0].segment, Some(SegmentId(1)));
    // Two segments have blocks in the second.
    assert_eq!(regions[1].segment, None);
    // One byte further apart and they are two.
    place(&mut model, 4, 0x2002_1031, 0x20, 2);
    assert_eq!(model.regions().len(), 3);
}

#[test]
fn announced_heaps_are_regions_of_their_own() {
    let mut model = Recorded::new(Parameters::default());
    let heap = |name: &str, start, bytes| Announced {
        name: name.to_owned(),
        start,
        bytes,
        segment: None,
    };
    model.announce(heap("gpu", 0x1000_3000, 0x1000));
    model.announce(heap("empty", 0x9000_0000, 0x100));
    place(&mut model, 0, 0x1000_0000, 0x100, 0);
    place(&mut model, 1, 0x1000_3100, 0x100, 0);
    place(&mut model, 2, 0x1000_4000, 0x100, 0);
    let regions = model.regions();
    let names: Vec<_> = regions.iter().map(|region| region.name.as_str()).collect();
    assert_eq!(names, ["0x10000000", "gpu", "0x10004000", "empty"]);
    assert_eq!(regions[1].runs[1], (0x100, used(1)));
    model.withdraw(0x9000_0000);
    assert_eq!(model.regions().len(), 3);
}

#[test]
fn a_lookup_says_which_block_ran_over() {
    let mut model = Recorded::new(Parameters::default());
    place(&mut model, 0, 0x1000_0010, 0x100, 0);
    place(&mut model, 1, 0x1000_0120, 0x40, 0);
    let lookup = model.lookup(0x1000_0110);
    assert_eq!(
        (lookup.part, lookup.suspects[0].block.id),
        (Part::Free, Some(0))
    );
    assert_eq!(lookup.suspects[0].suspicion, Suspicion::Overrun);
    assert_eq!(lookup.next.unwrap().id, Some(1));
}

#[test]
fn what_is_mapped_is_held() {
    let mut model = Recorded::new(Parameters::default());
    model.mapped(0x4000);
    place(&mut model, 0, 0x1000_0010, 0x100, 0);
    let counters = model.counters();
    assert_eq!(
        (counters.held, counters.free, counters.identity()),
        (0x4000, 0x3f00, Identity::Kept)
    );
    model.recorded(0x1000_2000, 0x208);
    let placed = model
        .reallocate(&Moment::default(), BlockId(0), 0x200)
        .unwrap();
    assert_eq!((placed.moved, placed.usable), (0x100, 0x208));
    model.free(&Moment::default(), BlockId(0));
    assert_eq!(model.counters().used, 0);
    // A block without an address is counted and not shown.
    model
        .allocate(&Moment::default(), BlockId(1), ask(8))
        .unwrap();
    assert_eq!(
        (
            model.unplaced(),
            model.regions().len(),
            model.counters().blocks
        ),
        (1, 0, 1)
    );
}

proptest! {
    #![proptest_config(support::config(96))]

    #[test]
    fn regions_show_every_block_where_it_lay(
        slots in proptest::collection::btree_set(1_u64..4000, 1..60),
        heaps in proptest::collection::btree_set(0_u64..16, 0..4),
        gap in 0_u64..0x4000,
    ) {
        let mut model = Recorded::new(Parameters { gap, ..Parameters::default() });
        for heap in heaps {
            let name = format!("heap {heap}");
            model.announce(Announced { name, start: heap * 0x4000, bytes: 0x2000, segment: None });
        }
        let mut expected = Vec::new();
        for (id, slot) in slots.into_iter().enumerate() {
            // No block crosses the edge of a heap: slots do not.
            let size = slot % 0x40 + 1;
            place(&mut model, id as u32, slot * 0x40, size, 0);
            expected.push((slot * 0x40, size, BlockId(id as u32)));
        }
        let mut found = Vec::new();
        let mut end = 0;
        for region in model.regions() {
            prop_assert!(region.start >= end);
            end = region.start + region.bytes;
            prop_assert_eq!(region.runs.iter().map(|run| run.0).sum::<u64>(), region.bytes);
            support::used_runs(&region, |start, bytes, id| found.push((start, bytes, id)));
        }
        prop_assert_eq!(found, expected);
        prop_assert_eq!(model.counters().identity(), Identity::Kept);
        let _ = metrics::Fragmentation::of(&model.regions(), &model.counters());
    }
}
