//! The ground, whose loading is the spike that allocation explains.

use super::FRAMES_PER_SECOND;
use crate::game::Game;
use crate::tally;
use crate::truth::SpikeTruth;
use std::mem::MaybeUninit;
use std::time::Instant;

/// The tiles of the region last entered.
pub struct Terrain {
    tiles: Vec<TerrainTile>,
    forget_from: u64,
}

impl Terrain {
    const TILES: usize = 12;

    /// None yet.
    pub fn new() -> Self {
        Self {
            tiles: Vec::with_capacity(Self::TILES),
            forget_from: 0,
        }
    }

    /// All tiles in one frame, as only a game without streaming does.
    #[inline(never)]
    pub fn enter_region(&mut self, game: &mut Game) {
        let (before, start) = (tally::this_thread(), Instant::now());
        for number in 0..Self::TILES {
            self.tiles.push(TerrainTile::load(number as u64));
        }
        let counts = tally::this_thread() - before;
        self.forget_from = game.frame() + 3 * FRAMES_PER_SECOND;
        game.note_spike(SpikeTruth {
            frame: game.frame(),
            reason: "a region's terrain is loaded in one frame",
            site: "TerrainTile::load",
            explained_by_allocation: true,
            allocations: counts.blocks_made(),
            bytes: counts.requested_bytes,
            nanos: start.elapsed().as_nanos() as u64,
        });
    }

    /// What the bodies stand on.
    pub fn ground(&self) -> usize {
        let tiles = self.tiles.iter();
        let patches = tiles.clone().filter_map(|tile| tile.patches.last());
        patches.map(|patch| usize::from(patch[0])).sum::<usize>()
            + tiles.map(|tile| tile.heights.len()).sum::<usize>()
    }

    /// Gives old tiles back one a frame, so that this is no spike.
    pub fn forget_one(&mut self, frame: u64) {
        if frame >= self.forget_from {
            self.tiles.pop();
        }
    }
}

/// A height, its slope and its surface.
#[repr(align(64))]
struct HeightSample {
    height: f32,
}

/// A piece of ground.
struct TerrainTile {
    heights: Box<[MaybeUninit<HeightSample>]>,
    patches: Vec<Box<[u8; 160]>>,
}

impl TerrainTile {
    const SAMPLES: usize = 1 << 16;
    const PATCHES: usize = 400;

    /// A large cleared block, which the aligned allocation clears itself, page by page,
    /// and a few hundred small ones.
    #[inline(never)]
    fn load(number: u64) -> Self {
        let mut heights = Box::<[HeightSample]>::new_zeroed_slice(Self::SAMPLES);
        for sample in heights.iter_mut().step_by(4096) {
            let height = number as f32;
            std::hint::black_box(sample.write(HeightSample { height }).height);
        }
        let mut patches = Vec::with_capacity(Self::PATCHES);
        patches.resize_with(Self::PATCHES, || Box::new([number as u8; 160]));
        Self { heights, patches }
    }
}
