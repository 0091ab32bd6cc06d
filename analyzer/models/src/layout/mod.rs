//! Several models in one: rules send each request to an instance.
//!
//! Each instance has a window of addresses of its own, so blocks of different instances
//! never overlap; the default instance's window is the first, so a layout without rules
//! places every block where that model alone would. An instance that cannot serve a
//! request may name another. A block stays with the instance that placed it, unless it
//! has to grow and cannot there.

mod glob;
mod router;
mod spec;

use serde::Serialize;

use crate::counters::Counters;
use crate::free_sizes::FreeSizes;
use crate::lookup::Lookup;
use crate::model::{
    Block, BlockId, Failure, Holding, Model, Moment, Placed, Region, Request, SegmentId, ThreadRole,
};

use router::Router;

pub use glob::matches;
pub use router::{Names, NoNames};
pub use spec::{
    BadLayout, InstanceSpec, LayoutSpec, MOST_RULES, Patterns, RangeText, Role, Rule, Value,
};

/// Distance of the instances' windows, as a power of two.
pub const WINDOW_LOG2: u32 = 44;
const NONE: u16 = u16::MAX;

/// What an instance was asked for. Sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Requests that the rules sent here.
    pub routed: u64,
    /// Requests and resizes that failed here, whether or not another instance served them.
    pub failures: u64,
    /// Of those, how many another instance served.
    pub given_away: u64,
    /// Blocks that came from an instance that could not serve them.
    pub taken_over: u64,
}

/// A model in a layout.
pub(crate) struct Instance {
    name: String,
    model: Box<dyn Model>,
    on_full: Option<usize>,
    held: u64,
    used: u64,
    peak_used: u64,
    traffic: Traffic,
}

impl Instance {
    fn new(name: &str, model: Box<dyn Model>, on_full: Option<usize>) -> Instance {
        let held = model.held();
        Instance {
            name: name.to_owned(),
            model,
            on_full,
            held,
            used: 0,
            peak_used: 0,
            traffic: Traffic::default(),
        }
    }

    fn charge(&mut self, usable: u64) {
        self.used += usable;
        self.peak_used = self.peak_used.max(self.used);
    }
}

/// What is told of an instance.
pub struct InstanceView<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its model.
    pub model: &'a dyn Model,
    /// What it was asked for.
    pub traffic: &'a Traffic,
    /// Most bytes of blocks at once, rounding included.
    pub peak_used: u64,
}

/// Which instance has a block, its bytes there, and the alignment it was asked for, as a
/// power of two.
#[derive(Clone, Copy, Debug)]
struct Home {
    usable: u64,
    instance: u16,
    align: u8,
}

/// A composed layout; [`LayoutSpec::build`] makes one.
pub struct Layout {
    instances: Vec<Instance>,
    router: Router,
    homes: Vec<Home>,
    /// How often each rule matched, the default last.
    matched: Vec<u64>,
    held: u64,
    peak_held: u64,
}

impl Layout {
    fn new(instances: Vec<Instance>, router: Router) -> Layout {
        let held = instances.iter().map(|instance| instance.held).sum();
        let homes = Vec::new();
        Layout {
            instances,
            router,
            homes,
            matched: vec![0; MOST_RULES + 1],
            held,
            peak_held: held,
        }
    }

