//! What is streamed: the assets, and how one is loaded.

use super::ASSETS;
use crate::random::Random;
use crate::tally::{self, Counts};
use crate::telemetry::{self, Context};

/// The assets' names, in order of their numbers.
pub struct Catalogue {
    /// Each as `kind_number`.
    pub names: Vec<String>,
}

impl Catalogue {
    /// All 200.
    pub fn new() -> Self {
        let kinds = [
            "rock", "tree", "house", "tower", "bridge", "ship", "cave", "shrine",
        ];
        let each = ASSETS / kinds.len();
        let numbered = |kind| (0..each).map(move |number| format!("{kind}_{number:02}"));
        Self {
            names: kinds.into_iter().flat_map(numbered).collect(),
        }
    }
}

/// What an asset occupies, without its proxy.
#[derive(Clone, Copy, Default)]
pub struct Footprint {
    /// How many.
    pub blocks: u64,
    /// Their requested bytes.
    pub bytes: u64,
}

/// Which asset to load, and how.
pub struct Order {
    /// Its number.
    pub number: usize,
    /// Decides all its sizes.
    pub seed: u64,
    /// Whether its textures are the finer ones.
    pub finer: bool,
    /// The level that it is loaded for.
    pub level: Context,
}

/// What a streaming thread hands over.
pub struct Loaded {
    /// The asset's number.
    pub number: usize,
    /// The asset.
    pub asset: Asset,
    /// What remains when the asset has gone.
    pub proxy: Proxy,
    /// The asset's share of both.
    pub footprint: Footprint,
}

/// Stands in for an asset that is far away.
pub struct Proxy {
    shape: Vec<u8>,
}

/// A thing in the world.
pub struct Asset {
    name: String,
    meshes: Vec<Vec<u8>>,
    textures: Vec<Vec<u8>>,
    nodes: Vec<Box<Node>>,
}

struct Node {
    transform: [f32; 16],
    parent: usize,
}

impl Asset {
    /// Large and small in turn, and the proxy among them.
    #[inline(never)]
    fn load(name: &str, dice: &mut Random, finer: bool, intensity: usize) -> (Self, Proxy) {
        let mut asset = Self {
            name: name.to_owned(),
            meshes: Vec::new(),
            textures: Vec::new(),
            nodes: Vec::new(),
        };
        asset.meshes.push(load_mesh(dice));
        asset.textures.push(load_texture(dice, finer));
        let proxy = Proxy::build(dice);
        asset.meshes.push(load_mesh(dice));
        asset.textures.push(load_texture(dice, finer));
        for parent in 0..dice.size(8..24) * intensity {
            asset.nodes.push(Node::new(parent));
        }
        (asset, proxy)
    }

    /// What the eye can tell apart.
    pub fn node_count(&self) -> usize {
        self.nodes.len() + self.meshes.len().min(self.textures.len())
    }

    /// Frees all of it, on whichever thread this is.
    #[inline(never)]
    pub fn unload(self) {
        let parents = self
            .nodes
            .iter()
            .map(|node| node.parent + node.transform.len());
        std::hint::black_box((self.name.len(), parents.sum::<usize>()));
    }
}

#[inline(never)]
fn load_mesh(dice: &mut Random) -> Vec<u8> {
    let mut mesh = Vec::with_capacity(dice.size(2048..24_576));
    mesh.extend_from_slice(&[1; 1024]);
    // The importer guessed too low; this is the reallocation.
    mesh.reserve_exact(dice.size(24_576..49_152));
    mesh
}

#[inline(never)]
fn load_texture(dice: &mut Random, finer: bool) -> Vec<u8> {
    let kibibytes = if finer {
        dice.size(96..768)
    } else {
        dice.size(64..384)
    };
    if dice.one_in(2) {
        vec![0; kibibytes << 10]
    } else {
        Vec::with_capacity(kibibytes << 10)
    }
}

impl Proxy {
    #[inline(never)]
    fn build(dice: &mut Random) -> Self {
        Self {
            shape: Vec::with_capacity(dice.size(64..512)),
        }
    }

    /// Its one block's size.
    pub fn bytes(&self) -> u64 {
        self.shape.capacity() as u64
    }
}

impl Node {
    #[inline(never)]
    fn new(parent: usize) -> Box<Self> {
        Box::new(Self {
            transform: [0.0; 16],
            parent,
        })
    }
}

/// Loads an asset in its own context within the level's, and measures it.
#[inline(never)]
pub fn load(order: &Order, name: &str, intensity: usize) -> Loaded {
    let _level = order.level.enter();
    let _asset = telemetry::asset(name);
    let before = tally::this_thread();
    let mut dice = Random::new(order.seed);
    let (asset, proxy) = Asset::load(name, &mut dice, order.finer, intensity);
    let counts = tally::this_thread() - before;
    Loaded {
        number: order.number,
        footprint: Footprint::without_proxy(counts, &proxy),
        asset,
        proxy,
    }
}

impl Footprint {
    fn without_proxy(counts: Counts, proxy: &Proxy) -> Self {
        Self {
            blocks: counts.live_blocks() as u64 - 1,
            bytes: counts.live_bytes() as u64 - proxy.bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_two_hundred_different_names() {
        let mut names = Catalogue::new().names;
        names.sort();
        names.dedup();
        assert_eq!(names.len(), ASSETS);
    }

    #[test]
    fn a_footprint_is_what_unloading_gives_back() {
        let order = Order {
            number: 3,
            seed: 1,
            finer: true,
            level: Context::NONE,
        };
        let loaded = load(&order, "rock_03", 1);
        let before = tally::this_thread();
        loaded.asset.unload();
        let counts = tally::this_thread() - before;
        assert_eq!(counts.deallocations, loaded.footprint.blocks);
        assert_eq!(counts.released_bytes, loaded.footprint.bytes);
    }
}
