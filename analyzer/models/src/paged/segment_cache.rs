//! Free segments that all threads share: the lowest free slot is filled, the lowest filled
//! slot is emptied.

/// Slots that a push looks through for memory to give back.
const PROBES: usize = 16;

/// A cached segment.
#[derive(Clone, Copy, Debug)]
struct Slot {
    segment: u32,
    /// When its memory goes, in milliseconds; 0: never.
    expire: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct SegmentCache {
    slots: Vec<Option<Slot>>,
    limit: usize,
}

impl SegmentCache {
    pub(crate) fn new(limit: u32) -> SegmentCache {
        SegmentCache {
            slots: Vec::new(),
            limit: limit as usize,
        }
    }

    /// Keeps a segment whose memory goes at `expire`; false if there is no room.
    pub(crate) fn push(&mut self, segment: u32, expire: u64) -> bool {
        let slot = Some(Slot { segment, expire });
        match self.slots.iter().position(Option::is_none) {
            Some(free) => self.slots[free] = slot,
            None if self.slots.len() < self.limit => self.slots.push(slot),
            None => return false,
        }
        true
    }

    pub(crate) fn pop(&mut self) -> Option<u32> {
        self.slots
            .iter_mut()
            .find_map(Option::take)
            .map(|slot| slot.segment)
    }

    /// Up to five segments whose time has come, of those in some slots that depend on `now`;
    /// `None` for a slot that is not due.
    pub(crate) fn expired(&mut self, now: u64) -> impl Iterator<Item = u32> + '_ {
        let start = spread(now) as usize % self.limit.max(1);
        let limit = self.limit.max(1);
        let probed = (0..PROBES.min(limit)).map(move |probe| (start + probe) % limit);
        probed
            .filter_map(move |slot| {
                let slot = self.slots.get_mut(slot)?.as_mut()?;
                let due = slot.expire != 0 && now >= slot.expire;
                due.then(|| {
                    slot.expire = 0;
                    slot.segment
                })
            })
            .take(5)
    }
}

/// A number without pattern from a time.
fn spread(now: u64) -> u64 {
    let mixed = (now ^ (now >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}
