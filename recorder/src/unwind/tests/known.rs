//! Backtraces that read only what has changed, compared with whole walks.

use std::cell::RefCell;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::coroutine::Stack;
use crate::unwind::{Frame, KnownStack, StackBounds, forget_modules, here, init, walk_from};

/// What a thread keeps between two backtraces.
struct Taker {
    known: Box<KnownStack>,
    bounds: StackBounds,
    unchanged: usize,
    taken: usize,
}

impl Taker {
    fn new() -> Self {
        init();
        Taker {
            known: Box::new(KnownStack::EMPTY),
            bounds: StackBounds::EMPTY,
            unchanged: 0,
            taken: 0,
        }
    }

    /// Takes the backtrace from `frame` both ways.
    fn take_from(&mut self, frame: Frame, depth: usize) {
        let unchanged = self.known.update(frame, depth, &mut self.bounds);
        let mut ours = vec![0; depth];
        let len = self.known.copy_to(&mut ours);
        ours.truncate(len);
        let mut whole = vec![0; depth];
        let len = walk_from(frame, &mut self.bounds, &mut whole).len;
        whole.truncate(len);
        assert_eq!(ours, whole, "backtrace {} of depth {depth}", self.taken);
        assert!(self.known.is(&whole, depth));
        self.taken += 1;
        self.unchanged += usize::from(unchanged);
    }

    #[inline(always)]
    fn take(&mut self, depth: usize) {
        self.take_from(Frame::from(here()), depth);
    }
}

/// Numbers without a pattern, the same in every run (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// What the functions below work with.
struct Walker {
    taker: Taker,
    numbers: Numbers,
    depth: usize,
    longest: usize,
}

type Layer = fn(&mut Walker, usize) -> u64;

/// Functions of different shapes, two of them with a stack frame that is aligned anew.
macro_rules! layers {
    ($($name:ident: $local:ty = $value:expr;)*) => {
        $(
            #[inline(never)]
            fn $name(walker: &mut Walker, left: usize) -> u64 {
                let mut local: $local = $value;
                black_box(&mut local);
                let sum = wander(walker, left);
                black_box(&local);
                sum + black_box(left) as u64
            }
        )*
        const LAYERS: &[Layer] = &[$($name),*];
    };
}

#[repr(align(64))]
struct Aligned([u64; 8]);

layers! {
    layer0: [u64; 1] = [1];
    layer1: [u64; 2] = [1; 2];
    layer2: [u64; 2] = [2; 2];
    layer3: [u64; 17] = [3; 17];
    layer4: Aligned = Aligned([4; 8]);
    layer5: [u64; 600] = [5; 600];
    layer6: [u64; 1] = [6];
}

/// Goes a few functions deeper, now and then, and takes backtraces on the way.
#[inline(always)]
fn wander(walker: &mut Walker, left: usize) -> u64 {
    let mut sum = 0;
    for _ in 0..walker.numbers.below(4) {
        walker.taker.take(walker.depth);
        if left > 0 {
            let layer = LAYERS[walker.numbers.below(LAYERS.len() as u64) as usize];
            sum += black_box(layer)(walker, left - 1);
        }
    }
    walker.taker.take(walker.depth);
    walker.longest = walker.longest.max(walker.taker.known.len());
    sum
}

fn walker(depth: usize) -> Walker {
    Walker {
        taker: Taker::new(),
        numbers: Numbers(0x1234_5678_9abc_def1),
        depth,
        longest: 0,
    }
}

#[test]
fn any_way_of_calling_gives_what_a_whole_walk_gives() {
    for depth in [1, 2, 5, 20, 64, 256] {
        let mut walker = walker(depth);
        while walker.taker.taken < 4_000 {
            layer0(&mut walker, 14);
        }
        // Neither all nor none: both ways are tested.
        assert!(walker.taker.unchanged > walker.taker.taken / 50);
        assert!(walker.taker.unchanged < walker.taker.taken * 9 / 10);
        assert!(walker.longest >= 15);
    }
}

