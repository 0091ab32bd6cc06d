//! The workload of `game.cpp` in Rust: four threads, 12 to 20 stack frames deep, blocks
//! that live for a call, a frame, until another thread frees them or for up to 29 frames.
//!
//! usage: speed [frames] [allocations per frame], or speed tight [pairs]
#![allow(
    unsafe_code,
    reason = "the workload is calls of the allocator, made by hand"
)]

use std::alloc::{Layout, System, alloc, dealloc};
use std::hint::black_box;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

#[cfg(feature = "linked")]
#[global_allocator]
static ALLOCATOR: heapreel::Recorder<System> = heapreel::Recorder::system();
#[cfg(not(feature = "linked"))]
#[global_allocator]
static ALLOCATOR: System = System;

const THREADS: usize = 4;
/// The longest life of a block, in frames.
const LIVES: usize = 30;

/// xorshift64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as u32
    }
}

struct Block {
    place: *mut u8,
    layout: Layout,
}

// SAFETY: a block belongs to whoever holds it.
unsafe impl Send for Block {}

struct Worker {
    random: Random,
    mallocs: u64,
    frees: u64,
    check: u64,
    of_this_frame: Vec<Block>,
    for_another: Vec<Block>,
    living: Vec<Vec<Block>>,
}

impl Worker {
    fn new(number: usize) -> Worker {
        Worker {
            random: Random(0x0123_4567 * (number as u64 + 1) + 99),
            mallocs: 0,
            frees: 0,
            check: 0,
            of_this_frame: Vec::new(),
            for_another: Vec::new(),
            living: (0..LIVES).map(|_| Vec::new()).collect(),
        }
    }

    /// A size that goes with the call path, one in 5,000 of a mebibyte or more.
    fn size(&mut self, system: usize, depth: usize) -> usize {
        let drawn = self.random.next() as usize;
        if drawn.is_multiple_of(5000) {
            return (1 << 20) + (drawn >> 16 & 15) * 65536;
        }
        let path = 1 + system + 8 * depth + 256 * (drawn & 3);
        let mut of_path = Random(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(path as u64));
        of_path.next();
        let (kind, within) = (of_path.next() % 100, of_path.next() as usize);
        match kind {
            0..55 => 16 + within % 112,
            55..85 => 128 + within % 384,
            _ => 512 + within % 3584,
        }
    }

    #[inline(never)]
    fn make(&mut self, size: usize) -> Block {
        let layout = Layout::from_size_align(size, 8).expect("a valid layout");
        self.mallocs += 1;
        // SAFETY: sizes are at least 16; the block is written within its bounds.
        unsafe {
            let place = alloc(layout);
            place.cast::<usize>().write_volatile(size);
            place.add(size - 1).write_volatile(1);
            Block { place, layout }
        }
    }

    #[inline(never)]
    fn free(&mut self, block: Block) {
        self.frees += 1;
        // SAFETY: the block is held here alone, and was made by `make`.
        unsafe {
            self.check += block.place.cast::<usize>().read_volatile() as u64;
            dealloc(block.place, block.layout);
        }
    }

    #[inline(never)]
    fn leaf<const SYSTEM: usize, const DEPTH: usize>(&mut self, frame: usize) -> u64 {
        for _ in 0..4 {
            let size = self.size(SYSTEM, DEPTH);
            let block = self.make(size);
            match self.random.next() & 15 {
                0..6 => self.free(block),
                6..10 => self.of_this_frame.push(block),
                10..14 => self.for_another.push(block),
                _ => {
                    let end = frame + 1 + self.random.next() as usize % (LIVES - 1);
                    self.living[end % LIVES].push(block);
                }
            }
        }
        black_box(SYSTEM as u64)
    }

    #[inline(never)]
    fn frame(&mut self, inbox: &mut Vec<Block>, frame: usize, allocations: usize) {
        inbox.drain(..).for_each(|block| self.free(block));
        let mut ending = std::mem::take(&mut self.living[frame % LIVES]);
        ending.drain(..).for_each(|block| self.free(block));
        self.living[frame % LIVES] = ending;
        for _ in 0..allocations / 4 {
            let depth = 6 + (self.random.next() % 9) as i32;
            self.check += match self.random.next() & 3 {
                0 => level_16::<0, 1>(self, depth, frame),
                1 => level_16::<2, 3>(self, depth, frame),
                2 => level_16::<4, 5>(self, depth, frame),
                _ => level_16::<6, 7>(self, depth, frame),
            };
            self.check = (0..100).fold(self.check, |hash, i| {
                (hash ^ i).wrapping_mul(0x9E37_79B9_7F4A_7C15)
            }) >> 32;
        }
        let mut ending = std::mem::take(&mut self.of_this_frame);
        ending.drain(..).for_each(|block| self.free(block));
        self.of_this_frame = ending;
    }
}

