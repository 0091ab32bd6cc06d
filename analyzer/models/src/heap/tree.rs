//! Free ranges in order: a forest of treaps in one array.
//!
//! By size (ties by address) for best fit, by address for first and next fit; by address
//! each entry also knows the longest range below it, so the search skips what is too
//! short. Priorities come from a fixed generator: same history, same shape.

/// No entry.
pub(super) const NIL: u32 = u32::MAX;

/// A free range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) start: u64,
    pub(super) size: u64,
    /// The longest range of the subtree; kept only by address.
    longest: u64,
    left: u32,
    right: u32,
    /// The block that the range is.
    pub(super) node: u32,
    priority: u32,
}

/// Treaps that share their entries' memory. Whoever uses one keeps its root.
#[derive(Clone, Debug)]
pub(super) struct Forest<const BY_ADDRESS: bool> {
    entries: Vec<Entry>,
    vacant: Vec<u32>,
    path: Vec<u32>,
    random: u32,
}

impl<const BY_ADDRESS: bool> Forest<BY_ADDRESS> {
    pub(super) fn new() -> Self {
        Forest {
            entries: Vec::new(),
            vacant: Vec::new(),
            path: Vec::new(),
            random: 0x9E37_79B9,
        }
    }

    /// Inserts a range and returns the new root.
    pub(super) fn insert(&mut self, root: u32, start: u64, size: u64, node: u32) -> u32 {
        let new = self.new_entry(start, size, node);
        let (key, priority) = (self.key(new), self.entries[new as usize].priority);
        let (mut parent, mut right, mut at) = (NIL, false, root);
        while at != NIL && self.entries[at as usize].priority >= priority {
            if BY_ADDRESS {
                let entry = &mut self.entries[at as usize];
                entry.longest = entry.longest.max(size);
            }
            (parent, right) = (at, self.key(at) < key);
            at = self.child(at, right);
        }
        let (below, above) = self.split(at, key);
        let entry = &mut self.entries[new as usize];
        (entry.left, entry.right) = (below, above);
        self.refresh(new);
        self.hang(root, parent, right, new)
    }

    /// Takes the range that starts at `start` and is `size` long; returns the new root.
    pub(super) fn remove(&mut self, root: u32, start: u64, size: u64) -> u32 {
        let key = order::<BY_ADDRESS>(start, size);
        let (mut parent, mut right, mut at) = (NIL, false, root);
        self.path.clear();
        while self.key(at) != key {
            if BY_ADDRESS {
                self.path.push(at);
            }
            (parent, right) = (at, self.key(at) < key);
            at = self.child(at, right);
        }
        let entry = self.entries[at as usize];
        let joined = self.join(entry.left, entry.right);
        self.vacant.push(at);
        let root = self.hang(root, parent, right, joined);
        while let Some(above) = self.path.pop() {
            self.refresh(above);
        }
        root
    }

    /// By size: the first range not before (`size`, `start`).
    pub(super) fn not_before(&self, root: u32, size: u64, start: u64) -> Option<Entry> {
        let key = order::<BY_ADDRESS>(start, size);
        let (mut at, mut best) = (root, NIL);
        while at != NIL {
            let before = self.key(at) < key;
            if !before {
                best = at;
            }
            at = self.child(at, before);
        }
        self.entry(best)
    }

    /// By address: the first range from `from` on that has `size` bytes.
    pub(super) fn first_of(&self, root: u32, size: u64, from: u64) -> Option<Entry> {
        if root == NIL || self.entries[root as usize].longest < size {
            return None;
        }
        let entry = self.entries[root as usize];
        let in_front = || self.first_of(entry.left, size, from);
        if entry.start < from {
            self.first_of(entry.right, size, from)
        } else if let Some(found) = in_front() {
            Some(found)
        } else if entry.size >= size {
            Some(entry)
        } else {
            self.first_of(entry.right, size, from)
        }
    }

    /// By address: the last range that starts before `address`.
    pub(super) fn last_before(&self, root: u32, address: u64) -> Option<Entry> {
        let (mut at, mut best) = (root, NIL);
        while at != NIL {
            let before = self.entries[at as usize].start < address;
            if before {
                best = at;
            }
            at = self.child(at, before);
        }
        self.entry(best)
    }

    /// By address: the longest range's length.
    pub(super) fn longest(&self, root: u32) -> u64 {
        self.entry(root).map_or(0, |entry| entry.longest)
    }

    /// The first or the last range.
    pub(super) fn end(&self, root: u32, last: bool) -> Option<Entry> {
        let mut best = NIL;
        let mut at = root;
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
        let entry = &self.entries[at as usize];
        order::<BY_ADDRESS>(entry.start, entry.size)
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
        let priority = self.random;
        let entry = Entry {
            start,
            size,
            longest: size,
            left: NIL,
            right: NIL,
            node,
            priority,
        };
        if let Some(at) = self.vacant.pop() {
            self.entries[at as usize] = entry;
            return at;
        }
        self.entries.push(entry);
        (self.entries.len() - 1) as u32
    }

    fn refresh(&mut self, at: u32) {
        if !BY_ADDRESS {
            return;
        }
        let Entry {
            size, left, right, ..
        } = self.entries[at as usize];
        let below = self.longest(left).max(self.longest(right));
        self.entries[at as usize].longest = size.max(below);
    }

    fn split(&mut self, at: u32, key: (u64, u64)) -> (u32, u32) {
        if at == NIL {
            return (NIL, NIL);
        }
        let before = self.key(at) < key;
        let (below, above) = self.split(self.child(at, before), key);
        let entry = &mut self.entries[at as usize];
        let halves = if before {
            entry.right = below;
            (at, above)
        } else {
            entry.left = above;
            (below, at)
        };
        self.refresh(at);
        halves
    }

    fn join(&mut self, left: u32, right: u32) -> u32 {
        if left == NIL || right == NIL {
            return if left == NIL { right } else { left };
        }
        let (low, high) = (self.entries[left as usize], self.entries[right as usize]);
        let top = if low.priority >= high.priority {
            self.entries[left as usize].right = self.join(low.right, right);
            left
        } else {
            self.entries[right as usize].left = self.join(left, high.left);
            right
        };
        self.refresh(top);
        top
    }
}

const fn order<const BY_ADDRESS: bool>(start: u64, size: u64) -> (u64, u64) {
    if BY_ADDRESS {
        (start, size)
    } else {
        (size, start)
    }
}
