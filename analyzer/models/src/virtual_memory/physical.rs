//! Physical memory: a budget of granules, which of them are mapped, and what mapping costs.

use std::ops::Range;

use serde::Serialize;

use super::entries::{MAX_MAPPED, MAX_RUN, table_bytes};
use super::lru::Lru;
use crate::address_space::AddressSpace;
use crate::page_source::PageSource;

/// How a new range finds a run that is still mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LruMatch {
    /// By its address.
    Address,
    /// As `Address`; and new segments are put where such a run lies.
    Any,
}

/// What the physical layer has done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Mapping {
    /// System calls that mapped.
    pub maps: u64,
    /// System calls that unmapped.
    pub unmaps: u64,
    /// Runs that were wanted and still mapped.
    pub hits: u64,
    /// Runs that were wanted and had to be mapped.
    pub misses: u64,
    /// Bytes cleared.
    pub zeroed: u64,
}

impl Mapping {
    /// Hits of all wanted runs, from 0 to 1; 0 where none was wanted.
    pub fn hit_rate(&self) -> f64 {
        match self.hits + self.misses {
            0 => 0.0,
            wanted => self.hits as f64 / wanted as f64,
        }
    }

    /// Iterations of the loop that clears 256 bytes in each.
    pub fn clear_iterations(&self) -> u64 {
        self.zeroed / CLEAR_BYTES
    }

    /// What was done since `before`.
    pub(crate) fn since(&self, before: &Mapping) -> Mapping {
        Mapping {
            maps: self.maps - before.maps,
            unmaps: self.unmaps - before.unmaps,
            hits: self.hits - before.hits,
            misses: self.misses - before.misses,
            zeroed: self.zeroed - before.zeroed,
        }
    }
}

/// Bytes that the clearing loop does at a time: 8 stores of 32.
pub const CLEAR_BYTES: u64 = 256;

/// What the physical layer goes by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PhysicalRules {
    pub(crate) granule: u64,
    pub(crate) slice: u64,
    pub(crate) budget: u64,
    pub(crate) lru_entries: u32,
    pub(crate) lru_match: LruMatch,
    pub(crate) lru_counts_as_used: bool,
    pub(crate) zero_on_hit: bool,
}

/// Virtual addresses with granules of physical memory behind them.
#[derive(Clone)]
pub(crate) struct Physical {
    rules: PhysicalRules,
    space: AddressSpace,
    base: u64,
    /// Units in use of each granule from `base` on; a unit is a slice or a granule, whichever
    /// is shorter.
    live: Vec<u16>,
    unit: u64,
    pub(crate) lru: Lru,
    mapped: u32,
    limit: u32,
    pub(crate) mapping: Mapping,
    /// Bytes that the last refused request lacked.
    pub(crate) short_by: u64,
}

impl Physical {
    pub(crate) fn new(rules: PhysicalRules, base: u64) -> Physical {
        Physical {
            rules,
            space: AddressSpace::new(base, WINDOW),
            base,
            live: Vec::new(),
            unit: rules.slice.min(rules.granule),
            lru: Lru::new(rules.lru_entries),
            mapped: 0,
            limit: u32::try_from(rules.budget / rules.granule).unwrap_or(u32::MAX),
            mapping: Mapping::default(),
            short_by: 0,
        }
    }

    /// Bytes mapped and in use.
    pub(crate) fn mapped_bytes(&self) -> u64 {
        self.bytes(self.mapped)
    }

    /// Bytes mapped and not in use.
    pub(crate) fn cached_bytes(&self) -> u64 {
        self.bytes(self.lru.granules())
    }