/// A function that calls the next one, as itself or as its sister.
macro_rules! level {
    ($name:ident, $next:ident, $depth:literal) => {
        #[inline(never)]
        fn $name<const THIS: usize, const OTHER: usize>(
            worker: &mut Worker,
            want: i32,
            frame: usize,
        ) -> u64 {
            let below = if want <= 0 {
                worker.leaf::<THIS, $depth>(frame)
            } else if $depth % 2 == 0 && worker.random.next() & 1 == 1 {
                $next::<OTHER, THIS>(worker, want - 1, frame)
            } else {
                $next::<THIS, OTHER>(worker, want - 1, frame)
            };
            below + black_box(1)
        }
    };
}

level!(level_16, level_15, 16);
level!(level_15, level_14, 15);
level!(level_14, level_13, 14);
level!(level_13, level_12, 13);
level!(level_12, level_11, 12);
level!(level_11, level_10, 11);
level!(level_10, level_9, 10);
level!(level_9, level_8, 9);
level!(level_8, level_7, 8);
level!(level_7, level_6, 7);
level!(level_6, level_5, 6);
level!(level_5, level_4, 5);
level!(level_4, level_3, 4);
level!(level_3, level_2, 3);
level!(level_2, level_1, 2);

#[inline(never)]
fn level_1<const THIS: usize, const OTHER: usize>(
    worker: &mut Worker,
    _want: i32,
    frame: usize,
) -> u64 {
    worker.leaf::<THIS, 1>(frame) + black_box(1)
}

type Frame = (usize, Vec<Block>);

/// Works on frames as they come; each answer is what the next thread is to free.
fn work(number: usize, frames: &Receiver<Frame>, done: &Sender<Vec<Block>>, each: usize) -> Worker {
    let mut worker = Worker::new(number);
    while let Ok((frame, mut inbox)) = frames.recv() {
        worker.frame(&mut inbox, frame, each);
        if done
            .send(std::mem::replace(&mut worker.for_another, inbox))
            .is_err()
        {
            break;
        }
    }
    worker
}

fn game(frames: usize, each: usize) -> (u64, u64, u64) {
    let (mut go, mut done, mut threads) = (Vec::new(), Vec::new(), Vec::new());
    for number in 1..THREADS {
        let (frame, frames) = channel::<Frame>();
        let (answer, answers) = channel();
        go.push(frame);
        done.push(answers);
        threads.push(std::thread::spawn(move || {
            work(number, &frames, &answer, each)
        }));
    }
    let mut main = Worker::new(0);
    let mut boxes: Vec<Vec<Block>> = (0..THREADS).map(|_| Vec::new()).collect();
    for frame in 0..frames {
        for (sender, inbox) in go.iter().zip(&mut boxes[1..]) {
            sender
                .send((frame, std::mem::take(inbox)))
                .expect("a worker");
        }
        let mut inbox = std::mem::take(&mut boxes[0]);
        main.frame(&mut inbox, frame, each);
        boxes[1] = std::mem::replace(&mut main.for_another, inbox);
        for (number, answers) in done.iter().enumerate() {
            boxes[(number + 2) % THREADS] = answers.recv().expect("a worker's answer");
        }
    }
    drop(go);
    let workers = threads
        .into_iter()
        .map(|thread| thread.join().expect("a worker"));
    workers
        .chain([main])
        .fold((0, 0, 0), |(mallocs, frees, check), w| {
            (mallocs + w.mallocs, frees + w.frees, check ^ w.check)
        })
}

fn tight(pairs: u64) -> (u64, u64, u64) {
    let layout = Layout::from_size_align(64, 8).expect("a valid layout");
    for _ in 0..pairs {
        // SAFETY: the layout is not empty, and the block is freed as it was made.
        unsafe { dealloc(black_box(alloc(layout)), layout) };
    }
    (pairs, pairs, 0)
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |index: usize, default| {
        arguments
            .get(index)
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let begin = Instant::now();
    let (mallocs, frees, check) = if arguments.get(1).is_some_and(|word| word == "tight") {
        tight(number(2, 20_000_000) as u64)
    } else {
        game(number(1, 600), number(2, 20_000) / THREADS)
    };
    let seconds = begin.elapsed().as_secs_f64();
    println!("wall_s={seconds:.3} mallocs={mallocs} frees={frees} check={check:x}");
}
