//! The segment heap: invariants H1 to H10, and a byte map that says where best and first
//! fit must place each block.

mod support;

use heapreel_models::heap::{Coalesce, Heap, OnFull, Parameters, Policy, SegmentSpec};
use heapreel_models::lookup::{Part, Suspicion};
use heapreel_models::{
    BlockId, FailureCause, Model, Moment, Region, Request, RunState, SegmentId, metrics,
};
use proptest::prelude::*;
use support::{Op, Outcome, Run, Shape};

const TOY: u64 = 64 << 10;

fn toy(policy: Policy) -> Parameters {
    let segments = vec![SegmentSpec::new("Toy", TOY)];
    Parameters {
        segments,
        fit: policy,
        ..Parameters::default()
    }
}

fn heap(parameters: &Parameters) -> Box<dyn Model> {
    Box::new(Heap::new(parameters.clone()).unwrap())
}

const SHAPE: Shape = Shape {
    ops: 300,
    max_size: 8 << 10,
    max_align_log2: 9,
    segments: 1,
    threads: 3,
};

fn plain() -> Shape {
    Shape {
        max_align_log2: 3,
        ..SHAPE
    }
}

/// A segment as a map of its bytes: 0 free, else the block's number plus one.
struct ByteMap {
    bytes: Vec<u32>,
    rover: usize,
}

impl ByteMap {
    fn new() -> ByteMap {
        ByteMap {
            bytes: vec![0; TOY as usize],
            rover: 0,
        }
    }

    /// Free ranges: (first byte, length).
    fn ranges(&self) -> Vec<(usize, usize)> {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for (at, &owner) in self.bytes.iter().enumerate() {
            match ranges.last_mut() {
                _ if owner != 0 => {}
                Some((start, length)) if *start + *length == at => *length += 1,
                _ => ranges.push((at, 1)),
            }
        }
        ranges
    }

    /// Where a block of `need` bytes goes, with how much of the range in front of it.
    fn choose(&self, policy: Policy, need: usize, align: usize) -> Option<(usize, usize)> {
        let pad = |start: usize| {
            let fits =
                |pad: &usize| (start + 32 + pad).is_multiple_of(align) && (*pad == 0 || *pad >= 64);
            (0..).find(fits).unwrap()
        };
        let fits = |&(start, length): &(usize, usize)| pad(start) + need <= length;
        let mut fitting: Vec<_> = self.ranges().into_iter().filter(fits).collect();
        match policy {
            Policy::Best => fitting.sort_by_key(|&(start, length)| (length, start)),
            Policy::Next => {
                let reached = |&(start, length): &(usize, usize)| start + length > self.rover;
                fitting.sort_by_key(|range| !reached(range));
            }
            _ => {}
        }
        fitting
            .first()
            .map(|&(start, length)| (start + pad(start), length - pad(start)))
    }

    fn take(&mut self, policy: Policy, id: BlockId, size: u64, align: u64) -> Option<u64> {
        let need = 32 + size.max(32).next_multiple_of(16) as usize;
        let (start, length) = self.choose(policy, need, align.max(1) as usize)?;
        let bytes = if length - need >= 64 { need } else { length };
        self.bytes[start..start + bytes].fill(id.0 + 1);
        self.rover = start + bytes;
        Some(start as u64)
    }

    fn free(&mut self, id: BlockId) {
        self.bytes
            .iter_mut()
            .filter(|owner| **owner == id.0 + 1)
            .for_each(|owner| *owner = 0);
    }

    /// Tries to resize in place, else moves.
    fn resize(&mut self, policy: Policy, id: BlockId, size: u64, align: u64) -> Option<u64> {
        let need = 32 + size.max(32).next_multiple_of(16) as usize;
        let owner = id.0 + 1;
        let start = self.bytes.iter().position(|&byte| byte == owner).unwrap();
        let count = |from: usize, owner| {
            self.bytes[from..]
                .iter()
                .take_while(|&&byte| byte == owner)
                .count()
        };
        let length = count(start, owner);
        let behind = count(start + length, 0);
        let room = if need > length {
            length + behind
        } else {
            length
        };
        if need <= room {
            let kept = if room - need >= 64 { need } else { room };
            self.bytes[start..start + room].fill(0);
            self.bytes[start..start + kept].fill(owner);
            return Some(start as u64);
        }
        let moved = self.take(policy, BlockId(u32::MAX - 1), size, align)?;
        self.free(id);
        self.bytes
            .iter_mut()
            .filter(|byte| **byte == u32::MAX)
            .for_each(|byte| *byte = owner);
        Some(moved)
    }
}

