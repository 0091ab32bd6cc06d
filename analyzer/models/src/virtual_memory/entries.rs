//! The two words that the slides show: how wide their fields are, and what follows from it.

/// A field of a packed word: its lowest bit and its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    at: u32,
    bits: u32,
}

impl Field {
    const fn max(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    const fn after(self, bits: u32) -> Field {
        Field {
            at: self.at + self.bits,
            bits,
        }
    }

    fn pack(self, value: u64) -> u64 {
        debug_assert!(value <= self.max());
        (value & self.max()) << self.at
    }

    fn unpack(self, word: u64) -> u64 {
        word >> self.at & self.max()
    }
}

const COUNT: Field = Field { at: 0, bits: 12 };
const MISC: Field = COUNT.after(4);
const ADDRESS: Field = MISC.after(48);
const _: () = assert!(ADDRESS.at + ADDRESS.bits == 64);

const MAPPED_ADDRESS: Field = Field { at: 0, bits: 44 };
const MAPPED_COUNT: Field = MAPPED_ADDRESS.after(16);
const MAPPED_SPARSE: Field = MAPPED_COUNT.after(1);
const MAPPED_MISC: Field = MAPPED_SPARSE.after(3);
const _: () = assert!(MAPPED_MISC.at + MAPPED_MISC.bits == 64);

/// Granules that one map request can cover: 256 MiB less 64 KiB in granules of 64 KiB.
/// Longer ones are split.
pub const MAX_RUN: u32 = COUNT.max() as u32;

/// Granules that one run that is kept mapped can have: 4 GiB less 64 KiB in granules of
/// 64 KiB. Longer ones are split.
pub const MAX_MAPPED: u32 = MAPPED_COUNT.max() as u32;

/// Bits of a table entry for what the slide calls misc; we read them as one for each slice
/// of 16 KiB in a granule of 64 KiB.
pub const MISC_BITS: u32 = MISC.bits;

/// An entry of the table of physical granules, `page_t` on the slide.
///
/// ```text
/// 63                16 15      12 11              0
/// | virtual address   | misc     | granules in run |
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageEntry(pub u64);

const _: () = assert!(size_of::<PageEntry>() == 8);

impl PageEntry {
    /// An entry for the first of `count` granules in a row, of which `slices` has one bit
    /// for each slice of the granule in use; `address` is in units of a granule.
    pub fn new(address: u64, slices: u8, count: u32) -> PageEntry {
        PageEntry(ADDRESS.pack(address) | MISC.pack(slices.into()) | COUNT.pack(count.into()))
    }

    /// Virtual address in granules.
    pub fn address(self) -> u64 {
        ADDRESS.unpack(self.0)
    }

    /// A bit for each slice in use.
    pub fn slices(self) -> u8 {
        MISC.unpack(self.0) as u8
    }

    /// Granules in the run.
    pub fn count(self) -> u32 {
        COUNT.unpack(self.0) as u32
    }
}

/// An entry of the list of runs that are kept mapped, `mapped_t` on the slide.
///
/// ```text
/// 63    61 60       59              44 43               0
/// | misc  | sparse | granules in run  | virtual address |
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappedEntry(pub u64);

const _: () = assert!(size_of::<MappedEntry>() == 8);

impl MappedEntry {
    /// An entry for `count` granules from `address` on, which is in units of a granule.
    pub fn new(address: u64, count: u32, sparse: bool) -> MappedEntry {
        MappedEntry(
            MAPPED_ADDRESS.pack(address)
                | MAPPED_COUNT.pack(count.into())
                | MAPPED_SPARSE.pack(sparse.into()),
        )
    }

    /// Virtual address in granules.
    pub fn address(self) -> u64 {
        MAPPED_ADDRESS.unpack(self.0)
    }

    /// Granules in the run.
    pub fn count(self) -> u32 {
        MAPPED_COUNT.unpack(self.0) as u32
    }

    /// Whether the granules lie apart in physical memory.
    pub fn sparse(self) -> bool {
        MAPPED_SPARSE.unpack(self.0) == 1
    }
}

/// Bytes of the table of granules for so much physical memory: one entry each.
pub fn table_bytes(physical: u64, granule: u64) -> u64 {
    physical.div_ceil(granule) * size_of::<PageEntry>() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_what_is_packed_into_them() {
        let page = PageEntry::new((1 << 48) - 1, 0b1010, MAX_RUN);
        assert_eq!(
            (page.address(), page.slices(), page.count()),
            ((1 << 48) - 1, 0b1010, 4095)
        );
        let mapped = MappedEntry::new(5, MAX_MAPPED, true);
        assert_eq!(
            (mapped.address(), mapped.count(), mapped.sparse()),
            (5, 65_535, true)
        );
    }

    #[test]
    fn the_widths_bound_the_runs_and_the_table() {
        const GRANULE: u64 = 64 << 10;
        assert_eq!(u64::from(MAX_RUN) * GRANULE, (256 << 20) - GRANULE);
        assert_eq!(u64::from(MAX_MAPPED) * GRANULE, (4 << 30) - GRANULE);
        assert_eq!(table_bytes(8 << 30, GRANULE), 1 << 20);
        assert_eq!(table_bytes(512 << 20, GRANULE), 64 << 10);
        assert_eq!(u64::from(MISC_BITS), GRANULE / (16 << 10));
    }
}
