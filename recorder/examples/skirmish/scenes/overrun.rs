//! *overrun*: [`InventoryGrid::write_slots`] writes one slot too many.
//!
//! A grid has 13 slots, 52 bytes; the fourteenth slot lies past its end, in the four
//! bytes by which malloc rounds it up. So nothing breaks and nobody notices, unless a guard
//! stands there. With `--crash` the write goes on into the neighbouring block, a
//! shield, whose owner finds its seal broken and aborts.
#![expect(
    unsafe_code,
    reason = "a write past a block's end is what this scene is about"
)]

use super::{Facts, Played};
use crate::game::Game;
use crate::truth::hexadecimal;
use serde::Serialize;

const GRIDS: usize = 64;
const SLOTS: usize = 13;
/// What is written: unlike anything a game holds.
const PATTERN: u32 = 0x5A5A_5A5A;
const SEAL: u64 = 0x5EA1_5EA1_5EA1_5EA1;

/// The truth about the damage.
#[derive(Serialize)]
pub struct OverrunFacts {
    /// The frame in which it is done; none if it is done after the last one, by `--crash`.
    frame: Option<u64>,
    crashes: bool,
    writer: &'static str,
    /// The block whose end is not respected.
    block: BlockFacts,
    /// The next one of this game's blocks in memory.
    neighbour: BlockFacts,
    damaged_from: String,
    damaged_bytes: u64,
    pattern: String,
}

#[derive(Serialize)]
struct BlockFacts {
    address: String,
    size: u64,
    site: &'static str,
}

/// Plays the scene.
pub fn play(game: &mut Game, crash: bool) -> Played {
    let startup = game.begin_phase("startup");
    let stock = Stock::open();
    let victim = stock.closest_pair();
    game.end_phase(startup);
    let damage_frame = game.frames * 2 / 3;
    while game.running() {
        game.work.micros(1000);
        if !crash && game.frame() == damage_frame {
            stock.grids[victim.grid].write_slots(SLOTS + 1);
        }
        game.end_frame();
    }
    if crash {
        game.finish();
        let facts = victim.facts(None, victim.reach());
        return Played {
            last_act: Some(Box::new(move || stock.overrun_and_crash(&victim))),
            ..Played::quietly(Facts::Overrun(facts))
        };
    }
    drop(stock);
    game.finish();
    Played::quietly(Facts::Overrun(victim.facts(Some(damage_frame), 1)))
}

/// All grids and shields, in pairs.
struct Stock {
    grids: Vec<InventoryGrid>,
    shields: Vec<Box<Shield>>,
}

impl Stock {
    fn open() -> Self {
        let mut stock = Self {
            grids: Vec::with_capacity(GRIDS),
            shields: Vec::with_capacity(GRIDS),
        };
        for number in 0..GRIDS {
            stock.grids.push(InventoryGrid::open());
            stock.shields.push(Shield::raise(number as u64));
        }
        stock
    }

    /// The grid that has a shield closest behind it.
    fn closest_pair(&self) -> Victim {
        let mut closest = Victim::default();
        for (grid, slots) in self.grids.iter().map(InventoryGrid::address).enumerate() {
            for (shield, at) in self.shields.iter().map(|s| s.address()).enumerate() {
                let distance = at.wrapping_sub(slots);
                if closest.shield_address == 0 || distance < closest.distance() {
                    closest = Victim {
                        grid,
                        grid_address: slots,
                        shield,
                        shield_address: at,
                    };
                }
            }
        }
        closest
    }

    /// Damages the neighbour, which is then looked at.
    fn overrun_and_crash(&self, victim: &Victim) {
        self.grids[victim.grid].write_slots(SLOTS + victim.reach());
        self.shields[victim.shield].absorb();
        eprintln!("skirmish: no shield lay behind a grid; the overrun had nothing to damage");
    }
}

/// Which grid, and which shield behind it.
#[derive(Default)]
struct Victim {
    grid: usize,
    grid_address: usize,
    shield: usize,
    shield_address: usize,
}

impl Victim {
    fn distance(&self) -> usize {
        self.shield_address.wrapping_sub(self.grid_address)
    }

    /// Slots past the end, up to and including the shield's seal. An allocator that puts
    /// them far apart is spared: memory between might not be there.
    fn reach(&self) -> usize {
        let distance = self.distance();
        if distance > 1024 {
            return 1;
        }
        (distance + size_of::<u64>()) / size_of::<u32>() - SLOTS
    }

    fn facts(&self, frame: Option<u64>, slots_too_many: usize) -> OverrunFacts {
        let end = self.grid_address + SLOTS * size_of::<u32>();
        OverrunFacts {
            frame,
            crashes: frame.is_none(),
            writer: "InventoryGrid::write_slots",
            block: BlockFacts {
                address: hexadecimal(self.grid_address),
                size: (SLOTS * size_of::<u32>()) as u64,
                site: "InventoryGrid::open",
            },
            neighbour: BlockFacts {
                address: hexadecimal(self.shield_address),
                size: size_of::<Shield>() as u64,
                site: "Shield::raise",
            },
            damaged_from: hexadecimal(end),
            damaged_bytes: (slots_too_many * size_of::<u32>()) as u64,
            pattern: hexadecimal(PATTERN as usize),
        }
    }
}

/// What a player carries.
struct InventoryGrid {
    slots: Box<[u32; SLOTS]>,
}

impl InventoryGrid {
    #[inline(never)]
    fn open() -> Self {
        Self {
            slots: Box::new([0; SLOTS]),
        }
    }

    fn address(&self) -> usize {
        self.slots.as_ptr().addr()
    }

    /// Fills `count` slots, and believes the caller that there are so many.
    #[inline(never)]
    fn write_slots(&self, count: usize) {
        let slots = self.slots.as_ptr().cast_mut();
        for slot in 0..count {
            // SAFETY: none for slots from SLOTS on; this is the fault that heapreel finds.
            // The first of them lies in what glibc rounds 52 bytes up to, so the default
            // run damages nothing of anybody. More are written only by `--crash`, as far as
            // a block that is known to be live, and the process then ends. Volatile, so
            // that the compiler keeps the writes and assumes nothing from them.
            unsafe { slots.add(slot).write_volatile(PATTERN) };
        }
    }
}

/// What protects a player; as long as a grid, so that the allocator puts both in line.
struct Shield {
    seal: u64,
    strength: [u32; 11],
}

impl Shield {
    #[inline(never)]
    fn raise(number: u64) -> Box<Self> {
        Box::new(Self {
            seal: SEAL,
            strength: [number as u32; 11],
        })
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Looks whether the seal is whole, and aborts if not.
    #[inline(never)]
    fn absorb(&self) {
        // SAFETY: a plain read of our own field, volatile because the write that broke it
        // went through another block's pointer, which the compiler need not believe.
        let seal = unsafe { std::ptr::from_ref(&self.seal).read_volatile() };
        if seal != SEAL {
            let address = self.address();
            eprintln!("skirmish: shield at {address:#x} is damaged: seal {seal:#x}");
            std::process::abort();
        }
        std::hint::black_box(self.strength);
    }
}