    /// Each instance, the default first.
    pub fn instances(&self) -> impl Iterator<Item = InstanceView<'_>> {
        self.instances.iter().map(|instance| InstanceView {
            name: &instance.name,
            model: &*instance.model,
            traffic: &instance.traffic,
            peak_used: instance.peak_used,
        })
    }

    /// How many requests a rule matched first, by its place from 0.
    pub fn matched(&self, rule: usize) -> u64 {
        self.matched
            .get(rule)
            .copied()
            .filter(|_| rule < MOST_RULES)
            .unwrap_or(0)
    }

    /// How many requests no rule matched.
    pub fn unmatched(&self) -> u64 {
        self.matched[MOST_RULES]
    }

    /// The name of the instance that has a block.
    pub fn home(&self, id: BlockId) -> Option<&str> {
        let home = self
            .homes
            .get(id.0 as usize)
            .filter(|home| home.instance != NONE)?;
        Some(&self.instances[usize::from(home.instance)].name)
    }

    /// Keeps the sum of what is held, and its peak.
    fn settle(&mut self, instance: usize) {
        let instance = &mut self.instances[instance];
        let now = instance.model.held();
        self.held = self.held - instance.held + now;
        instance.held = now;
        self.peak_held = self.peak_held.max(self.held);
    }

    /// Asks an instance, and where it fails the one it names, each at most once.
    fn place(
        &mut self,
        first: usize,
        at: &Moment,
        id: BlockId,
        request: Request,
    ) -> Result<Placed, Failure> {
        let mut failure = None;
        let mut next = Some(first);
        for _ in 0..self.instances.len() {
            let Some(number) = next else { break };
            match self.instances[number].model.allocate(at, id, request) {
                Ok(placed) => {
                    self.settle(number);
                    if number != first {
                        self.instances[first].traffic.given_away += 1;
                        self.instances[number].traffic.taken_over += 1;
                    }
                    self.enter(id, number, placed.usable, request.align);
                    return Ok(translate(placed, number));
                }
                Err(error) => {
                    self.instances[number].traffic.failures += 1;
                    failure = failure.or(Some(error));
                    next = self.instances[number].on_full;
                }
            }
        }
        Err(failure.expect("a layout has an instance"))
    }

    fn enter(&mut self, id: BlockId, instance: usize, usable: u64, align: u64) {
        self.instances[instance].charge(usable);
        let index = id.0 as usize;
        if index >= self.homes.len() {
            self.homes.resize(
                index + 1,
                Home {
                    usable: 0,
                    instance: NONE,
                    align: 0,
                },
            );
        }
        let align = align.max(1).ilog2() as u8;
        self.homes[index] = Home {
            usable,
            instance: instance as u16,
            align,
        };
    }

    /// The other instance that a block must go to that cannot grow where it is.
    fn move_away(
        &mut self,
        at: &Moment,
        id: BlockId,
        size: u64,
        failure: Failure,
    ) -> Result<Placed, Failure> {
        let Home {
            usable,
            instance,
            align,
        } = self.homes[id.0 as usize];
        let from = usize::from(instance);
        self.instances[from].traffic.failures += 1;
        let Some(to) = self.instances[from].on_full.filter(|&to| to != from) else {
            return Err(failure);
        };
        let before = self.instances[from]
            .model
            .block(id)
            .map_or(0, |block| block.requested);
        // A model forgets what is freed by its number, so the old block goes once the
        // other instance has the new one.
        let request = Request {
            size,
            align: 1 << align,
            zeroed: false,
        };
        if self.chain(to).any(|instance| instance == from) {
            return Err(failure);
        }
        let placed = self.place(to, at, id, request).map_err(|_| failure)?;
        self.instances[from].model.free(at, id);
        self.instances[from].used -= usable;
        self.settle(from);
        self.instances[from].traffic.given_away += 1;
        let home = usize::from(self.homes[id.0 as usize].instance);
        self.instances[home].traffic.taken_over += u64::from(home == to);
        Ok(Placed {
            moved: before.min(size),
            ..placed
        })
    }

    /// The instances that are asked one after the other, from one on.
    fn chain(&self, first: usize) -> impl Iterator<Item = usize> {
        let next = |&number: &usize| self.instances[number].on_full;
        std::iter::successors(Some(first), next).take(self.instances.len())
    }

    fn window_of(&self, address: u64) -> usize {
        ((address >> WINDOW_LOG2) as usize).min(self.instances.len() - 1)
    }
}

fn window(instance: usize) -> u64 {
    (instance as u64) << WINDOW_LOG2
}

fn translate(placed: Placed, instance: usize) -> Placed {
    Placed {
        address: placed.address + window(instance),
        ..placed
    }
}

impl Model for Layout {
    fn allocate(&mut self, at: &Moment, id: BlockId, request: Request) -> Result<Placed, Failure> {
        let (rule, instance) = self
            .router
            .route(at, request.size, request.align)
            .unwrap_or((MOST_RULES, 0));
        self.matched[rule] += 1;
        self.instances[instance].traffic.routed += 1;
        self.place(instance, at, id, request)
    }

