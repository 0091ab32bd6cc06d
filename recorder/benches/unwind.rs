//! How long a walk takes: `cargo bench --bench unwind`.
//!
//! Prints nanoseconds per walk, the best and the median of rounds. The stack is
//! made by functions that keep no frame pointer unless the build is told to.

#[path = "../src/unwind/mod.rs"]
mod unwind;

use std::hint::black_box;
use std::time::Instant;

use unwind::{End, Frame, KnownStack, StackBounds, forget_modules, here, init, walk};

const ROUNDS: usize = 41;
const WALKS: usize = 20_000;

/// Ten functions of different shapes call each other in turn.
macro_rules! layers {
    ($($name:ident $words:literal $next:ident),*) => {$(
        #[inline(never)]
        fn $name(depth: usize, then: &mut dyn FnMut()) -> u64 {
            let mut local = [depth as u64; $words];
            black_box(&mut local);
            if depth == 0 {
                then();
            } else {
                local[0] += $next(depth - 1, then);
            }
            black_box(&local);
            local[0]
        }
    )*};
}

layers!(
    layer0 3 layer1, layer1 9 layer2, layer2 2 layer3, layer3 17 layer4, layer4 5 layer5,
    layer5 1 layer6, layer6 30 layer7, layer7 4 layer8, layer8 8 layer9, layer9 12 layer0
);

fn main() {
    init();
    println!("frames  best ns  median ns");
    for limit in [1, 8, 16, 32, 64] {
        report(&format!("{limit:6}"), limit, &mut walk_many);
    }
    report("cold 16", 16, &mut walk_cold);
    report("same 16", 16, &mut update_many);
    let varied = varied();
    println!(
        "varied  {:8.1} whole, {:.1} from what is known, {:.1} stack frames on average",
        varied.whole, varied.known, varied.frames
    );
}

fn report(name: &str, limit: usize, measure: &mut dyn FnMut(usize) -> f64) {
    let mut rounds = Vec::new();
    layer0(limit + 4, &mut || {
        rounds = (0..ROUNDS).map(|_| measure(limit)).collect();
    });
    rounds.sort_by(f64::total_cmp);
    println!("{name} {:8.1} {:8.1}", rounds[0], rounds[ROUNDS / 2]);
}

fn walk_many(limit: usize) -> f64 {
    let mut bounds = StackBounds::EMPTY;
    let mut out = [0; 64];
    let out = &mut out[..limit];
    let begin = Instant::now();
    for _ in 0..WALKS {
        let walk = walk(here(), &mut bounds, out);
        assert_eq!(walk.len, limit);
        black_box(&*out);
    }
    begin.elapsed().as_nanos() as f64 / WALKS as f64
}

/// The stack is known and has not changed.
fn update_many(limit: usize) -> f64 {
    let mut bounds = StackBounds::EMPTY;
    let mut known = Box::new(KnownStack::EMPTY);
    let begin = Instant::now();
    for _ in 0..WALKS {
        black_box(known.update(Frame::from(here()), limit, &mut bounds));
    }
    begin.elapsed().as_nanos() as f64 / WALKS as f64
}

/// Every rule is compiled anew.
fn walk_cold(limit: usize) -> f64 {
    const COLD_WALKS: usize = 100;
    let mut bounds = StackBounds::EMPTY;
    let mut out = [0; 64];
    let begin = Instant::now();
    for _ in 0..COLD_WALKS {
        forget_modules();
        walk(here(), &mut bounds, &mut out[..limit]);
        black_box(&out);
    }
    begin.elapsed().as_nanos() as f64 / COLD_WALKS as f64
}

/// Ever other stacks: each function calls one of two others, as a random number
/// says, so that neither rules nor branches repeat as they do above.
fn varied() -> Varied {
    const STACKS: usize = 200_000;
    let mut state = VariedState {
        random: 1,
        whole: 0,
        updates: 0,
        frames: 0,
        bounds: StackBounds::EMPTY,
        known: Box::new(KnownStack::EMPTY),
    };
    for _ in 0..STACKS {
        let depth = 12 + state.next() % 5;
        choose0(depth, &mut state);
    }
    let begin = Instant::now();
    for _ in 0..STACKS {
        black_box(Instant::now().elapsed());
    }
    let clock = begin.elapsed().as_nanos() as f64 / STACKS as f64 / 2.0;
    let each = |sum: f64| sum / STACKS as f64;
    Varied {
        whole: each(state.whole as f64) - clock,
        known: each(state.updates as f64) - clock,
        frames: each(state.frames as f64),
    }
}

/// Means a stack: nanoseconds of a whole walk and of one that begins with what is known,
/// and stack frames.
struct Varied {
    whole: f64,
    known: f64,
    frames: f64,
}

struct VariedState {
    random: u64,
    whole: u128,
    updates: u128,
    frames: usize,
    bounds: StackBounds,
    known: Box<KnownStack>,
}

impl VariedState {
    fn next(&mut self) -> u64 {
        self.random = self
            .random
            .wrapping_mul(0x5851_F42D_4C95_7F2D)
            .wrapping_add(1);
        self.random >> 40
    }

    #[inline(never)]
    fn measure(&mut self) -> u64 {
        let mut out = [0; 64];
        let begin = Instant::now();
        let walk = walk(here(), &mut self.bounds, &mut out);
        self.whole += begin.elapsed().as_nanos();
        let begin = Instant::now();
        black_box(
            self.known
                .update(Frame::from(here()), out.len(), &mut self.bounds),
        );
        self.updates += begin.elapsed().as_nanos();
        self.frames += walk.len;
        assert_eq!(walk.ended, End::Outermost);
        out[0]
    }
}

macro_rules! choices {
    ($($name:ident $words:literal $left:ident $right:ident),*) => {$(
        #[inline(never)]
        fn $name(depth: u64, state: &mut VariedState) -> u64 {
            let mut local = [depth; $words];
            black_box(&mut local);
            local[0] += if depth == 0 {
                state.measure()
            } else if state.next() % 2 == 0 {
                $left(depth - 1, state)
            } else {
                $right(depth - 1, state)
            };
            black_box(&local);
            local[0]
        }
    )*};
}

choices!(
    choose0 3 choose1 choose5, choose1 9 choose2 choose7, choose2 2 choose3 choose0,
    choose3 17 choose4 choose1, choose4 5 choose6 choose5, choose5 1 choose7 choose2,
    choose6 30 choose0 choose3, choose7 4 choose6 choose4
);
