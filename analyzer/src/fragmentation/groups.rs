//! What a map is coloured by: blocks in groups by segment, age, call site or thread.

use super::witness::Owner;
use serde::Serialize;
use std::collections::BTreeMap;

/// What decides a block's colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ColourBy {
    /// The segment that its thread worked in.
    #[default]
    Segment,
    /// How long ago it was allocated.
    Age,
    /// The function to blame for it.
    Site,
    /// The thread that allocated it.
    Thread,
}

/// A colour: red, green, blue.
pub type Rgb = [u8; 3];

/// Distinguishable also by people who see few colours (after Okabe and Ito).
const DISTINCT: [Rgb; 7] = [
    [86, 180, 233],
    [230, 159, 0],
    [0, 158, 115],
    [240, 228, 66],
    [213, 94, 0],
    [204, 121, 167],
    [0, 114, 178],
];
const OTHERS: Rgb = [150, 150, 150];

/// Ages: the name, younger than so many nanoseconds, the colour. Young is bright.
const AGES: [(&str, u64, Rgb); 6] = [
    ("under 20 ms", 20_000_000, [253, 231, 37]),
    ("under 200 ms", 200_000_000, [122, 209, 81]),
    ("under 2 s", 2_000_000_000, [34, 168, 132]),
    ("under 20 s", 20_000_000_000, [42, 120, 142]),
    ("under 200 s", 200_000_000_000, [65, 68, 135]),
    ("older", u64::MAX, [110, 60, 140]),
];

/// Blocks of one colour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// What they have in common.
    pub name: String,
    /// How many there are.
    pub blocks: u64,
    /// Their bytes, rounding included.
    pub bytes: u64,
    /// Their colour.
    pub colour: Rgb,
}

/// Names of a trace's numbers.
pub trait Names {
    /// A segment's.
    fn segment(&mut self, number: u16) -> String;
    /// The function to blame for a backtrace.
    fn site(&mut self, number: u32) -> String;
    /// A thread's.
    fn thread(&mut self, number: u32) -> String;
}

/// All groups, and the group of each block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// The groups, in the order of a legend.
    pub list: Vec<Group>,
    /// Positions in `list` by block.
    of_block: BTreeMap<u32, usize>,
}

impl Groups {
    /// Groups blocks: (number, bytes, owner).
    pub fn of(
        blocks: &[(u32, u64, Option<&Owner>)],
        by: ColourBy,
        now: u64,
        names: &mut dyn Names,
    ) -> Groups {
        let mut sums: BTreeMap<Key, (u64, u64)> = BTreeMap::new();
        // Call sites that share a function share a colour.
        let mut keys = Keys {
            by,
            now,
            names,
            sites: BTreeMap::new(),
        };
        let keys: Vec<Key> = blocks
            .iter()
            .map(|(_, bytes, owner)| {
                let key = keys.of(*owner);
                let sum = sums.entry(key.clone()).or_default();
                *sum = (sum.0 + 1, sum.1 + bytes);
                key
            })
            .collect();
        let (list, place) = list(by, sums);
        let of_block = blocks.iter().zip(&keys);
        Groups {
            of_block: of_block.map(|((id, ..), key)| (*id, place[key])).collect(),
            list,
        }
    }

    /// The position in the list of a block's group.
    pub fn group(&self, block: u32) -> Option<usize> {
        self.of_block.get(&block).copied()
    }
}

/// What blocks of one group share: an order of its own, and a name.
type Key = (u64, String);

struct Keys<'a> {
    by: ColourBy,
    now: u64,
    names: &'a mut dyn Names,
    sites: BTreeMap<u32, String>,
}

impl Keys<'_> {
    fn of(&mut self, owner: Option<&Owner>) -> Key {
        let Some(owner) = owner else {
            return (u64::MAX, "unknown".to_owned());
        };
        let act = owner.allocated;
        match self.by {
            ColourBy::Segment => {
                let number = owner.segment;
                (number.into(), self.names.segment(number))
            }
            ColourBy::Thread => (act.thread.into(), self.names.thread(act.thread)),
            ColourBy::Age => {
                let age = self.now.saturating_sub(act.nanos);
                let at = AGES.iter().position(|(_, below, _)| age < *below);
                let at = at.unwrap_or(AGES.len() - 1);
                (at as u64, AGES[at].0.to_owned())
            }
            ColourBy::Site => {
                let names = &mut self.names;
                let name = self.sites.entry(act.site);
                (0, name.or_insert_with(|| names.site(act.site)).clone())
            }
        }
    }
}

