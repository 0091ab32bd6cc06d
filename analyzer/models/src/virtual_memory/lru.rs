//! Granules that are still mapped though nobody uses them: the last runs that were given back.

use std::collections::VecDeque;
use std::ops::Range;

/// Runs of granules, the youngest in front; no two overlap.
#[derive(Clone, Debug)]
pub(crate) struct Lru {
    runs: VecDeque<Range<u32>>,
    limit: usize,
    granules: u32,
}

impl Lru {
    /// Keeps at most `limit` runs.
    pub(crate) fn new(limit: u32) -> Lru {
        Lru {
            runs: VecDeque::new(),
            limit: limit as usize,
            granules: 0,
        }
    }

    /// Granules in all runs.
    pub(crate) fn granules(&self) -> u32 {
        self.granules
    }

    /// The runs, the youngest first.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &Range<u32>> {
        self.runs.iter()
    }

    /// A run comes in.
    pub(crate) fn push(&mut self, run: Range<u32>) {
        if !run.is_empty() {
            self.granules += run.len() as u32;
            self.runs.push_front(run);
        }
    }

    /// The oldest run, if there is one more than are kept.
    pub(crate) fn overflow(&mut self) -> Option<Range<u32>> {
        (self.runs.len() > self.limit).then(|| self.evict())?
    }

    /// The oldest run.
    pub(crate) fn evict(&mut self) -> Option<Range<u32>> {
        let run = self.runs.pop_back()?;
        self.granules -= run.len() as u32;
        Some(run)
    }

    /// Takes `wanted` out of the one run that has all of it; what is left of that run goes
    /// to the front. False if there is no such run.
    pub(crate) fn hit(&mut self, wanted: &Range<u32>) -> bool {
        let holds = |run: &Range<u32>| run.start <= wanted.start && wanted.end <= run.end;
        let Some(run) = self
            .runs
            .iter()
            .position(holds)
            .and_then(|at| self.runs.remove(at))
        else {
            return false;
        };
        self.granules -= run.len() as u32;
        self.push(wanted.end..run.end);
        self.push(run.start..wanted.start);
        true
    }

    /// Granules of `wanted` in any run.
    pub(crate) fn count_in(&self, wanted: &Range<u32>) -> u32 {
        self.runs
            .iter()
            .map(|run| overlap(run, wanted).len() as u32)
            .sum()
    }

    /// Takes `wanted` out of all runs; what is left of each stays in its place. Gives back
    /// how many granules that were.
    pub(crate) fn absorb(&mut self, wanted: &Range<u32>) -> u32 {
        let mut gone = 0;
        let mut index = 0;
        while let Some(run) = self.runs.get(index).cloned() {
            let common = overlap(&run, wanted);
            if common.is_empty() {
                index += 1;
                continue;
            }
            gone += common.len() as u32;
            self.runs.remove(index);
            for rest in [common.end..run.end, run.start..common.start] {
                if !rest.is_empty() {
                    self.runs.insert(index, rest);
                    index += 1;
                }
            }
        }
        self.granules -= gone;
        gone
    }
}

fn overlap(one: &Range<u32>, other: &Range<u32>) -> Range<u32> {
    let start = one.start.max(other.start);
    start..one.end.min(other.end).max(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_splits_its_run_and_an_overlap_is_absorbed() {
        let mut lru = Lru::new(2);
        lru.push(0..10);
        lru.push(20..24);
        assert!(!lru.hit(&(8..12)));
        assert!(lru.hit(&(4..6)));
        assert_eq!(
            lru.runs().cloned().collect::<Vec<_>>(),
            [0..4, 6..10, 20..24]
        );
        assert_eq!(lru.overflow(), Some(20..24));
        assert_eq!(lru.overflow(), None);
        assert_eq!(lru.count_in(&(2..8)), 4);
        assert_eq!(lru.absorb(&(2..8)), 4);
        assert_eq!(lru.runs().cloned().collect::<Vec<_>>(), [0..2, 8..10]);
        assert_eq!(lru.granules(), 4);
    }
}