/// Replays on the heap and on the byte map and demands the same addresses and failures.
fn agree(policy: Policy, ops: &[Op]) {
    let mut run = Run::new(heap(&toy(policy)));
    let base = run.model().regions()[0].start + 32;
    let mut map = ByteMap::new();
    for &op in ops {
        let picked = match op {
            Op::Reallocate { pick, .. } => pick.checked_rem(run.live.len()).map(|at| run.live[at]),
            _ => None,
        };
        let outcome = run.step(op);
        let expected = match (op, outcome) {
            (_, Outcome::Nothing) => continue,
            (_, Outcome::Freed(id)) => {
                map.free(id);
                continue;
            }
            (Op::Allocate { size, align, .. }, Outcome::Placed(id, _)) => {
                map.take(policy, id, size, align)
            }
            (Op::Allocate { size, align, .. }, _) => {
                map.take(policy, BlockId(1 << 30), size, align)
            }
            (Op::Reallocate { size, .. }, _) => {
                let (id, align) = picked.unwrap();
                map.resize(policy, id, size, align)
            }
            _ => unreachable!(),
        };
        let actual = match outcome {
            Outcome::Placed(_, placed) => Some(placed.address - base),
            _ => None,
        };
        assert_eq!(actual, expected, "{op:?}");
    }
}

/// H1: blocks tile each segment; H2: no two free ranges touch; H3: sums and the longest.
fn check_tiling(model: &dyn Model, immediate: bool) {
    for region in model.regions() {
        let segment = region.segment.unwrap();
        let runs: u64 = region.runs.iter().map(|run| run.0).sum();
        assert_eq!(runs, region.bytes);
        let touching = region
            .runs
            .windows(2)
            .any(|pair| pair.iter().all(|run| run.1 == RunState::Free));
        assert!(!(immediate && touching));
        let (free, sizes) = (metrics::free_runs(&[region]), model.free_sizes(segment));
        assert_eq!(free.iter().sum::<u64>(), sizes.total());
        if immediate {
            assert_eq!(free.len() as u64, sizes.count());
        }
        let counters = model.by_segment()[usize::from(segment.0)].1;
        assert_eq!(counters.free, sizes.total());
    }
}

/// H6 and H7 by the ranges as they were: what the policy should have taken; H9: a failure
/// means that no range was long enough.
fn check_choice(policy: Policy, ops: &[Op]) {
    let mut run = Run::new(heap(&toy(policy)));
    for &op in ops {
        let before = free_ranges(&run.model().regions()[0]);
        let outcome = run.step(op);
        let Op::Allocate { size, align, .. } = op else {
            continue;
        };
        let need = 32 + size.max(32).next_multiple_of(16);
        match outcome {
            Outcome::Placed(_, placed) if align <= 16 => {
                let start = placed.address - 32;
                let chosen = *before.iter().find(|range| range.0 == start).unwrap();
                let fitting = || before.iter().filter(|range| range.1 >= need);
                match policy {
                    Policy::Best => assert!(fitting().all(|range| range.1 >= chosen.1)),
                    _ => assert!(fitting().all(|range| range.0 >= chosen.0)),
                }
            }
            Outcome::Failed if align <= 16 => {
                assert!(before.iter().all(|range| range.1 < need));
                let failure = run.ledger.failures().last().unwrap().failure;
                assert_eq!(
                    failure.largest_free,
                    before.iter().map(|range| range.1).max().unwrap_or(0)
                );
                let enough = failure.free >= need;
                let cause = match failure.cause {
                    FailureCause::TooLarge => need > TOY,
                    FailureCause::NoContiguous => enough,
                    FailureCause::Exhausted => !enough,
                    FailureCause::OverBudget => false,
                };
                assert!(cause, "{failure:?}");
            }
            _ => {}
        }
    }
}

