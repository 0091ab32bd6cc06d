//! The books that every replay keeps, whatever the model: which blocks are live, what
//! failed and why, peaks, frames, budgets.
//!
//! A request that fails makes its block a *phantom*: what the trace does with it later is
//! counted and not executed, and the replay goes on. A free of a block that is not live is
//! counted and changes nothing.

use serde::Serialize;

use crate::counters::Counters;
use crate::free_sizes::FreeSizes;
use crate::metrics::JohnstoneWilson;
use crate::model::{
    BlockId, Failure, FailureCause, Model, Moment, Placed, Request, SegmentId, ThreadRole,
};

/// What a ledger is to keep.
#[derive(Clone, Debug)]
pub struct Options {
    /// Budgets by segment, in bytes of blocks.
    pub budgets: Vec<(SegmentId, u64)>,
    /// Failures to keep in full; all are counted. Default 256.
    pub failures: usize,
    /// Times over budget to keep; all are counted. Default 4096.
    pub excesses: usize,
    /// Whether to keep a row for each frame. Default true.
    pub frames: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            budgets: Vec::new(),
            failures: 256,
            excesses: 4096,
            frames: true,
        }
    }
}

/// A request that failed, with all that was free then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// When and where.
    pub nanos: u64,
    /// The game frame.
    pub frame: u32,
    /// The segment that the thread worked in.
    pub segment: SegmentId,
    /// Number of the backtrace.
    pub site: u32,
    /// The block, a phantom from now on unless it was to be resized.
    pub id: BlockId,
    /// Bytes that were asked for.
    pub size: u64,
    /// Alignment that was asked for.
    pub align: u64,
    /// The block was to be resized; it stays as it was.
    pub resize: bool,
    /// Why, and what was free.
    pub failure: Failure,
    /// The free ranges at that moment.
    pub free: FreeSizes,
}

/// A stretch of time in which a segment was over its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Excess {
    /// The segment.
    pub segment: u16,
    /// Its budget in bytes.
    pub budget: u64,
    /// The most bytes in that time.
    pub peak: u64,
    /// When it began, in nanoseconds.
    pub from_nanos: u64,
    /// The frame it began in.
    pub from_frame: u32,
    /// When it ended; `None` while it lasts.
    pub until_nanos: Option<u64>,
    /// The frame it ended in.
    pub until_frame: Option<u32>,
}

/// Events that were not executed, and how many were. Sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Blocks that were placed.
    pub allocations: u64,
    /// Blocks that were resized.
    pub reallocations: u64,
    /// Blocks that were taken back.
    pub frees: u64,
    /// Bytes that were asked for, of placed blocks.
    pub allocated_bytes: u64,
    /// Bytes of blocks that were taken back, as last asked for.
    pub freed_bytes: u64,
    /// Requests that failed, for any cause.
    pub failures: u64,
    /// Requests that failed for [`FailureCause::NoContiguous`].
    pub no_contiguous: u64,
    /// Requests that failed for [`FailureCause::Exhausted`].
    pub exhausted: u64,
    /// Requests that failed for [`FailureCause::OverBudget`].
    pub over_budget: u64,
    /// Requests that failed for [`FailureCause::TooLarge`].
    pub too_large: u64,
    /// Bytes that were asked for by requests that failed.
    pub failed_bytes: u64,
    /// Frees and resizes of blocks that are phantoms.
    pub phantom_events: u64,
    /// Frees and resizes of blocks that were live once.
    pub double_frees: u64,
    /// Frees and resizes of blocks that never were.
    pub unknown_frees: u64,
    /// Allocations of a block's number while it was live: the old block was freed first.
    pub lost_frees: u64,
}

impl Tally {
    /// Frees and resizes that found no block.
    pub fn bad_frees(&self) -> u64 {
        self.double_frees + self.unknown_frees
    }

