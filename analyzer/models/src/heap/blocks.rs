//! The blocks of all segments in address order: what the headers would say.

use super::tree::NIL;
use crate::lookup::Actor;

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Used,
    Free,
    /// No block: its place in the array is to be used again.
    Vacant,
}

/// A used block or a free range. Offsets count from the segment's base.
///
/// PERF: what neighbours ask of each other is half a cache line, so joining touches one
/// line for each; the rest of a header lies apart.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Node {
    pub(super) start: u64,
    /// Bytes, header included.
    pub(super) size: u64,
    pub(super) previous: u32,
    pub(super) next: u32,
    /// The program's block while used; what `Fit::insert` returned while free.
    pub(super) owner: u32,
    pub(super) segment: u16,
    /// The alignment that was asked for, as a power of two.
    pub(super) align: u8,
    pub(super) state: State,
}

/// The rest of what a used block's header says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Header {
    /// Number of the allocation.
    pub(super) serial: u64,
    /// Payload bytes that nobody asked for.
    pub(super) slack: u32,
    pub(super) site: u32,
    pub(super) frame: u32,
    pub(super) thread: u32,
}

impl Header {
    pub(super) fn allocated(&self) -> Actor {
        Actor {
            site: self.site,
            thread: self.thread,
            frame: self.frame,
        }
    }
}

// With the four bytes by which a block's number finds it, below 64 a live block.
const _: () = assert!(size_of::<Node>() + size_of::<Header>() == 56);

impl Node {
    pub(super) fn free(segment: u16, start: u64, size: u64) -> Node {
        Node {
            start,
            size,
            previous: NIL,
            next: NIL,
            owner: NIL,
            segment,
            align: 0,
            state: State::Free,
        }
    }

    pub(super) fn end(&self) -> u64 {
        self.start + self.size
    }
}

/// All nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocks {
    nodes: Vec<Node>,
    headers: Vec<Header>,
    vacant: Vec<u32>,
}

impl std::ops::Index<u32> for Blocks {
    type Output = Node;

    fn index(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }
}

impl std::ops::IndexMut<u32> for Blocks {
    fn index_mut(&mut self, at: u32) -> &mut Node {
        &mut self.nodes[at as usize]
    }
}

impl Blocks {
    pub(super) fn push(&mut self, node: Node) -> u32 {
        if let Some(at) = self.vacant.pop() {
            self[at] = node;
            return at;
        }
        self.nodes.push(node);
        self.headers.push(Header::default());
        (self.nodes.len() - 1) as u32
    }

    pub(super) fn header(&self, at: u32) -> &Header {
        &self.headers[at as usize]
    }

    pub(super) fn header_mut(&mut self, at: u32) -> &mut Header {
        &mut self.headers[at as usize]
    }

    /// Cuts a block after `size` bytes; the rest becomes a free node behind it.
    pub(super) fn split(&mut self, at: u32, size: u64) -> u32 {
        let Node {
            start,
            size: whole,
            next,
            segment,
            ..
        } = self[at];
        let mut rest = Node::free(segment, start + size, whole - size);
        (rest.previous, rest.next) = (at, next);
        let rest = self.push(rest);
        if next != NIL {
            self[next].previous = rest;
        }
        let node = &mut self[at];
        (node.size, node.next) = (size, rest);
        rest
    }

    /// Joins the node behind to a node.
    pub(super) fn absorb_next(&mut self, at: u32) {
        let next = self[at].next;
        let Node {
            size, next: after, ..
        } = self[next];
        let node = &mut self[at];
        (node.size, node.next) = (node.size + size, after);
        if after != NIL {
            self[after].previous = at;
        }
        self[next].state = State::Vacant;
        self.vacant.push(next);
    }

    pub(super) fn is_free(&self, at: u32) -> bool {
        at != NIL && self[at].state == State::Free
    }

    /// The nodes from one on, in address order.
    pub(super) fn from(&self, first: u32) -> impl Iterator<Item = (u32, &Node)> {
        let mut at = first;
        std::iter::from_fn(move || {
            let node = (at != NIL).then(|| (at, &self[at]))?;
            at = node.1.next;
            Some(node)
        })
    }
}
