//! What lives on from before a clip's beginning.

use super::stream::Records;
use crate::chunk::ChunkBase;
use crate::codec::{DeltaState, MAX_EVENT_BYTES, RecordWriter, StreamRecord};
use crate::definition::{HeapId, NameId, StackId, ThreadId};
use crate::event::{Event, EventKind};
use crate::rare::{LiveBlock, Rare};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Room for a rare record.
const RARE_BYTES: usize = MAX_EVENT_BYTES + 128;

#[derive(Default)]
pub(super) struct Carried {
    blocks: HashMap<u64, LiveBlock>,
    /// Phases that are open, in the order they began.
    phases: Vec<(ThreadId, NameId)>,
    /// Of announced heaps: ranges and live blocks, as the records that made them.
    heaps: BTreeMap<(HeapId, u64), (ThreadId, Rare)>,
}

impl Carried {
    /// Applies records that are no longer kept, of all streams together.
    pub(super) fn apply(&mut self, records: &[(ThreadId, StreamRecord)]) {
        let mut changes = Vec::new();
        for (at, (_, record)) in records.iter().enumerate() {
            match record {
                StreamRecord::Event(event) => match event.kind {
                    EventKind::Alloc | EventKind::AllocZeroed => {
                        changes.push((event.end, true, at));
                    }
                    EventKind::Dealloc => changes.push((event.start, false, at)),
                    EventKind::Realloc => {
                        changes.push((event.start, false, at));
                        changes.push((event.end, true, at));
                    }
                    EventKind::FailedAlloc | EventKind::FailedRealloc => {}
                },
                StreamRecord::Rare(key, _) => changes.push((*key, true, at)),
                StreamRecord::State(..) | StreamRecord::Entered(..) | StreamRecord::Rewind => {}
            }
        }
        // Stable: of equals those of a stream stay in its order.
        changes.sort_by_key(|(key, acquires, _)| (*key, *acquires));
        let mut moving = HashMap::new();
        for (_, acquires, at) in changes {
            match &records[at] {
                (_, StreamRecord::Event(event)) if acquires => {
                    self.acquire(event, moving.remove(&at));
                }
                (_, StreamRecord::Event(event)) => {
                    let is_move = event.kind == EventKind::Realloc;
                    let address = if is_move {
                        event.old_address
                    } else {
                        event.address
                    };
                    if let Some(block) = self.blocks.remove(&address) {
                        moving.insert(at, block.key);
                    }
                }
                (thread, StreamRecord::Rare(_, rare)) => self.rare(*thread, *rare),
                _ => {}
            }
        }
    }

    /// A reallocated block keeps the time of its birth.
    fn acquire(&mut self, event: &Event, born: Option<u64>) {
        let block = LiveBlock {
            address: event.address,
            size: event.size,
            key: born.unwrap_or(event.end),
            stack: event.stack,
            thread: event.thread,
            context: event.context,
            segment: event.segment,
        };
        self.blocks.insert(event.address, block);
    }

    fn rare(&mut self, thread: ThreadId, rare: Rare) {
        match rare {
            Rare::PhaseBegin { name } => self.phases.push((thread, name)),
            Rare::PhaseEnd { name } => {
                if let Some(at) = self.phases.iter().rposition(|(_, open)| *open == name) {
                    self.phases.remove(at);
                }
            }
            Rare::HeapRange { heap, address, .. } | Rare::HeapAlloc { heap, address, .. } => {
                self.heaps.insert((heap, address), (thread, rare));
            }
            Rare::HeapRealloc {
                heap,
                old_address,
                address,
                size,
                stack,
            } => {
                self.heaps.remove(&(heap, old_address));
                let block = Rare::HeapAlloc {
                    heap,
                    address,
                    size,
                    stack,
                };
                self.heaps.insert((heap, address), (thread, block));
            }
            Rare::HeapFree { heap, address } => _ = self.heaps.remove(&(heap, address)),
            Rare::HeapReset { heap } => self
                .heaps
                .retain(|(of, _), (_, it)| *of != heap || matches!(it, Rare::HeapRange { .. })),
            Rare::HeapDestroy { heap } => self.heaps.retain(|(of, _), _| *of != heap),
            // Of their own moment only.
            Rare::FrameMark { .. }
            | Rare::Mark { .. }
            | Rare::SlowCall { .. }
            | Rare::Cost { .. }
            | Rare::Os { .. }
            | Rare::Resident { .. }
            | Rare::LimitReached { .. }
            | Rare::Damaged { .. }
            | Rare::Lost { .. }
            | Rare::Recording { .. }
            | Rare::ThreadExit => {}
        }
    }

    /// The live blocks, in the order of their addresses.
    pub(super) fn blocks(&self) -> Vec<LiveBlock> {
        let mut blocks: Vec<_> = self.blocks.values().copied().collect();
        blocks.sort_unstable_by_key(|block| block.address);
        blocks
    }

    /// The backtraces of all that lives on.
    pub(super) fn stacks(&self) -> HashSet<StackId> {
        let of_heaps = self.heaps.values().filter_map(|(_, rare)| match rare {
            Rare::HeapAlloc { stack, .. } => Some(*stack),
            _ => None,
        });
        let of_blocks = self.blocks.values().map(|block| block.stack);
        of_blocks.chain(of_heaps).collect()
    }

    /// Open phases and what announced heaps hold, as records at `key` by thread.
    pub(super) fn rares(&self, key: u64) -> HashMap<ThreadId, Records> {
        let mut all: HashMap<ThreadId, Records> = HashMap::new();
        let phases = self.phases.iter();
        let phases = phases.map(|(thread, name)| (*thread, Rare::PhaseBegin { name: *name }));
        for (thread, rare) in phases.chain(self.heaps.values().copied()) {
            let base = ChunkBase {
                key,
                ..ChunkBase::default()
            };
            let (base, count, records) = all.entry(thread).or_insert((base, 0, Vec::new()));
            let mut state = DeltaState {
                key: base.key,
                address: 0,
            };
            let mut room = [0; RARE_BYTES];
            let length = RecordWriter::new(&mut room).rare(&mut state, key, &rare);
            records.extend_from_slice(&room[..length]);
            *count += 1;
        }
        all
    }
}
