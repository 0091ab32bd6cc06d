//! A frame arena for each thread: allocation moves a cursor, the frame's end moves it back.
//!
//! A block that is still live when its buffer is reset is an *escape*: its pointer dangles,
//! and whatever touches it later is found. Escapes are off the model's books (their bytes
//! are somebody else's by then) while the trace has them live, so the blocks of both agree
//! once [`Arenas::dangling`] is added.
//!
//! A full arena fails; where a request goes then is for a layout to say. It never grows in
//! the middle of a frame.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::counters::Counters;
use crate::model::{
    Block, BlockId, Failure, FailureCause, Model, Moment, Placed, Region, Request, RunState,
};
use crate::page_source::{PageSource, Unlimited};
use crate::parameters::{BadParameter, bytes, number, power_of_two};

/// Recommended capacities are multiples of this.
const STEP: u64 = 64 << 10;
const NONE: u32 = u32::MAX;

/// The parameters of [`Arenas`].
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// Bytes of one buffer. Default 8 MiB; seed 003 has "8 MB", read as binary.
    pub capacity: u64,
    /// Alignment in bytes where the program asks for none. Default 16, for SSE; 32 for
    /// AVX; seed 003.
    pub default_align: u64,
    /// Frames that a block may live, its own included: so many buffers take turns.
    /// Default 1: a block dies in the frame that made it; ours.
    pub lifetime_frames: u32,
    /// Recommended capacity over the measured peak. Default 2; seed 003.
    pub sizing_factor: f64,
    /// Address of the first arena. Default 0x30_0000_0000; ours.
    pub base: u64,
    /// Escapes to keep one by one; all are counted, and summed by site. Default 4096; ours.
    pub escapes: usize,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            capacity: 8 << 20,
            default_align: 16,
            lifetime_frames: 1,
            sizing_factor: 2.0,
            base: 0x30_0000_0000,
            escapes: 4096,
        }
    }
}

impl Parameters {
    /// Names of presets.
    pub const PRESETS: &[&str] = &["frame", "double"];

    /// Names of parameters.
    pub const NAMES: &[&str] = &[
        "capacity",
        "default_align",
        "lifetime_frames",
        "sizing_factor",
        "base",
        "escapes",
    ];

    /// The parameters of a preset: `frame` (the default), `double` with blocks that may
    /// live into the next frame.
    ///
    /// # Errors
    ///
    /// [`BadParameter::Unknown`].
    pub fn preset(name: &str) -> Result<Parameters, BadParameter> {
        let frame = Parameters::default();
        match name {
            "frame" => Ok(frame),
            "double" => Ok(Parameters {
                lifetime_frames: 2,
                ..frame
            }),
            _ => Err(BadParameter::unknown("preset", name, Parameters::PRESETS)),
        }
    }

    /// Sets a parameter by name.
    ///
    /// # Errors
    ///
    /// [`BadParameter`]: the name or what the value should be.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), BadParameter> {
        let positive = |ok: bool| {
            ok.then_some(())
                .ok_or_else(|| BadParameter::value(name, value, "more than 0"))
        };
        match name {
            "capacity" => {
                self.capacity = bytes(name, value)?;
                positive(self.capacity > 0)
            }
            "default_align" => {
                self.default_align = power_of_two(name, value)?;
                Ok(())
            }
            "lifetime_frames" => {
                self.lifetime_frames = number(name, value)?;
                positive(self.lifetime_frames > 0)
            }
            "sizing_factor" => {
                self.sizing_factor = number(name, value)?;
                positive(self.sizing_factor > 0.0)
            }
            "base" => {
                self.base = crate::parameters::address(name, value)?;
                Ok(())
            }
            "escapes" => {
                self.escapes = number(name, value)?;
                Ok(())
            }
            _ => Err(BadParameter::unknown("parameter", name, Parameters::NAMES)),
        }
    }
}

/// One of an arena's buffers.
#[derive(Clone, Copy, Debug, Default)]
struct Buffer {
    cursor: u64,
    /// Bytes of blocks since the last reset, freed ones included.
    blocks: u64,
    padding: u64,
    /// How often it was reset; a block of an older epoch dangles.
    epoch: u32,
    live: u32,
    live_requested: u64,
    live_used: u64,
}

/// The arena of one thread.
#[derive(Clone, Debug)]
struct Arena {
    thread: u32,
    base: u64,
    buffers: Vec<Buffer>,
    current: usize,
    released: bool,
    peak: u64,
    padding: u64,
    /// Bytes used of each frame that used any, or that followed one that did.
    frames: Vec<u64>,
}

