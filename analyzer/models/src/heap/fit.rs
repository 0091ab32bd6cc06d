//! Which free range a request gets: one index over the free ranges for each policy.

use super::blocks::Node;
use super::by_address::ByAddress;
use super::classes::{Classes, Occupied};
use super::parameters::{Parameters, Policy};
use super::tree::{Entry, Forest, NIL};

/// Sub-classes of the best-fit bins; any number finds the same range.
const BIN_SUB: u32 = 5;

/// A free range that a request may get: (start, size, block).
pub(super) type Candidate = (u64, u64, u32);

/// The free ranges of a segment, as its policy looks at them.
#[derive(Clone, Debug)]
pub(super) enum Fit {
    Best(BySize),
    First(ByAddress),
    /// First fit from where the last block ended: from the range that reaches over there.
    Next(ByAddress, u64),
    Tlsf(Lists),
}

impl Fit {
    pub(super) fn new(parameters: &Parameters) -> Fit {
        match parameters.fit {
            Policy::Best => Fit::Best(BySize::new(parameters.granule)),
            Policy::First => Fit::First(ByAddress::new()),
            Policy::Next => Fit::Next(ByAddress::new(), 0),
            Policy::Tlsf => Fit::Tlsf(Lists::new(parameters)),
        }
    }

    /// A range becomes free. What is returned must be given back to `remove`.
    pub(super) fn insert(&mut self, start: u64, size: u64, node: u32) -> u32 {
        match self {
            Fit::Best(index) => {
                index.insert(start, size, node);
                NIL
            }
            Fit::First(index) => index.insert(start, size, node),
            Fit::Next(index, rover) => {
                if start < *rover && *rover < start + size {
                    *rover = start;
                }
                index.insert(start, size, node)
            }
            Fit::Tlsf(index) => index.insert(start, size, node),
        }
    }

    pub(super) fn remove(&mut self, start: u64, size: u64, handle: u32) {
        match self {
            Fit::Best(index) => index.remove(start, size),
            Fit::First(index) | Fit::Next(index, _) => index.remove(handle),
            Fit::Tlsf(index) => index.remove(handle),
        }
    }

    /// Cuts the front off a range that starts at `start` and is `size` long: what is left
    /// is the block `rest`. What is returned must be given back to `remove`.
    pub(super) fn shorten(
        &mut self,
        start: u64,
        size: u64,
        handle: u32,
        rest: &Node,
        node: u32,
    ) -> u32 {
        match self {
            Fit::First(index) | Fit::Next(index, _) => {
                index.shorten(handle, rest.start, rest.size, node)
            }
            _ => {
                self.remove(start, size, handle);
                self.insert(rest.start, rest.size, node)
            }
        }
    }

    /// Reads what `remove` reads first.
    pub(super) fn touch(&self, handle: u32) -> u64 {
        match self {
            Fit::Best(_) => 0,
            Fit::First(index) | Fit::Next(index, _) => index.touch(handle),
            Fit::Tlsf(index) => index.touch(handle),
        }
    }

    /// The first range in the policy's order that has `need` bytes and that `suits`.
    pub(super) fn find(&self, need: u64, suits: impl Fn(u64, u64) -> bool) -> Option<Candidate> {
        let from = |index: &ByAddress, from| {
            let mut range = index.find(need, from)?;
            while !suits(range.0, range.1) {
                range = index.find(need, range.0 + 1)?;
            }
            Some(range)
        };
        match self {
            Fit::Best(index) => index.find(need, |entry| suits(entry.start, entry.size)),
            Fit::First(index) => from(index, 0),
            Fit::Next(index, rover) => from(index, *rover).or_else(|| from(index, 0)),
            Fit::Tlsf(index) => index.find(need),
        }
    }

    /// A block was placed; its end is where the next search begins.
    pub(super) fn placed(&mut self, end: u64) {
        if let Fit::Next(_, rover) = self {
            *rover = end;
        }
    }

    /// The longest free range.
    pub(super) fn longest(&self) -> u64 {
        match self {
            Fit::Best(index) => index.longest(),
            Fit::First(index) | Fit::Next(index, _) => index.longest(),
            Fit::Tlsf(index) => index.longest(),
        }
    }
}

/// Free ranges by (size, address), in a tree for each class of sizes.
#[derive(Clone, Debug)]
pub(super) struct BySize {
    classes: Classes,
    occupied: Occupied,
    roots: Vec<u32>,
    ranges: Forest,
}

