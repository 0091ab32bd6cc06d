//! From steps of a replay to calls of models: addresses become numbers of blocks.

use super::call::{Call, CallKind};
use super::scene::Scene;
use crate::replay::{Step, StepKind};
use heapreel_format::{LoopId, Rare, Trace};
use serde::Serialize;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// What was fed, and what could not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fed {
    /// Allocations, reallocations and frees.
    pub events: u64,
    /// Frames of the main loop that ended; the stretch before the first mark is none.
    pub frames: u64,
    /// Frees and resizes of addresses where nothing was live: nothing is done for them.
    pub unknown: u64,
    /// Blocks that another one was put over: they are freed first.
    pub evicted: u64,
    /// Requests that failed when the game ran: it did without, and so do the models.
    pub failed: u64,
    /// Blocks that were live when the trace began.
    pub snapshot: u64,
    /// Threads that are taken to be gone because they made no further call.
    pub silent_threads: u64,
    /// Most blocks that were live at once.
    pub peak_blocks: u64,
    /// Nanoseconds from the first to the last instant.
    pub nanos: u64,
}

/// A block that is between the two halves of a reallocation.
struct Moving {
    stream: u32,
    old_address: u64,
    id: u32,
}

/// Turns steps into calls.
pub(super) struct Feeder<'a> {
    scene: &'a Scene,
    live: HashMap<u64, u32, BuildHasherDefault<AddressHasher>>,
    moving: Vec<Moving>,
    /// Numbers of blocks that are free again.
    spare: Vec<u32>,
    next_id: u32,
    started: Vec<bool>,
    exits: std::iter::Peekable<std::vec::IntoIter<(u64, u32)>>,
    /// Of the blocks that are still to be allocated, in their order; empty where nobody asks.
    lifetimes: std::vec::IntoIter<u32>,
    main_loop: Option<LoopId>,
    marks: u64,
    calls: Vec<Call>,
    fed: Fed,
}