    fn since(&self, before: &Tally) -> Tally {
        Tally {
            allocations: self.allocations - before.allocations,
            reallocations: self.reallocations - before.reallocations,
            frees: self.frees - before.frees,
            allocated_bytes: self.allocated_bytes - before.allocated_bytes,
            freed_bytes: self.freed_bytes - before.freed_bytes,
            failures: self.failures - before.failures,
            no_contiguous: self.no_contiguous - before.no_contiguous,
            exhausted: self.exhausted - before.exhausted,
            over_budget: self.over_budget - before.over_budget,
            too_large: self.too_large - before.too_large,
            failed_bytes: self.failed_bytes - before.failed_bytes,
            phantom_events: self.phantom_events - before.phantom_events,
            double_frees: self.double_frees - before.double_frees,
            unknown_frees: self.unknown_frees - before.unknown_frees,
            lost_frees: self.lost_frees - before.lost_frees,
        }
    }

    fn fail(&mut self, cause: FailureCause, size: u64) {
        self.failures += 1;
        self.failed_bytes += size;
        *match cause {
            FailureCause::NoContiguous => &mut self.no_contiguous,
            FailureCause::Exhausted => &mut self.exhausted,
            FailureCause::OverBudget => &mut self.over_budget,
            FailureCause::TooLarge => &mut self.too_large,
        } += 1;
    }
}

/// One frame of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FrameRow {
    /// The game frame.
    pub frame: u32,
    /// What happened in it.
    pub tally: Tally,
    /// Requests to the operating system in it.
    pub os_calls: u64,
    /// Bytes cleared in it.
    pub zeroed: u64,
    /// Bytes copied by reallocations in it.
    pub moved: u64,
    /// Calls in it that left the fast path.
    pub slow: u64,
    /// Locks taken in it.
    pub locks: u64,
    /// Most bytes requested at once in it.
    pub peak_requested: u64,
    /// Most bytes held at once in it, after any event.
    pub peak_held: u64,
    /// The model at its end.
    pub end: Counters,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Never,
    Live,
    Phantom,
    Freed,
}

/// What the trace says of a block, by its number.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    requested: u64,
    usable: u64,
    segment: u16,
    state: State,
}

/// A segment's account.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    charged: u64,
    peak: u64,
    budget: Option<u64>,
    /// The running excess, in `excesses`.
    over: Option<usize>,
    is_over: bool,
}

/// A model and its books. Feed it a trace's events in order.
pub struct Ledger {
    model: Box<dyn Model>,
    options: Options,
    entries: Vec<Entry>,
    accounts: Vec<Account>,
    tally: Tally,
    /// Live as the trace has it: placed and not freed.
    requested: u64,
    live: u64,
    phantoms: u64,
    phantom_bytes: u64,
    peak_phantom_bytes: u64,
    peak_blocks: u64,
    johnstone_wilson: JohnstoneWilson,
    hash: u64,
    failures: Vec<Failed>,
    excesses: Vec<Excess>,
    excess_count: u64,
    frames: Vec<FrameRow>,
    frame: FrameStart,
}

/// What is measured against at a frame's end.
#[derive(Clone, Copy, Debug, Default)]
struct FrameStart {
    tally: Tally,
    counters: Counters,
    peak_requested: u64,
    peak_held: u64,
}

impl Ledger {
    /// Books for a model that has seen nothing yet.
    pub fn new(model: Box<dyn Model>, options: Options) -> Ledger {
        let mut ledger = Ledger {
            entries: Vec::new(),
            accounts: Vec::new(),
            tally: Tally::default(),
            requested: 0,
            live: 0,
            phantoms: 0,
            phantom_bytes: 0,
            peak_phantom_bytes: 0,
            peak_blocks: 0,
            johnstone_wilson: JohnstoneWilson::default(),
            hash: 0xCBF2_9CE4_8422_2325,
            failures: Vec::new(),
            excesses: Vec::new(),
            excess_count: 0,
            frames: Vec::new(),
            frame: FrameStart {
                counters: model.counters(),
                ..FrameStart::default()
            },
            model,
            options,
        };
        for (segment, budget) in ledger.options.budgets.clone() {
            ledger.account(segment.0).budget = Some(budget);
        }
        ledger
    }

