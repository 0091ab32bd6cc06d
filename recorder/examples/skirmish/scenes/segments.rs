//! *segments*: five uses of memory, each with a budget and a heap of its own.
//!
//! Each heap is one range that the system gave at the start, filled by first fit (see
//! `first_fit.rs`), so the range tells what an address was used for. The general allocator
//! serves what goes with the blocks, their names and a scratch list, within the same
//! segment's scope.
//!
//! Towards the end Resource is asked for a block that is shorter than all its free space
//! and longer than any run of it, and has to refuse.

use super::{Facts, Played};
use crate::first_fit::{FirstFit, FreeSpace, Handle, HeapStats};
use crate::game::Game;
use crate::random::Random;
use crate::tally::{self, Counts};
use crate::telemetry::{self, Segment};
use crate::truth::hexadecimal;
use serde::Serialize;

/// Blocks listed for each heap; the others are only counted.
const BLOCKS_LISTED: usize = 64;

/// The truth about the segments, at the mark "truth", where all blocks are still live.
#[derive(Default, Serialize)]
pub struct SegmentsFacts {
    segments: Vec<SegmentFacts>,
    refused: Option<Refused>,
}

#[derive(Serialize)]
struct SegmentFacts {
    name: &'static str,
    budget_bytes: u64,
    heap_start: String,
    heap_bytes: u64,
    heap: HeapStats,
    free: FreeSpace,
    /// The function that allocates from this heap.
    site: &'static str,
    blocks: Vec<ListedBlock>,
    /// Calls of the general allocator made in this segment's scope. Default has no scope:
    /// it has what the others leave of the totals.
    general: Counts,
    /// Requested bytes of the general allocator's blocks that were made in this segment's
    /// scope and are live.
    general_live_bytes: u64,
}

#[derive(Serialize)]
struct ListedBlock {
    address: String,
    size: u64,
}

/// A request that only scattered memory could have served.
#[derive(Clone, Copy, Serialize)]
struct Refused {
    frame: u64,
    segment: &'static str,
    requested_bytes: u64,
    free: FreeSpace,
}

/// Plays the scene.
pub fn play(game: &mut Game) -> Played {
    let startup = game.begin_phase("startup");
    let mut world = match World::new(&game.random) {
        Ok(world) => world,
        Err(error) => {
            let failure = format!("no memory for the heaps: {error}; raise the limit (ulimit -v)");
            return Played {
                failure: Some(failure),
                ..Played::quietly(Facts::Segments(SegmentsFacts::default()))
            };
        }
    };
    world.fill_permanent();
    game.end_phase(startup);
    let refusal_frame = game.frames * 9 / 10;
    while game.running() {
        world.update(game);
        if game.frame() == refusal_frame {
            world.ask_too_much(game.frame());
        }
        game.end_frame();
    }
    game.finish();
    Played::quietly(Facts::Segments(world.facts()))
}

/// Five heaps and the dice that fill them.
struct World {
    dice: Random,
    permanent: Bank,
    resource: Bank,
    develop: Bank,
    temp: Bank,
    default: Bank,
    refused: Option<Refused>,
}

impl World {
    fn new(random: &Random) -> std::io::Result<Self> {
        Ok(Self {
            dice: random.fork(1),
            default: Bank::open(Segment::Default, "Actor::spawn")?,
            permanent: Bank::open(Segment::Permanent, "SystemTable::build")?,
            resource: Bank::open(Segment::Resource, "Texture::load")?,
            develop: Bank::open(Segment::Develop, "DebugOverlay::print")?,
            temp: Bank::open(Segment::Temp, "DrawList::record")?,
            refused: None,
        })
    }

    fn fill_permanent(&mut self) {
        for _ in 0..200 {
            SystemTable::build(&mut self.permanent, &mut self.dice);
        }
    }

    #[inline(never)]
    fn update(&mut self, game: &mut Game) {
        let frame = game.frame();
        game.work.micros(self.dice.within(900..1300));
        for bank in [&mut self.default, &mut self.resource, &mut self.develop] {
            bank.free_due(frame);
        }
        for _ in 0..self.dice.within(2..5) {
            Actor::spawn(&mut self.default, frame, &mut self.dice);
        }
        if frame.is_multiple_of(3) {
            Texture::load(&mut self.resource, frame, &mut self.dice);
        }
        if frame.is_multiple_of(20) {
            DebugOverlay::print(&mut self.develop, frame);
        }
        self.draw(game);
    }

    /// What is drawn is gone by the end of the frame.
    fn draw(&mut self, game: &mut Game) {
        let frame = game.frame();
        game.log.temporary(|| {
            for _ in 0..self.dice.within(8..16) {
                DrawList::record(&mut self.temp, frame, &mut self.dice);
            }
            self.temp.free_due(frame + 1);
        });
    }

