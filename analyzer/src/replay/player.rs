//! Plays the merged sequence on the live set and shows observers what each step did.

use super::live_set::{Block, LiveSet};
use super::merge::Batch;
use super::names::Dense;
use super::step::{Step, StepKind};
use heapreel_format::{Rare, Trace};

/// What a step did to the live set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// Nothing: a failed request, or a rare record.
    #[default]
    Nothing,
    /// A new block is live.
    Acquired,
    /// A block is no longer live; [`Effect::block`] is what it was.
    Released,
    /// The address was not live.
    UnknownRelease,
    /// A block left its address and still counts as live.
    Moving,
    /// A block got its new size; [`Effect::block`] is what it was.
    Resized,
    /// A reallocation of a block not known as live came to its end: a new block is live.
    ResizedUnknown,
}

/// A step's consequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// The block as it was before the step, where there was one; else anything.
    pub block: Block,
    /// Change of the live bytes.
    pub delta: i64,
    /// What kind of consequence.
    pub outcome: Outcome,
}

/// A step with its consequence.
pub type Tick<'a> = (&'a Step, &'a Effect);

/// Steps between two rare records, in key order.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// The steps.
    pub steps: &'a [Step],
    /// For each its consequence.
    pub effects: &'a [Effect],
}

impl<'a> Span<'a> {
    /// All steps with their consequences.
    #[inline]
    pub fn ticks(self) -> impl Iterator<Item = Tick<'a>> {
        self.steps.iter().zip(self.effects)
    }

    /// The first `count` steps, and the others.
    pub fn split_at(self, count: usize) -> (Span<'a>, Span<'a>) {
        let (first, second) = self.steps.split_at(count);
        let (first_effects, second_effects) = self.effects.split_at(count);
        (
            Span {
                steps: first,
                effects: first_effects,
            },
            Span {
                steps: second,
                effects: second_effects,
            },
        )
    }
}

/// Gathers facts from a replay.
pub trait Observer {
    /// Steps happened, none of them a rare record.
    fn on_events(&mut self, span: Span<'_>);

    /// A rare record stands here: a frame mark, a phase, a mark …
    fn on_rare(&mut self, step: &Step, rare: &Rare);

    /// Whether nothing more is wanted.
    fn done(&self) -> bool {
        false
    }
}

/// Faults of order that a replay met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Anomalies {
    /// Blocks acquired at an address that was live.
    pub acquired_while_live: u64,
    /// The same where events were lost or recording was off before: no fault of order.
    pub acquired_after_gap: u64,
    /// Releases of addresses not live: (key, address), the first `MAX_UNKNOWN`.
    pub unknown: Vec<(u64, u64)>,
}

/// Unknown releases that are kept one by one.
pub const MAX_UNKNOWN: usize = 1 << 16;

/// Plays batches on a live set.
#[derive(Debug, Default)]
pub struct Player {
    live: LiveSet,
    /// Blocks between the two halves of a reallocation: stream, old address, block.
    moving: Vec<(u32, u64, Block)>,
    effects: Vec<Effect>,
    /// Blocks acquired before this key may have been released without a record.
    gap: u64,
    anomalies: Anomalies,
    /// The block that the last step found where it put its own.
    occupant: Option<Block>,
    warmth: u64,
}

impl Player {
    /// A player in whose live set these blocks are: those of a trace's snapshot.
    pub fn with_snapshot(blocks: impl Iterator<Item = (u64, Block)>) -> Player {
        let mut player = Player::default();
        for (address, block) in blocks {
            player.live.insert(address, block);
        }
        player
    }

    /// The blocks that are live now, those that are moving included.
    pub fn live_blocks(&self) -> Vec<(u64, Block)> {
        let mut blocks = self.live.sorted();
        blocks.extend(
            self.moving
                .iter()
                .map(|(_, address, block)| (*address, *block)),
        );
        blocks
    }

    /// Faults met so far.
    pub fn anomalies(&self) -> &Anomalies {
        &self.anomalies
    }

