//! A pool of objects of one size, of fixed capacity; it never grows.
//!
//! Handles are an index and a generation. Where the pool is full, by default the oldest
//! object makes room: its handle turns stale, and what is done through it later is found
//! and changes nothing. The trace still has such an object live, so the blocks of both
//! agree once [`Pool::stale`] is added.

use serde::Serialize;

use crate::counters::Counters;
use crate::free_sizes::FreeSizes;
use crate::model::{
    Block, BlockId, Failure, FailureCause, Model, Moment, Placed, Region, Request, RunState,
    SegmentId,
};
use crate::page_source::{PageSource, Unlimited};
use crate::parameters::{BadParameter, bytes, number, power_of_two};

/// Bytes of a cache line.
pub const LINE: u64 = 64;
const NONE: u32 = u32::MAX;

/// What a full pool does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFull {
    /// The oldest object makes room.
    #[default]
    RecycleOldest,
    /// The request fails; a layout may send it elsewhere.
    Fail,
}

/// The parameters of a [`Pool`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Bytes of an object, rounded up to `align`; at least 8, for the free list's link
    /// lies in the first bytes of what is free (seed 003). Default 64; ours: the site's.
    pub block: u64,
    /// Objects. Default 4096; seed 003.
    pub capacity: u32,
    /// Alignment of objects in bytes. Default 16, 64 for counters of threads; seed 003.
    pub align: u64,
    /// What happens when it is full: `recycle_oldest` or `fail`. Default
    /// `recycle_oldest`; seed 003.
    pub on_full: OnFull,
    /// Address of the first object. Default 0x40_0000_0000; ours.
    pub base: u64,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            block: 64,
            capacity: 4096,
            align: 16,
            on_full: OnFull::RecycleOldest,
            base: 0x40_0000_0000,
        }
    }
}

impl Parameters {
    /// Names of presets.
    pub const PRESETS: &[&str] = &["recycle", "fail"];

    /// Names of parameters.
    pub const NAMES: &[&str] = &["block", "capacity", "align", "on_full", "base"];

    /// The parameters of a preset: `recycle` (the default), `fail`.
    ///
    /// # Errors
    ///
    /// [`BadParameter::Unknown`].
    pub fn preset(name: &str) -> Result<Parameters, BadParameter> {
        let on_full = match name {
            "recycle" => OnFull::RecycleOldest,
            "fail" => OnFull::Fail,
            _ => return Err(BadParameter::unknown("preset", name, Parameters::PRESETS)),
        };
        Ok(Parameters {
            on_full,
            ..Parameters::default()
        })
    }

    /// Sets a parameter by name.
    ///
    /// # Errors
    ///
    /// [`BadParameter`]: the name or what the value should be.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), BadParameter> {
        match name {
            "block" => self.block = bytes(name, value)?,
            "capacity" => self.capacity = capacity(value)?,
            "align" => self.align = power_of_two(name, value)?,
            "on_full" => self.on_full = on_full(value)?,
            "base" => self.base = crate::parameters::address(name, value)?,
            _ => return Err(BadParameter::unknown("parameter", name, Parameters::NAMES)),
        }
        Ok(())
    }

    /// Bytes from one object to the next.
    pub fn stride(&self) -> u64 {
        self.block.max(8).next_multiple_of(self.align)
    }
}

fn capacity(value: &str) -> Result<u32, BadParameter> {
    let bad = || BadParameter::value("capacity", value, "1 to 4294967294 objects");
    let capacity: u32 = number("capacity", value)?;
    (1..NONE)
        .contains(&capacity)
        .then_some(capacity)
        .ok_or_else(bad)
}

fn on_full(value: &str) -> Result<OnFull, BadParameter> {
    match value.trim() {
        "recycle_oldest" => Ok(OnFull::RecycleOldest),
        "fail" => Ok(OnFull::Fail),
        _ => Err(BadParameter::value(
            "on_full",
            value,
            "recycle_oldest or fail",
        )),
    }
}

/// An index and a generation: eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// The slot.
    pub index: u32,
    /// The slot's generation when the object was made.
    pub generation: u32,
}

const _: () = assert!(size_of::<Handle>() == 8);
const NO_HANDLE: Handle = Handle {
    index: NONE,
    generation: 0,
};

#[derive(Clone, Copy, Debug)]
struct Slot {
    requested: u64,
    generation: u32,
    /// The program's block; `NONE` while free.
    owner: u32,
    thread: u32,
    /// While free the next free slot, while live the next younger.
    next: u32,
    /// While live the next older.
    older: u32,
}

/// What a pool was used for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PoolReport {
    /// Bytes from one object to the next.
    pub stride: u64,
    /// Objects.
    pub capacity: u32,
    /// Bytes of the whole pool.
    pub bytes: u64,
    /// Most objects live at once.
    pub peak: u32,
    /// `peak / capacity`.
    pub occupancy: f64,
    /// `capacity / peak`; 0 where nothing was ever live.
    pub headroom: f64,
    /// The smallest power of two that holds the peak.
    pub next_power_of_two: u32,
    /// Objects that made room for another.
    pub recycled: u64,
    /// Events through a stale handle.
    pub stale_uses: u64,
    /// Generations that ran over.
    pub wraps: u64,
    /// Bytes from the pool's start to the end of the last object ever used.
    pub span: u64,
    /// Cache lines of an object in a packed array.
    pub lines_per_object: f64,
    /// Objects in a cache line of a packed array.
    pub objects_per_line: f64,
}

