//! Made-up games for tests and benches: the same seed gives the same trace.

use heapreel_format::testing::{TraceBuilder, blank};
use heapreel_format::{ContextId, Definition, Entry, Event, EventKind, StackId, ThreadId};
use std::borrow::Cow;

/// A game to be made up.
#[derive(Clone, Copy, Debug)]
pub struct Game {
    /// Decides everything that is random.
    pub seed: u64,
    /// Its threads; the first one sets frame marks.
    pub threads: u32,
    /// Events to make.
    pub events: u64,
    /// Events between two frame marks.
    pub frame_events: u64,
    /// Blocks that it holds on to, about.
    pub live_blocks: usize,
    /// Distinct backtraces.
    pub stacks: u32,
    /// Time is told in steps of so many ticks: large ones make many equal keys.
    pub clock_step: u64,
    /// Records in a chunk.
    pub chunk_records: u32,
    /// One in so many allocations is never given back.
    pub leak_one_in: u64,
    /// Contexts that its threads enter and leave; with none there is none in the trace.
    pub contexts: u32,
}

impl Default for Game {
    fn default() -> Self {
        Game {
            seed: 1,
            threads: 4,
            events: 10_000,
            frame_events: 1_000,
            live_blocks: 500,
            stacks: 40,
            clock_step: 1,
            chunk_records: 10_000,
            leak_one_in: u64::MAX,
            contexts: 0,
        }
    }
}

/// Splitmix64: small, quick, the same everywhere.
#[derive(Clone, Copy, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

/// The play's state.
struct Play {
    game: Game,
    random: Random,
    /// When each thread's next call begins: calls are made up in this order, so that an
    /// address that is given back can be handed out again at once.
    clocks: Vec<u64>,
    /// Blocks: address, size, key from which on they may be given back.
    blocks: Vec<(u64, u64, u64)>,
    /// Addresses of 256 bytes' width to be used again.
    free: Vec<u64>,
    next_address: u64,
    /// The contexts that each thread is in.
    within: Vec<Vec<u32>>,
}

impl Game {
    /// The trace's bytes.
    pub fn bytes(self) -> Vec<u8> {
        self.builder().bytes()
    }

    /// The trace as a builder, to be added to.
    pub fn builder(self) -> TraceBuilder {
        let mut builder = TraceBuilder::new().chunk_records(self.chunk_records);
        for id in 1..=self.stacks {
            let frames: Vec<u64> = (0..8)
                .map(|depth| 0x40_0000 + u64::from(id) * 0x1000 + depth * 16)
                .collect();
            builder = builder.stack(id, Entry::Malloc, &frames);
        }
        let mut play = Play {
            game: self,
            random: Random(self.seed),
            clocks: (0..self.threads.max(1))
                .map(|thread| 2_000 + u64::from(thread))
                .collect(),
            blocks: Vec::new(),
            free: Vec::new(),
            next_address: 0x7f00_0000_0000,
            within: vec![Vec::new(); self.threads.max(1) as usize],
        };
        for id in 1..=self.contexts {
            builder = builder.define(self.context(id));
        }
        for number in 0..self.events {
            if self.contexts > 0 {
                builder = play.enter_or_leave(builder);
            }
            let mut event = play.event();
            event.context = play.context(event.thread);
            builder = builder.event(event);
            if number % self.frame_events.max(1) == self.frame_events.max(1) - 1 {
                builder = builder.frame_mark(1, play.clocks[0], 0);
                play.clocks[0] += self.clock_step;
            }
        }
        builder
    }

    /// Some have one parent, kind and name with others: two numbers for the same.
    fn context(&self, id: u32) -> Definition<'static> {
        let kinds = ["level", "asset", "entity", "system"];
        Definition::Context {
            id: ContextId(id),
            parent: ContextId(parent_of(id)),
            kind: Cow::Borrowed(kinds[id as usize % kinds.len()]),
            name: Cow::Owned(format!("number {}", id % 11)),
        }
    }
}

fn parent_of(context: u32) -> u32 {
    context / 4
}