    /// More than the longest free run, less than all of them together.
    fn ask_too_much(&mut self, frame: u64) {
        let free = self.resource.heap.free_space();
        let requested_bytes = free.largest_run_bytes + (1 << 10);
        if requested_bytes > free.bytes {
            return;
        }
        let site = self.resource.site;
        let given = self
            .resource
            .heap
            .allocate(requested_bytes as usize, site_number(site));
        debug_assert!(given.is_none());
        self.refused = Some(Refused {
            frame,
            segment: self.resource.segment.name(),
            requested_bytes,
            free,
        });
    }

    fn facts(&self) -> SegmentsFacts {
        let banks = [
            &self.default,
            &self.permanent,
            &self.resource,
            &self.develop,
            &self.temp,
        ];
        SegmentsFacts {
            segments: banks.into_iter().map(Bank::facts).collect(),
            refused: self.refused,
        }
    }
}

/// One segment: its heap and what lives in it.
struct Bank {
    segment: Segment,
    site: &'static str,
    heap: FirstFit,
    residents: Vec<Resident>,
    general: Counts,
}

/// A block of the heap, with its name from the general allocator.
struct Resident {
    handle: Handle,
    name: String,
    free_at: u64,
}

impl Bank {
    fn open(segment: Segment, site: &'static str) -> std::io::Result<Self> {
        let budget = segment.budget_bytes();
        let heap = FirstFit::over_new_mapping(budget)?;
        telemetry::heap_created(segment.name(), heap.start(), heap.capacity_bytes(), budget);
        Ok(Self {
            segment,
            site,
            heap,
            residents: Vec::with_capacity(8192),
            general: Counts::default(),
        })
    }

    /// One block until frame `free_at`, if there is room, and its name.
    fn allocate(&mut self, bytes: usize, free_at: u64, kind: &str) {
        let _scope = telemetry::segment(self.segment);
        let before = tally::this_thread();
        let Some(handle) = self.heap.allocate(bytes, site_number(self.site)) else {
            return;
        };
        telemetry::heap_allocated(self.segment.name(), self.heap.address(handle), bytes);
        self.heap.fill(handle, free_at);
        self.residents.push(Resident {
            handle,
            name: format!("{kind} of {bytes} bytes until frame {free_at}"),
            free_at,
        });
        self.general += tally::this_thread() - before;
    }

    fn free_due(&mut self, frame: u64) {
        let Self {
            heap,
            residents,
            segment,
            ..
        } = self;
        residents.retain(|resident| {
            let due = resident.free_at <= frame;
            if due {
                telemetry::heap_freed(segment.name(), heap.address(resident.handle));
                heap.free(resident.handle);
            }
            !due
        });
    }

    fn facts(&self) -> SegmentFacts {
        let names = self
            .residents
            .iter()
            .map(|resident| resident.name.capacity() as u64);
        let blocks = self
            .heap
            .blocks()
            .take(BLOCKS_LISTED)
            .map(|block| ListedBlock {
                address: hexadecimal(block.address),
                size: block.requested_bytes,
            });
        SegmentFacts {
            name: self.segment.name(),
            budget_bytes: self.segment.budget_bytes() as u64,
            heap_start: hexadecimal(self.heap.start()),
            heap_bytes: self.heap.capacity_bytes() as u64,
            heap: self.heap.stats(),
            free: self.heap.free_space(),
            site: self.site,
            blocks: blocks.collect(),
            general: self.general,
            general_live_bytes: names.sum(),
        }
    }
}

/// What a header keeps of a site: its place in the list of them.
fn site_number(site: &str) -> u64 {
    let sites = [
        "Actor::spawn",
        "SystemTable::build",
        "Texture::load",
        "DebugOverlay::print",
        "DrawList::record",
    ];
    sites
        .iter()
        .position(|&known| known == site)
        .unwrap_or(sites.len()) as u64
}

/// Lives a few seconds.
struct Actor;

impl Actor {
    #[inline(never)]
    fn spawn(bank: &mut Bank, frame: u64, dice: &mut Random) {
        bank.allocate(dice.size(200..3000), frame + dice.within(20..300), "actor");
    }
}

/// Lives as long as the program.
struct SystemTable;

impl SystemTable {
    #[inline(never)]
    fn build(bank: &mut Bank, dice: &mut Random) {
        bank.allocate(dice.size(64..8192), u64::MAX, "table");
    }
}

/// Large, of every size and age.
struct Texture;

impl Texture {
    #[inline(never)]
    fn load(bank: &mut Bank, frame: u64, dice: &mut Random) {
        let bytes = 1 << dice.within(14..20);
        bank.allocate(bytes, frame + dice.within(30..500), "texture");
    }
}

/// What only developers see.
struct DebugOverlay;

impl DebugOverlay {
    #[inline(never)]
    fn print(bank: &mut Bank, frame: u64) {
        bank.allocate(4096, frame + 300, "overlay");
    }
}

/// Gone by the end of the frame.
struct DrawList;

impl DrawList {
    #[inline(never)]
    fn record(bank: &mut Bank, frame: u64, dice: &mut Random) {
        bank.allocate(dice.size(256..65_536), frame + 1, "draw list");
    }
}
