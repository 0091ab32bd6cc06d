//! Merges all streams of a trace into one sequence in key order.
//!
//! A run of steps is taken from the stream that is first as long as its keys stay
//! below the next stream's: threads that take turns cost one comparison a turn. At
//! equal keys program order holds within a stream, and releases come before
//! acquisitions of other streams.

use super::cursor::{Cursor, DecodeFaults, Workshop};
use super::names::Dense;
use super::step::{Step, StepKind};
use heapreel_format::{ChunkEntry, Rare, ReadError, Trace};

/// Steps of a batch: few enough for the processor's second-level cache.
pub(crate) const BATCH_STEPS: usize = 2048;

/// A stretch of the merged sequence.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Steps in key order.
    pub steps: Vec<Step>,
    /// Rare records that steps of kind [`StepKind::Rare`] point to.
    pub rares: Vec<Rare>,
}

impl Batch {
    /// Empties it and keeps its memory.
    pub fn clear(&mut self) {
        self.steps.clear();
        self.rares.clear();
    }
}

/// The merge of a trace's streams.
pub struct Merge<'a> {
    trace: &'a Trace,
    dense: &'a Dense,
    cursors: Vec<Cursor<'a>>,
    /// Streams that still have steps: a binary heap, the first step's stream in front.
    heap: Vec<Head>,
    shop: Workshop,
    last_key: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    key: u64,
    cursor: u32,
}

impl<'a> Merge<'a> {
    /// A merge that stands before the first step.
    ///
    /// # Errors
    ///
    /// [`ReadError::Io`]; damaged chunks are counted instead.
    pub fn new(trace: &'a Trace, dense: &'a Dense) -> Result<Self, ReadError> {
        let mut shop = Workshop::default();
        let mut cursors = Vec::new();
        for (number, chunks) in streams(trace.chunks()).enumerate() {
            cursors.push(Cursor::new(trace, dense, chunks, number as u32, &mut shop)?);
        }
        let in_flight = in_flight_steps(trace, dense, cursors.len() as u32);
        if !in_flight.is_empty() {
            cursors.push(Cursor::of_steps(in_flight));
        }
        let mut heap: Vec<_> = (0..cursors.len() as u32)
            .filter_map(|at| {
                Some(Head {
                    key: cursors[at as usize].rest().first()?.key,
                    cursor: at,
                })
            })
            .collect();
        // An ascending list is a heap.
        heap.sort_unstable();
        Ok(Merge {
            trace,
            dense,
            cursors,
            heap,
            shop,
            last_key: 0,
        })
    }

    /// Faults met so far.
    pub fn faults(&self) -> DecodeFaults {
        self.shop.faults
    }

    /// Fills `batch` with the next steps; false once there are none.
    ///
    /// # Errors
    ///
    /// [`ReadError::Io`].
    pub fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, ReadError> {
        batch.clear();
        batch.steps.reserve(BATCH_STEPS);
        while batch.steps.len() < BATCH_STEPS {
            let Some(first) = self.heap.first().copied() else {
                break;
            };
            let limit = self.second_key();
            if first.key < limit {
                self.take_run(0, limit, batch)?;
            } else {
                let at = self.first_of_equals(first.key);
                self.take_one(at, batch)?;
            }
        }
        Ok(!batch.steps.is_empty())
    }

    /// The least key of all streams but the first.
    #[inline]
    fn second_key(&self) -> u64 {
        match self.heap.as_slice() {
            [_, a, b, ..] => a.key.min(b.key),
            [_, a] => a.key,
            _ => u64::MAX,
        }
    }

    /// Takes the steps of the stream at `at` in the heap whose keys are below `limit`.
    #[inline]
    fn take_run(&mut self, at: usize, limit: u64, batch: &mut Batch) -> Result<(), ReadError> {
        let cursor = &mut self.cursors[self.heap[at].cursor as usize];
        cursor.prepare(self.trace, self.dense, &mut self.shop)?;
        let rest = cursor.rest();
        let room = (BATCH_STEPS - batch.steps.len()).min(rest.len());
        // A key of u64::MAX is below no limit, and must not be waited for.
        let count = run_length(&rest[..room], limit)
            .max(usize::from(limit == u64::MAX) * room)
            .max(1);
        self.take(at, count, batch)
    }

