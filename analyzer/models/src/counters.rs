//! The figures that all models have in common.

use serde::Serialize;

/// Requests to the operating system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OsCalls {
    /// Address space taken.
    pub reserve: u64,
    /// Memory put behind addresses.
    pub commit: u64,
    /// Memory taken from behind addresses.
    pub decommit: u64,
    /// Address space given back.
    pub release: u64,
}

/// What a model holds and has done. Bytes, unless a field says otherwise; sums since the
/// start are marked as such and never fall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Requested bytes of live blocks.
    pub requested: u64,
    /// Bytes of live blocks, rounding included.
    pub used: u64,
    /// Headers, page and segment information, tables.
    pub meta: u64,
    /// Held from the operating system, and free.
    pub free: u64,
    /// Held from the operating system: mapped and committed.
    pub held: u64,
    /// Address space.
    pub reserved: u64,
    /// Most bytes ever held at once.
    pub peak_held: u64,
    /// Live blocks.
    pub blocks: u64,
    /// Sum: bytes copied by reallocations.
    pub moved: u64,
    /// Sum: bytes cleared.
    pub zeroed: u64,
    /// Sum: locks taken.
    pub locks: u64,
    /// Sum: calls that left the fast path.
    pub slow: u64,
    /// Sum: blocks freed by another thread than allocated them.
    pub foreign_frees: u64,
    /// Sum: requests to the operating system.
    pub os: OsCalls,
}

/// What must hold of [`Counters`] at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// `held = used + meta + free`, and `used >= requested`.
    Kept,
    /// It does not: by so many bytes.
    Broken(i128),
}

impl OsCalls {
    /// Requests of any kind.
    pub fn all(&self) -> u64 {
        self.reserve + self.commit + self.decommit + self.release
    }

    /// Adds those of another part.
    pub fn add(&mut self, other: &OsCalls) {
        self.reserve += other.reserve;
        self.commit += other.commit;
        self.decommit += other.decommit;
        self.release += other.release;
    }
}

impl Counters {
    /// Adds those of another part. Of the peaks too, which is too much where the parts
    /// did not hold their most at once.
    pub fn add(&mut self, other: &Counters) {
        self.requested += other.requested;
        self.used += other.used;
        self.meta += other.meta;
        self.free += other.free;
        self.held += other.held;
        self.reserved += other.reserved;
        self.peak_held += other.peak_held;
        self.blocks += other.blocks;
        self.moved += other.moved;
        self.zeroed += other.zeroed;
        self.locks += other.locks;
        self.slow += other.slow;
        self.foreign_frees += other.foreign_frees;
        self.os.add(&other.os);
    }

    /// Whether what is held adds up.
    pub fn identity(&self) -> Identity {
        let parts = i128::from(self.used) + i128::from(self.meta) + i128::from(self.free);
        match i128::from(self.held) - parts {
            0 if self.used >= self.requested => Identity::Kept,
            by => Identity::Broken(by),
        }
    }
}
