//! One model on its way through a trace.

use super::call::{Call, CallKind};
use super::registry::Built;
use super::scene::Scene;
use heapreel_format::Trace;
use heapreel_models::ledger::{Ledger, Options};
use heapreel_models::recorded::Announced;
use heapreel_models::{BlockId, FORESIGHT, Placed, Recorded, SegmentId};
use std::any::Any;
use std::collections::{BTreeMap, HashMap};

/// A model with its books.
pub struct Run {
    label: String,
    ledger: Ledger,
    segments: Vec<String>,
    budgets: BTreeMap<String, u64>,
    asks_lifetimes: bool,
    /// Names of announced heaps by their numbers.
    heaps: BTreeMap<u32, String>,
    /// Ranges of announced heaps, for when those are gone.
    ranges: HashMap<u32, Vec<u64>>,
}

impl Run {
    /// A run that has seen nothing. `label` is what people call it.
    pub fn new(label: String, built: Built, trace: &Trace, scene: &Scene) -> Run {
        let segments = scene.segments.iter().enumerate();
        let budgets = segments.filter_map(|(id, it)| {
            let budget = built.budgets.get(&it.name).copied().or(it.budget)?;
            Some((SegmentId(id as u16), budget))
        });
        let options = Options {
            budgets: budgets.collect(),
            ..Options::default()
        };
        let heaps = trace.definitions().heaps.iter();
        Run {
            label,
            ledger: Ledger::new(built.model, options),
            segments: built.segments,
            budgets: built.budgets,
            asks_lifetimes: built.asks_lifetimes,
            heaps: heaps.map(|(id, (name, ..))| (id.0, name.clone())).collect(),
            ranges: HashMap::new(),
        }
    }

    /// What people call it.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Whether it wants to know of each block how long it will live.
    pub fn asks_lifetimes(&self) -> bool {
        self.asks_lifetimes
    }

    /// The books and the model.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Names of the segments that the model numbers; empty where it knows none.
    pub fn segments(&self) -> &[String] {
        &self.segments
    }

    /// What a segment may have: its capacity or its budget.
    pub fn budget(&self, segment: &str) -> Option<u64> {
        self.budgets.get(segment).copied()
    }

    /// These calls are made next: see [`Model::expect`](heapreel_models::Model::expect).
    pub fn expect(&self, calls: &[Call]) {
        let mut ids = [BlockId(0); FORESIGHT];
        let old = calls
            .iter()
            .filter(|call| matches!(call.kind, CallKind::Free | CallKind::Reallocate));
        let mut count = 0;
        for (id, call) in ids.iter_mut().zip(old) {
            *id = call.block();
            count += 1;
        }
        self.ledger.expect(&ids[..count]);
    }

    /// Makes a call; tells where a block came to lie.
    #[inline]
    pub fn play(&mut self, call: &Call) -> Option<Placed> {
        let at = call.moment();
        match call.kind {
            CallKind::Allocate | CallKind::AllocateZeroed => {
                self.ledger.recorded(call.address, call.size);
                self.ledger.allocate(&at, call.block(), call.request()).ok()
            }
            CallKind::Reallocate => {
                self.ledger.recorded(call.address, call.size);
                let placed = self.ledger.reallocate(&at, call.block(), call.size);
                placed.ok().flatten()
            }
            CallKind::Free => {
                self.ledger.free(&at, call.block());
                None
            }
            _ => {
                self.play_rare(call);
                None
            }
        }
    }

    #[cold]
    fn play_rare(&mut self, call: &Call) {
        let at = call.moment();
        match call.kind {
            CallKind::ThreadStart(role) => self.ledger.thread_start(&at, role),
            CallKind::ThreadExit => self.ledger.thread_exit(&at),
            CallKind::FrameEnd => self.ledger.frame_end(&at),
            CallKind::HeapRange | CallKind::HeapDestroyed | CallKind::Resident => {
                self.tell_recorded(call);
            }
            CallKind::Allocate
            | CallKind::AllocateZeroed
            | CallKind::Reallocate
            | CallKind::Free => {}
        }
    }

    /// What only the recorded blocks' model listens to.
    fn tell_recorded(&mut self, call: &Call) {
        let model: &mut dyn Any = self.ledger.model_mut();
        let Some(recorded) = model.downcast_mut::<Recorded>() else {
            return;
        };
        match call.kind {
            CallKind::HeapRange => {
                let name = self.heaps.get(&call.id);
                recorded.announce(Announced {
                    name: name.cloned().unwrap_or_else(|| format!("heap {}", call.id)),
                    start: call.address,
                    bytes: call.size,
                    segment: None,
                });
                self.ranges.entry(call.id).or_default().push(call.address);
            }
            CallKind::HeapDestroyed => {
                let ranges = self.ranges.remove(&call.id).unwrap_or_default();
                ranges
                    .into_iter()
                    .for_each(|start| recorded.withdraw(start));
            }
            _ => recorded.mapped(call.size),
        }
    }
}