/// The pool; the [module](self) says what it models.
pub struct Pool {
    parameters: Parameters,
    stride: u64,
    base: u64,
    slots: Vec<Slot>,
    free: u32,
    oldest: u32,
    youngest: u32,
    /// By the program's block.
    handles: Vec<Handle>,
    counters: Counters,
    touched: u32,
    peak: u32,
    recycled: u64,
    stale: u64,
    stale_uses: u64,
    wraps: u64,
    source: Box<dyn PageSource>,
}

impl Pool {
    /// A pool at its own address.
    ///
    /// # Errors
    ///
    /// [`BadParameter`], where it would be too large.
    pub fn new(parameters: Parameters) -> Result<Pool, BadParameter> {
        let source = Unlimited::new(parameters.base);
        Pool::on(parameters, Box::new(source))
    }

    /// A pool that takes its memory from `source`, all at once.
    ///
    /// # Errors
    ///
    /// [`BadParameter`], where `source` has not enough.
    pub fn on(
        parameters: Parameters,
        mut source: Box<dyn PageSource>,
    ) -> Result<Pool, BadParameter> {
        let stride = parameters.stride();
        let bytes = stride.checked_mul(u64::from(parameters.capacity));
        let too_much = || {
            let capacity = parameters.capacity.to_string();
            BadParameter::value("capacity", &capacity, "no more than there is memory for")
        };
        let bytes = bytes.ok_or_else(too_much)?;
        let base = source
            .reserve(bytes, parameters.align.max(4096))
            .ok_or_else(too_much)?;
        source
            .commit(base, bytes)
            .then_some(())
            .ok_or_else(too_much)?;
        let mut counters = Counters {
            held: bytes,
            reserved: bytes,
            free: bytes,
            peak_held: bytes,
            ..Counters::default()
        };
        (counters.os.reserve, counters.os.commit) = (1, 1);
        let capacity = parameters.capacity;
        let slot = |index: u32| Slot {
            requested: 0,
            generation: 0,
            owner: NONE,
            thread: 0,
            next: if index + 1 == capacity {
                NONE
            } else {
                index + 1
            },
            older: NONE,
        };
        Ok(Pool {
            slots: (0..capacity).map(slot).collect(),
            parameters,
            stride,
            base,
            free: 0,
            oldest: NONE,
            youngest: NONE,
            handles: Vec::new(),
            counters,
            touched: 0,
            peak: 0,
            recycled: 0,
            stale: 0,
            stale_uses: 0,
            wraps: 0,
            source,
        })
    }

    /// A block's handle; `None` where it was never placed or is freed.
    pub fn handle(&self, id: BlockId) -> Option<Handle> {
        let handle = *self.handles.get(id.0 as usize)?;
        (handle != NO_HANDLE).then_some(handle)
    }

    /// Whether a handle leads to the object that it was made for.
    pub fn is_valid(&self, handle: Handle) -> bool {
        self.slots[handle.index as usize].generation == handle.generation
    }

    /// Blocks that made room and that the trace still has live.
    pub fn stale(&self) -> u64 {
        self.stale
    }

    /// What the pool was used for.
    pub fn report(&self) -> PoolReport {
        let capacity = self.parameters.capacity;
        let ratio = |part: u32, whole: u32| match whole {
            0 => 0.0,
            _ => f64::from(part) / f64::from(whole),
        };
        PoolReport {
            stride: self.stride,
            capacity,
            bytes: self.counters.held,
            peak: self.peak,
            occupancy: ratio(self.peak, capacity),
            headroom: ratio(capacity, self.peak),
            next_power_of_two: self.peak.checked_next_power_of_two().unwrap_or(NONE),
            recycled: self.recycled,
            stale_uses: self.stale_uses,
            wraps: self.wraps,
            span: u64::from(self.touched) * self.stride,
            lines_per_object: self.stride as f64 / LINE as f64,
            objects_per_line: LINE as f64 / self.stride as f64,
        }
    }

    fn failure(&self, cause: FailureCause, needed: u64) -> Failure {
        let free = self.counters.free;
        Failure {
            cause,
            needed,
            free,
            largest_free: free.min(self.stride),
        }
    }

    fn live(&self) -> u32 {
        self.counters.blocks as u32
    }

    /// The oldest object loses its slot, and its handle turns stale.
    fn recycle(&mut self) {
        let victim = self.oldest;
        self.vacate(victim);
        self.recycled += 1;
        self.stale += 1;
        self.counters.slow += 1;
    }