/// The groups as a legend, and where in it each key stands. Beyond the colours that
/// there are, the smallest become one.
fn list(by: ColourBy, sums: BTreeMap<Key, (u64, u64)>) -> (Vec<Group>, BTreeMap<Key, usize>) {
    let mut sums: Vec<_> = sums.into_iter().collect();
    if by != ColourBy::Age {
        // The order of keys stays among equals.
        sums.sort_by_key(|(_, (_, bytes))| std::cmp::Reverse(*bytes));
    }
    let mut list: Vec<Group> = Vec::new();
    let mut places = BTreeMap::new();
    for (at, (key, (blocks, bytes))) in sums.into_iter().enumerate() {
        if at <= DISTINCT.len() {
            let colour = match by {
                ColourBy::Age => AGES.get(key.0 as usize).map_or(OTHERS, |age| age.2),
                _ => DISTINCT.get(at).copied().unwrap_or(OTHERS),
            };
            let name = key.1.clone();
            list.push(Group {
                name,
                blocks,
                bytes,
                colour,
            });
        } else {
            let others = &mut list[DISTINCT.len()];
            others.name = "others".to_owned();
            others.blocks += blocks;
            others.bytes += bytes;
        }
        places.insert(key, list.len() - 1);
    }
    (list, places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragmentation::witness::Act;

    struct Numbers;

    impl Names for Numbers {
        fn segment(&mut self, number: u16) -> String {
            format!("segment {number}")
        }
        fn site(&mut self, number: u32) -> String {
            format!("function {}", number / 10)
        }
        fn thread(&mut self, number: u32) -> String {
            format!("thread {number}")
        }
    }

    fn owner(segment: u16, site: u32, nanos: u64) -> Owner {
        let allocated = Act {
            site,
            nanos,
            ..Act::default()
        };
        Owner {
            allocated,
            segment,
            ..Owner::default()
        }
    }

    fn told(groups: &Groups) -> Vec<(&str, u64, u64)> {
        let group = |group: &'_ Group| (group.blocks, group.bytes);
        groups
            .list
            .iter()
            .map(|of| (of.name.as_str(), group(of).0, group(of).1))
            .collect()
    }

    #[test]
    fn the_largest_group_comes_first_and_functions_join_their_call_sites() {
        let owners = [owner(1, 11, 0), owner(2, 12, 0), owner(2, 25, 0)];
        let blocks = [
            (0, 100, Some(&owners[0])),
            (1, 100, Some(&owners[1])),
            (7, 50, Some(&owners[2])),
        ];
        let groups = Groups::of(&blocks, ColourBy::Segment, 0, &mut Numbers);
        assert_eq!(
            told(&groups),
            [("segment 2", 2, 150), ("segment 1", 1, 100)]
        );
        assert_eq!((groups.group(0), groups.group(7)), (Some(1), Some(0)));
        let groups = Groups::of(&blocks, ColourBy::Site, 0, &mut Numbers);
        assert_eq!(
            told(&groups),
            [("function 1", 2, 200), ("function 2", 1, 50)]
        );
    }

    #[test]
    fn ages_stay_in_their_order() {
        let owners = [owner(0, 0, 0), owner(0, 0, 999_990_000_000)];
        let blocks = [(0, 9, Some(&owners[0])), (1, 1, Some(&owners[1]))];
        let groups = Groups::of(&blocks, ColourBy::Age, 1_000_000_000_000, &mut Numbers);
        assert_eq!(told(&groups), [("under 20 ms", 1, 1), ("older", 1, 9)]);
    }

    #[test]
    fn more_groups_than_colours_become_others() {
        let owners: Vec<_> = (0..20).map(|segment| owner(segment, 0, 0)).collect();
        let blocks: Vec<_> = owners
            .iter()
            .enumerate()
            .map(|(at, owner)| (at as u32, 100 - at as u64, Some(owner)))
            .collect();
        let groups = Groups::of(&blocks, ColourBy::Segment, 0, &mut Numbers);
        assert_eq!(groups.list.len(), 8);
        let others = &groups.list[7];
        assert_eq!((others.name.as_str(), others.blocks), ("others", 13));
        assert_eq!(groups.group(19), Some(7));
        let bytes: u64 = groups.list.iter().map(|group| group.bytes).sum();
        assert_eq!(bytes, blocks.iter().map(|block| block.1).sum::<u64>());
    }
}
