//! What is noted while a model runs: who owns each block, what each segment held at most,
//! who owned one address, and how the free ranges looked as frames ended.

use super::figures::{Figures, by_segment};
use crate::what_if::{Call, CallKind, Run, Watch};
use heapreel_models::{Counters, Model, Placed};
use serde::Serialize;
use std::collections::BTreeMap;

/// When, where and by whom something was done to a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Act {
    /// Nanoseconds since the trace began.
    pub nanos: u64,
    /// The game frame.
    pub frame: u32,
    /// Position of the thread.
    pub thread: u32,
    /// Position of the backtrace.
    pub site: u32,
    /// Position of the context.
    pub context: u32,
    /// Number of the segment that the thread worked in.
    pub segment: u16,
}

impl Act {
    fn of(call: &Call) -> Act {
        Act {
            nanos: call.nanos,
            frame: call.frame,
            thread: call.thread,
            site: call.site,
            context: call.context,
            segment: call.segment,
        }
    }
}

/// Whose a block is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// Its allocation, or its last reallocation.
    pub allocated: Act,
    /// The segment that it counts for: the one of its first allocation.
    pub segment: u16,
    /// Bytes with rounding and header.
    pub charged: u64,
    /// Number of the allocation, from 1 over the whole replay.
    pub serial: u64,
}

/// A stretch of time in which a block held the watched address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenure {
    /// The block's number, used again once it is free.
    pub id: u32,
    /// Number of the allocation, from 1.
    pub serial: u64,
    /// First address of its payload.
    pub payload: u64,
    /// First address behind it.
    pub end: u64,
    /// Bytes that were asked for.
    pub requested: u64,
    /// Who allocated it.
    pub allocated: Act,
    /// Who freed it or moved it away; `None` while it lives.
    pub freed: Option<Act>,
}

/// The model as a frame ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The frame.
    pub frame: u64,
    /// When it ended.
    pub nanos: u64,
    /// The model's counters.
    pub counters: Counters,
    /// Requests that failed so far.
    pub failures: u64,
    /// All regions in use as one.
    pub whole: Figures,
    /// By segment, those that have regions of their own.
    pub segments: Vec<(u16, String, Figures)>,
}

/// The most that was live at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// Bytes now, headers and rounding included.
    pub now: u64,
    /// The most.
    pub bytes: u64,
    /// The frame of the most.
    pub frame: u32,
}

impl Peak {
    fn add(&mut self, bytes: u64, frame: u32) {
        self.now += bytes;
        if self.now > self.bytes {
            (self.bytes, self.frame) = (self.now, frame);
        }
    }
}

/// Where a run is to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Until {
    /// With the trace.
    #[default]
    End,
    /// When frames have ended so often; the stretch before the first mark counts as one.
    FrameEnds(u64),
    /// Before the first call after this instant, in nanoseconds since the trace began.
    Nanos(u64),
}

/// What is to be noted beside owners.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Where to stop.
    pub until: Until,
    /// A sample at every so many frames' end; 0 takes none.
    pub every: u64,
    /// An address whose owners are kept.
    pub address: Option<u64>,
    /// Bytes of a header that a block has in this model.
    pub header: u64,
    /// Names of the segments that the model's regions are numbered by.
    pub segments: Vec<String>,
}

/// The notes on one run.
#[derive(Clone, Debug, Default)]
pub struct Books {
    wanted: Wanted,
    owners: Vec<Option<Owner>>,
    serial: u64,
    /// Live bytes by segment.
    pub peaks: BTreeMap<u16, Peak>,
    /// Live bytes of all segments together.
    pub peak: Peak,
    /// Owners of the watched address, oldest first.
    pub tenures: Vec<Tenure>,
    /// Samples, in the order of their frames.
    pub samples: Vec<Sample>,
    /// The latest moment seen.
    pub now: Act,
    /// How often a frame ended; the stretch before the first mark counts as one.
    pub frame_ends: u64,
    done: bool,
}

impl Books {
    /// Empty books.
    pub fn new(wanted: Wanted) -> Books {
        Books {
            wanted,
            ..Books::default()
        }
    }

    /// Whose a live block is.
    pub fn owner(&self, id: u32) -> Option<&Owner> {
        self.owners.get(id as usize)?.as_ref()
    }

    /// All live blocks with their owners, by number.
    pub fn owners(&self) -> impl Iterator<Item = (u32, &Owner)> {
        let numbered = (0..).zip(&self.owners);
        numbered.filter_map(|(id, owner)| Some((id, owner.as_ref()?)))
    }

