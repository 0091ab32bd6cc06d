//! Names that the operating system has for a recorded program's threads.

use super::proc;
use heapreel_format::spill::{SLOT_COUNT, SpillMap};
use heapreel_format::{Definition, ThreadId};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Threads rename themselves seldom: all are looked at again at each so many rounds.
const LOOK_AGAIN: u32 = 8;

/// What was last told of each thread.
#[derive(Default)]
pub struct ThreadNames {
    known: HashMap<u32, String>,
    met: u32,
    round: u32,
}

impl ThreadNames {
    /// Threads were met since the last look.
    pub fn has_new(&self, spill: &SpillMap) -> bool {
        spill.header().threads.load(Acquire) != self.met
    }

    /// Names that are new or have changed.
    pub fn look(&mut self, pid: u32, spill: &SpillMap) -> Vec<Definition<'static>> {
        self.met = spill.header().threads.load(Acquire);
        self.round += 1;
        let all = self.round.is_multiple_of(LOOK_AGAIN);
        let slots = (spill.header().slots_used.load(Acquire) as usize).min(SLOT_COUNT);
        let mut changed = Vec::new();
        for slot in (0..slots).map(|index| spill.slot(index)) {
            let thread = slot.thread.load(Acquire);
            if thread == 0 || (!all && self.known.contains_key(&thread)) {
                continue;
            }
            let Some(name) = proc::thread_name(pid, slot.tid.load(Relaxed)) else {
                continue;
            };
            if self.known.get(&thread) != Some(&name) {
                self.known.insert(thread, name.clone());
                changed.push(Definition::ThreadName {
                    id: ThreadId(thread),
                    name: Cow::Owned(name),
                });
            }
        }
        changed
    }
}