    /// A block is allocated.
    ///
    /// # Errors
    ///
    /// The model's [`Failure`]; it is in the books, and the block is a phantom.
    pub fn allocate(
        &mut self,
        at: &Moment,
        id: BlockId,
        request: Request,
    ) -> Result<Placed, Failure> {
        let index = id.0 as usize;
        if index >= self.entries.len() {
            self.entries.resize(index + 1, Entry::default());
        }
        match self.entries[index].state {
            State::Live => {
                self.tally.lost_frees += 1;
                self.take_back(at, id);
            }
            State::Phantom => self.forget_phantom(index),
            State::Never | State::Freed => {}
        }
        let result = self.model.allocate(at, id, request);
        match result {
            Ok(placed) => self.placed(at, id, request.size, placed),
            Err(failure) => {
                self.failed(at, id, request.size, request.align, false, failure);
                let segment = at.segment.0;
                let state = State::Phantom;
                self.entries[index] = Entry {
                    requested: request.size,
                    usable: 0,
                    segment,
                    state,
                };
                self.phantoms += 1;
                self.add_phantom_bytes(request.size);
            }
        }
        result
    }

    /// A block is resized; `None` where there is none.
    ///
    /// # Errors
    ///
    /// The model's [`Failure`]; it is in the books, and the block is as it was.
    pub fn reallocate(
        &mut self,
        at: &Moment,
        id: BlockId,
        size: u64,
    ) -> Result<Option<Placed>, Failure> {
        let Some(entry) = self.live_entry(id, Some(size)) else {
            return Ok(None);
        };
        let placed = self
            .model
            .reallocate(at, id, size)
            .inspect_err(|&failure| {
                self.failed(at, id, size, 0, true, failure);
            })?;
        self.tally.reallocations += 1;
        self.note(placed);
        self.requested = self.requested - entry.requested + size;
        match placed.usable.checked_sub(entry.usable) {
            Some(usable) => self.charge(at, Entry { usable, ..entry }),
            None => self.credit(
                at,
                Entry {
                    usable: entry.usable - placed.usable,
                    ..entry
                },
            ),
        }
        self.entries[id.0 as usize] = Entry {
            requested: size,
            usable: placed.usable,
            ..entry
        };
        self.sample();
        Ok(Some(placed))
    }

    /// A block is freed; false where there is none.
    pub fn free(&mut self, at: &Moment, id: BlockId) -> bool {
        if self.live_entry(id, None).is_none() {
            return false;
        }
        self.take_back(at, id);
        true
    }

    /// Some of these blocks are freed or resized next: see [`Model::expect`].
    pub fn expect(&self, ids: &[BlockId]) {
        let entries = ids.iter().filter_map(|id| self.entries.get(id.0 as usize));
        std::hint::black_box(entries.fold(0, |seen, entry| seen ^ entry.requested));
        self.model.expect(ids);
    }

    /// Where the next block really lay; for models that show what was recorded.
    pub fn recorded(&mut self, address: u64, usable: u64) {
        self.model.recorded(address, usable);
    }

    /// A thread makes its first call.
    pub fn thread_start(&mut self, at: &Moment, role: ThreadRole) {
        self.model.thread_start(at, role);
    }

    /// A thread is gone.
    pub fn thread_exit(&mut self, at: &Moment) {
        self.model.thread_exit(at);
    }

    /// A game frame ends.
    pub fn frame_end(&mut self, at: &Moment) {
        self.model.frame_end(at);
        let end = self.model.counters();
        let start = std::mem::take(&mut self.frame);
        if self.options.frames {
            self.frames.push(row(at.frame, &start, &self.tally, end));
        }
        self.frame = FrameStart {
            tally: self.tally,
            counters: end,
            peak_requested: self.requested,
            peak_held: end.held,
        };
    }

    /// The model.
    pub fn model(&self) -> &dyn Model {
        &*self.model
    }

    /// The model, to be told what only it listens to.
    pub fn model_mut(&mut self) -> &mut dyn Model {
        &mut *self.model
    }

