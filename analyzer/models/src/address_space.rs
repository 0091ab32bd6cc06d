//! A source of pages that hands out the lowest addresses and takes them back.

use std::collections::BTreeMap;

use crate::page_source::PageSource;

/// Addresses from a window, lowest first; memory without end.
#[derive(Clone, Debug)]
pub struct AddressSpace {
    /// Free ranges: address and length; no two touch.
    free: BTreeMap<u64, u64>,
}

impl AddressSpace {
    /// The window of `bytes` bytes that begins at `base`.
    pub fn new(base: u64, bytes: u64) -> AddressSpace {
        AddressSpace {
            free: BTreeMap::from([(base, bytes)]),
        }
    }

    /// Takes exactly the range at `address`, if it is free.
    pub fn reserve_at(&mut self, address: u64, bytes: u64) -> bool {
        let Some((&start, &length)) = self.free.range(..=address).next_back() else {
            return false;
        };
        let (end, free_end) = (address + bytes, start + length);
        if end > free_end {
            return false;
        }
        self.free.remove(&start);
        self.put(start, address);
        self.put(end, free_end);
        true
    }

    fn put(&mut self, start: u64, end: u64) {
        if start < end {
            self.free.insert(start, end - start);
        }
    }
}

impl PageSource for AddressSpace {
    fn reserve(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let align = align.max(1);
        let address = self.free.iter().find_map(|(&start, &length)| {
            let address = start.checked_next_multiple_of(align)?;
            (address.checked_add(bytes)? <= start + length).then_some(address)
        })?;
        self.reserve_at(address, bytes).then_some(address)
    }

    fn release(&mut self, address: u64, bytes: u64) {
        let (mut start, mut end) = (address, address + bytes);
        if let Some((&before, &length)) = self.free.range(..address).next_back()
            && before + length == start
        {
            self.free.remove(&before);
            start = before;
        }
        if let Some(length) = self.free.remove(&end) {
            end += length;
        }
        self.put(start, end);
    }

    fn commit(&mut self, _address: u64, _bytes: u64) -> bool {
        true
    }

    fn decommit(&mut self, _address: u64, _bytes: u64) {}

    fn checkpoint(&self) -> Box<dyn PageSource> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_range_that_fits_is_taken_and_given_back_whole() {
        let mut space = AddressSpace::new(0x1000, 0x10000);
        assert_eq!(space.reserve(0x1000, 0x4000), Some(0x4000));
        assert_eq!(space.reserve(0x2000, 0x1000), Some(0x1000));
        assert_eq!(space.reserve(0x4000, 0x4000), Some(0x8000));
        space.release(0x4000, 0x1000);
        assert!(space.reserve_at(0x3000, 0x5000));
        assert!(!space.reserve_at(0x7000, 0x1000));
        for (address, bytes) in [(0x1000, 0x2000), (0x8000, 0x4000), (0x3000, 0x5000)] {
            space.release(address, bytes);
        }
        assert_eq!(space.free, BTreeMap::from([(0x1000, 0x10000)]));
        assert_eq!(space.reserve(0x10001, 1), None);
    }
}