#[inline(never)]
fn descend(walker: &mut Walker, left: usize) -> u64 {
    let before = black_box(left) as u64;
    if left.is_multiple_of(7) || left < 3 {
        walker.taker.take(walker.depth);
    }
    let deeper = if left == 0 {
        0
    } else {
        descend(walker, left - 1)
    };
    if left.is_multiple_of(5) {
        walker.taker.take(walker.depth);
    }
    before + deeper
}

/// Deeper than what is remembered, down and up again, and again beside what is left.
#[test]
fn recursion_beyond_what_is_remembered() {
    for depth in [3, 64, 256] {
        let mut walker = walker(depth);
        for levels in [2_000, 100, 700, 3, 513] {
            descend(&mut walker, levels);
            layer3(&mut walker, 4);
        }
    }
}

#[test]
fn the_same_place_again_is_unchanged() {
    let mut taker = Taker::new();
    let frame = Frame::from(here());
    assert!(!taker.known.update(frame, 64, &mut taker.bounds));
    for _ in 0..3 {
        assert!(taker.known.update(frame, 64, &mut taker.bounds));
    }
    taker.known.forget();
    assert!(!taker.known.update(frame, 64, &mut taker.bounds));
    forget_modules();
    assert!(!taker.known.update(frame, 64, &mut taker.bounds));
}

/// Functions that call `leave` at one depth of the stack from different callers: the
/// inner frames stay the same by return address and stack pointer.
#[inline(never)]
fn one_way(taker: &mut Taker) -> u64 {
    let local = black_box([1_u64; 3]);
    leaf(taker) + local[0]
}

#[inline(never)]
fn other_way(taker: &mut Taker) -> u64 {
    let local = black_box([2_u64; 3]);
    leaf(taker) + local[1]
}

#[inline(never)]
fn leaf(taker: &mut Taker) -> u64 {
    let local = black_box([3_u64; 2]);
    taker.take(64);
    local[0]
}

#[test]
fn equal_inner_frames_under_different_outer_ones() {
    let mut taker = Taker::new();
    let mut numbers = Numbers(7);
    for _ in 0..500 {
        let way: fn(&mut Taker) -> u64 = if numbers.below(2) == 0 {
            one_way
        } else {
            other_way
        };
        black_box(way)(&mut taker);
    }
    assert!(taker.unchanged > 100 && taker.unchanged < 400);
}

/// Frames that an unwinding left behind, with their return addresses, in unused stack.
#[test]
fn what_an_exception_left_is_not_taken_for_live() {
    let taker = RefCell::new(Taker::new());
    #[inline(never)]
    fn thrower(taker: &RefCell<Taker>, left: usize) -> u64 {
        let local = black_box([left as u64; 5]);
        taker.borrow_mut().take(64);
        if left == 0 {
            resume_unwind(Box::new(()));
        }
        thrower(taker, left - 1) + local[0]
    }
    for round in 0..40 {
        let thrown = catch_unwind(AssertUnwindSafe(|| thrower(&taker, round % 9)));
        assert!(thrown.is_err());
        taker.borrow_mut().take(64);
    }
}

#[test]
fn coroutines_between_frames_of_the_own_stack() {
    let mut taker = Taker::new();
    let mut stacks = [Stack::new(1 << 16), Stack::new(1 << 16)];
    for round in 0..30 {
        leaf(&mut taker);
        stacks[round % 2].run_alone(&mut || {
            one_way(&mut taker);
            other_way(&mut taker);
        });
        one_way(&mut taker);
    }
}

#[test]
fn a_wrong_memory_is_noticed() {
    let mut taker = Taker::new();
    taker.take(64);
    let mut whole = [0; 64];
    let len = taker.known.copy_to(&mut whole);
    assert!(taker.known.is(&whole[..len], 64));
    assert!(!taker.known.is(&whole[..len - 1], 64));
    whole[len - 1] += 1;
    assert!(!taker.known.is(&whole[..len], 64));
}