    /// Bytes of the budget that are not mapped.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.bytes(self.free())
    }

    /// The budget in bytes: whole granules.
    pub(crate) fn budget_bytes(&self) -> u64 {
        self.bytes(self.limit)
    }

    /// Bytes of the granules' table.
    pub(crate) fn table_bytes(&self) -> u64 {
        table_bytes(self.budget_bytes(), self.rules.granule)
    }

    /// Unmaps everything that is not in use.
    pub(crate) fn empty_lru(&mut self) {
        while self.lru.evict().is_some() {
            self.mapping.unmaps += 1;
        }
    }

    /// Addresses of the runs that are kept mapped, in ascending order.
    pub(crate) fn cached_ranges(&self) -> Vec<Range<u64>> {
        let address = |granule: u32| self.base + u64::from(granule) * self.rules.granule;
        let mut ranges: Vec<_> = self
            .lru
            .runs()
            .map(|run| address(run.start)..address(run.end))
            .collect();
        ranges.sort_unstable_by_key(|range| range.start);
        ranges
    }

    /// Granules with units in use, with how many, by number from the first address on.
    pub(crate) fn live_units(&self) -> &[u16] {
        &self.live
    }

    /// Number of the granule at an address, and units of a slice in it.
    pub(crate) fn granule_of(&self, address: u64) -> usize {
        ((address - self.base) / self.rules.granule) as usize
    }

    pub(crate) fn unit_bytes(&self) -> u64 {
        self.unit
    }

    /// Whether what is mapped, kept and free adds up, and no kept run is in use.
    pub(crate) fn audit(&self) -> Result<(), String> {
        let used = self.live.iter().filter(|units| **units > 0).count() as u32;
        if used != self.mapped {
            return Err(format!(
                "{used} granules have slices, {} are mapped",
                self.mapped
            ));
        }
        let mut seen = vec![false; self.live.len()];
        for granule in self.lru.runs().cloned().flatten() {
            let granule = granule as usize;
            if self.live[granule] > 0 || std::mem::replace(&mut seen[granule], true) {
                return Err(format!("granule {granule} is kept twice, or in use"));
            }
        }
        let kept = seen.iter().filter(|kept| **kept).count() as u32;
        if kept != self.lru.granules() || self.lru.runs().count() > self.rules.lru_entries as usize
        {
            return Err(format!(
                "{kept} granules are kept, {} counted",
                self.lru.granules()
            ));
        }
        let sum = self.mapped_bytes() + self.cached_bytes() + self.free_bytes();
        if self.rules.lru_counts_as_used && sum != self.budget_bytes() {
            return Err(format!(
                "{sum} bytes mapped, kept or free, of {}",
                self.budget_bytes()
            ));
        }
        Ok(())
    }

    fn bytes(&self, granules: u32) -> u64 {
        u64::from(granules) * self.rules.granule
    }

    fn free(&self) -> u32 {
        let cached = if self.rules.lru_counts_as_used {
            self.lru.granules()
        } else {
            0
        };
        self.limit - self.mapped - cached
    }

    /// Granules of a range of addresses.
    fn granules(&self, address: u64, bytes: u64) -> Range<u32> {
        let from = (address - self.base) / self.rules.granule;
        let to = (address + bytes - self.base).div_ceil(self.rules.granule);
        from as u32..to as u32
    }

    /// Units of a range of addresses that lie in one granule.
    fn units(&self, granule: u32, address: u64, bytes: u64) -> u16 {
        let start = self.base + u64::from(granule) * self.rules.granule;
        let from = address.max(start);
        let to = (address + bytes).min(start + self.rules.granule);
        ((to - from) / self.unit) as u16
    }

    /// The runs of granules in `range` without a unit in use, none longer than `longest`.
    fn idle_runs(&self, range: Range<u32>, longest: u32) -> Vec<Range<u32>> {
        let idle = |granule: &u32| self.live[*granule as usize] == 0;
        let mut runs = Vec::new();
        let mut from = range;
        while let Some(start) = from.find(idle) {
            let stop = from.end.min(start.saturating_add(longest));
            let end = (start + 1..stop)
                .find(|granule| !idle(granule))
                .unwrap_or(stop);
            from.start = end;
            runs.push(start..end);
        }
        runs
    }

    /// Makes room for runs, by unmapping what is not in use, the oldest first.
    fn make_room(&mut self, runs: &[Range<u32>]) -> bool {
        loop {
            let wanted: u32 = runs.iter().map(|run| run.len() as u32).sum();
            let cached: u32 = runs.iter().map(|run| self.lru.count_in(run)).sum();
            let new = if self.rules.lru_counts_as_used {
                wanted - cached
            } else {
                wanted
            };
            let free = self.free();
            if new <= free {
                return true;
            }
            if self.lru.evict().is_none() {
                self.short_by = self.bytes(new - free);
                return false;
            }
            self.mapping.unmaps += 1;
        }
    }

    /// Maps a run: from what is still mapped if all of it is in one place, else by a call.
    fn map(&mut self, run: Range<u32>) {
        let count = run.len() as u32;
        let bytes = self.bytes(count);
        if self.lru.hit(&run) {
            self.mapping.hits += 1;
            self.mapping.zeroed += if self.rules.zero_on_hit { bytes } else { 0 };
        } else {
            let absorbed = self.lru.absorb(&run);
            self.mapping.misses += 1;
            self.mapping.maps += 1;
            let clean = if self.rules.zero_on_hit {
                0
            } else {
                self.bytes(absorbed)
            };
            self.mapping.zeroed += bytes - clean;
        }
        self.mapped += count;
        self.trim();
    }

    /// Unmaps the oldest runs that are too many.
    fn trim(&mut self) {
        while self.lru.overflow().is_some() {
            self.mapping.unmaps += 1;
        }
    }

    /// A run is not in use any more; it stays mapped for a while.
    fn unmap(&mut self, run: Range<u32>) {
        self.mapped -= run.len() as u32;
        self.lru.push(run);
        self.trim();
    }

    /// A segment's place over a run that is still mapped, the youngest first.
    fn reserve_over_cached(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let starts: Vec<u32> = self.lru.runs().map(|run| run.start).collect();
        starts.into_iter().find_map(|start| {
            let address = self.base + u64::from(start) * self.rules.granule;
            let place = address - address % align;
            (place >= self.base && self.space.reserve_at(place, bytes)).then_some(place)
        })
    }
}

/// Bytes of virtual addresses: so many that they never run out.
const WINDOW: u64 = 1 << 40;

impl PageSource for Physical {
    fn reserve(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let over = match self.rules.lru_match {
            LruMatch::Any => self.reserve_over_cached(bytes, align),
            LruMatch::Address => None,
        };
        let address = over.or_else(|| self.space.reserve(bytes, align))?;
        let end = self.granules(address, bytes).end as usize;
        if end > self.live.len() {
            self.live.resize(end, 0);
        }
        Some(address)
    }

    fn release(&mut self, address: u64, bytes: u64) {
        self.space.release(address, bytes);
    }

    fn commit(&mut self, address: u64, bytes: u64) -> bool {
        let range = self.granules(address, bytes);
        let runs = self.idle_runs(range.clone(), MAX_RUN);
        if !self.make_room(&runs) {
            return false;
        }
        for run in runs {
            self.map(run);
        }
        for granule in range {
            self.live[granule as usize] += self.units(granule, address, bytes);
        }
        true
    }

    fn decommit(&mut self, address: u64, bytes: u64) {
        let range = self.granules(address, bytes);
        for granule in range.clone() {
            self.live[granule as usize] -= self.units(granule, address, bytes);
        }
        // Only granules that just lost their last unit are zero here: each had one.
        for run in self.idle_runs(range, MAX_MAPPED) {
            self.unmap(run);
        }
    }

    fn checkpoint(&self) -> Box<dyn PageSource> {
        Box::new(self.clone())
    }
}