/// Where a block is; it dangles where its buffer has another epoch.
#[derive(Clone, Copy, Debug)]
struct Entry {
    address: u64,
    requested: u64,
    arena: u32,
    epoch: u32,
    buffer: u32,
    site: u32,
    frame: u32,
    /// The alignment, as a power of two.
    align: u8,
}

const _: () = assert!(size_of::<Entry>() <= 40);

const ABSENT: Entry = Entry {
    address: 0,
    requested: 0,
    arena: NONE,
    epoch: 0,
    buffer: 0,
    site: 0,
    frame: 0,
    align: 0,
};

impl Entry {
    fn used(&self) -> u64 {
        self.requested.max(1)
    }
}

/// A block that outlived its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Escape {
    /// Number of the backtrace that allocated it.
    pub site: u32,
    /// Bytes that were asked for.
    pub size: u64,
    /// The frame it was allocated in.
    pub frame: u32,
    /// Frames from there to the event that gave it away; `None` where none has yet.
    pub survived: Option<u32>,
}

/// The escapes of one site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SiteEscapes {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The most frames that one survived, of those that were freed or resized.
    pub most_frames: u32,
}

/// What a thread's arena was used for. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ArenaReport {
    /// The thread.
    pub thread: u32,
    /// Of one buffer.
    pub capacity: u64,
    /// Frames that are counted.
    pub frames: u64,
    /// Least used in a frame.
    pub min: u64,
    /// Used in the mean.
    pub mean: f64,
    /// Half of the frames used no more.
    pub p50: u64,
    /// 95 % of the frames used no more.
    pub p95: u64,
    /// 99 % of the frames used no more.
    pub p99: u64,
    /// Most ever used, in a frame that has not ended too.
    pub max: u64,
    /// Alignment, over all frames.
    pub padding: u64,
    /// Never used.
    pub idle: u64,
    /// `sizing_factor * max`, rounded up to 64 KiB.
    pub recommended: u64,
}

/// The arenas of all threads; the [module](self) says what they model.
pub struct Arenas {
    parameters: Parameters,
    arenas: Vec<Arena>,
    /// By thread: its arena.
    of_thread: Vec<u32>,
    entries: Vec<Entry>,
    counters: Counters,
    escapes: u64,
    escaped: Vec<Escape>,
    by_site: BTreeMap<u32, SiteEscapes>,
    dangling: u64,
    used_after_reset: u64,
    source: Box<dyn PageSource>,
}

impl Arenas {
    /// Arenas at their own addresses.
    pub fn new(parameters: Parameters) -> Arenas {
        let source = Unlimited::new(parameters.base);
        Arenas::on(parameters, Box::new(source))
    }

    /// Arenas that take their buffers from `source`, when a thread first allocates.
    pub fn on(parameters: Parameters, source: Box<dyn PageSource>) -> Arenas {
        Arenas {
            parameters,
            arenas: Vec::new(),
            of_thread: Vec::new(),
            entries: Vec::new(),
            counters: Counters::default(),
            escapes: 0,
            escaped: Vec::new(),
            by_site: BTreeMap::new(),
            dangling: 0,
            used_after_reset: 0,
            source,
        }
    }

    /// Blocks that were live when their buffer was reset. A sum.
    pub fn escapes(&self) -> u64 {
        self.escapes
    }

    /// Escapes that the trace still has live.
    pub fn dangling(&self) -> u64 {
        self.dangling
    }

    /// Frees and reallocations of escapes. A sum.
    pub fn used_after_reset(&self) -> u64 {
        self.used_after_reset
    }

    /// The first escapes that were freed or resized, and after them those that still
    /// dangle, by block.
    pub fn escaped(&self) -> Vec<Escape> {
        let dangling = self.entries.iter().filter(|entry| self.dangles(entry));
        let dangling = dangling.map(|entry| escape(entry, None));
        self.escaped.iter().copied().chain(dangling).collect()
    }

    /// All escapes by the site that allocated them.
    pub fn escaped_by_site(&self) -> BTreeMap<u32, SiteEscapes> {
        let mut sites = self.by_site.clone();
        for entry in self.entries.iter().filter(|entry| self.dangles(entry)) {
            add_escape(&mut sites, &escape(entry, None));
        }
        sites
    }

    /// Bytes in use of a thread's current buffer.
    pub fn cursor(&self, thread: u32) -> Option<u64> {
        let arena = &self.arenas[self.arena_of(thread)?];
        Some(arena.buffers[arena.current].cursor)
    }