    /// Names of the segments that the model's regions are numbered by.
    pub fn segments(&self) -> &[String] {
        &self.wanted.segments
    }

    /// Bytes of a header that a block has in this model.
    pub fn header(&self) -> u64 {
        self.wanted.header
    }

    /// Whether the run came to where it was to stop.
    pub fn arrived(&self) -> bool {
        self.done || self.wanted.until == Until::End
    }

    fn enter(&mut self, call: &Call, placed: &Placed, header: u64) {
        let old = self.leave(call.id);
        if old.is_none() {
            self.serial += 1;
        }
        let owner = Owner {
            allocated: self.now,
            segment: old.map_or(call.segment, |old| old.segment),
            charged: placed.usable + header,
            serial: old.map_or(self.serial, |old| old.serial),
        };
        let index = call.id as usize;
        if index >= self.owners.len() {
            self.owners.resize(index + 1, None);
        }
        let peak = self.peaks.entry(owner.segment).or_default();
        peak.add(owner.charged, call.frame);
        self.peak.add(owner.charged, call.frame);
        self.owners[index] = Some(owner);
        self.note_tenure(call, placed, &owner);
    }

    fn note_tenure(&mut self, call: &Call, placed: &Placed, owner: &Owner) {
        let end = placed.address + placed.usable.max(call.size);
        let held = |address| (placed.address..end).contains(&address);
        if self.wanted.address.is_some_and(held) {
            self.tenures.push(Tenure {
                id: call.id,
                serial: owner.serial,
                payload: placed.address,
                end,
                requested: call.size,
                allocated: owner.allocated,
                freed: None,
            });
        }
    }

    fn leave(&mut self, id: u32) -> Option<Owner> {
        let owner = self.owners.get_mut(id as usize)?.take()?;
        self.peaks.entry(owner.segment).or_default().now -= owner.charged;
        self.peak.now -= owner.charged;
        let now = self.now;
        let last = self.tenures.iter_mut().rev().find(|past| past.id == id);
        if let Some(past) = last.filter(|past| past.freed.is_none()) {
            past.freed = Some(now);
        }
        Some(owner)
    }

    fn frame_end(&mut self, run: &Run, call: &Call) {
        self.frame_ends += 1;
        self.done |= self.wanted.until == Until::FrameEnds(self.frame_ends);
        // The first stretch lies before the first mark and is no frame.
        let Some(frame) = self.frame_ends.checked_sub(2) else {
            return;
        };
        if self.wanted.every > 0 && frame.is_multiple_of(self.wanted.every) {
            self.sample(run, call, frame);
        }
    }

    fn sample(&mut self, run: &Run, call: &Call, frame: u64) {
        let model = run.ledger().model();
        let header = self.wanted.header;
        let regions = model.regions();
        let in_use = regions
            .iter()
            .filter(|region| super::picture::in_use(region));
        self.samples.push(Sample {
            frame,
            nanos: call.nanos,
            counters: model.counters(),
            failures: run.ledger().tally().failures,
            whole: Figures::of(in_use, header),
            segments: by_segment(&regions, header, &self.wanted.segments),
        });
    }
}

impl Watch for Books {
    fn stops_before(&mut self, call: &Call) -> bool {
        if let Until::Nanos(last) = self.wanted.until {
            self.done |= call.nanos > last;
        }
        self.done
    }

    fn after(&mut self, run: &Run, call: &Call, placed: Option<Placed>) {
        self.now = Act::of(call);
        match (call.kind, placed) {
            (_, Some(placed)) => {
                let block = run.ledger().model().block(call.block());
                self.enter(call, &placed, block.map_or(0, |block| block.header));
            }
            (CallKind::Free, None) => _ = self.leave(call.id),
            (CallKind::FrameEnd, None) => self.frame_end(run, call),
            _ => {}
        }
    }

    fn done(&self) -> bool {
        self.done
    }
}

/// Bytes of a header that a small block has in a model that has seen nothing yet.
pub fn header_of(model: &dyn Model) -> u64 {
    use heapreel_models::{BlockId, Moment, Request};
    let (at, id) = (Moment::default(), BlockId(0));
    let request = Request {
        size: 1,
        align: 0,
        zeroed: false,
    };
    let mut probe = model.checkpoint();
    match probe.allocate(&at, id, request) {
        Ok(_) => probe.block(id).map_or(0, |block| block.header),
        Err(_) => 0,
    }
}