    /// Bytes asked for of blocks that were placed and not freed.
    pub fn requested(&self) -> u64 {
        self.requested
    }

    /// Blocks that were placed and not freed.
    pub fn live(&self) -> u64 {
        self.live
    }

    /// The most of them at once.
    pub fn peak_blocks(&self) -> u64 {
        self.peak_blocks
    }

    /// Phantoms that the trace believes to be live, and their bytes.
    pub fn phantoms(&self) -> (u64, u64) {
        (self.phantoms, self.phantom_bytes)
    }

    /// The most bytes of phantoms at once: what failing spared the model.
    pub fn peak_phantom_bytes(&self) -> u64 {
        self.peak_phantom_bytes
    }

    /// How often what happened.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Held against requested, over all events so far.
    pub fn johnstone_wilson(&self) -> &JohnstoneWilson {
        &self.johnstone_wilson
    }

    /// The first failures, in order.
    pub fn failures(&self) -> &[Failed] {
        &self.failures
    }

    /// The first times that a segment was over its budget, in order of their beginning.
    pub fn excesses(&self) -> &[Excess] {
        &self.excesses
    }

    /// How often a segment came over its budget.
    pub fn excess_count(&self) -> u64 {
        self.excess_count
    }

    /// The most bytes of blocks that a segment had at once.
    pub fn peak_charged(&self, segment: SegmentId) -> u64 {
        self.accounts
            .get(usize::from(segment.0))
            .map_or(0, |account| account.peak)
    }

    /// Bytes of blocks that a segment has now.
    pub fn charged(&self, segment: SegmentId) -> u64 {
        self.accounts
            .get(usize::from(segment.0))
            .map_or(0, |account| account.charged)
    }

    /// A row for each frame that ended.
    pub fn frames(&self) -> &[FrameRow] {
        &self.frames
    }

    /// A fingerprint of where every block came to lie: two replays that agree in it
    /// placed all blocks alike.
    pub fn fingerprint(&self) -> u64 {
        self.hash
    }

    /// A copy to go on from later.
    pub fn checkpoint(&self) -> Ledger {
        Ledger {
            model: self.model.checkpoint(),
            options: self.options.clone(),
            entries: self.entries.clone(),
            accounts: self.accounts.clone(),
            failures: self.failures.clone(),
            excesses: self.excesses.clone(),
            frames: self.frames.clone(),
            ..*self
        }
    }

    fn placed(&mut self, at: &Moment, id: BlockId, size: u64, placed: Placed) {
        self.tally.allocations += 1;
        self.tally.allocated_bytes += size;
        self.note(placed);
        self.requested += size;
        self.live += 1;
        self.peak_blocks = self.peak_blocks.max(self.live);
        let (usable, segment, state) = (placed.usable, at.segment.0, State::Live);
        let entry = Entry {
            requested: size,
            usable,
            segment,
            state,
        };
        self.entries[id.0 as usize] = entry;
        self.charge(at, entry);
        self.sample();
    }

    fn take_back(&mut self, at: &Moment, id: BlockId) {
        self.model.free(at, id);
        let entry = &mut self.entries[id.0 as usize];
        entry.state = State::Freed;
        let entry = *entry;
        self.tally.frees += 1;
        self.tally.freed_bytes += entry.requested;
        self.requested -= entry.requested;
        self.live -= 1;
        self.credit(at, entry);
        self.sample();
    }

    /// The entry of a live block; counts what is asked of any other. A phantom that is
    /// resized keeps in mind its new size, one that is freed is forgotten.
    fn live_entry(&mut self, id: BlockId, resize: Option<u64>) -> Option<Entry> {
        let index = id.0 as usize;
        let entry = self.entries.get(index).copied().unwrap_or_default();
        match entry.state {
            State::Live => return Some(entry),
            State::Never => self.tally.unknown_frees += 1,
            State::Freed => self.tally.double_frees += 1,
            State::Phantom => {
                self.tally.phantom_events += 1;
                if let Some(size) = resize {
                    self.phantom_bytes -= entry.requested;
                    self.entries[index].requested = size;
                    self.add_phantom_bytes(size);
                } else {
                    self.forget_phantom(index);
                }
            }
        }
        None
    }

