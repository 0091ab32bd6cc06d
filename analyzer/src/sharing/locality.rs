//! Locality: the cache lines and pages that blocks touch where they lie, against those that
//! they would touch without a gap between them.

use super::Lying;
use serde::Serialize;

/// Pages, in bytes, that are counted beside cache lines.
const PAGES: [u64; 3] = [4 << 10, 64 << 10, 2 << 20];

/// Some blocks and what they touch.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Locality {
    /// What they have in common: a call site, or words.
    pub name: String,
    /// How many there are.
    pub blocks: u64,
    /// Bytes that were asked for.
    pub bytes: u64,
    /// Cache lines, then pages of 4 KiB, 64 KiB and 2 MiB.
    pub units: [Spread; 4],
    /// Cache lines divided by blocks: of a packed array, an object's size by the line's.
    pub lines_a_block: f64,
}

/// Units of one length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Bytes of a unit.
    pub unit: u64,
    /// Units with a byte of these blocks.
    pub touched: u64,
    /// Units that would do if the blocks lay without a gap.
    pub packed: u64,
}

impl Locality {
    /// Of blocks in the order of their addresses.
    pub(super) fn of<'a>(
        name: &str,
        blocks: impl Iterator<Item = &'a Lying> + Clone,
        line: u64,
    ) -> Locality {
        let count = blocks.clone().count() as u64;
        let bytes: u64 = blocks.clone().map(|block| block.bytes).sum();
        let spread = |unit| Spread {
            unit,
            touched: touched(blocks.clone(), unit),
            packed: bytes.div_ceil(unit),
        };
        let [small, medium, large] = PAGES;
        let units = [line, small, medium, large].map(spread);
        Locality {
            name: name.to_owned(),
            blocks: count,
            bytes,
            lines_a_block: units[0].touched as f64 / count.max(1) as f64,
            units,
        }
    }

    /// Cache lines beyond those that would do.
    pub fn lines_in_vain(&self) -> u64 {
        self.units[0].touched.saturating_sub(self.units[0].packed)
    }
}

/// By call site, those with the most lines in vain first.
pub(super) fn by_site(blocks: &[Lying], names: &[String], line: u64) -> Vec<Locality> {
    let mut of_site = vec![Vec::new(); names.len()];
    for block in blocks {
        of_site[block.site].push(block);
    }
    let sites = of_site.iter().zip(names);
    let mut rows: Vec<Locality> = sites
        .map(|(blocks, name)| Locality::of(name, blocks.iter().copied(), line))
        .collect();
    rows.sort_by(|a, b| {
        let by_lines = b.lines_in_vain().cmp(&a.lines_in_vain());
        by_lines.then_with(|| a.name.cmp(&b.name))
    });
    rows
}

/// Distinct units that blocks touch which come in the order of their addresses.
fn touched<'a>(blocks: impl Iterator<Item = &'a Lying>, unit: u64) -> u64 {
    let mut next = 0;
    let mut count = 0;
    for block in blocks {
        let (start, end) = block.units(unit).into_inner();
        let fresh = start.max(next);
        count += (end + 1).saturating_sub(fresh);
        next = next.max(end + 1);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::super::lying;
    use super::*;

    #[test]
    fn four_objects_of_48_bytes_lie_in_three_lines_and_apart_in_four_or_more() {
        let packed: Vec<_> = (0..4).map(|at| lying(0x1000 + at * 48, 48, 0, 0)).collect();
        let of = |blocks: &[Lying]| Locality::of("all", blocks.iter(), 64);
        let packed = of(&packed);
        assert_eq!((packed.units[0].touched, packed.units[0].packed), (3, 3));
        assert_eq!(packed.lines_a_block, 0.75);
        assert_eq!((packed.bytes, packed.lines_in_vain()), (192, 0));
        // At 32 bytes from a line's start each reaches into the next one.
        let apart: Vec<_> = (0..4)
            .map(|at| lying(0x1020 + at * 0x1_0000, 48, 0, 0))
            .collect();
        let apart = of(&apart);
        let touched = apart.units.map(|spread| spread.touched);
        assert_eq!(touched, [8, 4, 4, 1]);
        assert_eq!((apart.lines_a_block, apart.lines_in_vain()), (2.0, 5));
    }

    #[test]
    fn units_are_counted_as_a_set_of_them_has_it() {
        let mut random = crate::testing::Random(7);
        for _ in 0..200 {
            let mut at = 0;
            let blocks: Vec<_> = (0..random.below(40))
                .map(|_| {
                    at += random.below(150);
                    let block = lying(at, 1 + random.below(300), 0, 0);
                    at += block.bytes;
                    block
                })
                .collect();
            let units: std::collections::BTreeSet<u64> =
                blocks.iter().flat_map(|block| block.units(64)).collect();
            assert_eq!(touched(blocks.iter(), 64), units.len() as u64, "{blocks:?}");
        }
    }

    #[test]
    fn nothing_touches_nothing() {
        let none = Locality::of("none", [].iter(), 64);
        assert_eq!((none.units[3].touched, none.lines_a_block), (0, 0.0));
        assert!(by_site(&[], &[], 64).is_empty());
    }
}