fn free_ranges(region: &Region) -> Vec<(u64, u64)> {
    let mut at = region.start;
    let mut ranges = Vec::new();
    for &(bytes, state) in &region.runs {
        if state == RunState::Free {
            ranges.push((at, bytes));
        }
        at += bytes;
    }
    ranges
}

/// H10: every byte of a live block leads to it, one byte past its end ranks it first.
fn check_lookup(run: &Run) {
    let model = run.model();
    for &(id, _) in &run.live {
        let block = model.block(id).unwrap();
        for offset in [0, block.requested / 2, block.requested.saturating_sub(1)] {
            let lookup = model.lookup(block.address + offset);
            assert_eq!(lookup.block.unwrap().id, Some(id.0));
            assert_eq!(lookup.part, Part::Payload);
        }
        let end = block.address + block.usable;
        let past = model.lookup(end);
        let first = past.suspects[0];
        assert_eq!(
            (first.block.id, first.suspicion),
            (Some(id.0), Suspicion::Overrun)
        );
        assert_eq!(first.block.distance, 1);
        match past.block {
            Some(next) => assert_eq!(next.start, end),
            None => assert_eq!(past.part, Part::Outside),
        }
    }
}

proptest! {
    #![proptest_config(support::config(64))]

    #[test]
    fn best_fit_places_as_the_byte_map_says(ops in support::ops(SHAPE)) {
        agree(Policy::Best, &ops);
    }

    #[test]
    fn first_fit_places_as_the_byte_map_says(ops in support::ops(SHAPE)) {
        agree(Policy::First, &ops);
    }

    #[test]
    fn next_fit_places_as_the_byte_map_says(ops in support::ops(SHAPE)) {
        agree(Policy::Next, &ops);
    }

    #[test]
    fn h6_and_h9_best_fit_takes_the_shortest(ops in support::ops(plain())) {
        check_choice(Policy::Best, &ops);
    }

    #[test]
    fn h7_and_h9_first_fit_takes_the_lowest(ops in support::ops(plain())) {
        check_choice(Policy::First, &ops);
    }

    #[test]
    fn h1_to_h3_for_every_policy_at_every_step(
        ops in support::ops(Shape { segments: 3, ..SHAPE }),
        preset in proptest::sample::select(Parameters::PRESETS),
        deferred in any::<bool>(),
    ) {
        let mut parameters = Parameters::preset(preset).unwrap();
        parameters.segments = ["A", "B", "C"].map(|name| SegmentSpec::new(name, TOY)).to_vec();
        parameters.segments[1].on_full = OnFull::Overflow("C".into());
        parameters.segments[2].on_full = OnFull::Grow;
        if deferred {
            parameters.coalesce = Coalesce::Deferred(5);
        }
        let mut run = Run::new(heap(&parameters));
        let bases = |run: &Run| run.model().regions().iter().map(|region| region.start).collect::<Vec<_>>();
        let start = bases(&run);
        for &op in &ops {
            run.step(op);
            check_tiling(run.model(), !deferred);
            support::check_counters(run.model());
        }
        support::check_regions(&run);
        prop_assert_eq!(start, bases(&run));
    }

    #[test]
    fn h4_and_h5_the_table_and_the_calls_stay(ops in support::ops(Shape { segments: 5, ..SHAPE })) {
        let table = |model: &dyn Model| {
            let regions = model.regions().into_iter();
            regions.map(|region| (region.name, region.start, region.bytes)).collect::<Vec<_>>()
        };
        let mut run = Run::new(heap(&Parameters::default()));
        let (before, calls) = (table(run.model()), run.model().counters().os);
        ops.iter().for_each(|&op| { run.step(op); });
        prop_assert_eq!(before, table(run.model()));
        prop_assert_eq!(calls, run.model().counters().os);
        prop_assert_eq!(calls.reserve, 5);
    }

    #[test]
    fn h10_lookups_lead_to_the_block(ops in support::ops(Shape { ops: 120, ..SHAPE })) {
        let mut run = Run::new(heap(&toy(Policy::Best)));
        for &op in &ops {
            run.step(op);
        }
        check_lookup(&run);
    }

    #[test]
    fn p4_to_p6_for_every_policy(
        ops in support::ops(Shape { segments: 2, ..SHAPE }),
        preset in proptest::sample::select(Parameters::PRESETS),
        deferred in any::<bool>(),
    ) {
        let mut parameters = Parameters::preset(preset).unwrap();
        parameters.segments = ["A", "B"].map(|name| SegmentSpec::new(name, TOY)).to_vec();
        if deferred {
            parameters.coalesce = Coalesce::Deferred(7);
        }
        support::check_repeatable(|| heap(&parameters), &ops);
    }

    #[test]
    fn a_deferred_heap_fails_only_where_an_immediate_one_would(ops in support::ops(plain())) {
        // After a sweep nothing that is free touches: H9 holds for the swept segment.
        let parameters = Parameters { coalesce: Coalesce::Deferred(1000), ..toy(Policy::Best) };
        let mut run = Run::new(heap(&parameters));
        for &op in &ops {
            if run.step(op) == Outcome::Failed && matches!(op, Op::Allocate { .. }) {
                let failure = run.ledger.failures().last().unwrap().failure;
                prop_assert!(failure.largest_free < failure.needed);
                let joined = metrics::free_runs(&run.model().regions());
                prop_assert_eq!(joined.iter().max().copied().unwrap_or(0), failure.largest_free);
            }
        }
    }
}