    /// One report for each arena, in the order in which threads first allocated.
    pub fn reports(&self) -> Vec<ArenaReport> {
        self.arenas.iter().map(|arena| self.report(arena)).collect()
    }

    fn report(&self, arena: &Arena) -> ArenaReport {
        let mut used = arena.frames.clone();
        used.sort_unstable();
        let rank = |percent: usize| {
            let rank = (used.len() * percent).div_ceil(100);
            used.get(rank.max(1) - 1).copied().unwrap_or(0)
        };
        let capacity = self.parameters.capacity;
        ArenaReport {
            thread: arena.thread,
            capacity,
            frames: used.len() as u64,
            min: used.first().copied().unwrap_or(0),
            mean: used.iter().sum::<u64>() as f64 / used.len().max(1) as f64,
            p50: rank(50),
            p95: rank(95),
            p99: rank(99),
            max: arena.peak,
            padding: arena.padding
                + arena
                    .buffers
                    .iter()
                    .map(|buffer| buffer.padding)
                    .sum::<u64>(),
            idle: capacity - arena.peak,
            recommended: recommended(arena.peak, self.parameters.sizing_factor),
        }
    }

    fn arena_of(&self, thread: u32) -> Option<usize> {
        let arena = *self.of_thread.get(thread as usize)?;
        (arena != NONE).then_some(arena as usize)
    }

    fn arena_or_new(&mut self, thread: u32) -> Option<usize> {
        if let Some(arena) = self.arena_of(thread) {
            return Some(arena);
        }
        let count = u64::from(self.parameters.lifetime_frames);
        let bytes = self.parameters.capacity.checked_mul(count)?;
        let base = self.source.reserve(bytes, STEP)?;
        self.counters.os.reserve += 1;
        self.source.commit(base, bytes).then_some(())?;
        self.counters.os.commit += 1;
        self.counters.slow += 1;
        self.counters.reserved += bytes;
        self.counters.held += bytes;
        self.counters.free += bytes;
        self.counters.peak_held = self.counters.peak_held.max(self.counters.held);
        let index = thread as usize;
        if index >= self.of_thread.len() {
            self.of_thread.resize(index + 1, NONE);
        }
        self.of_thread[index] = self.arenas.len() as u32;
        self.arenas.push(Arena {
            thread,
            base,
            buffers: vec![Buffer::default(); count as usize],
            current: 0,
            released: false,
            peak: 0,
            padding: 0,
            frames: Vec::new(),
        });
        Some(self.arenas.len() - 1)
    }

    fn dangles(&self, entry: &Entry) -> bool {
        entry.arena != NONE && self.buffer(entry).epoch != entry.epoch
    }

    fn buffer(&self, entry: &Entry) -> &Buffer {
        &self.arenas[entry.arena as usize].buffers[entry.buffer as usize]
    }

    /// Moves the cursor of the thread's arena; what is placed is not yet on the books.
    fn bump(&mut self, at: &Moment, size: u64, align: u64) -> Result<Entry, Failure> {
        let size_used = size.max(1);
        let capacity = self.parameters.capacity;
        let Some(index) = self.arena_or_new(at.thread) else {
            return Err(failure(FailureCause::Exhausted, size_used, 0));
        };
        let arena = &mut self.arenas[index];
        let base = arena.base + arena.current as u64 * capacity;
        let buffer = &mut arena.buffers[arena.current];
        let start = (base + buffer.cursor).next_multiple_of(align) - base;
        let free = capacity - buffer.cursor;
        let end = start.checked_add(size_used).filter(|&end| end <= capacity);
        let end = end.ok_or_else(|| {
            let never = size_used > capacity;
            let cause = if never {
                FailureCause::TooLarge
            } else {
                FailureCause::Exhausted
            };
            failure(cause, size_used, free)
        })?;
        buffer.padding += start - buffer.cursor;
        buffer.blocks += size_used;
        buffer.cursor = end;
        arena.peak = arena.peak.max(end);
        Ok(Entry {
            address: base + start,
            requested: size,
            arena: index as u32,
            epoch: buffer.epoch,
            buffer: arena.current as u32,
            site: at.site,
            frame: at.frame,
            align: align.ilog2() as u8,
        })
    }

    fn enter(&mut self, id: BlockId, entry: Entry) -> Placed {
        let buffer = &mut self.arenas[entry.arena as usize].buffers[entry.buffer as usize];
        buffer.live += 1;
        buffer.live_requested += entry.requested;
        buffer.live_used += entry.used();
        self.counters.blocks += 1;
        self.counters.requested += entry.requested;
        self.counters.used += entry.used();
        self.counters.free -= entry.used();
        let index = id.0 as usize;
        if index >= self.entries.len() {
            self.entries.resize(index + 1, ABSENT);
        }
        self.entries[index] = entry;
        Placed {
            address: entry.address,
            usable: entry.used(),
            moved: 0,
        }
    }