    /// Ends a generation: whoever holds the old one holds nothing.
    fn vacate(&mut self, index: u32) {
        let Slot {
            requested,
            older,
            next: younger,
            ..
        } = self.slots[index as usize];
        match older {
            NONE => self.oldest = younger,
            _ => self.slots[older as usize].next = younger,
        }
        match younger {
            NONE => self.youngest = older,
            _ => self.slots[younger as usize].older = older,
        }
        let slot = &mut self.slots[index as usize];
        let (generation, wrapped) = slot.generation.overflowing_add(1);
        self.wraps += u64::from(wrapped);
        (slot.generation, slot.owner, slot.next) = (generation, NONE, self.free);
        self.free = index;
        self.counters.blocks -= 1;
        self.counters.requested -= requested;
        self.counters.used -= self.stride;
        self.counters.free += self.stride;
    }

    fn occupy(&mut self, at: &Moment, id: BlockId, requested: u64) -> u32 {
        let index = self.free;
        let older = self.youngest;
        let slot = &mut self.slots[index as usize];
        self.free = slot.next;
        (slot.requested, slot.owner, slot.thread) = (requested, id.0, at.thread);
        (slot.older, slot.next) = (older, NONE);
        let generation = slot.generation;
        match older {
            NONE => self.oldest = index,
            _ => self.slots[older as usize].next = index,
        }
        self.youngest = index;
        let at = id.0 as usize;
        if at >= self.handles.len() {
            self.handles.resize(at + 1, NO_HANDLE);
        }
        self.handles[at] = Handle { index, generation };
        self.counters.blocks += 1;
        self.counters.requested += requested;
        self.counters.used += self.stride;
        self.counters.free -= self.stride;
        self.touched = self.touched.max(index + 1);
        self.peak = self.peak.max(self.live());
        index
    }

    fn address(&self, index: u32) -> u64 {
        self.base + u64::from(index) * self.stride
    }
}

impl Model for Pool {
    fn allocate(&mut self, at: &Moment, id: BlockId, request: Request) -> Result<Placed, Failure> {
        if request.size > self.stride || request.align > self.parameters.align {
            return Err(self.failure(FailureCause::TooLarge, request.size));
        }
        if self.free == NONE {
            match self.parameters.on_full {
                OnFull::RecycleOldest => self.recycle(),
                OnFull::Fail => return Err(self.failure(FailureCause::Exhausted, self.stride)),
            }
        }
        let index = self.occupy(at, id, request.size);
        if request.zeroed {
            self.counters.zeroed += request.size;
        }
        Ok(Placed {
            address: self.address(index),
            usable: self.stride,
            moved: 0,
        })
    }

    fn reallocate(&mut self, _at: &Moment, id: BlockId, size: u64) -> Result<Placed, Failure> {
        let handle = self.handles[id.0 as usize];
        let placed = Placed {
            address: self.address(handle.index),
            usable: self.stride,
            moved: 0,
        };
        if !self.is_valid(handle) {
            // The program resizes what is another's by now, and does not notice.
            self.stale_uses += 1;
            return Ok(placed);
        }
        if size > self.stride {
            return Err(self.failure(FailureCause::TooLarge, size));
        }
        let slot = &mut self.slots[handle.index as usize];
        self.counters.requested = self.counters.requested - slot.requested + size;
        slot.requested = size;
        Ok(placed)
    }

    fn free(&mut self, at: &Moment, id: BlockId) {
        let handle = std::mem::replace(&mut self.handles[id.0 as usize], NO_HANDLE);
        if !self.is_valid(handle) {
            self.stale_uses += 1;
            self.stale -= 1;
            return;
        }
        if self.slots[handle.index as usize].thread != at.thread {
            self.counters.foreign_frees += 1;
            self.counters.locks += 1;
        }
        self.vacate(handle.index);
    }

    fn block(&self, id: BlockId) -> Option<Block> {
        let handle = self.handle(id).filter(|&handle| self.is_valid(handle))?;
        let requested = self.slots[handle.index as usize].requested;
        let address = self.address(handle.index);
        Some(Block {
            id,
            address,
            usable: self.stride,
            requested,
            header: 0,
        })
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn held(&self) -> u64 {
        self.counters.held
    }

    fn regions(&self) -> Vec<Region> {
        let state = |slot: &Slot| match slot.owner {
            NONE => RunState::Free,
            id => RunState::Used(BlockId(id)),
        };
        let runs = self
            .slots
            .iter()
            .map(|slot| (self.stride, state(slot)))
            .collect();
        let (start, bytes) = (self.base, self.counters.held);
        vec![Region {
            name: "pool".to_owned(),
            segment: None,
            start,
            bytes,
            runs,
        }]
    }

    /// Slots, one by one: a pool never joins them.
    fn free_sizes(&self, _segment: SegmentId) -> FreeSizes {
        let mut sizes = FreeSizes::default();
        for _ in self.live()..self.parameters.capacity {
            sizes.add(self.stride);
        }
        sizes
    }

    fn checkpoint(&self) -> Box<dyn Model> {
        Box::new(Pool {
            parameters: self.parameters.clone(),
            slots: self.slots.clone(),
            handles: self.handles.clone(),
            source: self.source.checkpoint(),
            ..*self
        })
    }
}