#[test]
fn row_000_a_five_segments_take_five_requests_and_give_five_back() {
    let mut heap = Heap::new(Parameters::default()).unwrap();
    let names: Vec<_> = heap
        .regions()
        .into_iter()
        .map(|region| region.name)
        .collect();
    assert_eq!(
        names,
        ["Default", "Permanent", "Resource", "Develop", "Temp"]
    );
    assert!(
        heap.regions()
            .iter()
            .all(|region| region.start % (2 << 20) == 0)
    );
    let start = heap.counters().os;
    assert_eq!((start.reserve, start.commit), (5, 5));
    for id in 0..1000 {
        let at = Moment {
            segment: SegmentId(id as u16 % 5),
            ..Moment::default()
        };
        let request = Request {
            size: 1000,
            align: 0,
            zeroed: false,
        };
        heap.allocate(&at, BlockId(id), request).unwrap();
    }
    (0..1000).for_each(|id| heap.free(&Moment::default(), BlockId(id)));
    assert_eq!(heap.counters().os, start);
    heap.close();
    assert_eq!(heap.counters().os.release, 5);
}

const UNIT: u64 = 4 << 20;

/// A segment of 64 MB in units of 4 MB without headers; `U` is used, `.` was given back.
fn slide(picture: &str) -> Run {
    let parameters = Parameters {
        segments: vec![SegmentSpec::new("Slide", 16 * UNIT)],
        header: 0,
        ..Parameters::default()
    };
    let mut run = Run::new(heap(&parameters));
    for _ in 0..picture.len() {
        run.step(Op::Allocate {
            size: UNIT,
            align: 0,
            segment: 0,
            thread: 0,
            zeroed: false,
        });
    }
    for (id, unit) in picture.bytes().enumerate() {
        if unit == b'.' {
            run.ledger.free(&run.at, BlockId(id as u32));
        }
    }
    run
}

/// Used, free and avail in MB, and `1 - avail/free`.
fn numbers(run: &Run) -> (u64, u64, u64, f64) {
    let (counters, free) = (
        run.model().counters(),
        metrics::free_runs(&run.model().regions()),
    );
    let avail = free.iter().max().copied().unwrap_or(0);
    (
        counters.used >> 20,
        counters.free >> 20,
        avail >> 20,
        metrics::ext_frag(&free),
    )
}

fn request(run: &mut Run, megabytes: u64) -> Outcome {
    let size = megabytes << 20;
    run.step(Op::Allocate {
        size,
        align: 0,
        segment: 0,
        thread: 0,
        zeroed: false,
    })
}