    fn leave(&mut self, entry: &Entry) {
        let buffer = &mut self.arenas[entry.arena as usize].buffers[entry.buffer as usize];
        buffer.live -= 1;
        buffer.live_requested -= entry.requested;
        buffer.live_used -= entry.used();
        self.counters.blocks -= 1;
        self.counters.requested -= entry.requested;
        self.counters.used -= entry.used();
        self.counters.free += entry.used();
    }

    /// An escape is freed or resized: it is found, and forgotten.
    fn touch_dangling(&mut self, at: &Moment, id: BlockId) {
        let entry = std::mem::replace(&mut self.entries[id.0 as usize], ABSENT);
        let escape = escape(&entry, Some(at.frame));
        self.used_after_reset += 1;
        self.dangling -= 1;
        add_escape(&mut self.by_site, &escape);
        if self.escaped.len() < self.parameters.escapes {
            self.escaped.push(escape);
        }
    }

    /// The cursor goes back; what is live escapes.
    fn reset(&mut self, arena: usize, buffer: usize) {
        let arena = &mut self.arenas[arena];
        let buffer = &mut arena.buffers[buffer];
        arena.padding += buffer.padding;
        self.escapes += u64::from(buffer.live);
        self.dangling += u64::from(buffer.live);
        self.counters.blocks -= u64::from(buffer.live);
        self.counters.requested -= buffer.live_requested;
        self.counters.used -= buffer.live_used;
        self.counters.free += buffer.live_used;
        *buffer = Buffer {
            epoch: buffer.epoch + 1,
            ..Buffer::default()
        };
    }

    /// A block at the cursor grows or shrinks where it is, any other shrinks there.
    fn resize(&mut self, at: &Moment, id: BlockId, size: u64) -> Option<Placed> {
        let entry = self.entries[id.0 as usize];
        let resized = Entry {
            requested: size,
            ..entry
        };
        let arena = &mut self.arenas[entry.arena as usize];
        let base = arena.base + u64::from(entry.buffer) * self.parameters.capacity;
        let buffer = &mut arena.buffers[entry.buffer as usize];
        let start = entry.address - base;
        let last = start + entry.used() == buffer.cursor && arena.thread == at.thread;
        let end = start.checked_add(resized.used())?;
        if last && end <= self.parameters.capacity {
            buffer.blocks = buffer.blocks - entry.used() + resized.used();
            buffer.cursor = end;
            arena.peak = arena.peak.max(end);
        } else if resized.used() > entry.used() {
            return None;
        } else {
            // What it gives up is not used again before the reset.
            buffer.padding += entry.used() - resized.used();
            buffer.blocks -= entry.used() - resized.used();
        }
        self.leave(&entry);
        Some(self.enter(id, resized))
    }

    fn region(&self, index: usize, number: usize, live: &[BlockId]) -> Region {
        let arena = &self.arenas[index];
        let capacity = self.parameters.capacity;
        let start = arena.base + number as u64 * capacity;
        let cursor = start + arena.buffers[number].cursor;
        let mut runs = Vec::new();
        let mut at = start;
        let gap = |runs: &mut Vec<_>, bytes, state| {
            if bytes > 0 {
                runs.push((bytes, state));
            }
        };
        for &id in live {
            let entry = &self.entries[id.0 as usize];
            gap(&mut runs, entry.address - at, RunState::Idle);
            runs.push((entry.used(), RunState::Used(id)));
            at = entry.address + entry.used();
        }
        gap(&mut runs, cursor - at, RunState::Idle);
        gap(&mut runs, start + capacity - cursor, RunState::Free);
        let name = format!("thread {} buffer {number}", arena.thread);
        Region {
            name,
            segment: None,
            start,
            bytes: capacity,
            runs,
        }
    }
}

impl Model for Arenas {
    fn allocate(&mut self, at: &Moment, id: BlockId, request: Request) -> Result<Placed, Failure> {
        let align = if request.align == 0 {
            self.parameters.default_align
        } else {
            request.align
        };
        let entry = self.bump(at, request.size, align)?;
        if request.zeroed {
            self.counters.zeroed += request.size;
        }
        Ok(self.enter(id, entry))
    }