    fn reallocate(&mut self, at: &Moment, id: BlockId, size: u64) -> Result<Placed, Failure> {
        let home = &mut self.homes[id.0 as usize];
        let instance = usize::from(home.instance);
        match self.instances[instance].model.reallocate(at, id, size) {
            Ok(placed) => {
                let before = std::mem::replace(&mut home.usable, placed.usable);
                self.instances[instance].used -= before;
                self.instances[instance].charge(placed.usable);
                self.settle(instance);
                Ok(translate(placed, instance))
            }
            Err(failure) => self.move_away(at, id, size, failure),
        }
    }

    fn free(&mut self, at: &Moment, id: BlockId) {
        let Home {
            usable, instance, ..
        } = self.homes[id.0 as usize];
        self.homes[id.0 as usize].instance = NONE;
        self.instances[usize::from(instance)].model.free(at, id);
        self.instances[usize::from(instance)].used -= usable;
        self.settle(usize::from(instance));
    }

    fn thread_start(&mut self, at: &Moment, role: ThreadRole) {
        self.router.thread_start(at.thread, role);
        for instance in 0..self.instances.len() {
            self.instances[instance].model.thread_start(at, role);
            self.settle(instance);
        }
    }

    fn thread_exit(&mut self, at: &Moment) {
        for instance in 0..self.instances.len() {
            self.instances[instance].model.thread_exit(at);
            self.settle(instance);
        }
    }

    fn frame_end(&mut self, at: &Moment) {
        for instance in 0..self.instances.len() {
            self.instances[instance].model.frame_end(at);
            self.settle(instance);
        }
    }

    fn block(&self, id: BlockId) -> Option<Block> {
        let home = self
            .homes
            .get(id.0 as usize)
            .filter(|home| home.instance != NONE)?;
        let instance = usize::from(home.instance);
        let block = self.instances[instance].model.block(id)?;
        Some(Block {
            address: block.address + window(instance),
            ..block
        })
    }

    fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        self.instances
            .iter()
            .for_each(|instance| sum.add(&instance.model.counters()));
        Counters {
            peak_held: self.peak_held,
            ..sum
        }
    }

    fn regions(&self) -> Vec<Region> {
        let regions = self
            .instances
            .iter()
            .enumerate()
            .flat_map(|(number, instance)| {
                let named = move |region: Region| Region {
                    name: format!("{}: {}", instance.name, region.name),
                    start: region.start + window(number),
                    ..region
                };
                instance.model.regions().into_iter().map(named)
            });
        regions.collect()
    }

    fn holdings(&self) -> Vec<Holding> {
        let instances = self.instances.iter();
        instances.flat_map(|it| it.model.holdings()).collect()
    }

    fn held(&self) -> u64 {
        self.held
    }

    fn free_sizes(&self, segment: SegmentId) -> FreeSizes {
        let mut sizes = FreeSizes::default();
        for instance in &self.instances {
            sizes.merge(&instance.model.free_sizes(segment));
        }
        sizes
    }

    fn lookup(&self, address: u64) -> Lookup {
        let number = self.window_of(address);
        let instance = &self.instances[number];
        let mut lookup = instance.model.lookup(address - window(number));
        lookup.shift(window(number));
        lookup.region = format!("{}: {}", instance.name, lookup.region);
        lookup
    }

    fn recorded(&mut self, address: u64, usable: u64) {
        self.instances
            .iter_mut()
            .for_each(|instance| instance.model.recorded(address, usable));
    }

    fn checkpoint(&self) -> Box<dyn Model> {
        let copy = |instance: &Instance| Instance {
            name: instance.name.clone(),
            model: instance.model.checkpoint(),
            ..*instance
        };
        Box::new(Layout {
            instances: self.instances.iter().map(copy).collect(),
            router: self.router.clone(),
            homes: self.homes.clone(),
            matched: self.matched.clone(),
            ..*self
        })
    }
}
