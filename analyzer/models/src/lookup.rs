//! Who wrote there: the block at an address, the ones beside it, and the suspects in order.

use serde::Serialize;

use crate::model::{BlockId, Region, RunState, SegmentId};

/// A write this close to a block's start rather comes from the block before it.
const FRONT: u64 = 16;

/// Who allocated or freed a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Actor {
    /// Number of the backtrace.
    pub site: u32,
    /// Number of the thread.
    pub thread: u32,
    /// The game frame.
    pub frame: u32,
}

/// A block, as seen from an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Neighbour {
    /// The program's block; `None` for a free range.
    pub id: Option<u32>,
    /// First address of its header; of its payload where there is none.
    pub start: u64,
    /// First address of its payload.
    pub payload: u64,
    /// First address behind its payload.
    pub end: u64,
    /// Bytes asked for; those of the last owner for a free range where they are known.
    pub requested: u64,
    /// How far the address lies behind its end (0: the first byte behind is 1), or, below
    /// zero, in front of its payload; 0 inside the payload.
    pub distance: i64,
    /// Number of the allocation, counted from 1 over the whole replay; 0 where unknown.
    pub serial: u64,
    /// Who allocated it; for a free range its last owner there, where known.
    pub allocated: Option<Actor>,
    /// Who freed it, for a free range, where known.
    pub freed: Option<Actor>,
}

/// The part of a block that an address hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Bytes that the program may use.
    Payload,
    /// The header in front of a block.
    Header,
    /// A range that nobody holds.
    Free,
    /// Tables, or memory that is given back and not yet reusable.
    Other,
    /// None: it lies in no region.
    Outside,
}

/// Why a block is suspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Suspicion {
    /// Its owner wrote past its end.
    Overrun,
    /// Its owner wrote in front of it.
    Underrun,
    /// Its last owner wrote after giving it back.
    UseAfterFree,
    /// Its owner wrote into it, which is allowed.
    Owner,
}

/// A block whose owner may have written at the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Suspect {
    /// Why.
    pub suspicion: Suspicion,
    /// Which.
    pub block: Neighbour,
}

/// The answer to "what is at this address?".
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lookup {
    /// The address.
    pub address: u64,
    /// The region that holds it, else the nearest one; empty where there is none at all.
    pub region: String,
    /// That region's segment.
    pub segment: Option<u16>,
    /// Bytes from that region to the address; 0 inside it.
    pub outside_by: u64,
    /// What it hits.
    pub part: Part,
    /// The block or free range that contains it.
    pub block: Option<Neighbour>,
    /// The block or free range in front of that.
    pub previous: Option<Neighbour>,
    /// The one behind it.
    pub next: Option<Neighbour>,
    /// Likeliest first.
    pub suspects: Vec<Suspect>,
}

impl Lookup {
    /// Moves every address up, into another window of addresses.
    pub(crate) fn shift(&mut self, by: u64) {
        self.address += by;
        let blocks = [&mut self.block, &mut self.previous, &mut self.next];
        let blocks = blocks.into_iter().flatten();
        let suspects = self.suspects.iter_mut().map(|suspect| &mut suspect.block);
        for block in blocks.chain(suspects) {
            block.start += by;
            block.payload += by;
            block.end += by;
        }
    }
}

/// Looks an address up among regions whose owners are not known. Linear in their runs.
pub fn in_regions(regions: &[Region], address: u64) -> Lookup {
    in_regions_with(regions, address, |_| {})
}

/// Looks an address up; `describe` completes what a model knows of a block. It is asked
/// for at most four blocks.
pub fn in_regions_with(
    regions: &[Region],
    address: u64,
    describe: impl Fn(&mut Neighbour),
) -> Lookup {
    let mut answer = Lookup {
        address,
        region: String::new(),
        segment: None,
        outside_by: 0,
        part: Part::Outside,
        block: None,
        previous: None,
        next: None,
        suspects: Vec::new(),
    };
    let Some(region) = regions
        .iter()
        .min_by_key(|region| distance(region, address))
    else {
        return answer;
    };
    answer.region.clone_from(&region.name);
    answer.segment = region.segment.map(|SegmentId(number)| number);
    answer.outside_by = distance(region, address);
    let around = Around::find(region, address, &describe);
    answer.part = around.part;
    (answer.block, answer.previous, answer.next) = (around.block, around.previous, around.next);
    answer.suspects = around.suspects(address);
    answer
}

fn distance(region: &Region, address: u64) -> u64 {
    let last = region.start + region.bytes.max(1) - 1;
    region
        .start
        .saturating_sub(address)
        .max(address.saturating_sub(last))
}

/// The blocks round an address.
struct Around {
    part: Part,
    block: Option<Neighbour>,
    previous: Option<Neighbour>,
    /// The nearest in front that the program holds: the one that can run over.
    previous_used: Option<Neighbour>,
    next: Option<Neighbour>,
}

impl Around {
    fn find(region: &Region, address: u64, describe: &impl Fn(&mut Neighbour)) -> Around {
        let mut around = Around {
            part: Part::Outside,
            block: None,
            previous: None,
            previous_used: None,
            next: None,
        };
        for (block, part) in pieces(region, address) {
            if let Some(part) = part {
                around.part = part;
                around.block = block;
            } else if let Some(block) = block {
                if block.end > address {
                    around.next = Some(block);
                    break;
                }
                around.previous = Some(block);
                if block.id.is_some() {
                    around.previous_used = Some(block);
                }
            }
        }
        let Around {
            block,
            previous,
            previous_used,
            next,
            ..
        } = &mut around;
        [block, previous, previous_used, next]
            .into_iter()
            .flatten()
            .for_each(describe);
        around
    }

