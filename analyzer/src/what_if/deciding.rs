//! Which size classes decide what a model holds at its peak.

use super::call::Call;
use super::replay::Watch;
use super::run::Run;
use heapreel_models::{Holding, Placed};
use serde::Serialize;
use std::collections::BTreeMap;

/// Finds the call after which a model holds most; while it holds the same, the one after
/// which most of that is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeldMost {
    calls: u64,
    /// Bytes held, bytes asked for.
    most: (u64, u64),
    at: u64,
}

impl HeldMost {
    /// Ends a run at that call.
    pub fn until(&self) -> Until {
        Until(self.at)
    }
}

impl Watch for HeldMost {
    fn after(&mut self, run: &Run, _call: &Call, _placed: Option<Placed>) {
        self.calls += 1;
        let books = run.ledger();
        let now = (books.model().held(), books.requested());
        if now > self.most {
            (self.most, self.at) = (now, self.calls);
        }
    }
}

/// Ends a run after so many calls.
#[derive(Clone, Copy, Debug)]
pub struct Until(u64);

impl Watch for Until {
    fn stops_before(&mut self, _call: &Call) -> bool {
        self.0 == 0
    }

    fn after(&mut self, _run: &Run, _call: &Call, _placed: Option<Placed>) {
        self.0 -= 1;
    }
}

/// What is held at one moment, by the sizes of the blocks it is held for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HeldBySize {
    /// Those of which blocks are live, smallest first.
    pub classes: Vec<ClassHeld>,
    /// Bytes held for no live block: free ranges, pages kept, tables.
    pub idle: u64,
}

/// What is held for the live blocks of one size class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClassHeld {
    /// Bytes of the smallest request in it.
    pub from: u64,
    /// Bytes of the greatest.
    pub to: u64,
    /// Live blocks.
    pub blocks: u64,
    /// Bytes they asked for.
    pub requested: u64,
    /// Bytes held for them: their own, headers, and free places on pages for blocks like
    /// them.
    pub held: u64,
}

impl ClassHeld {
    /// Bytes held beyond those asked for.
    pub fn excess(&self) -> u64 {
        self.held.saturating_sub(self.requested)
    }
}

/// What a run's model holds now.
pub fn held_by_size(run: &Run) -> HeldBySize {
    let model = run.ledger().model();
    let mut classes = BTreeMap::new();
    let mut for_blocks = 0;
    for Holding { requested, held } in model.holdings() {
        let (from, to) = size_class(requested);
        let class = classes.entry(to).or_insert(ClassHeld {
            from,
            to,
            blocks: 0,
            requested: 0,
            held: 0,
        });
        class.blocks += 1;
        class.requested += requested;
        class.held += held;
        for_blocks += held;
    }
    HeldBySize {
        classes: classes.into_values().collect(),
        idle: model.held().saturating_sub(for_blocks),
    }
}

/// The first and last size of a class: steps of 16 bytes up to 128, then four for each
/// doubling.
fn size_class(bytes: u64) -> (u64, u64) {
    let last = bytes.saturating_sub(1);
    let step = match last.checked_ilog2() {
        Some(log2) if log2 > 6 => 1 << (log2 - 2),
        _ => 16,
    };
    let from = last / step * step;
    (from + 1, from + step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_lie_side_by_side() {
        assert_eq!(size_class(0), (1, 16));
        assert_eq!(size_class(16), (1, 16));
        assert_eq!(size_class(17), (17, 32));
        assert_eq!(size_class(128), (113, 128));
        assert_eq!(size_class(129), (129, 160));
        assert_eq!(size_class(1 << 40), ((7 << 37) + 1, 1 << 40));
        let mut expected = 1;
        while expected < 1 << 20 {
            let (from, to) = size_class(expected);
            assert_eq!(from, expected);
            assert_eq!(size_class(to), (from, to));
            expected = to + 1;
        }
    }
}