    /// Plays a batch and shows it to `observer`, up to where that has enough.
    pub fn play(&mut self, batch: &mut Batch, observer: &mut impl Observer) {
        let mut effects = std::mem::take(&mut self.effects);
        // PERF: what an earlier batch left in it is overwritten, not cleared first.
        if effects.len() < batch.steps.len() {
            effects.resize(batch.steps.len(), Effect::default());
        }
        let mut shown = 0;
        let mut at = 0;
        while at < batch.steps.len() {
            if at % 16 == 0 && self.live.is_large() {
                self.warm(&batch.steps[at..]);
            }
            let step = &batch.steps[at];
            if step.kind == StepKind::Rare {
                show(batch, &effects, shown..at, observer);
                shown = at + 1;
                if let Some(rare) = batch.rares.get(step.address as usize) {
                    self.note_gap(step.key, rare);
                    observer.on_rare(step, rare);
                }
                if observer.done() {
                    shown = batch.steps.len();
                    break;
                }
            } else {
                self.apply(step, &mut effects[at]);
                if let Some(occupant) = self.occupant.take() {
                    // The occupant goes first, in a step of its own.
                    self.note_occupied(&occupant);
                    let evict = Step {
                        kind: StepKind::Evict,
                        latency: 0,
                        cost: 0,
                        ..*step
                    };
                    batch.steps.insert(at, evict);
                    effects.insert(at, released(&occupant));
                    at += 1;
                }
            }
            at += 1;
        }
        show(batch, &effects, shown..batch.steps.len(), observer);
        self.effects = effects;
    }

    #[inline]
    fn warm(&mut self, steps: &[Step]) {
        if let Some(next) = steps.first_chunk::<16>() {
            let mut addresses = [0; 16];
            addresses
                .iter_mut()
                .zip(next)
                .for_each(|(address, step)| *address = step.address);
            self.warmth ^= self.live.warm(&addresses);
        }
    }

    /// Changes the live set and fills `effect` in. A new block's effect keeps whatever
    /// [`Effect::block`] stood there.
    #[inline(always)]
    fn apply(&mut self, step: &Step, effect: &mut Effect) {
        match step.kind {
            StepKind::Alloc | StepKind::AllocZeroed => {
                fill(self.live.claim(step.address, &mut self.occupant), step);
                effect.delta = step.size as i64;
                effect.outcome = Outcome::Acquired;
            }
            StepKind::Release | StepKind::ReleaseInFlight => match self.live.take(step.address) {
                Some(block) => {
                    effect.block = *block;
                    effect.delta = (effect.block.size as i64).wrapping_neg();
                    effect.outcome = Outcome::Released;
                }
                None => *effect = self.unknown(step),
            },
            StepKind::MoveOut => *effect = self.move_out(step),
            StepKind::ResizeBegin => *effect = self.resize_begin(step),
            StepKind::ReallocEnd if step.address == step.old_address => {
                *effect = self.resize_end(step)
            }
            StepKind::ReallocEnd => *effect = self.move_in(step),
            StepKind::FailedAlloc
            | StepKind::FailedRealloc
            | StepKind::Rare
            | StepKind::Evict
            | StepKind::Entered => *effect = Effect::default(),
        }
    }

    fn move_out(&mut self, step: &Step) -> Effect {
        match self.live.remove(step.address) {
            Some(block) => {
                self.moving.push((step.stream, step.address, block));
                Effect {
                    block,
                    delta: 0,
                    outcome: Outcome::Moving,
                }
            }
            None => self.unknown(step),
        }
    }

    /// From its start key on the block has the smaller of both sizes.
    fn resize_begin(&mut self, step: &Step) -> Effect {
        let Some(block) = self.live.get_mut(step.address) else {
            return self.unknown(step);
        };
        let before = *block;
        block.size = before.size.min(step.size);
        let delta = (block.size as i64).wrapping_sub(before.size as i64);
        Effect {
            block: before,
            delta,
            outcome: Outcome::Moving,
        }
    }

