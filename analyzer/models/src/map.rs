//! The fragmentation map: a region's runs down-sampled to cells.
//!
//! A cell keeps sums, and the longest and shortest stretch of each kind that it shows, so
//! that a thin gap does not vanish in the mean. Drawing is somebody else's work.

use serde::Serialize;

use crate::model::{BlockId, Region, RunState};

/// Stretches of one kind inside a cell, cut at its edges. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stretch {
    /// All of them.
    pub bytes: u64,
    /// How many.
    pub count: u32,
    /// The longest; 0 where there is none.
    pub max: u64,
    /// The shortest; 0 where there is none.
    pub min: u64,
}

impl Stretch {
    fn add(&mut self, bytes: u64) {
        self.min = if self.count == 0 {
            bytes
        } else {
            self.min.min(bytes)
        };
        self.max = self.max.max(bytes);
        self.bytes += bytes;
        self.count += 1;
    }
}

/// One cell of a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// First address.
    pub start: u64,
    /// Its bytes; cells of one region differ by at most one.
    pub bytes: u64,
    /// Blocks that the program holds.
    pub used: Stretch,
    /// Headers and tables.
    pub meta: Stretch,
    /// Free; runs that touch are one stretch.
    pub free: Stretch,
    /// Given back, and not yet reusable.
    pub idle: Stretch,
    /// Address space without memory.
    pub reserved: Stretch,
    /// The block with the most bytes here, the first of those that are equal: what to
    /// colour it by.
    pub block: Option<u32>,
}

impl Cell {
    /// Share of its memory that is not free, from 0 to 1; 0 where it has no memory.
    pub fn density(&self) -> f64 {
        let memory = self.bytes - self.reserved.bytes;
        let taken = self.used.bytes + self.meta.bytes + self.idle.bytes;
        if memory == 0 {
            0.0
        } else {
            taken as f64 / memory as f64
        }
    }

    fn stretch(&mut self, state: RunState) -> &mut Stretch {
        match state {
            RunState::Used(_) => &mut self.used,
            RunState::Meta => &mut self.meta,
            RunState::Free => &mut self.free,
            RunState::Idle => &mut self.idle,
            RunState::Reserved => &mut self.reserved,
        }
    }
}

/// A region as `width` cells, or as many as it has bytes where those are fewer.
pub fn cells(region: &Region, width: usize) -> Vec<Cell> {
    let count = (width as u64).min(region.bytes);
    let edge =
        |index: u64| (u128::from(region.bytes) * u128::from(index) / u128::from(count)) as u64;
    let mut runs = Runs::of(region);
    (0..count)
        .map(|index| {
            let (from, to) = (edge(index), edge(index + 1));
            let mut cell = Cell {
                start: region.start + from,
                bytes: to - from,
                ..Cell::default()
            };
            runs.fill(&mut cell, to - from);
            cell
        })
        .collect()
}

/// The rest of a region's runs, cut cell by cell.
struct Runs<'a> {
    runs: &'a [(u64, RunState)],
    /// Bytes of the first run that are in earlier cells.
    taken: u64,
}

impl<'a> Runs<'a> {
    fn of(region: &'a Region) -> Runs<'a> {
        Runs {
            runs: &region.runs,
            taken: 0,
        }
    }

    fn fill(&mut self, cell: &mut Cell, mut space: u64) {
        let mut most = 0;
        let mut free = 0;
        while space > 0 {
            let Some((&(bytes, state), rest)) = self.runs.split_first() else {
                break;
            };
            let part = space.min(bytes - self.taken);
            if state == RunState::Free {
                free += part;
            } else {
                close(&mut cell.free, &mut free);
            }
            if state != RunState::Free && part > 0 {
                cell.stretch(state).add(part);
            }
            if let RunState::Used(BlockId(id)) = state
                && part > most
            {
                (most, cell.block) = (part, Some(id));
            }
            space -= part;
            self.taken += part;
            if self.taken == bytes {
                (self.runs, self.taken) = (rest, 0);
            }
        }
        close(&mut cell.free, &mut free);
    }
}

fn close(stretch: &mut Stretch, length: &mut u64) {
    if *length > 0 {
        stretch.add(std::mem::take(length));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(runs: Vec<(u64, RunState)>) -> Region {
        let bytes = runs.iter().map(|run| run.0).sum();
        Region {
            name: String::new(),
            segment: None,
            start: 0x1000,
            bytes,
            runs,
        }
    }

    const fn used(id: u32) -> RunState {
        RunState::Used(BlockId(id))
    }

    #[test]
    fn a_thin_gap_stays_visible() {
        let runs = vec![
            (50, used(1)),
            (1, RunState::Free),
            (49, used(2)),
            (100, RunState::Free),
        ];
        let cells = cells(&region(runs), 2);
        assert_eq!(cells.len(), 2);
        assert_eq!(
            cells[0].used,
            Stretch {
                bytes: 99,
                count: 2,
                max: 50,
                min: 49
            }
        );
        assert_eq!(
            cells[0].free,
            Stretch {
                bytes: 1,
                count: 1,
                max: 1,
                min: 1
            }
        );
        assert_eq!(cells[0].block, Some(1));
        assert_eq!(
            cells[1].free,
            Stretch {
                bytes: 100,
                count: 1,
                max: 100,
                min: 100
            }
        );
        assert_eq!((cells[1].block, cells[1].density()), (None, 0.0));
    }

    #[test]
    fn cells_cut_runs_and_add_up() {
        let runs = vec![
            (10, RunState::Meta),
            (25, used(1)),
            (5, RunState::Idle),
            (60, RunState::Reserved),
        ];
        let cells = cells(&region(runs), 7);
        assert_eq!(cells.iter().map(|cell| cell.bytes).sum::<u64>(), 100);
        assert_eq!(cells.iter().map(|cell| cell.used.bytes).sum::<u64>(), 25);
        assert_eq!(
            cells.iter().map(|cell| cell.reserved.bytes).sum::<u64>(),
            60
        );
        assert!(
            cells
                .windows(2)
                .all(|pair| pair[0].start + pair[0].bytes == pair[1].start)
        );
    }

    #[test]
    fn a_region_smaller_than_the_width_has_a_cell_a_byte() {
        assert_eq!(cells(&region(vec![(3, used(1))]), 80).len(), 3);
        assert!(cells(&region(Vec::new()), 80).is_empty());
    }
}
