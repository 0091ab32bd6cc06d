//! What the main thread decides: which assets come and go, and when.

use super::asset::{Asset, Catalogue, Footprint, Loaded, Order, Proxy};
use super::crew::{Crew, Job, Task, Tick};
use super::{ASSETS, AssetFacts};
use crate::game::Game;
use crate::mailbox::Mailbox;
use crate::random::Random;
use crate::telemetry::Context;
use std::collections::VecDeque;

/// Frames between the request for an asset and the frame that waits for it.
const DEADLINE: u64 = 8;

/// What the main thread knows about the assets.
pub struct World {
    dice: Random,
    slots: Vec<Slot>,
    /// When each requested asset has to be there, soonest first.
    due: VecDeque<(u64, usize)>,
    cinematic: Option<(u64, Vec<u8>)>,
    /// What each job found out in the last frame.
    found: Vec<Option<Vec<u64>>>,
    /// Assets installed so far.
    pub loads: u64,
    /// Assets freed by the main thread.
    pub unloads_by_main: u64,
    /// Assets freed by a streaming thread.
    pub unloads_by_background: u64,
}

/// One asset's place in the world.
#[derive(Default)]
struct Slot {
    requested: bool,
    /// Loaded, and waiting for the frame that installs it.
    arrived: Option<Loaded>,
    installed: Option<(Asset, Footprint)>,
    unload_at: u64,
    proxy: Option<Proxy>,
    loads: u64,
}

impl World {
    /// An empty one, with `jobs` critical threads beside the main one.
    pub fn new(game: &Game, jobs: usize) -> Self {
        let mut slots = Vec::new();
        slots.resize_with(ASSETS, Slot::default);
        Self {
            dice: game.random.fork(1),
            slots,
            due: VecDeque::with_capacity(ASSETS),
            cinematic: None,
            found: vec![None; jobs],
            loads: 0,
            unloads_by_main: 0,
            unloads_by_background: 0,
        }
    }

    /// What comes and goes in this frame.
    #[inline(never)]
    pub fn stream(&mut self, frame: u64, frames: u64, crew: &Crew) {
        self.unload_old(frame, crew);
        let finer = frame * 2 >= frames;
        for _ in 0..self.dice.within(0..3) {
            self.request_one(frame, finer, crew);
        }
        while self.due.front().is_some_and(|&(due, _)| due <= frame) {
            self.install_next(frame, &crew.results);
        }
    }

    /// Asks for the next asset, from a random one on, that is not there.
    fn request_one(&mut self, frame: u64, finer: bool, crew: &Crew) {
        let start = self.dice.size(0..ASSETS);
        let mut numbers = (start..ASSETS).chain(0..start);
        let Some(number) = numbers.find(|&number| self.slots[number].is_free()) else {
            return;
        };
        self.slots[number].requested = true;
        self.due.push_back((frame + DEADLINE, number));
        let order = Order {
            number,
            seed: self.dice.next(),
            finer,
            level: Context::current(),
        };
        let stream = &crew.streams[number % crew.streams.len()];
        stream.tasks.send(Task::Load(order));
    }

    /// Waits for the asset that is due next, and puts it into the world. Those that come
    /// early wait for their frame, so what a frame does is the same in every run.
    fn install_next(&mut self, frame: u64, results: &Mailbox<Loaded>) {
        let Some((_, number)) = self.due.pop_front() else {
            return;
        };
        let loaded = loop {
            if let Some(loaded) = self.slots[number].arrived.take() {
                break loaded;
            }
            let Some(other) = results.receive() else {
                return;
            };
            let slot = other.number;
            self.slots[slot].arrived = Some(other);
        };
        let lifetime = self.dice.within(20..150) * self.dice.within(1..4);
        self.slots[number].install(loaded, frame + lifetime);
        self.loads += 1;
    }

    /// Waits for whatever was requested and is not there yet.
    pub fn await_all(&mut self, results: &Mailbox<Loaded>) {
        while let Some(&(due, _)) = self.due.front() {
            self.install_next(due, results);
        }
    }

    #[inline(never)]
    fn unload_old(&mut self, frame: u64, crew: &Crew) {
        for (number, slot) in self.slots.iter_mut().enumerate() {
            if slot.unload_at > frame {
                continue;
            }
            let Some((asset, _)) = slot.installed.take() else {
                continue;
            };
            if self.dice.one_in(3) {
                asset.unload();
                self.unloads_by_main += 1;
            } else {
                // The next thread, not the one that loaded it, where there are two.
                let stream = &crew.streams[(number + 1) % crew.streams.len()];
                stream.tasks.send(Task::Unload(asset));
                self.unloads_by_background += 1;
            }
        }
    }

    /// The part of the frame that waits for the critical threads.
    #[inline(never)]
    pub fn run_jobs(&mut self, game: &Game, jobs: &[Job]) {
        for (number, job) in jobs.iter().enumerate() {
            let neighbour = (number + 1) % jobs.len();
            job.ticks.send(Tick {
                frame: game.frame(),
                inbox: self.found[neighbour].take(),
            });
        }
        game.work.micros(self.dice.within(400..600));
        for (job, found) in jobs.iter().zip(&mut self.found) {
            job.ticks.wait_until_idle();
            *found = job.take_outbox();
        }
    }

    /// A list of what is in sight, which grows as it is written.
    #[inline(never)]
    pub fn cull(&self) {
        let mut visible = Vec::new();
        let loaded = self.slots.iter().filter_map(|slot| slot.installed.as_ref());
        visible.extend(loaded.map(|(asset, _)| asset.node_count()));
        std::hint::black_box(&visible);
    }

    /// A large block in one piece, for a third of a second.
    #[inline(never)]
    pub fn open_cinematic(&mut self, frame: u64) {
        if self
            .cinematic
            .as_ref()
            .is_some_and(|(end, _)| *end <= frame)
        {
            self.cinematic = None;
        }
        if frame % 150 == 149 {
            self.cinematic = Some((frame + 20, Vec::with_capacity(24 << 20)));
        }
    }

    /// What there is of each asset.
    pub fn assets(&self, catalogue: &Catalogue) -> Vec<AssetFacts> {
        let named = self.slots.iter().zip(&catalogue.names);
        named.map(|(slot, name)| slot.facts(name)).collect()
    }
}

impl Slot {
    fn is_free(&self) -> bool {
        !self.requested && self.installed.is_none()
    }

    /// The new proxy takes the old one's place, which this thread frees.
    fn install(&mut self, loaded: Loaded, unload_at: u64) {
        self.requested = false;
        self.installed = Some((loaded.asset, loaded.footprint));
        self.unload_at = unload_at;
        self.proxy = Some(loaded.proxy);
        self.loads += 1;
    }

    fn facts(&self, name: &str) -> AssetFacts {
        let loaded = self.installed.as_ref();
        let mut live = loaded.map_or(Footprint::default(), |(_, footprint)| *footprint);
        if let Some(proxy) = &self.proxy {
            live.blocks += 1;
            live.bytes += proxy.bytes();
        }
        AssetFacts {
            name: name.to_owned(),
            loads: self.loads,
            loaded: loaded.is_some(),
            live_blocks: live.blocks,
            live_bytes: live.bytes,
        }
    }
}