impl Play {
    /// A thread goes into a context within its own, out of it, or stays.
    fn enter_or_leave(&mut self, builder: TraceBuilder) -> TraceBuilder {
        let thread = self.random.below(self.within.len() as u64) as usize;
        let within = &mut self.within[thread];
        if self.random.below(4) > 0 {
            return builder;
        }
        if self.random.below(2) == 0 {
            within.pop();
            return builder;
        }
        let around = within.last().copied().unwrap_or(0);
        let id = around * 4 + 1 + self.random.below(3) as u32;
        if id > self.game.contexts || parent_of(id) != around {
            return builder;
        }
        within.push(id);
        builder.enter(thread as u32 + 1, id)
    }

    fn context(&self, thread: ThreadId) -> ContextId {
        let within = self.within.get(thread.0 as usize - 1);
        ContextId(
            within
                .and_then(|within| within.last())
                .copied()
                .unwrap_or(0),
        )
    }

    /// What the thread does whose time is earliest.
    fn event(&mut self) -> Event {
        let thread = (0..self.clocks.len())
            .min_by_key(|thread| self.clocks[*thread])
            .unwrap_or(0);
        let step = self.game.clock_step;
        let start = self.clocks[thread];
        let slow = if self.random.below(5_000) == 0 {
            1_000
        } else {
            1
        };
        let end = start + (20 + self.random.below(60)) * slow / step * step;
        self.clocks[thread] = end + (1 + self.random.below(40)) * step;
        let thread = thread as u32 + 1;
        let full = self.blocks.len() >= self.game.live_blocks;
        match self.random.below(100) {
            0 => self.reallocation(thread, start, end),
            choice if (choice < 52) != full || self.blocks.is_empty() => {
                self.allocation(thread, start, end)
            }
            _ => self.deallocation(thread, start, end),
        }
    }

    fn allocation(&mut self, thread: u32, start: u64, end: u64) -> Event {
        let address = self.address();
        let size = self.size();
        if self.random.below(self.game.leak_one_in) != 0 {
            self.blocks.push((address, size, end));
        }
        let kind = if self.random.below(20) == 0 {
            EventKind::AllocZeroed
        } else {
            EventKind::Alloc
        };
        Event {
            address,
            size,
            stack: self.stack(),
            ..blank(thread, start, end, kind)
        }
    }

    fn deallocation(&mut self, thread: u32, start: u64, end: u64) -> Event {
        match self.take(start) {
            Some((address, ..)) => {
                self.free.push(address);
                Event {
                    address,
                    entry: Entry::Free,
                    ..blank(thread, start, end, EventKind::Dealloc)
                }
            }
            None => self.allocation(thread, start, end),
        }
    }

    fn reallocation(&mut self, thread: u32, start: u64, end: u64) -> Event {
        let Some((old_address, ..)) = self.take(start) else {
            return self.allocation(thread, start, end);
        };
        let size = self.size();
        let address = if self.random.below(2) == 0 {
            old_address
        } else {
            self.address()
        };
        if address != old_address {
            self.free.push(old_address);
        }
        self.blocks.push((address, size, end));
        Event {
            old_address,
            address,
            size,
            stack: self.stack(),
            ..blank(thread, start, end, EventKind::Realloc)
        }
    }

    /// A block that was there before `now`; often a young one.
    fn take(&mut self, now: u64) -> Option<(u64, u64, u64)> {
        let count = self.blocks.len() as u64;
        let young = self.random.below(2) == 0;
        let back = if young {
            self.random.below(count.min(8))
        } else {
            self.random.below(count)
        };
        let at = (count.checked_sub(1)? - back) as usize;
        (self.blocks[at].2 < now).then(|| self.blocks.swap_remove(at))
    }

    fn address(&mut self) -> u64 {
        self.free.pop().unwrap_or_else(|| {
            self.next_address += 256;
            self.next_address
        })
    }

    fn size(&mut self) -> u64 {
        match self.random.below(200) {
            0 => 1 + self.random.below(2 << 20),
            1..10 => 1 + self.random.below(16 << 10),
            _ => 1 + self.random.below(255),
        }
    }

    fn stack(&mut self) -> StackId {
        StackId(1 + self.random.below(u64::from(self.game.stacks)) as u32)
    }
}