#[test]
fn row_000_b_the_fragmentation_slide() {
    assert_eq!(numbers(&slide("UUUUUUUUUUUUUUU")), (60, 4, 4, 0.0));
    let mut seventeen = slide("....U..U.U.U.U.U");
    assert_eq!(numbers(&seventeen), (24, 40, 16, 0.6));
    let mut twenty = slide("U.....U..U.U.U.U");
    assert_eq!(numbers(&twenty), (24, 40, 20, 0.5));
    for run in [&mut seventeen, &mut twenty] {
        assert_eq!(request(run, 24), Outcome::Failed);
        let failed = run.ledger.failures()[0];
        assert_eq!(failed.failure.cause, FailureCause::NoContiguous);
        assert_eq!(
            (failed.failure.needed, failed.failure.free),
            (24 << 20, 40 << 20)
        );
        assert_eq!(failed.free.total(), 40 << 20);
    }
    assert_eq!(
        seventeen.ledger.failures()[0].failure.largest_free,
        16 << 20
    );
    assert_eq!(twenty.ledger.failures()[0].failure.largest_free, 20 << 20);
    assert!(matches!(request(&mut twenty, 20), Outcome::Placed(..)));
}

#[test]
fn slide_8_three_free_units_of_which_no_two_touch_do_not_hold_three() {
    let mut run = slide(".U.U.UUUUUUUUUUU");
    assert_eq!(numbers(&run), (52, 12, 4, 1.0 - 1.0 / 3.0));
    assert_eq!(request(&mut run, 12), Outcome::Failed);
    assert_eq!(
        run.ledger.failures()[0].failure.cause,
        FailureCause::NoContiguous
    );
}

#[test]
fn a_full_segment_overflows_or_grows() {
    let mut parameters = Parameters {
        segments: vec![
            SegmentSpec::new("Default", 1 << 20),
            SegmentSpec::new("Temp", TOY),
        ],
        ..Parameters::default()
    };
    parameters.segments[1].on_full = OnFull::Overflow("Default".into());
    let temp = Moment {
        segment: SegmentId(1),
        ..Moment::default()
    };
    let big = Request {
        size: TOY,
        align: 0,
        zeroed: false,
    };
    let mut overflowing = Heap::new(parameters.clone()).unwrap();
    let placed = overflowing.allocate(&temp, BlockId(0), big).unwrap();
    let regions = overflowing.regions();
    assert!((regions[0].start..regions[0].start + regions[0].bytes).contains(&placed.address));
    let report = overflowing.report(SegmentId(1));
    assert_eq!((report.overflowed, report.overflowed_bytes), (1, TOY + 32));
    assert_eq!(overflowing.by_segment()[1].1.blocks, 0);

    parameters.segments[1].on_full = OnFull::Grow;
    let mut growing = Heap::new(parameters).unwrap();
    growing.allocate(&temp, BlockId(0), big).unwrap();
    assert_eq!(growing.report(SegmentId(1)).grown, 2 << 20);
    assert_eq!(growing.regions()[1].bytes, TOY + (2 << 20));
}

#[test]
fn a_free_range_remembers_its_last_owner() {
    let mut heap = Heap::new(toy(Policy::Best)).unwrap();
    let request = Request {
        size: 1000,
        align: 0,
        zeroed: false,
    };
    let at = |site, frame, thread| Moment {
        site,
        frame,
        thread,
        ..Moment::default()
    };
    let first = heap.allocate(&at(1, 0, 0), BlockId(0), request).unwrap();
    let second = heap.allocate(&at(2, 1, 3), BlockId(1), request).unwrap();
    heap.allocate(&at(3, 1, 0), BlockId(2), request).unwrap();
    heap.free(&at(9, 7, 4), BlockId(1));
    let lookup = heap.lookup(second.address + 500);
    assert_eq!(lookup.part, Part::Free);
    let suspect = lookup.suspects[0];
    assert_eq!(suspect.suspicion, Suspicion::UseAfterFree);
    let (owner, freed) = (
        suspect.block.allocated.unwrap(),
        suspect.block.freed.unwrap(),
    );
    assert_eq!((owner.site, owner.frame, owner.thread), (2, 1, 3));
    assert_eq!((freed.site, freed.frame, freed.thread), (9, 7, 4));
    // The block in front comes second, or first near its end.
    assert_eq!(lookup.suspects[1].block.id, Some(0));
    assert_eq!(lookup.suspects[1].block.allocated.unwrap().site, 1);
    let near = heap.lookup(first.address + 1008);
    assert_eq!(near.suspects[0].block.id, Some(0));
    assert_eq!(heap.past_owners(second.address).count(), 1);
}
