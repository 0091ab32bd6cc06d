//! A level: what is loaded, played and given back.

use crate::random::Random;

/// All that belongs to a level.
pub struct Level {
    entities: Vec<Box<Entity>>,
    tiles: Vec<Vec<u8>>,
    scripts: Vec<String>,
}

struct Entity {
    place: [f32; 4],
    velocity: [f32; 4],
    health: u64,
}

impl Level {
    /// An empty one.
    pub fn new() -> Self {
        Self {
            entities: Vec::new(),
            tiles: Vec::new(),
            scripts: Vec::new(),
        }
    }

    /// A tile, some entities, two scripts.
    #[inline(never)]
    pub fn load_chunk(&mut self, chunk: u64, dice: &mut Random) {
        self.tiles.push(vec![chunk as u8; dice.size(4096..32_768)]);
        for _ in 0..dice.within(10..30) {
            self.entities.push(Entity::spawn(dice));
        }
        for line in 0..2 {
            self.scripts
                .push(format!("on_enter_chunk_{chunk} line {line}"));
        }
    }

    /// What a frame makes and throws away.
    #[inline(never)]
    pub fn think(&mut self, frame: u64) {
        let mut near = Vec::new();
        let entities = self.entities.iter_mut().skip(frame as usize % 7);
        for entity in entities.step_by(1 + frame as usize % 5) {
            entity.health = entity.health.saturating_sub(1);
            entity.place[0] += entity.velocity[0];
            near.push(entity.health);
        }
        std::hint::black_box(&near);
    }

    /// Keeps `rest` of what is left, of `rest + 1` parts.
    #[inline(never)]
    pub fn unload_share(&mut self, rest: u64) {
        let keep = |length: usize| length * rest as usize / (rest as usize + 1);
        self.entities.truncate(keep(self.entities.len()));
        self.tiles.truncate(keep(self.tiles.len()));
        self.scripts.truncate(keep(self.scripts.len()));
    }
}

impl Entity {
    #[inline(never)]
    fn spawn(dice: &mut Random) -> Box<Self> {
        Box::new(Self {
            place: [0.0; 4],
            velocity: [dice.within(0..10) as f32; 4],
            health: dice.within(50..100),
        })
    }
}
