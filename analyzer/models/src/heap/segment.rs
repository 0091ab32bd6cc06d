//! One segment: its free ranges and its books.

use serde::Serialize;

use crate::counters::Counters;
use crate::free_sizes::FreeSizes;
use crate::model::SegmentId;

use super::blocks::{Blocks, Node, State};
use super::fit::Fit;
use super::parameters::Parameters;

/// Where a full segment's requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overflow {
    Fail,
    To(u16),
    Grow,
}

/// What a segment has done beside what [`Counters`] say. Sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SegmentReport {
    /// Requests that failed here, before another segment was asked.
    pub failures: u64,
    /// Of those, TLSF looked only in classes above the one that holds a range that is
    /// long enough.
    pub class_misses: u64,
    /// Requests of this segment that another served.
    pub overflowed: u64,
    /// Bytes of blocks that this segment asked for and another served.
    pub overflowed_bytes: u64,
    /// Bytes that the segment grew by.
    pub grown: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) name: String,
    pub(super) id: SegmentId,
    pub(super) base: u64,
    pub(super) capacity: u64,
    /// The most that it may grow to.
    pub(super) window: u64,
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) on_full: Overflow,
    pub(super) fit: Fit,
    pub(super) free: FreeSizes,
    /// Freed, and not yet joined to free neighbours.
    pub(super) pending: Vec<u32>,
    pub(super) counters: Counters,
    pub(super) report: SegmentReport,
}

impl Segment {
    /// A segment that is one free range.
    pub(super) fn new(
        id: u16,
        base: u64,
        window: u64,
        parameters: &Parameters,
        blocks: &mut Blocks,
    ) -> Segment {
        let spec = &parameters.segments[usize::from(id)];
        let capacity = spec.capacity / parameters.granule * parameters.granule;
        let control = parameters.control.next_multiple_of(parameters.granule);
        let node = blocks.push(Node::free(id, control, capacity - control));
        let mut segment = Segment {
            name: spec.name.clone(),
            id: SegmentId(id),
            base,
            capacity,
            window,
            first: node,
            last: node,
            on_full: Overflow::Fail,
            fit: Fit::new(parameters),
            free: FreeSizes::default(),
            pending: Vec::new(),
            counters: Counters::default(),
            report: SegmentReport::default(),
        };
        segment.counters.meta = control;
        segment.hold(capacity);
        segment.insert(blocks, node);
        segment
    }

    /// That many bytes more come from the operating system.
    pub(super) fn hold(&mut self, bytes: u64) {
        let counters = &mut self.counters;
        counters.held += bytes;
        counters.reserved += bytes;
        counters.peak_held = counters.held;
        counters.os.reserve += 1;
        counters.os.commit += 1;
    }

    /// A node becomes free.
    pub(super) fn insert(&mut self, blocks: &mut Blocks, at: u32) {
        let node = &mut blocks[at];
        node.state = State::Free;
        node.owner = self.fit.insert(node.start, node.size, at);
        self.free.add(node.size);
        self.counters.free += node.size;
    }

    /// A free node is taken.
    pub(super) fn remove(&mut self, node: &Node) {
        self.fit.remove(node.start, node.size, node.owner);
        self.free.remove(node.size);
        self.counters.free -= node.size;
    }

    /// Takes the first `size` bytes of a free node; the rest stays free, in a node of its
    /// own, which is returned.
    pub(super) fn shorten(&mut self, blocks: &mut Blocks, at: u32, size: u64) -> u32 {
        let before = blocks[at];
        let at = self.split(blocks, at, size);
        let rest = blocks[at];
        blocks[at].owner = self
            .fit
            .shorten(before.start, before.size, before.owner, &rest, at);
        self.free.remove(before.size);
        self.free.add(rest.size);
        self.counters.free -= size;
        at
    }

    /// Cuts a node in two; what lies behind is not yet known to be free.
    pub(super) fn split(&mut self, blocks: &mut Blocks, at: u32, size: u64) -> u32 {
        let rest = blocks.split(at, size);
        if self.last == at {
            self.last = rest;
        }
        rest
    }

    /// Joins a node with the one behind it.
    pub(super) fn absorb_next(&mut self, blocks: &mut Blocks, at: u32) {
        if self.last == blocks[at].next {
            self.last = at;
        }
        blocks.absorb_next(at);
    }

    /// Joins a node that is in no index with its free neighbours, takes those out of
    /// theirs, and returns the joined node.
    pub(super) fn join(&mut self, blocks: &mut Blocks, mut at: u32) -> u32 {
        while blocks.is_free(blocks[at].next) {
            let next = blocks[blocks[at].next];
            self.remove(&next);
            self.absorb_next(blocks, at);
        }
        while blocks.is_free(blocks[at].previous) {
            let previous = blocks[at].previous;
            let node = blocks[previous];
            self.remove(&node);
            self.absorb_next(blocks, previous);
            at = previous;
        }
        at
    }

    /// Remembers to join a rest with a free neighbour, which it only has where joining is
    /// deferred.
    pub(super) fn join_later(&mut self, blocks: &Blocks, at: u32, neighbour: u32) {
        if blocks.is_free(neighbour) {
            self.pending.push(at);
        }
    }

    /// Joins all that was freed since the last time.
    pub(super) fn sweep(&mut self, blocks: &mut Blocks) {
        let mut pending = std::mem::take(&mut self.pending);
        for at in pending.drain(..) {
            let node = blocks[at];
            if node.state == State::Free && SegmentId(node.segment) == self.id {
                self.remove(&node);
                let joined = self.join(blocks, at);
                self.insert(blocks, joined);
            }
        }
        self.pending = pending;
    }
}