    /// Takes one step; of equal ones the order is decided anew for each.
    #[inline]
    fn take_one(&mut self, at: usize, batch: &mut Batch) -> Result<(), ReadError> {
        let cursor = &mut self.cursors[self.heap[at].cursor as usize];
        cursor.prepare(self.trace, self.dense, &mut self.shop)?;
        self.take(at, 1, batch)
    }

    #[inline]
    fn take(&mut self, at: usize, count: usize, batch: &mut Batch) -> Result<(), ReadError> {
        let cursor = &mut self.cursors[self.heap[at].cursor as usize];
        let run = &cursor.rest()[..count];
        if run[0].key < self.last_key {
            self.shop.faults.late_steps += run_length(run, self.last_key) as u64;
        }
        self.last_key = run[count - 1].key;
        let begin = batch.steps.len();
        batch.steps.extend_from_slice(run);
        for step in &mut batch.steps[begin..] {
            if step.kind == StepKind::Rare {
                let rare = cursor.rare(step);
                step.address = batch.rares.len() as u64;
                batch.rares.push(rare);
            }
        }
        let more = cursor.advance(count, self.trace, self.dense, &mut self.shop)?;
        match cursor.rest().first().filter(|_| more) {
            Some(step) => self.heap[at].key = step.key,
            None => _ = self.heap.swap_remove(at),
        }
        self.restore(at);
        Ok(())
    }

    /// Where in the heap the stream stands whose step comes first at this key.
    ///
    /// A stream that releases something at this key goes before one that does not:
    /// the other may acquire what it released.
    #[cold]
    fn first_of_equals(&self, key: u64) -> usize {
        let equals = self
            .heap
            .iter()
            .enumerate()
            .filter(|(_, head)| head.key == key);
        let rank = |head: &Head| {
            let rest = self.cursors[head.cursor as usize].rest();
            let same = rest.iter().take_while(|step| step.key == key);
            match same.clone().position(|step| step.kind.frees_an_address()) {
                Some(0) => (0, head.cursor),
                Some(_) => (1, head.cursor),
                None => (2, head.cursor),
            }
        };
        equals
            .min_by_key(|(_, head)| rank(head))
            .map_or(0, |(at, _)| at)
    }