    fn suspects(&self, address: u64) -> Vec<Suspect> {
        let over = self.previous_used.map(|block| Suspect {
            suspicion: Suspicion::Overrun,
            block,
        });
        let Some(block) = self.block else {
            return over.into_iter().collect();
        };
        let near_front = address < block.payload + FRONT;
        let own = match (self.part, block.allocated) {
            (Part::Payload, _) if address >= block.payload + block.requested => {
                return [
                    Some(Suspect {
                        suspicion: Suspicion::Overrun,
                        block,
                    }),
                    over,
                ]
                .into_iter()
                .flatten()
                .collect();
            }
            (Part::Payload, _) => Some(Suspicion::Owner),
            (Part::Header, _) if block.id.is_some() => Some(Suspicion::Underrun),
            (_, Some(_)) if block.id.is_none() => Some(Suspicion::UseAfterFree),
            _ => None,
        };
        let own = own.map(|suspicion| Suspect { suspicion, block });
        let ranked = if near_front { [over, own] } else { [own, over] };
        ranked.into_iter().flatten().collect()
    }
}

/// The blocks and free ranges of a region in address order, headers joined to their
/// block; with the part that the address hits, for the one it hits.
fn pieces(
    region: &Region,
    address: u64,
) -> impl Iterator<Item = (Option<Neighbour>, Option<Part>)> {
    let mut at = region.start;
    let mut header = None;
    let mut runs = region.runs.iter().peekable();
    std::iter::from_fn(move || {
        loop {
            let &(bytes, state) = runs.next()?;
            let payload = at;
            at += bytes;
            let joins = matches!(runs.peek(), Some((_, RunState::Used(_))));
            if state == RunState::Meta && joins {
                header = Some(payload);
                continue;
            }
            let start = header.take().unwrap_or(payload);
            let hit = (start..at).contains(&address);
            let part = hit.then(|| part(state, address < payload));
            let block = match state {
                RunState::Used(id) => Some(neighbour(Some(id), start, payload, at, address)),
                RunState::Free => Some(neighbour(None, start, payload, at, address)),
                _ => None,
            };
            return Some((block, part));
        }
    })
}

fn part(state: RunState, in_header: bool) -> Part {
    match state {
        _ if in_header => Part::Header,
        RunState::Used(_) => Part::Payload,
        RunState::Free => Part::Free,
        RunState::Meta => Part::Header,
        RunState::Idle | RunState::Reserved => Part::Other,
    }
}

fn neighbour(id: Option<BlockId>, start: u64, payload: u64, end: u64, address: u64) -> Neighbour {
    let distance = if address >= end {
        (address - end) as i64 + 1
    } else if address < payload {
        -((payload - address) as i64)
    } else {
        0
    };
    let id = id.map(|BlockId(id)| id);
    let requested = end - payload;
    let (allocated, freed) = (None, None);
    Neighbour {
        id,
        start,
        payload,
        end,
        requested,
        distance,
        serial: 0,
        allocated,
        freed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 32 bytes of header each: block 1 of 64 bytes, 160 free, block 2 of 64 bytes.
    fn region() -> Region {
        let used = |id| RunState::Used(BlockId(id));
        let runs = vec![
            (32, RunState::Meta),
            (64, used(1)),
            (160, RunState::Free),
            (32, RunState::Meta),
            (64, used(2)),
        ];
        Region {
            name: "Default".into(),
            segment: Some(SegmentId(0)),
            start: 0x1000,
            bytes: 352,
            runs,
        }
    }

    fn ids(lookup: &Lookup) -> Vec<(Option<u32>, Suspicion)> {
        lookup
            .suspects
            .iter()
            .map(|suspect| (suspect.block.id, suspect.suspicion))
            .collect()
    }

    #[test]
    fn a_header_is_overrun_by_the_used_block_in_front() {
        let lookup = in_regions(&[region()], 0x1000 + 260);
        assert_eq!(lookup.part, Part::Header);
        assert_eq!(lookup.previous.unwrap().id, None);
        assert_eq!(
            ids(&lookup),
            [
                (Some(1), Suspicion::Overrun),
                (Some(2), Suspicion::Underrun)
            ]
        );
        assert_eq!(lookup.block.unwrap().distance, -28);
    }

    #[test]
    fn the_first_bytes_of_a_payload_suspect_the_one_in_front() {
        let near = in_regions(&[region()], 0x1000 + 288 + 15);
        assert_eq!(
            ids(&near),
            [(Some(1), Suspicion::Overrun), (Some(2), Suspicion::Owner)]
        );
        let deep = in_regions(&[region()], 0x1000 + 288 + 16);
        assert_eq!(
            ids(&deep),
            [(Some(2), Suspicion::Owner), (Some(1), Suspicion::Overrun)]
        );
    }

    #[test]
    fn a_free_range_suspects_its_last_owner() {
        let past = Actor {
            site: 7,
            thread: 1,
            frame: 3,
        };
        let describe = |block: &mut Neighbour| {
            if block.id.is_none() {
                block.allocated = Some(past);
            }
        };
        let lookup = in_regions_with(&[region()], 0x1000 + 96 + 100, describe);
        assert_eq!(lookup.part, Part::Free);
        assert_eq!(
            ids(&lookup),
            [
                (None, Suspicion::UseAfterFree),
                (Some(1), Suspicion::Overrun)
            ]
        );
        assert_eq!(lookup.next.unwrap().id, Some(2));
    }

    #[test]
    fn an_address_of_nobody_has_a_nearest_region() {
        let lookup = in_regions(&[region()], 0x1000 + 352 + 9);
        assert_eq!((lookup.part, lookup.outside_by), (Part::Outside, 10));
        assert_eq!(ids(&lookup), [(Some(2), Suspicion::Overrun)]);
        assert_eq!(in_regions(&[], 5).part, Part::Outside);
    }
}
