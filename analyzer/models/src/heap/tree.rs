//! Free ranges by size, ties by address: a forest of treaps in one array.
//!
//! Priorities come from a fixed generator: same history, same shape.

/// No entry.
pub(super) const NIL: u32 = u32::MAX;

/// A free range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) start: u64,
    pub(super) size: u64,
    left: u32,
    right: u32,
    /// The block that the range is.
    pub(super) node: u32,
    priority: u32,
}

impl Entry {
    fn key(&self) -> (u64, u64) {
        (self.size, self.start)
    }
}

/// Treaps that share their entries' memory. Whoever uses one keeps its root.
#[derive(Clone, Debug)]
pub(super) struct Forest {
    entries: Vec<Entry>,
    vacant: Vec<u32>,
    random: u32,
}

impl Forest {
    pub(super) fn new() -> Forest {
        Forest {
            entries: Vec::new(),
            vacant: Vec::new(),
            random: 0x9E37_79B9,
        }
    }

    /// Inserts a range and returns the new root.
    pub(super) fn insert(&mut self, root: u32, start: u64, size: u64, node: u32) -> u32 {
        let new = self.new_entry(start, size, node);
        let (key, priority) = ((size, start), self.entries[new as usize].priority);
        let (mut parent, mut right, mut at) = (NIL, false, root);
        while at != NIL && self.entries[at as usize].priority >= priority {
            (parent, right) = (at, self.key(at) < key);
            at = self.child(at, right);
        }
        let (below, above) = self.split(at, key);
        let entry = &mut self.entries[new as usize];
        (entry.left, entry.right) = (below, above);
        self.hang(root, parent, right, new)
    }

    /// Takes the range that starts at `start` and is `size` long; returns the new root.
    pub(super) fn remove(&mut self, root: u32, start: u64, size: u64) -> u32 {
        let key = (size, start);
        let (mut parent, mut right, mut at) = (NIL, false, root);
        while self.key(at) != key {
            (parent, right) = (at, self.key(at) < key);
            at = self.child(at, right);
        }
        let entry = self.entries[at as usize];
        let joined = self.join(entry.left, entry.right);
        self.vacant.push(at);
        self.hang(root, parent, right, joined)
    }

    /// The first range not before (`size`, `start`).
    pub(super) fn not_before(&self, root: u32, size: u64, start: u64) -> Option<Entry> {
        let (mut at, mut best) = (root, NIL);
        while at != NIL {
            let before = self.key(at) < (size, start);
            if !before {
                best = at;
            }
            at = self.child(at, before);
        }
        self.entry(best)
    }

    /// The first or the last range.
    pub(super) fn end(&self, root: u32, last: bool) -> Option<Entry> {
        let (mut at, mut best) = (root, NIL);
        while at != NIL {
            best = at;
            at = self.child(at, last);
        }
        self.entry(best)
    }

    fn entry(&self, at: u32) -> Option<Entry> {
        self.entries.get(at as usize).copied()
    }

    fn key(&self, at: u32) -> (u64, u64) {
        self.entries[at as usize].key()
    }

    fn child(&self, at: u32, right: bool) -> u32 {
        let entry = &self.entries[at as usize];
        if right { entry.right } else { entry.left }
    }

    fn hang(&mut self, root: u32, parent: u32, right: bool, child: u32) -> u32 {
        match self.entries.get_mut(parent as usize) {
            None => return child,
            Some(entry) if right => entry.right = child,
            Some(entry) => entry.left = child,
        }
        root
    }

    fn new_entry(&mut self, start: u64, size: u64, node: u32) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        let entry = Entry {
            start,
            size,
            left: NIL,
            right: NIL,
            node,
            priority: self.random,
        };
        if let Some(at) = self.vacant.pop() {
            self.entries[at as usize] = entry;
            return at;
        }
        self.entries.push(entry);
        (self.entries.len() - 1) as u32
    }

    fn split(&mut self, at: u32, key: (u64, u64)) -> (u32, u32) {
        if at == NIL {
            return (NIL, NIL);
        }
        let before = self.key(at) < key;
        let (below, above) = self.split(self.child(at, before), key);
        let entry = &mut self.entries[at as usize];
        if before {
            entry.right = below;
            (at, above)
        } else {
            entry.left = above;
            (below, at)
        }
    }

    fn join(&mut self, left: u32, right: u32) -> u32 {
        if left == NIL || right == NIL {
            return if left == NIL { right } else { left };
        }
        let (low, high) = (self.entries[left as usize], self.entries[right as usize]);
        if low.priority >= high.priority {
            self.entries[left as usize].right = self.join(low.right, right);
            left
        } else {
            self.entries[right as usize].left = self.join(left, high.left);
            right
        }
    }
}