    /// Restores the heap after the entry at `at` has grown or was replaced.
    #[inline]
    fn restore(&mut self, mut at: usize) {
        while at > 0
            && self
                .heap
                .get(at)
                .is_some_and(|head| *head < self.heap[(at - 1) / 2])
        {
            self.heap.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
        loop {
            let child = at * 2 + 1;
            let Some(mut least) = self.heap.get(child).copied() else {
                return;
            };
            let mut place = child;
            if let Some(right) = self.heap.get(child + 1).filter(|right| **right < least) {
                least = *right;
                place = child + 1;
            }
            if self.heap[at] <= least {
                return;
            }
            self.heap.swap(at, place);
            at = place;
        }
    }
}

/// How many steps at the front have keys below `limit`: looks at 1, 2, 4, 8 … first.
#[inline]
fn run_length(steps: &[Step], limit: u64) -> usize {
    let mut bound = 1;
    while bound < steps.len() && steps[bound - 1].key < limit {
        bound *= 2;
    }
    let from = bound / 2;
    let to = bound.min(steps.len());
    from + steps[from..to].partition_point(|step| step.key < limit)
}

/// The chunks of each stream.
fn streams(chunks: &[ChunkEntry]) -> impl Iterator<Item = &[ChunkEntry]> {
    chunks.chunk_by(|a, b| (a.header.thread, a.header.nested) == (b.header.thread, b.header.nested))
}

/// Calls that had begun and not returned: releases whose end is not known.
fn in_flight_steps(trace: &Trace, dense: &Dense, stream: u32) -> Vec<Step> {
    let steps = trace.in_flight().iter().map(|release| Step {
        address: release.address,
        thread: dense.thread(release.thread),
        stream,
        ..Step::blank(release.start, StepKind::ReleaseInFlight)
    });
    steps.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapreel_format::testing::TraceBuilder;

    fn merged(builder: TraceBuilder) -> Vec<Step> {
        let trace = Trace::from_bytes(builder.bytes()).unwrap();
        let dense = Dense::of(&trace);
        let mut merge = Merge::new(&trace, &dense).unwrap();
        let (mut batch, mut all) = (Batch::default(), Vec::new());
        while merge.next_batch(&mut batch).unwrap() {
            all.extend_from_slice(&batch.steps);
        }
        assert_eq!(merge.faults(), DecodeFaults::default());
        all
    }

    fn told(steps: &[Step]) -> Vec<(u64, StepKind, u64)> {
        steps.iter().map(|s| (s.key, s.kind, s.address)).collect()
    }

    #[test]
    fn an_acquisition_counts_when_it_returned_and_a_release_when_it_began() {
        let steps = merged(
            TraceBuilder::new()
                .alloc(1, 100, 200, 0x10, 8, 0)
                .free(1, 300, 400, 0x10)
                .alloc(2, 350, 390, 0x10, 8, 0),
        );
        let expected = [
            (200, StepKind::Alloc, 0x10),
            (300, StepKind::Release, 0x10),
            (390, StepKind::Alloc, 0x10),
        ];
        assert_eq!(told(&steps), expected);
    }

    #[test]
    fn a_reallocation_acts_twice() {
        let steps = merged(
            TraceBuilder::new()
                .alloc(1, 1, 2, 0x10, 8, 0)
                .realloc(1, 10, 30, 0x10, 0x20, 9, 0)
                .alloc(2, 15, 20, 0x10, 7, 0),
        );
        let expected = [
            (2, StepKind::Alloc, 0x10),
            (10, StepKind::MoveOut, 0x10),
            (20, StepKind::Alloc, 0x10),
            (30, StepKind::ReallocEnd, 0x20),
        ];
        assert_eq!(told(&steps), expected);
    }

    #[test]
    fn at_one_instant_releases_come_first() {
        let steps = merged(
            TraceBuilder::new()
                .alloc(1, 1, 2, 0x10, 8, 0)
                .alloc(1, 5, 10, 0x10, 8, 0)
                .alloc(2, 1, 3, 0x30, 8, 0)
                .free(2, 10, 11, 0x10),
        );
        assert_eq!(
            told(&steps)[2..],
            [(10, StepKind::Release, 0x10), (10, StepKind::Alloc, 0x10)]
        );
    }

    #[test]
    fn at_one_instant_program_order_holds_within_a_thread() {
        // Thread 2 gets back what thread 1 took and gave at the same instant.
        let steps = merged(
            TraceBuilder::new()
                .alloc(1, 5, 10, 0x10, 8, 0)
                .free(1, 10, 11, 0x20)
                .alloc(2, 5, 10, 0x20, 8, 0),
        );
        let expected = [
            (10, StepKind::Alloc, 0x10),
            (10, StepKind::Release, 0x20),
            (10, StepKind::Alloc, 0x20),
        ];
        assert_eq!(told(&steps), expected);
        let mirrored = merged(
            TraceBuilder::new()
                .alloc(2, 5, 10, 0x10, 8, 0)
                .free(2, 10, 11, 0x20)
                .alloc(1, 5, 10, 0x20, 8, 0),
        );
        assert_eq!(told(&mirrored), expected);
    }

    #[test]
    fn runs_are_measured_by_doubling() {
        let steps: Vec<_> = (0..100)
            .map(|key| Step::blank(key, StepKind::Alloc))
            .collect();
        for limit in 0..110 {
            assert_eq!(run_length(&steps, limit), (limit as usize).min(100));
        }
        assert_eq!(run_length(&[], 5), 0);
    }
}
