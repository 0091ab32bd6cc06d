//! Random runs, and what must hold of any model at any time.

use std::collections::BTreeMap;

use heapreel_models::{
    BlockId, Failure, Identity, Model, Moment, Placed, Request, RunState, SegmentId, ThreadRole,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

/// The same cases on every run.
pub fn config(cases: u32) -> Config {
    Config {
        cases,
        rng_seed: RngSeed::Fixed(0x5EED),
        failure_persistence: None,
        ..Config::default()
    }
}

/// One event. `pick` chooses among the live blocks, whatever their number.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Allocate {
        thread: u32,
        size: u64,
        align: u64,
        segment: u16,
    },
    Reallocate {
        thread: u32,
        pick: usize,
        size: u64,
    },
    Free {
        thread: u32,
        pick: usize,
    },
    Exit {
        thread: u32,
    },
    FrameEnd {
        millis: u64,
    },
}

/// Sizes of all kinds, most of them small; `large_log2` bounds the rare large ones.
fn size(large_log2: u32) -> impl Strategy<Value = u64> {
    let below = |log2: u32| {
        (0..=log2, 0..1_u64 << 32).prop_map(|(bits, low)| (1 << bits) + low % (1 << bits))
    };
    prop_oneof![1 => Just(0_u64), 60 => below(10), 20 => below(14), 2 => below(large_log2)]
}

pub fn steps(count: usize, threads: u32, large_log2: u32) -> impl Strategy<Value = Vec<Step>> {
    let align = prop_oneof![9 => Just(0_u64), 1 => (0..13_u32).prop_map(|bits| 1 << bits)];
    let allocate = (0..threads, size(large_log2), align, 0..5_u16).prop_map(
        |(thread, size, align, segment)| Step::Allocate {
            thread,
            size,
            align,
            segment,
        },
    );
    let reallocate = (0..threads, any::<usize>(), size(large_log2))
        .prop_map(|(thread, pick, size)| Step::Reallocate { thread, pick, size });
    let free = (0..threads, any::<usize>()).prop_map(|(thread, pick)| Step::Free { thread, pick });
    let exit = (0..threads).prop_map(|thread| Step::Exit { thread });
    let frame_end = (0..40_u64).prop_map(|millis| Step::FrameEnd { millis });
    let step = prop_oneof![
        500 => allocate, 80 => reallocate, 420 => free, 3 => exit, 10 => frame_end
    ];
    proptest::collection::vec(step, count / 2..count)
}

/// A live block, as the program knows it.
#[derive(Clone, Copy, Debug)]
struct Known {
    id: BlockId,
    address: u64,
    usable: u64,
    requested: u64,
}

/// Plays steps to a model and keeps the program's side of the books.
#[derive(Clone)]
pub struct Player {
    live: Vec<Known>,
    /// Ends of live blocks by their addresses.
    taken: BTreeMap<u64, u64>,
    unused: Vec<BlockId>,
    next: u32,
    pub at: Moment,
    /// A number that depends on all that the model said.
    pub hash: u64,
    pub failures: Vec<Failure>,
}

impl Player {
    pub fn new() -> Player {
        Player {
            live: Vec::new(),
            taken: BTreeMap::new(),
            unused: Vec::new(),
            next: 0,
            at: Moment::default(),
            hash: 0,
            failures: Vec::new(),
        }
    }

    /// Tells the model that every third thread is of low priority.
    pub fn start_threads(&self, model: &mut dyn Model, threads: u32) {
        for thread in 0..threads {
            let role = match thread % 3 {
                2 => ThreadRole::Low,
                _ => ThreadRole::Performance,
            };
            model.thread_start(&Moment { thread, ..self.at }, role);
        }
    }

    pub fn live(&self) -> usize {
        self.live.len()
    }

    pub fn play(&mut self, model: &mut dyn Model, step: Step) {
        match step {
            Step::Allocate {
                thread,
                size,
                align,
                segment,
            } => {
                let at = Moment {
                    thread,
                    segment: SegmentId(segment),
                    ..self.at
                };
                self.allocate(
                    model,
                    &at,
                    Request {
                        size,
                        align,
                        zeroed: false,
                    },
                );
            }
            Step::Reallocate { thread, pick, size } if !self.live.is_empty() => {
                let index = pick % self.live.len();
                let at = Moment { thread, ..self.at };
                self.reallocate(model, &at, index, size);
            }
            Step::Free { thread, pick } if !self.live.is_empty() => {
                let index = pick % self.live.len();
                self.free(model, &Moment { thread, ..self.at }, index);
            }
            Step::Exit { thread } => model.thread_exit(&Moment { thread, ..self.at }),
            Step::FrameEnd { millis } => {
                model.frame_end(&self.at);
                self.at.frame += 1;
                self.at.nanos += millis * 1_000_000;
            }
            Step::Reallocate { .. } | Step::Free { .. } => {}
        }
        self.mix(model.counters().held);
    }

