//! `mimalloc`: what mimalloc 2.0.3 would have done, address for address.
//!
//! Checked against the real one: for the golden traces every address modulo the segment
//! size is the same, and so is its count of committed bytes ([`Mimalloc::statistic`]).
//! Error only comes in through its clock (memory that goes back late) and through calls of
//! several threads at once, which a trace has put in a row.
//!
//! The real one's options are at their defaults in the preset `2.0.3-options`; the others
//! keep all memory, as in the runs that were compared.

mod parameters;

pub use parameters::Parameters;

use crate::address_space::AddressSpace;
use crate::counters::Counters;
use crate::model::{
    Block, BlockId, Failure, FailureCause, Holding, Model, Moment, Placed, Region, Request,
    SegmentId, ThreadRole,
};
use crate::page_source::PageSource;
use crate::paged::{Core, Sharing, Waste};
use crate::parameters::BadParameter;

/// The model of mimalloc.
#[derive(Clone)]
pub struct Mimalloc {
    core: Core<Box<dyn PageSource>>,
}

impl Mimalloc {
    /// A model that takes its memory from a window of addresses of its own.
    ///
    /// # Errors
    ///
    /// [`BadParameter`], where parameters do not go together.
    pub fn new(parameters: &Parameters) -> Result<Mimalloc, BadParameter> {
        let window = AddressSpace::new(parameters.base, 1 << 44);
        Mimalloc::with_source(parameters, Box::new(window))
    }

    /// A model that takes its memory from `source`.
    ///
    /// # Errors
    ///
    /// [`BadParameter`], where parameters do not go together.
    pub fn with_source(
        parameters: &Parameters,
        source: Box<dyn PageSource>,
    ) -> Result<Mimalloc, BadParameter> {
        let core = Core::new(parameters.rules()?, Sharing::None, source);
        Ok(Mimalloc { core })
    }

    /// What the real one reports as committed. It drifts: for a block with a segment of its
    /// own the statistic adds more than it later subtracts. [`Counters::held`] does not.
    pub fn statistic(&self) -> u64 {
        self.core.statistic()
    }

    /// Where held memory goes that is in no block. Linear in the number of segments' parts.
    pub fn waste(&self) -> Waste {
        self.core.waste()
    }

    /// Compares all sums with what is there, piece by piece. Linear in everything.
    ///
    /// # Errors
    ///
    /// What is not as it should be.
    pub fn audit(&self) -> Result<(), String> {
        self.core.audit()
    }

    fn failure(&self, request: Request) -> Failure {
        let counters = self.counters();
        Failure {
            cause: FailureCause::Exhausted,
            needed: request.size,
            free: counters.free,
            largest_free: 0,
        }
    }
}

impl Model for Mimalloc {
    fn allocate(&mut self, at: &Moment, id: BlockId, request: Request) -> Result<Placed, Failure> {
        if self.core.too_large(&request) {
            return Err(Failure {
                cause: FailureCause::TooLarge,
                ..self.failure(request)
            });
        }
        let placed = self
            .core
            .allocate(at, id, request)
            .map_err(|_| self.failure(request))?;
        if request.zeroed {
            self.core.tally.zeroed += request.size;
        }
        Ok(placed)
    }

    fn reallocate(&mut self, at: &Moment, id: BlockId, size: u64) -> Result<Placed, Failure> {
        let request = Request {
            size,
            align: 0,
            zeroed: false,
        };
        if self.core.too_large(&request) {
            return Err(Failure {
                cause: FailureCause::TooLarge,
                ..self.failure(request)
            });
        }
        self.core
            .reallocate(at, id, size)
            .map_err(|_| self.failure(request))
    }

    fn free(&mut self, at: &Moment, id: BlockId) {
        self.core.free(at, id);
    }

    fn thread_start(&mut self, at: &Moment, role: ThreadRole) {
        self.core.thread_start(at, role);
    }

    fn thread_exit(&mut self, at: &Moment) {
        self.core.leave_segments(at);
    }

    fn frame_end(&mut self, at: &Moment) {
        self.core.frame_end(at);
    }

    fn block(&self, id: BlockId) -> Option<Block> {
        self.core.block(id)
    }

    fn counters(&self) -> Counters {
        self.core.counters()
    }

    fn held(&self) -> u64 {
        self.core.tally.committed
    }

    fn by_segment(&self) -> Vec<(SegmentId, Counters)> {
        self.core.budgets.by_segment()
    }

    fn holdings(&self) -> Vec<Holding> {
        self.core.holdings()
    }

    fn regions(&self) -> Vec<Region> {
        self.core.regions()
    }

    fn comparable(&self, address: u64) -> u64 {
        address % self.core.rules.geometry.segment_bytes
    }

    /// The statistic `committed`.
    fn real_figures(&self) -> Vec<u64> {
        vec![self.statistic()]
    }

    fn checkpoint(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
