//! Past owners: the last so many blocks that were freed, for lookups.

use serde::Serialize;

use crate::lookup::Actor;

/// A block that is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Past {
    /// First address of its payload.
    pub payload: u64,
    /// First address behind its payload.
    pub end: u64,
    /// Bytes that were asked for.
    pub requested: u64,
    /// Number of the allocation, counted from 1.
    pub serial: u64,
    /// Who allocated it.
    pub allocated: Actor,
    /// Who freed it.
    pub freed: Actor,
}

/// A ring of them.
#[derive(Clone, Debug)]
pub(super) struct History {
    ring: Vec<Past>,
    next: usize,
    capacity: usize,
}

impl History {
    pub(super) fn new(capacity: u32) -> History {
        History {
            ring: Vec::new(),
            next: 0,
            capacity: capacity as usize,
        }
    }

    pub(super) fn add(&mut self, past: Past) {
        if self.ring.len() < self.capacity {
            self.ring.push(past);
        } else if let Some(oldest) = self.ring.get_mut(self.next) {
            *oldest = past;
            self.next = if self.next + 1 == self.capacity {
                0
            } else {
                self.next + 1
            };
        }
    }

    /// Newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = &Past> {
        let (newer, older) = self.ring.split_at(self.next);
        newer.iter().rev().chain(older.iter().rev())
    }
}
