//! How long each block lives, for rules that ask: a pass over the trace before the pass.
//!
//! A call that allocates is told by its place among those calls: the feeder makes the same
//! ones in the same order whenever it is fed the same trace. This takes four bytes for each
//! of them, the only thing here that grows with the length of a trace.

use super::call::{Call, CallKind};
use super::feeder::Feeder;
use super::replay::feed;
use super::scene::Scene;
use crate::replay::with_batches;
use heapreel_format::{ReadError, Trace};
use heapreel_models::Moment;

/// For each allocation the frames that end before its block is freed.
pub(super) fn lifetimes(
    trace: &Trace,
    scene: &Scene,
    exits: Vec<(u64, u32)>,
) -> Result<Vec<u32>, ReadError> {
    let mut feeder = Feeder::new(trace, scene, exits, Vec::new());
    let mut found = Found::default();
    with_batches(trace, &scene.dense, |batch| {
        feed(&mut feeder, batch);
        feeder.take_calls().iter().for_each(|call| found.take(call));
        true
    })?;
    Ok(found.lifetimes)
}

#[derive(Default)]
struct Found {
    lifetimes: Vec<u32>,
    /// By a block's number: its allocation's place, and the frames that had ended.
    born: Vec<(usize, u32)>,
    frames: u32,
}

impl Found {
    fn take(&mut self, call: &Call) {
        match call.kind {
            CallKind::Allocate | CallKind::AllocateZeroed => self.allocate(call.id as usize),
            CallKind::Free => {
                let (place, frames) = self.born[call.id as usize];
                self.lifetimes[place] = self.frames - frames;
            }
            CallKind::FrameEnd => self.frames += 1,
            _ => {}
        }
    }

    fn allocate(&mut self, id: usize) {
        if id >= self.born.len() {
            self.born.resize(id + 1, (0, 0));
        }
        self.born[id] = (self.lifetimes.len(), self.frames);
        self.lifetimes.push(Moment::FOREVER);
    }
}