    fn forget_phantom(&mut self, index: usize) {
        let entry = &mut self.entries[index];
        entry.state = State::Freed;
        self.phantoms -= 1;
        self.phantom_bytes -= entry.requested;
    }

    fn add_phantom_bytes(&mut self, size: u64) {
        self.phantom_bytes += size;
        self.peak_phantom_bytes = self.peak_phantom_bytes.max(self.phantom_bytes);
    }

    fn failed(
        &mut self,
        at: &Moment,
        id: BlockId,
        size: u64,
        align: u64,
        resize: bool,
        failure: Failure,
    ) {
        self.tally.fail(failure.cause, size);
        self.mix(u64::MAX);
        if self.failures.len() < self.options.failures {
            let Moment {
                nanos,
                frame,
                segment,
                site,
                ..
            } = *at;
            let free = self.model.free_sizes(segment);
            let failed = Failed {
                nanos,
                frame,
                segment,
                site,
                id,
                size,
                align,
                resize,
                failure,
                free,
            };
            self.failures.push(failed);
        }
    }

    fn note(&mut self, placed: Placed) {
        self.mix(placed.address);
    }

    fn mix(&mut self, value: u64) {
        self.hash = (self.hash ^ value)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(29);
    }

    fn sample(&mut self) {
        let held = self.model.held();
        self.johnstone_wilson.sample(held, self.requested);
        self.frame.peak_requested = self.frame.peak_requested.max(self.requested);
        self.frame.peak_held = self.frame.peak_held.max(held);
    }

    fn account(&mut self, segment: u16) -> &mut Account {
        let index = usize::from(segment);
        if index >= self.accounts.len() {
            self.accounts.resize(index + 1, Account::default());
        }
        &mut self.accounts[index]
    }

    fn charge(&mut self, at: &Moment, entry: Entry) {
        let account = self.account(entry.segment);
        account.charged += entry.usable;
        account.peak = account.peak.max(account.charged);
        let Account {
            charged,
            budget: Some(budget),
            over,
            is_over,
            ..
        } = *account
        else {
            return;
        };
        if charged <= budget {
            return;
        }
        if is_over {
            if let Some(over) = over {
                let peak = &mut self.excesses[over].peak;
                *peak = charged.max(*peak);
            }
            return;
        }
        let over = (self.excesses.len() < self.options.excesses).then_some(self.excesses.len());
        let account = self.account(entry.segment);
        (account.is_over, account.over) = (true, over);
        self.excess_count += 1;
        if over.is_some() {
            self.excesses.push(Excess {
                segment: entry.segment,
                budget,
                peak: charged,
                from_nanos: at.nanos,
                from_frame: at.frame,
                until_nanos: None,
                until_frame: None,
            });
        }
    }

    fn credit(&mut self, at: &Moment, entry: Entry) {
        let account = self.account(entry.segment);
        account.charged -= entry.usable;
        if account.is_over
            && account
                .budget
                .is_some_and(|budget| account.charged <= budget)
        {
            account.is_over = false;
            if let Some(over) = account.over.take() {
                let excess = &mut self.excesses[over];
                (excess.until_nanos, excess.until_frame) = (Some(at.nanos), Some(at.frame));
            }
        }
    }
}

fn row(frame: u32, start: &FrameStart, tally: &Tally, end: Counters) -> FrameRow {
    let before = &start.counters;
    FrameRow {
        frame,
        tally: tally.since(&start.tally),
        os_calls: end.os.all() - before.os.all(),
        zeroed: end.zeroed - before.zeroed,
        moved: end.moved - before.moved,
        slow: end.slow - before.slow,
        locks: end.locks - before.locks,
        peak_requested: start.peak_requested,
        peak_held: start.peak_held.max(before.held),
        end,
    }
}