impl<'a> Feeder<'a> {
    /// A feeder that stands before the first step. `exits` are (key, thread) in order,
    /// `lifetimes` what [`lifetimes`](super::lifetimes) has found, or nothing.
    pub(super) fn new(
        trace: &Trace,
        scene: &'a Scene,
        exits: Vec<(u64, u32)>,
        lifetimes: Vec<u32>,
    ) -> Feeder<'a> {
        let mut feeder = Feeder {
            scene,
            live: HashMap::default(),
            moving: Vec::new(),
            spare: Vec::new(),
            next_id: 0,
            started: vec![false; scene.threads.len()],
            exits: exits.into_iter().peekable(),
            lifetimes: lifetimes.into_iter(),
            main_loop: None,
            marks: 0,
            calls: Vec::new(),
            fed: Fed::default(),
        };
        feeder.begin_with_snapshot(trace);
        feeder
    }

    /// The calls since the last time.
    pub(super) fn take_calls(&mut self) -> Vec<Call> {
        let room = self.calls.len();
        std::mem::replace(&mut self.calls, Vec::with_capacity(room))
    }

    /// How many calls wait.
    pub(super) fn waiting(&self) -> usize {
        self.calls.len()
    }

    /// What was fed so far.
    pub(super) fn fed(&self) -> Fed {
        let frames = self.marks.saturating_sub(1);
        Fed { frames, ..self.fed }
    }

    /// The stretch behind the last mark ends.
    pub(super) fn finish(&mut self) {
        let nanos = self.fed.nanos;
        self.push(Call {
            nanos,
            ..self.blank(CallKind::FrameEnd)
        });
    }

    fn begin_with_snapshot(&mut self, trace: &Trace) {
        let mut blocks: Vec<_> = crate::replay::snapshot_blocks(trace, &self.scene.dense).collect();
        blocks.sort_by_key(|(address, block)| (block.key, *address));
        for (address, block) in blocks {
            let step = Step {
                address,
                size: block.size,
                stack: block.stack,
                thread: block.thread,
                context: block.context,
                segment: block.segment,
                ..Step::blank(self.scene.times.start(), StepKind::Alloc)
            };
            self.fed.snapshot += 1;
            self.allocate(&step, CallKind::Allocate);
        }
    }

    /// Takes a step that is no rare record.
    pub(super) fn step(&mut self, step: &Step) {
        self.pass(step.key);
        match step.kind {
            StepKind::Alloc => self.allocate(step, CallKind::Allocate),
            StepKind::AllocZeroed => self.allocate(step, CallKind::AllocateZeroed),
            StepKind::Release | StepKind::ReleaseInFlight => self.release(step),
            StepKind::MoveOut => self.move_out(step),
            StepKind::ReallocEnd => self.reallocate(step),
            StepKind::FailedAlloc | StepKind::FailedRealloc => self.fed.failed += 1,
            StepKind::Evict => self.evict(step),
            StepKind::ResizeBegin | StepKind::Rare | StepKind::Entered => {}
        }
    }

    /// Takes a rare record.
    pub(super) fn rare(&mut self, step: &Step, rare: &Rare) {
        self.pass(step.key);
        match *rare {
            Rare::FrameMark { id } => self.frame_mark(step, id),
            Rare::ThreadExit => {
                self.push(self.call(step, CallKind::ThreadExit));
                self.started[step.thread as usize] = false;
            }
            Rare::HeapRange {
                heap,
                address,
                length,
            } => self.push(Call {
                id: heap.0,
                address,
                size: length,
                ..self.call(step, CallKind::HeapRange)
            }),
            Rare::HeapDestroy { heap } => self.push(Call {
                id: heap.0,
                ..self.call(step, CallKind::HeapDestroyed)
            }),
            Rare::Resident {
                anonymous, shared, ..
            } => self.push(Call {
                size: anonymous.saturating_add(shared),
                ..self.call(step, CallKind::Resident)
            }),
            _ => {}
        }
    }

    /// Time goes on to `key`: threads whose last record lies before it are gone.
    #[inline]
    fn pass(&mut self, key: u64) {
        while let Some((last, thread)) = self.exits.next_if(|(last, _)| *last < key) {
            if std::mem::replace(&mut self.started[thread as usize], false) {
                self.fed.silent_threads += 1;
                let nanos = self.scene.times.since_start(last);
                self.push(Call {
                    nanos,
                    thread,
                    ..self.blank(CallKind::ThreadExit)
                });
            }
        }
    }

    fn frame_mark(&mut self, step: &Step, id: LoopId) {
        if self.main_loop.is_none_or(|main| id < main) {
            self.main_loop = Some(id);
        }
        if self.main_loop == Some(id) {
            self.push(self.call(step, CallKind::FrameEnd));
            self.marks += 1;
        }
    }

    fn allocate(&mut self, step: &Step, kind: CallKind) {
        let id = self.new_id();
        self.put(step, id);
        self.fed.events += 1;
        let call = Call {
            id,
            address: step.address,
            align_log2: self.align(step),
            lifetime: self.lifetimes.next().unwrap_or(0),
            ..self.call(step, kind)
        };
        self.push_of_thread(call);
    }

    fn release(&mut self, step: &Step) {
        match self.live.remove(&step.address) {
            Some(id) => self.free(step, id),
            // A call in flight whose record was published as well is no fault.
            None if step.kind == StepKind::ReleaseInFlight => {}
            None => self.fed.unknown += 1,
        }
    }

    fn free(&mut self, step: &Step, id: u32) {
        self.spare.push(id);
        self.fed.events += 1;
        let call = Call {
            id,
            ..self.call(step, CallKind::Free)
        };
        self.push_of_thread(call);
    }

    fn move_out(&mut self, step: &Step) {
        let Some(id) = self.live.remove(&step.address) else {
            self.fed.unknown += 1;
            return;
        };
        let (stream, old_address) = (step.stream, step.address);
        self.moving.push(Moving {
            stream,
            old_address,
            id,
        });
    }

    fn reallocate(&mut self, step: &Step) {
        let id = if step.address == step.old_address {
            self.live.get(&step.address).copied()
        } else {
            self.moved(step)
        };
        let Some(id) = id else {
            return self.allocate(step, CallKind::Allocate);
        };
        if step.address != step.old_address {
            self.put(step, id);
        }
        self.fed.events += 1;
        let call = Call {
            id,
            address: step.address,
            align_log2: self.align(step),
            ..self.call(step, CallKind::Reallocate)
        };
        self.push_of_thread(call);
    }

    /// The block whose first half of a reallocation this step ends.
    fn moved(&mut self, step: &Step) -> Option<u32> {
        let same = |it: &Moving| (it.stream, it.old_address) == (step.stream, step.old_address);
        let at = self.moving.iter().rposition(same)?;
        Some(self.moving.swap_remove(at).id)
    }

    /// A block is at an address now; one that is there already is freed first.
    fn put(&mut self, step: &Step, id: u32) {
        if let Some(occupant) = self.live.insert(step.address, id) {
            self.fed.evicted += 1;
            self.free(step, occupant);
        }
        let blocks = self.live.len() as u64;
        self.fed.peak_blocks = self.fed.peak_blocks.max(blocks);
    }

    fn evict(&mut self, step: &Step) {
        if let Some(occupant) = self.live.remove(&step.address) {
            self.fed.evicted += 1;
            self.free(step, occupant);
        }
    }

    fn new_id(&mut self) -> u32 {
        self.spare.pop().unwrap_or_else(|| {
            self.next_id += 1;
            self.next_id - 1
        })
    }

    fn align(&self, step: &Step) -> u8 {
        self.scene
            .aligns
            .get(step.stack as usize)
            .copied()
            .unwrap_or(0)
    }

    /// A call that is made by a thread: its first one is told before.
    fn push_of_thread(&mut self, call: Call) {
        let thread = call.thread as usize;
        if !self.started[thread] {
            self.started[thread] = true;
            let role = self.scene.threads[thread].role;
            self.push(Call {
                kind: CallKind::ThreadStart(role),
                ..call
            });
        }
        self.push(call);
    }

    fn push(&mut self, call: Call) {
        self.fed.nanos = self.fed.nanos.max(call.nanos);
        self.calls.push(call);
    }

    fn call(&self, step: &Step, kind: CallKind) -> Call {
        let context = match step.context {
            0 => 0,
            id => self.context(id),
        };
        Call {
            nanos: self.scene.times.since_start(step.key),
            size: step.size,
            thread: step.thread,
            site: step.stack,
            context,
            segment: step.segment,
            ..self.blank(kind)
        }
    }

    fn context(&self, id: u32) -> u32 {
        let id = heapreel_format::ContextId(id);
        self.scene.context_positions.get(&id).copied().unwrap_or(0)
    }

    fn blank(&self, kind: CallKind) -> Call {
        Call {
            nanos: 0,
            address: 0,
            size: 0,
            frame: self.marks.saturating_sub(1) as u32,
            thread: 0,
            site: 0,
            context: 0,
            id: 0,
            lifetime: 0,
            segment: 0,
            align_log2: 0,
            kind,
        }
    }
}

/// Spreads addresses, which are multiples of 16, over all bits.
///
/// PERF: addresses come from a trace, so whoever made it can make them collide; that
/// costs him time and nobody memory.
#[derive(Clone, Copy, Debug, Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
