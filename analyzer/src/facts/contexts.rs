//! What was done in each context, and what each holds with all that are within it.

use super::context_tree::ContextTree;
use crate::replay::{Block, Effect, Outcome, Span, Step, StepKind};

/// What is known of one context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContextSums {
    /// How often it was entered.
    pub(crate) instances: u64,
    pub(crate) allocations: u64,
    pub(crate) reallocations: u64,
    /// Blocks of it that were given back.
    pub(crate) frees: u64,
    pub(crate) failed: u64,
    pub(crate) requested_bytes: u64,
    pub(crate) own: Held,
    /// Its own, and what all within it hold.
    pub(crate) total: Held,
}

/// Blocks that are live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) bytes: u64,
    pub(crate) blocks: u64,
    /// The most bytes at once.
    pub(crate) peak: u64,
}

impl Held {
    #[inline(always)]
    fn add(&mut self, bytes: i64, blocks: i64) {
        self.bytes = self.bytes.wrapping_add_signed(bytes);
        self.blocks = self.blocks.wrapping_add_signed(blocks);
        self.peak = self.peak.max(self.bytes);
    }

    /// The same from here on.
    fn begun(self) -> Held {
        Held {
            peak: self.bytes,
            ..self
        }
    }
}

/// Keeps all sums of contexts; costs nothing where a trace has none.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContextLedger {
    pub(crate) tree: ContextTree,
    /// One for each node of the tree.
    pub(crate) sums: Vec<ContextSums>,
}

impl ContextLedger {
    pub(crate) fn new(tree: ContextTree) -> ContextLedger {
        ContextLedger {
            sums: vec![ContextSums::default(); tree.nodes.len()],
            tree,
        }
    }

    /// Takes over a block that was live before the first step.
    pub(crate) fn begin_with(&mut self, block: &Block) {
        if !self.tree.is_empty() {
            self.hold(block.context, block.size as i64, 1);
        }
    }

    /// Forgets what was counted so far, not what is live.
    pub(crate) fn begin_window(&mut self) {
        for sums in &mut self.sums {
            *sums = ContextSums {
                own: sums.own.begun(),
                total: sums.total.begun(),
                ..ContextSums::default()
            };
        }
    }

    pub(crate) fn on_events(&mut self, span: Span<'_>) {
        if self.tree.is_empty() {
            return;
        }
        for (step, effect) in span.ticks() {
            self.on_event(step, effect);
        }
    }

    fn on_event(&mut self, step: &Step, effect: &Effect) {
        let block = &effect.block;
        match effect.outcome {
            Outcome::Acquired => {
                let sums = self.hold(step.context, effect.delta, 1);
                sums.allocations += 1;
                sums.requested_bytes = sums.requested_bytes.wrapping_add(step.size);
            }
            Outcome::Released => {
                let sums = self.hold(block.context, effect.delta, -1);
                sums.frees += u64::from(step.kind == StepKind::Release);
            }
            Outcome::Moving => _ = self.hold(block.context, effect.delta, 0),
            Outcome::Resized => {
                self.hold(block.context, (block.size as i64).wrapping_neg(), -1);
                self.reallocated(step);
            }
            Outcome::ResizedUnknown => self.reallocated(step),
            Outcome::UnknownRelease => {}
            Outcome::Nothing => self.nothing_held(step),
        }
    }

    /// A block has its new size: it belongs to whoever asked for that.
    fn reallocated(&mut self, step: &Step) {
        let sums = self.hold(step.context, step.size as i64, 1);
        sums.reallocations += 1;
        sums.requested_bytes = sums.requested_bytes.wrapping_add(step.size);
    }

    fn nothing_held(&mut self, step: &Step) {
        match step.kind {
            StepKind::Entered => {
                if let Some(at) = self.tree.itself(step.context) {
                    self.sums[at as usize].instances += 1;
                }
            }
            StepKind::FailedAlloc | StepKind::FailedRealloc => {
                let at = self.tree.position(step.context);
                self.sums[at as usize].failed += 1;
            }
            _ => {}
        }
    }

    /// Adds to what a context holds, and all around it; gives its sums.
    #[inline]
    fn hold(&mut self, context: u32, bytes: i64, blocks: i64) -> &mut ContextSums {
        let position = self.tree.position(context);
        let mut at = position;
        loop {
            self.sums[at as usize].total.add(bytes, blocks);
            // The root's parent is itself.
            let parent = self.tree.nodes[at as usize].parent;
            if parent == at {
                break;
            }
            at = parent;
        }
        let sums = &mut self.sums[position as usize];
        sums.own.add(bytes, blocks);
        sums
    }
}
