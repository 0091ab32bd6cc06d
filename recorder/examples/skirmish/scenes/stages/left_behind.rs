//! The 37 blocks that a visit leaves behind.

use crate::game::Game;
use crate::tally::{self, Counts};
use crate::truth::LeakTruth;

/// Tells the truth about `visits` visits that each left `left`.
pub fn note_leaks(game: &mut Game, visits: u64, left: Counts) {
    if left.blocks_made() == 0 {
        return;
    }
    for (site, blocks, size) in [
        (
            "EventBus::subscribe",
            EventBus::LISTENERS,
            size_of::<Listener>(),
        ),
        ("DecalPool::stamp", DecalPool::DECALS, size_of::<Decal>()),
    ] {
        game.note_leak(LeakTruth {
            site,
            times: visits,
            blocks_each: blocks,
            blocks: visits * blocks,
            bytes: visits * blocks * size as u64,
        });
    }
}

/// The 37 blocks of a visit.
pub fn leave_behind() -> Counts {
    let before = tally::this_thread();
    (0..EventBus::LISTENERS).for_each(EventBus::subscribe);
    (0..DecalPool::DECALS).for_each(DecalPool::stamp);
    tally::this_thread() - before
}

/// Tells everybody what happened.
struct EventBus;

struct Listener {
    event: u64,
    context: [u64; 5],
}

impl EventBus {
    const LISTENERS: u64 = 25;

    /// Nobody ever unsubscribes.
    #[inline(never)]
    fn subscribe(event: u64) {
        let listener = Box::leak(Box::new(Listener {
            event,
            context: [event; 5],
        }));
        std::hint::black_box((listener.event, listener.context));
    }
}

/// Scorch marks on walls.
struct DecalPool;

struct Decal {
    place: [f32; 12],
    texture: u64,
}

impl DecalPool {
    const DECALS: u64 = 12;

    /// The pool forgets whose wall it was.
    #[inline(never)]
    fn stamp(texture: u64) {
        let decal = Box::leak(Box::new(Decal {
            place: [texture as f32; 12],
            texture,
        }));
        std::hint::black_box((decal.place, decal.texture));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_leaves_thirty_seven_blocks() {
        let left = leave_behind();
        assert_eq!(left.blocks_made(), 37);
        assert_eq!(left.live_blocks(), 37);
        let bytes = 25 * size_of::<Listener>() + 12 * size_of::<Decal>();
        assert_eq!(left.requested_bytes, bytes as u64);
    }
}
