//! What each segment of the engine is charged, and whether that is within its budget.

use serde::Serialize;

use crate::counters::Counters;
use crate::model::{Moment, SegmentId};

/// A stretch of time in which a segment was over its budget: a warning, never a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BudgetExceeded {
    /// Number of the segment.
    pub segment: u16,
    /// The game frame in which it began.
    pub frame: u32,
    /// When it began, in nanoseconds since the trace began.
    pub from_nanos: u64,
    /// When it ended, if it did.
    pub until_nanos: Option<u64>,
    /// The most bytes that were charged meanwhile.
    pub peak: u64,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    requested: u64,
    charged: u64,
    blocks: u64,
    peak: u64,
    budget: u64,
    over: bool,
}

/// All segments' accounts, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budgets {
    accounts: Vec<Account>,
    exceeded: Vec<BudgetExceeded>,
}

const UNLIMITED: Account = Account {
    requested: 0,
    charged: 0,
    blocks: 0,
    peak: 0,
    budget: u64::MAX,
    over: false,
};

impl Budgets {
    /// Sets what a segment may be charged.
    pub(crate) fn set_budget(&mut self, segment: SegmentId, budget: u64) {
        self.account(segment).budget = budget;
    }

    #[inline]
    pub(crate) fn charge(&mut self, segment: SegmentId, requested: u64, bytes: u64, at: &Moment) {
        let account = self.account(segment);
        account.requested += requested;
        account.charged += bytes;
        account.blocks += 1;
        if account.charged > account.peak {
            account.peak = account.charged;
        }
        if account.charged > account.budget {
            self.over(segment, at);
        }
    }

    #[inline]
    pub(crate) fn credit(&mut self, segment: SegmentId, requested: u64, bytes: u64, at: &Moment) {
        let account = self.account(segment);
        account.requested -= requested;
        account.charged -= bytes;
        account.blocks -= 1;
        if account.over && account.charged <= account.budget {
            self.within(segment, at);
        }
    }

    /// A block of a segment changed its requested size in place.
    pub(crate) fn resize(&mut self, segment: SegmentId, before: u64, after: u64) {
        let account = self.account(segment);
        account.requested = account.requested - before + after;
    }

    /// The stretches over budget, in the order in which they began.
    pub(crate) fn exceeded(&self) -> &[BudgetExceeded] {
        &self.exceeded
    }

    /// Segments that were ever charged. Memory is shared by all of them, so each is given
    /// what its blocks take and no more.
    pub(crate) fn by_segment(&self) -> Vec<(SegmentId, Counters)> {
        let known = self
            .accounts
            .iter()
            .enumerate()
            .filter(|(_, account)| account.peak > 0);
        known
            .map(|(segment, account)| {
                let counters = Counters {
                    requested: account.requested,
                    used: account.charged,
                    held: account.charged,
                    peak_held: account.peak,
                    blocks: account.blocks,
                    ..Counters::default()
                };
                (SegmentId(segment as u16), counters)
            })
            .collect()
    }

    #[inline]
    fn account(&mut self, segment: SegmentId) -> &mut Account {
        let index = usize::from(segment.0);
        if index >= self.accounts.len() {
            self.accounts.resize(index + 1, UNLIMITED);
        }
        &mut self.accounts[index]
    }

    #[cold]
    fn over(&mut self, segment: SegmentId, at: &Moment) {
        let account = self.account(segment);
        let peak = account.charged;
        if !std::mem::replace(&mut account.over, true) {
            self.exceeded.push(BudgetExceeded {
                segment: segment.0,
                frame: at.frame,
                from_nanos: at.nanos,
                until_nanos: None,
                peak,
            });
        }
        let open = self.open(segment);
        open.peak = open.peak.max(peak);
    }

    #[cold]
    fn within(&mut self, segment: SegmentId, at: &Moment) {
        self.account(segment).over = false;
        self.open(segment).until_nanos = Some(at.nanos);
    }

    /// The stretch of a segment that is over its budget now.
    fn open(&mut self, segment: SegmentId) -> &mut BudgetExceeded {
        self.exceeded
            .iter_mut()
            .rfind(|stretch| stretch.segment == segment.0)
            .expect("a segment over its budget has a stretch")
    }
}
