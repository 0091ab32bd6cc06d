//! The blocks that are live, by address.
//!
//! An open-addressing table of (hash, position) pairs points into a slab of blocks:
//! growing moves 8 bytes a block, never the blocks, and a probe that fails touches no
//! block. Addresses of live blocks decide their place, nothing random, so that a
//! replay is the same every time.
//!
//! PERF: 40 bytes a block in the slab and 10.7 to 21.3 in the table.

/// A live block, as it was last acquired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Requested size in bytes.
    pub size: u64,
    /// When it was acquired, in ticks; a reallocation keeps the first instant.
    pub key: u64,
    /// Position of the backtrace that acquired it.
    pub stack: u32,
    /// Number of the context.
    pub context: u32,
    /// Position of the thread that acquired it.
    pub thread: u32,
    /// Number of the segment.
    pub segment: u16,
    /// It was reallocated since.
    pub resized: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    address: u64,
    block: Block,
}

const _: () = assert!(size_of::<Slot>() == 40);

/// High half: the hash; low half: 1 + position in the slab; 0 is empty.
type Entry = u64;

const FIRST_BITS: u32 = 10;
/// Slots of one piece of the slab: it grows by pieces, without copying.
const PIECE: usize = 1 << 14;

/// All live blocks.
#[derive(Clone, Debug)]
pub struct LiveSet {
    table: Vec<Entry>,
    /// The table has 2^bits entries.
    bits: u32,
    slab: Vec<Vec<Slot>>,
    free: Vec<u32>,
    len: usize,
}

impl Default for LiveSet {
    fn default() -> Self {
        LiveSet {
            table: vec![0; 1 << FIRST_BITS],
            bits: FIRST_BITS,
            slab: Vec::new(),
            free: Vec::new(),
            len: 0,
        }
    }
}

