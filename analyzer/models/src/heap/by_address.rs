//! Free ranges by address, for first and next fit.
//!
//! Ranges are listed by the page in which they start. Above the pages lies a tournament:
//! each level has the longest range of sixteen below, so the first range that is long
//! enough is found without looking at those that are not, and a change that is not the
//! longest of its page touches nothing else. Pages that no range ever started in, at the
//! segment's end, cost nothing.
//!
//! The range that was cut last does not take part: the next block is likely cut from it too,
//! and as it often is the longest of all, every cut would be told up to the top.

use super::tree::NIL;

const PAGE_LOG2: u32 = 12;
const FAN_LOG2: u32 = 4;
const FAN: usize = 1 << FAN_LOG2;

/// A free range: (start, size, block).
pub(super) type Range = (u64, u64, u32);

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    size: u64,
    node: u32,
    previous: u32,
    next: u32,
}

/// The index.
#[derive(Clone, Debug)]
pub(super) struct ByAddress {
    entries: Vec<Entry>,
    vacant: Vec<u32>,
    /// By page: its first range.
    heads: Vec<u32>,
    /// The longest range of each page, of each sixteen pages, and so on up to one; without
    /// the one that was cut last.
    levels: Vec<Vec<u64>>,
    /// The range that was cut last, if it is still there.
    cut: u32,
}

impl ByAddress {
    pub(super) fn new() -> ByAddress {
        ByAddress {
            entries: Vec::new(),
            vacant: Vec::new(),
            heads: Vec::new(),
            levels: vec![Vec::new()],
            cut: NIL,
        }
    }

    /// Inserts a range; what is returned is for `remove`.
    pub(super) fn insert(&mut self, start: u64, size: u64, node: u32) -> u32 {
        let handle = self.enlist(start, size, node);
        self.raise(page_of(start), size);
        handle
    }

    /// Inserts a range into the list of its page alone.
    fn enlist(&mut self, start: u64, size: u64, node: u32) -> u32 {
        let page = page_of(start);
        self.reach(page);
        let (mut previous, mut next) = (NIL, self.heads[page]);
        while let Some(entry) = self
            .entries
            .get(next as usize)
            .filter(|entry| entry.start < start)
        {
            (previous, next) = (next, entry.next);
        }
        let entry = Entry {
            start,
            size,
            node,
            previous,
            next,
        };
        let handle = self.vacant.pop().unwrap_or(self.entries.len() as u32);
        match self.entries.get_mut(handle as usize) {
            Some(vacant) => *vacant = entry,
            None => self.entries.push(entry),
        }
        self.link(page, previous, next, handle, handle);
        handle
    }

    pub(super) fn remove(&mut self, handle: u32) {
        let Entry {
            start,
            size,
            previous,
            next,
            ..
        } = self.entries[handle as usize];
        let page = page_of(start);
        self.link(page, previous, next, next, previous);
        self.vacant.push(handle);
        if handle == self.cut {
            self.cut = NIL;
        } else {
            self.lower(page, size);
        }
    }

    /// Cuts a range's front off: what is left starts at `start`, is `size` long and is
    /// `node`. What is returned is for `remove`.
    pub(super) fn shorten(&mut self, handle: u32, start: u64, size: u64, node: u32) -> u32 {
        self.set_apart(handle);
        let entry = &mut self.entries[handle as usize];
        if page_of(entry.start) == page_of(start) {
            (entry.start, entry.size, entry.node) = (start, size, node);
            return handle;
        }
        self.remove(handle);
        self.cut = self.enlist(start, size, node);
        self.cut
    }

    /// A range does not take part any more, and the one that did not does.
    fn set_apart(&mut self, handle: u32) {
        let before = std::mem::replace(&mut self.cut, handle);
        if before == handle {
            return;
        }
        let Entry { start, size, .. } = self.entries[handle as usize];
        self.lower(page_of(start), size);
        if let Some(&Entry { start, size, .. }) = self.entries.get(before as usize) {
            self.raise(page_of(start), size);
        }
    }

    /// Reads what `remove` reads first.
    pub(super) fn touch(&self, handle: u32) -> u64 {
        self.entries[handle as usize].start
    }

    /// The first range that starts at `from` or behind and has `need` bytes.
    pub(super) fn find(&self, need: u64, from: u64) -> Option<Range> {
        let cut = self.entries.get(self.cut as usize);
        let cut = cut.filter(|cut| cut.start >= from && cut.size >= need);
        let cut = cut.map(|cut| (cut.start, cut.size, cut.node));
        // Nothing is before it.
        if cut.is_some_and(|(start, ..)| start == from) {
            return cut;
        }
        self.find_other(need, from)
            .into_iter()
            .chain(cut)
            .min_by_key(|&(start, ..)| start)
    }

    /// The same, perhaps past the range that was cut last.
    fn find_other(&self, need: u64, from: u64) -> Option<Range> {
        let page = page_of(from);
        self.find_in(page, need, from).or_else(|| {
            let page = self.page_from(page + 1, need)?;
            self.find_in(page, need, from)
        })
    }

    /// The longest range.
    pub(super) fn longest(&self) -> u64 {
        let cut = self.entries.get(self.cut as usize);
        cut.map_or(0, |cut| cut.size).max(self.longest_other())
    }

