//! False sharing: cache lines in which blocks of different threads lie.

use super::Lying;
use crate::fragmentation::Names;
use serde::Serialize;
use std::collections::BTreeMap;

/// Lines that two threads share by blocks of these call sites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SharedLines {
    /// How many lines.
    pub lines: u64,
    /// Address of the first.
    pub first: u64,
    /// The thread with the lower number.
    pub one: Side,
    /// The other one.
    pub other: Side,
}

/// One thread's part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Side {
    /// The thread that allocated.
    pub thread: String,
    /// The function to blame.
    pub site: String,
    /// Its bytes in these lines.
    pub bytes: u64,
}

/// Who has bytes in a line: thread and call site.
type Party = (u32, usize);

#[derive(Default)]
struct Sum {
    lines: u64,
    first: u64,
    bytes: [u64; 2],
}

/// How many lines have blocks of different threads, and whose they are. Blocks come in the
/// order of their addresses.
pub(super) fn shared(
    blocks: &[Lying],
    line: u64,
    sites: &[String],
    names: &mut dyn Names,
) -> (u64, Vec<SharedLines>) {
    let mut sums: BTreeMap<(Party, Party), Sum> = BTreeMap::new();
    let mut count = 0;
    for (number, parties) in contested(blocks, line) {
        count += 1;
        add(&mut sums, number * line, &parties);
    }
    let mut side = |(thread, site): Party, bytes| Side {
        thread: names.thread(thread),
        site: sites[site].clone(),
        bytes,
    };
    let rows = sums.into_iter().map(|((one, other), sum)| SharedLines {
        lines: sum.lines,
        first: sum.first,
        one: side(one, sum.bytes[0]),
        other: side(other, sum.bytes[1]),
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.lines), row.first));
    (count, rows)
}

/// The lines with more than one thread: number, and the bytes of each party.
fn contested(blocks: &[Lying], line: u64) -> Vec<(u64, BTreeMap<Party, u64>)> {
    // A line between a block's first and last one is its own.
    let edges = blocks.iter().flat_map(|block| {
        let (first, last) = block.units(line).into_inner();
        let last = (last != first).then_some((last, block));
        std::iter::once((first, block)).chain(last)
    });
    let edges: Vec<_> = edges.collect();
    let lines = edges.chunk_by(|(one, _), (other, _)| one == other);
    let found = lines.filter_map(|within| {
        let number = within[0].0;
        let thread = within[0].1.thread;
        let several = within.iter().any(|(_, block)| block.thread != thread);
        several.then(|| (number, parties(within, number * line, line)))
    });
    found.collect()
}

/// Whose bytes lie in the line from `start` on.
fn parties(within: &[(u64, &Lying)], start: u64, line: u64) -> BTreeMap<Party, u64> {
    let mut parties = BTreeMap::new();
    for (_, block) in within {
        let from = block.address.max(start);
        let to = (block.address + block.bytes).min(start + line);
        *parties.entry((block.thread, block.site)).or_default() += to.saturating_sub(from);
    }
    parties
}

fn add(sums: &mut BTreeMap<(Party, Party), Sum>, first: u64, parties: &BTreeMap<Party, u64>) {
    for (one, one_bytes) in parties {
        for (other, other_bytes) in parties.iter().filter(|(other, _)| other.0 > one.0) {
            let sum = sums.entry((*one, *other)).or_insert_with(|| Sum {
                first,
                ..Sum::default()
            });
            sum.lines += 1;
            sum.bytes[0] += one_bytes;
            sum.bytes[1] += other_bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lying;
    use super::*;

    struct Numbers;

    impl Names for Numbers {
        fn segment(&mut self, number: u16) -> String {
            number.to_string()
        }
        fn site(&mut self, number: u32) -> String {
            number.to_string()
        }
        fn thread(&mut self, number: u32) -> String {
            format!("thread {number}")
        }
    }

    fn told(blocks: &[Lying]) -> (u64, Vec<(u64, u64, [u64; 2])>) {
        let sites = ["counter".to_owned(), "list".to_owned()];
        let (lines, rows) = shared(blocks, 64, &sites, &mut Numbers);
        let row = |row: &SharedLines| (row.lines, row.first, [row.one.bytes, row.other.bytes]);
        (lines, rows.iter().map(row).collect())
    }

    #[test]
    fn counters_of_four_threads_in_one_line_are_six_pairs() {
        let counters: Vec<_> = (0..4)
            .map(|thread| lying(0x1000 + u64::from(thread) * 16, 16, thread, 0))
            .collect();
        assert_eq!(told(&counters), (1, vec![(1, 0x1000, [16, 16]); 6]));
        let apart: Vec<_> = (0..4)
            .map(|thread| lying(0x1000 + u64::from(thread) * 64, 16, thread, 0))
            .collect();
        assert_eq!(told(&apart), (0, Vec::new()));
    }

    #[test]
    fn a_line_is_shared_by_what_reaches_into_it() {
        // The first block ends 8 bytes into the line at 0x1040, the second ends in 0x1080.
        let blocks = [
            lying(0x1000, 72, 1, 0),
            lying(0x1048, 80, 2, 1),
            lying(0x10a0, 8, 1, 0),
            lying(0x10c0, 64, 2, 1),
        ];
        assert_eq!(told(&blocks), (2, vec![(2, 0x1040, [16, 80])]));
        // One thread shares nothing with itself.
        assert_eq!(told(&[lying(0, 8, 1, 0), lying(8, 8, 1, 1)]).0, 0);
    }
}