    fn reallocate(&mut self, at: &Moment, id: BlockId, size: u64) -> Result<Placed, Failure> {
        let entry = self.entries[id.0 as usize];
        let dangles = self.dangles(&entry);
        if !dangles && let Some(placed) = self.resize(at, id, size) {
            return Ok(placed);
        }
        let align = 1 << entry.align;
        let new = self.bump(at, size, align)?;
        if dangles {
            self.touch_dangling(at, id);
        } else {
            self.leave(&entry);
        }
        let moved = entry.requested.min(size);
        self.counters.moved += moved;
        Ok(Placed {
            moved,
            ..self.enter(id, new)
        })
    }

    fn free(&mut self, at: &Moment, id: BlockId) {
        let entry = self.entries[id.0 as usize];
        if self.arenas[entry.arena as usize].thread != at.thread {
            self.counters.foreign_frees += 1;
        }
        if self.dangles(&entry) {
            self.touch_dangling(at, id);
        } else {
            self.leave(&entry);
            self.entries[id.0 as usize] = ABSENT;
        }
    }

    fn thread_exit(&mut self, at: &Moment) {
        let Some(index) = self.arena_of(at.thread) else {
            return;
        };
        (0..self.arenas[index].buffers.len()).for_each(|buffer| self.reset(index, buffer));
        let bytes = self.parameters.capacity * u64::from(self.parameters.lifetime_frames);
        let arena = &mut self.arenas[index];
        arena.released = true;
        self.source.release(arena.base, bytes);
        self.counters.os.release += 1;
        self.counters.held -= bytes;
        self.counters.reserved -= bytes;
        self.counters.free -= bytes;
        self.of_thread[at.thread as usize] = NONE;
    }

    fn frame_end(&mut self, _at: &Moment) {
        for index in 0..self.arenas.len() {
            let arena = &mut self.arenas[index];
            if arena.released {
                continue;
            }
            arena.frames.push(arena.buffers[arena.current].cursor);
            arena.current = (arena.current + 1) % arena.buffers.len();
            let current = arena.current;
            self.reset(index, current);
        }
    }

    fn block(&self, id: BlockId) -> Option<Block> {
        let entry = self
            .entries
            .get(id.0 as usize)
            .filter(|entry| entry.arena != NONE)?;
        let (address, usable, requested) = (entry.address, entry.used(), entry.requested);
        let live = !self.dangles(entry);
        live.then_some(Block {
            id,
            address,
            usable,
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
        let mut live: BTreeMap<(u32, u32), Vec<BlockId>> = BTreeMap::new();
        for (id, entry) in self.entries.iter().enumerate() {
            if entry.arena != NONE && !self.dangles(entry) {
                let blocks = live.entry((entry.arena, entry.buffer)).or_default();
                blocks.push(BlockId(id as u32));
            }
        }
        let mut regions = Vec::new();
        for (index, arena) in self
            .arenas
            .iter()
            .enumerate()
            .filter(|(_, arena)| !arena.released)
        {
            for number in 0..arena.buffers.len() {
                let mut blocks = live
                    .remove(&(index as u32, number as u32))
                    .unwrap_or_default();
                blocks.sort_unstable_by_key(|id| self.entries[id.0 as usize].address);
                regions.push(self.region(index, number, &blocks));
            }
        }
        regions.sort_unstable_by_key(|region| region.start);
        regions
    }

    fn checkpoint(&self) -> Box<dyn Model> {
        Box::new(Arenas {
            parameters: self.parameters.clone(),
            arenas: self.arenas.clone(),
            of_thread: self.of_thread.clone(),
            entries: self.entries.clone(),
            escaped: self.escaped.clone(),
            by_site: self.by_site.clone(),
            source: self.source.checkpoint(),
            ..*self
        })
    }
}

/// Capacity for a measured peak: `factor` times as much, rounded up to 64 KiB.
pub fn recommended(peak: u64, factor: f64) -> u64 {
    ((peak as f64 * factor).ceil() as u64).next_multiple_of(STEP)
}

fn escape(entry: &Entry, until: Option<u32>) -> Escape {
    let survived = until.map(|frame| frame - entry.frame);
    Escape {
        site: entry.site,
        size: entry.requested,
        frame: entry.frame,
        survived,
    }
}

fn add_escape(sites: &mut BTreeMap<u32, SiteEscapes>, escape: &Escape) {
    let site = sites.entry(escape.site).or_default();
    site.count += 1;
    site.bytes += escape.size;
    site.most_frames = site.most_frames.max(escape.survived.unwrap_or(0));
}

fn failure(cause: FailureCause, needed: u64, free: u64) -> Failure {
    Failure {
        cause,
        needed,
        free,
        largest_free: free,
    }
}