    /// The longest range but the one that was cut last.
    fn longest_other(&self) -> u64 {
        let top = self.levels.last().and_then(|level| level.first());
        top.copied().unwrap_or(0)
    }

    /// Makes room for a page.
    fn reach(&mut self, page: usize) {
        if page < self.heads.len() {
            return;
        }
        // Twice as many as are needed, so that a growing heap seldom comes here.
        let mut count = (page + 1).next_power_of_two().max(FAN);
        self.heads.resize(count, NIL);
        let mut level = 0;
        loop {
            if level == self.levels.len() {
                // The former top knows the longest of all that is below the new one.
                let longest = self.longest_other();
                self.levels.push(vec![longest]);
            }
            self.levels[level].resize(count, 0);
            if count == 1 {
                break;
            }
            count = count.div_ceil(FAN);
            level += 1;
        }
    }

    /// Points the neighbours of a place in a page's list at what is there now.
    fn link(&mut self, page: usize, previous: u32, next: u32, first: u32, last: u32) {
        match self.entries.get_mut(previous as usize) {
            Some(entry) => entry.next = first,
            None => self.heads[page] = first,
        }
        if let Some(entry) = self.entries.get_mut(next as usize) {
            entry.previous = last;
        }
    }

    /// A range was inserted.
    fn raise(&mut self, page: usize, size: u64) {
        let mut at = page;
        for level in &mut self.levels {
            if level[at] >= size {
                return;
            }
            level[at] = size;
            at >>= FAN_LOG2;
        }
    }

    /// A range of `size` bytes is no longer among those of a page.
    fn lower(&mut self, page: usize, size: u64) {
        if self.levels[0][page] > size {
            return;
        }
        let mut longest = self.longest_of_page(page);
        let mut at = page;
        for level in 0..self.levels.len() {
            self.levels[level][at] = longest;
            let above = self.levels.get(level + 1);
            if longest == size || above.is_none_or(|above| above[at >> FAN_LOG2] > size) {
                return;
            }
            let first = at & !(FAN - 1);
            let siblings = self.levels[level][first..].iter().take(FAN);
            longest = siblings.fold(0, |longest, &other| longest.max(other));
            at >>= FAN_LOG2;
        }
    }

    fn longest_of_page(&self, page: usize) -> u64 {
        let (mut at, mut longest) = (self.heads[page], 0);
        while let Some(entry) = self.entries.get(at as usize) {
            if at != self.cut {
                longest = entry.size.max(longest);
            }
            at = entry.next;
        }
        longest
    }

    fn find_in(&self, page: usize, need: u64, from: u64) -> Option<Range> {
        if *self.levels[0].get(page)? < need {
            return None;
        }
        let mut at = self.heads[page];
        while let Some(entry) = self.entries.get(at as usize) {
            if entry.start >= from && entry.size >= need {
                return Some((entry.start, entry.size, entry.node));
            }
            at = entry.next;
        }
        None
    }

    /// The first page from one on with a range that has `need` bytes: up until a place
    /// has one, and down to the first of those below it.
    fn page_from(&self, page: usize, need: u64) -> Option<usize> {
        let mut at = page;
        for (height, level) in self.levels.iter().enumerate() {
            let end = (at | (FAN - 1)).saturating_add(1).min(level.len());
            if let Some(found) = (at..end).find(|&place| level[place] >= need) {
                return Some(self.descend(height, found, need));
            }
            at = (at | (FAN - 1)).saturating_add(1) >> FAN_LOG2;
        }
        None
    }

    fn descend(&self, height: usize, place: usize, need: u64) -> usize {
        let mut at = place;
        for level in self.levels[..height].iter().rev() {
            at <<= FAN_LOG2;
            at += level[at..]
                .iter()
                .position(|&longest| longest >= need)
                .unwrap_or(0);
        }
        at
    }
}

fn page_of(address: u64) -> usize {
    (address >> PAGE_LOG2) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_sorted_list_over_many_pages() {
        let mut index = ByAddress::new();
        let mut list = std::collections::BTreeMap::new();
        let mut state = 7_u64;
        let mut random = |limit: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(99);
            (state >> 33) % limit
        };
        for _ in 0..20_000 {
            let start = random(1 << 14) << 9;
            match list.remove(&start) {
                Some((size, handle)) if size > 512 && !list.contains_key(&(start + 512)) => {
                    let (start, size) = (start + 512, size - 512);
                    let handle = index.shorten(handle, start, size, 1);
                    list.insert(start, (size, handle));
                }
                Some((_, handle)) => index.remove(handle),
                None => {
                    let size = 16 + (16 << random(5)) * random(17);
                    list.insert(start, (size, index.insert(start, size, 1)));
                }
            }
            let (need, from) = (random(5000), random(1 << 24));
            let mut expected = list.range(from..).filter(|(_, range)| range.0 >= need);
            let expected = expected.next().map(|(&start, &(size, _))| (start, size, 1));
            assert_eq!(index.find(need, from), expected);
            let longest = list.values().map(|range| range.0).max().unwrap_or(0);
            assert_eq!(index.longest(), longest);
        }
        assert!(list.len() > 1000);
    }
}