    pub fn allocate(&mut self, model: &mut dyn Model, at: &Moment, request: Request) -> bool {
        let id = self.unused.pop().unwrap_or_else(|| {
            self.next += 1;
            BlockId(self.next - 1)
        });
        match model.allocate(at, id, request) {
            Ok(placed) => {
                assert!(
                    placed.address.is_multiple_of(request.align.max(8)),
                    "P3: {placed:x?}"
                );
                self.note(model, id, placed, request.size);
                true
            }
            Err(failure) => {
                self.failures.push(failure);
                self.unused.push(id);
                self.mix(failure.needed);
                false
            }
        }
    }

    fn reallocate(&mut self, model: &mut dyn Model, at: &Moment, index: usize, size: u64) {
        let known = self.live[index];
        match model.reallocate(at, known.id, size) {
            Ok(placed) => {
                self.live.swap_remove(index);
                self.taken.remove(&known.address);
                self.note(model, known.id, placed, size);
            }
            Err(failure) => self.failures.push(failure),
        }
    }

    pub fn free(&mut self, model: &mut dyn Model, at: &Moment, index: usize) {
        let known = self.live.swap_remove(index);
        self.taken.remove(&known.address);
        model.free(at, known.id);
        assert_eq!(model.block(known.id), None);
        self.unused.push(known.id);
    }

    /// Frees everything; what is live is nothing then (P4).
    pub fn free_all(&mut self, model: &mut dyn Model) {
        while !self.live.is_empty() {
            let thread = self.live.len() as u32 % 3;
            self.free(model, &Moment { thread, ..self.at }, self.live.len() - 1);
        }
        let counters = model.counters();
        assert_eq!(
            (counters.requested, counters.used, counters.blocks),
            (0, 0, 0),
            "P4"
        );
    }

    /// A block came to lie somewhere: it overlaps no other (P1).
    fn note(&mut self, model: &dyn Model, id: BlockId, placed: Placed, requested: u64) {
        let Placed {
            address, usable, ..
        } = placed;
        assert!(usable >= requested, "{usable} bytes for {requested}");
        let end = address + usable;
        let before = self.taken.range(..end).next_back();
        assert!(
            before.is_none_or(|(_, taken)| *taken <= address),
            "P1: {address:x} is taken"
        );
        self.taken.insert(address, end);
        self.live.push(Known {
            id,
            address,
            usable,
            requested,
        });
        let block = model.block(id).expect("a block that was placed is there");
        assert_eq!(
            (block.address, block.usable, block.requested),
            (address, usable, requested)
        );
        self.mix(address);
    }

    fn mix(&mut self, value: u64) {
        self.hash = (self.hash.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// What must hold at any time: P0, P2, P7, P8, and the map adds up to the counters.
    pub fn check(&self, model: &dyn Model) {
        let counters = model.counters();
        assert_eq!(counters.identity(), Identity::Kept, "P0: {counters:?}");
        assert!(counters.peak_held >= counters.held, "P8");
        assert_eq!(counters.blocks, self.live.len() as u64);
        let requested: u64 = self.live.iter().map(|known| known.requested).sum();
        assert_eq!(counters.requested, requested);
        let segments = model.by_segment();
        let total = |of: fn(&heapreel_models::Counters) -> u64| -> u64 {
            segments.iter().map(|(_, counters)| of(counters)).sum()
        };
        assert_eq!(total(|it| it.requested), counters.requested, "P7");
        assert_eq!(total(|it| it.used), counters.used, "P7");
        assert_eq!(total(|it| it.blocks), counters.blocks, "P7");
        self.check_map(model);
        super::holdings::check(model);
    }

    fn check_map(&self, model: &dyn Model) {
        let (mut used, mut held, mut end) = (0, 0, 0);
        let mut places = BTreeMap::new();
        for region in model.regions() {
            assert!(region.start >= end, "regions are in order and apart");
            let mut at = region.start;
            for (bytes, state) in region.runs {
                if let RunState::Used(id) = state {
                    used += bytes;
                    places.insert(id, at..at + bytes);
                }
                held += if state == RunState::Reserved {
                    0
                } else {
                    bytes
                };
                at += bytes;
            }
            end = region.start + region.bytes;
            assert_eq!(at, end, "runs fill their region");
        }
        let counters = model.counters();
        assert_eq!(used, counters.used, "the map shows all blocks");
        assert!(held <= counters.held, "the map shows no more than is held");
        for known in &self.live {
            let place = &places[&known.id];
            let inside = place.start <= known.address && known.address + known.usable <= place.end;
            assert!(inside, "P2: {known:x?} in {place:x?}");
        }
    }
}