#[inline(always)]
fn hash(address: u64) -> u32 {
    // Fibonacci hashing: blocks are multiples of 16, the product's high bits mix them.
    ((address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32 ^ (address & 15) as u32
}

impl LiveSet {
    /// How many blocks are live.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Nothing is live.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The block at this address.
    #[inline]
    pub fn get(&self, address: u64) -> Option<&Block> {
        let place = self.find(address)?;
        let (piece, at) = split(position(self.table[place]));
        Some(&self.slab[piece][at].block)
    }

    /// The block at this address, to be changed.
    #[inline]
    pub fn get_mut(&mut self, address: u64) -> Option<&mut Block> {
        let place = self.find(address)?;
        let (piece, at) = split(position(self.table[place]));
        Some(&mut self.slab[piece][at].block)
    }

    /// Puts a block at an address; gives back the one that was there.
    #[inline]
    pub fn insert(&mut self, address: u64, block: Block) -> Option<Block> {
        let mut before = None;
        *self.claim(address, &mut before) = block;
        before
    }

    /// The place of a block at an address, to be filled by the caller; a block that was
    /// there goes to `before`.
    ///
    /// PERF: filled field by field in its place; a block passed by value was written to
    /// the stack in small pieces and read back in large ones, which stalls.
    #[inline(always)]
    pub(super) fn claim(&mut self, address: u64, before: &mut Option<Block>) -> &mut Block {
        let hash = hash(address);
        let mask = self.table.len() - 1;
        let mut place = self.home(hash);
        loop {
            let entry = self.table[place];
            if entry == 0 {
                break;
            }
            if (entry >> 32) as u32 == hash {
                let (piece, at) = split(position(entry));
                if self.slab[piece][at].address == address {
                    let slot = &mut self.slab[piece][at];
                    *before = Some(slot.block);
                    return &mut slot.block;
                }
            }
            place = (place + 1) & mask;
        }
        let position = self.free.pop().unwrap_or_else(|| self.new_position());
        self.table[place] = u64::from(hash) << 32 | u64::from(position + 1);
        self.len += 1;
        if self.len * 4 > self.table.len() * 3 {
            self.grow();
        }
        let (piece, at) = split(position);
        let slot = &mut self.slab[piece][at];
        slot.address = address;
        &mut slot.block
    }

    /// Takes the block at this address away.
    #[inline]
    pub fn remove(&mut self, address: u64) -> Option<Block> {
        self.take(address).copied()
    }

    /// Takes the block at this address away and shows what it was.
    #[inline(always)]
    pub(super) fn take(&mut self, address: u64) -> Option<&Block> {
        let place = self.find(address)?;
        let position = position(self.table[place]);
        self.free.push(position);
        self.close_gap(place);
        self.len -= 1;
        let (piece, at) = split(position);
        Some(&self.slab[piece][at].block)
    }

    /// All blocks with their addresses, in ascending order of addresses.
    pub fn sorted(&self) -> Vec<(u64, Block)> {
        let slots = self.table.iter().filter(|entry| **entry != 0).map(|entry| {
            let (piece, at) = split(position(*entry));
            let slot = &self.slab[piece][at];
            (slot.address, slot.block)
        });
        let mut blocks: Vec<_> = slots.collect();
        blocks.sort_unstable_by_key(|(address, _)| *address);
        blocks
    }

    /// The set is too large for the processor's caches.
    #[inline]
    pub fn is_large(&self) -> bool {
        self.table.len() > 1 << 13
    }

    /// Loads what the next calls for these addresses will need, all at once, so that
    /// their cache misses overlap. Gives a number that only keeps the loads alive.
    #[inline]
    pub fn warm(&self, addresses: &[u64; 16]) -> u64 {
        let mut entries = [0; 16];
        for (entry, address) in entries.iter_mut().zip(addresses) {
            *entry = self.table[self.home(hash(*address))];
        }
        let mut sum = 0;
        for entry in entries {
            // PERF: whether an address is live is random: no branch on it, an empty
            // entry loads the first slot.
            let (piece, at) = split((entry as u32).saturating_sub(1));
            sum ^= self
                .slab
                .get(piece)
                .and_then(|piece| piece.get(at))
                .map_or(0, |slot| slot.address);
        }
        sum
    }

    #[inline(always)]
    fn home(&self, hash: u32) -> usize {
        (hash >> (32 - self.bits)) as usize
    }

    #[inline]
    fn find(&self, address: u64) -> Option<usize> {
        let hash = hash(address);
        let mask = self.table.len() - 1;
        let mut place = self.home(hash);
        loop {
            let entry = self.table[place];
            if entry == 0 {
                return None;
            }
            if (entry >> 32) as u32 == hash {
                let (piece, at) = split(position(entry));
                if self.slab[piece][at].address == address {
                    return Some(place);
                }
            }
            place = (place + 1) & mask;
        }
    }

    /// A place in the slab that was never used.
    fn new_position(&mut self) -> u32 {
        if self.slab.last().is_none_or(|piece| piece.len() == PIECE) {
            self.slab.push(Vec::with_capacity(PIECE));
        }
        let piece = self.slab.len() - 1;
        let slots = &mut self.slab[piece];
        slots.push(Slot::default());
        (piece * PIECE + slots.len() - 1) as u32
    }

    /// Moves entries back into the gap, so that no search ends too early at it.
    #[inline]
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.table.len() - 1;
        let mut place = gap;
        loop {
            place = (place + 1) & mask;
            let entry = self.table[place];
            if entry == 0 {
                break;
            }
            let home = self.home((entry >> 32) as u32);
            // Distance from home, as a search walks it.
            if (place.wrapping_sub(home) & mask) >= (place.wrapping_sub(gap) & mask) {
                self.table[gap] = entry;
                gap = place;
            }
        }
        self.table[gap] = 0;
    }

    #[cold]
    fn grow(&mut self) {
        self.bits += 1;
        let mask = (1usize << self.bits) - 1;
        let mut table = vec![0; mask + 1];
        for entry in self.table.iter().filter(|entry| **entry != 0) {
            let mut place = ((entry >> 32) as u32 >> (32 - self.bits)) as usize;
            while table[place] != 0 {
                place = (place + 1) & mask;
            }
            table[place] = *entry;
        }
        self.table = table;
    }
}

#[inline(always)]
fn position(entry: Entry) -> u32 {
    entry as u32 - 1
}

#[inline(always)]
fn split(position: u32) -> (usize, usize) {
    (position as usize / PIECE, position as usize % PIECE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn block(size: u64) -> Block {
        Block {
            size,
            ..Block::default()
        }
    }

    proptest! {
        #[test]
        fn it_is_a_map(steps in proptest::collection::vec((0u64..400, any::<bool>()), 0..3000)) {
            let mut set = LiveSet::default();
            let mut model = BTreeMap::new();
            for (number, (place, insert)) in steps.into_iter().enumerate() {
                let address = 0x7f00_0000_0000 + place * 8;
                if insert {
                    let before = set.insert(address, block(number as u64));
                    prop_assert_eq!(before, model.insert(address, block(number as u64)));
                } else {
                    prop_assert_eq!(set.remove(address), model.remove(&address));
                }
                prop_assert_eq!(set.len(), model.len());
            }
            prop_assert_eq!(set.sorted(), model.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_million_blocks_come_and_go() {
        let mut set = LiveSet::default();
        for number in 0..1_000_000u64 {
            assert_eq!(set.insert(number * 48, block(number)), None);
        }
        for number in (0..1_000_000u64).rev() {
            assert_eq!(set.remove(number * 48), Some(block(number)));
        }
        assert!(set.is_empty());
        assert_eq!(set.get(48), None);
    }
}