impl BySize {
    fn new(granule: u64) -> BySize {
        let classes = Classes::new(BIN_SUB, granule);
        BySize {
            classes,
            occupied: Occupied::new(classes.count()),
            roots: vec![NIL; classes.count()],
            ranges: Forest::new(),
        }
    }

    fn insert(&mut self, start: u64, size: u64, node: u32) {
        let class = self.classes.of(size);
        self.roots[class] = self.ranges.insert(self.roots[class], start, size, node);
        self.occupied.set(class);
    }

    fn remove(&mut self, start: u64, size: u64) {
        let class = self.classes.of(size);
        self.roots[class] = self.ranges.remove(self.roots[class], start, size);
        if self.roots[class] == NIL {
            self.occupied.clear(class);
        }
    }

    fn find(&self, need: u64, suits: impl Fn(&Entry) -> bool) -> Option<Candidate> {
        let mut candidate = self.not_before(need, 0)?;
        while !suits(&candidate) {
            candidate = self.not_before(candidate.size, candidate.start + 1)?;
        }
        Some((candidate.start, candidate.size, candidate.node))
    }

    fn not_before(&self, size: u64, start: u64) -> Option<Entry> {
        let class = self.classes.of(size);
        self.ranges
            .not_before(self.roots[class], size, start)
            .or_else(|| {
                let class = self.occupied.from(class + 1)?;
                self.ranges.end(self.roots[class], false)
            })
    }

    fn longest(&self) -> u64 {
        let last = self
            .occupied
            .last()
            .and_then(|class| self.ranges.end(self.roots[class], true));
        last.map_or(0, |entry| entry.size)
    }
}

/// TLSF: a list for each class, last in first out.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    classes: Classes,
    occupied: Occupied,
    heads: Vec<u32>,
    links: Vec<Link>,
    vacant: Vec<u32>,
    /// Bytes of a range that do not count for its class.
    outside: u64,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    start: u64,
    size: u64,
    node: u32,
    previous: u32,
    next: u32,
}

impl Lists {
    fn new(parameters: &Parameters) -> Lists {
        let classes = Classes::new(parameters.tlsf_sl_log2, parameters.granule);
        Lists {
            classes,
            occupied: Occupied::new(classes.count()),
            heads: vec![NIL; classes.count()],
            links: Vec::new(),
            vacant: Vec::new(),
            outside: if parameters.tlsf_whole {
                0
            } else {
                parameters.whole_granules_of_header()
            },
        }
    }

    fn insert(&mut self, start: u64, size: u64, node: u32) -> u32 {
        let class = self.classes.of(size - self.outside);
        let next = self.heads[class];
        let link = Link {
            start,
            size,
            node,
            previous: NIL,
            next,
        };
        let handle = self.vacant.pop().unwrap_or(self.links.len() as u32);
        match self.links.get_mut(handle as usize) {
            Some(vacant) => *vacant = link,
            None => self.links.push(link),
        }
        if let Some(next) = self.links.get_mut(next as usize) {
            next.previous = handle;
        }
        self.heads[class] = handle;
        self.occupied.set(class);
        handle
    }

    fn remove(&mut self, handle: u32) {
        let Link {
            size,
            previous,
            next,
            ..
        } = self.links[handle as usize];
        if let Some(next) = self.links.get_mut(next as usize) {
            next.previous = previous;
        }
        if let Some(previous) = self.links.get_mut(previous as usize) {
            previous.next = next;
        } else {
            let class = self.classes.of(size - self.outside);
            self.heads[class] = next;
            if next == NIL {
                self.occupied.clear(class);
            }
        }
        self.vacant.push(handle);
    }

    fn touch(&self, handle: u32) -> u64 {
        self.links[handle as usize].size
    }

    fn find(&self, need: u64) -> Option<Candidate> {
        let class = self
            .occupied
            .from(self.classes.at_least(need - self.outside))?;
        let link = self.links[self.heads[class] as usize];
        Some((link.start, link.size, link.node))
    }

    fn longest(&self) -> u64 {
        let Some(class) = self.occupied.last() else {
            return 0;
        };
        let (mut at, mut longest) = (self.heads[class], 0);
        while let Some(link) = self.links.get(at as usize) {
            longest = longest.max(link.size);
            at = link.next;
        }
        longest
    }
}