    fn resize_end(&mut self, step: &Step) -> Effect {
        let Some(block) = self.live.get_mut(step.address) else {
            return self.resized_unknown(step);
        };
        let before = *block;
        *block = resized(&before, step);
        resized_effect(before, step)
    }

    fn move_in(&mut self, step: &Step) -> Effect {
        let same = |(stream, old, _): &(u32, u64, Block)| {
            (*stream, *old) == (step.stream, step.old_address)
        };
        let Some(at) = self.moving.iter().rposition(same) else {
            return self.resized_unknown(step);
        };
        let (_, _, before) = self.moving.swap_remove(at);
        self.occupant = self.live.insert(step.address, resized(&before, step));
        resized_effect(before, step)
    }

    fn resized_unknown(&mut self, step: &Step) -> Effect {
        self.occupant = self.live.insert(step.address, block_of(step));
        Effect {
            delta: step.size as i64,
            outcome: Outcome::ResizedUnknown,
            ..Effect::default()
        }
    }

    #[cold]
    fn unknown(&mut self, step: &Step) -> Effect {
        // What a gap hides, and a call whose record was published while its slot still
        // stood, is no fault.
        let kept = self.anomalies.unknown.len() < MAX_UNKNOWN;
        if kept && self.gap == 0 && step.kind != StepKind::ReleaseInFlight {
            self.anomalies.unknown.push((step.key, step.address));
        }
        Effect {
            outcome: Outcome::UnknownRelease,
            ..Effect::default()
        }
    }

    #[cold]
    fn note_occupied(&mut self, occupant: &Block) {
        if occupant.key < self.gap {
            self.anomalies.acquired_after_gap += 1;
        } else {
            self.anomalies.acquired_while_live += 1;
        }
    }

    fn note_gap(&mut self, key: u64, rare: &Rare) {
        if matches!(rare, Rare::Lost { .. } | Rare::Recording { .. }) {
            self.gap = key;
        }
    }
}

fn show(
    batch: &Batch,
    effects: &[Effect],
    range: std::ops::Range<usize>,
    observer: &mut impl Observer,
) {
    if !range.is_empty() {
        let steps = &batch.steps[range.clone()];
        observer.on_events(Span {
            steps,
            effects: &effects[range],
        });
    }
}

/// Makes `block` the one that an acquisition makes.
#[inline(always)]
fn fill(block: &mut Block, step: &Step) {
    block.size = step.size;
    block.key = step.key;
    block.stack = step.stack;
    block.context = step.context;
    block.thread = step.thread;
    block.segment = step.segment;
    block.resized = false;
}

/// The block that an acquisition makes.
fn block_of(step: &Step) -> Block {
    let mut block = Block::default();
    fill(&mut block, step);
    block
}

/// The blocks that were live where the trace begins, by address.
pub(crate) fn snapshot_blocks(trace: &Trace, dense: &Dense) -> impl Iterator<Item = (u64, Block)> {
    trace.snapshot().iter().map(|block| {
        let known = Block {
            size: block.size,
            key: block.key,
            stack: dense.stack(block.stack),
            context: block.context.0,
            thread: dense.thread(block.thread),
            segment: block.segment.0,
            resized: false,
        };
        (block.address, known)
    })
}

/// A reallocated block belongs to whoever reallocated it, and keeps its age.
fn resized(before: &Block, step: &Step) -> Block {
    Block {
        key: before.key,
        resized: true,
        ..block_of(step)
    }
}

fn resized_effect(before: Block, step: &Step) -> Effect {
    let delta = (step.size as i64).wrapping_sub(before.size as i64);
    Effect {
        block: before,
        delta,
        outcome: Outcome::Resized,
    }
}

fn released(block: &Block) -> Effect {
    Effect {
        block: *block,
        delta: (block.size as i64).wrapping_neg(),
        outcome: Outcome::Released,
    }
}
