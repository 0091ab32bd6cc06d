//! What both tallying programs do: eight threads allocate through every call of
//! `GlobalAlloc`, hand blocks to one another, end and come back.
//!
//! [`Counting`] stands below whatever records, so it sees each call of this program and
//! of its runtime, and nothing of the recorder's. Between the two marks its count and
//! the trace's must be equal to the unit.

use std::alloc::{GlobalAlloc, Layout, System, alloc, alloc_zeroed, dealloc, realloc};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// Threads alive at once in each round.
pub const THREADS: u64 = 8;

/// The system's allocator with a count of its calls.
pub struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static REALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static COPIES: AtomicU64 = AtomicU64::new(0);
static DEALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static FAILED: AtomicU64 = AtomicU64::new(0);
static REQUESTED_BYTES: AtomicU64 = AtomicU64::new(0);

fn count_acquired(counter: &AtomicU64, block: *mut u8, size: usize) -> *mut u8 {
    if block.is_null() {
        FAILED.fetch_add(1, Relaxed);
    } else {
        counter.fetch_add(1, Relaxed);
        REQUESTED_BYTES.fetch_add(size as u64, Relaxed);
    }
    block
}

// SAFETY: every call goes to `System` with the caller's own arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps `GlobalAlloc`'s contract.
        let block = unsafe { System.alloc(layout) };
        count_acquired(&ALLOCATIONS, block, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let block = unsafe { System.alloc_zeroed(layout) };
        count_acquired(&ALLOCATIONS, block, layout.size())
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as above.
        let moved = unsafe { System.realloc(block, layout, new_size) };
        if !moved.is_null() && (layout.align() > 16 || layout.align() > new_size) {
            COPIES.fetch_add(1, Relaxed);
        }
        count_acquired(&REALLOCATIONS, moved, new_size)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        DEALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

/// The counters at one instant.
#[derive(Clone, Copy)]
pub struct Tally {
    allocations: u64,
    reallocations: u64,
    copies: u64,
    deallocations: u64,
    failed: u64,
    requested_bytes: u64,
}

impl Tally {
    fn now() -> Self {
        Self {
            allocations: ALLOCATIONS.load(SeqCst),
            reallocations: REALLOCATIONS.load(SeqCst),
            copies: COPIES.load(SeqCst),
            deallocations: DEALLOCATIONS.load(SeqCst),
            failed: FAILED.load(SeqCst),
            requested_bytes: REQUESTED_BYTES.load(SeqCst),
        }
    }

    /// What happened since `earlier`, as one JSON line. `reallocations_by_copy` are those
    /// that std's `System` makes of an allocation, a copy and a deallocation, because
    /// C's realloc knows no alignment: below `malloc` they are seen as these two.
    pub fn print_since(self, earlier: Self) {
        println!(
            "{{\"allocations\":{},\"reallocations\":{},\"reallocations_by_copy\":{},\
             \"deallocations\":{},\"failed_allocations\":{},\"requested_bytes\":{}}}",
            self.allocations - earlier.allocations,
            self.reallocations - earlier.reallocations,
            self.copies - earlier.copies,
            self.deallocations - earlier.deallocations,
            self.failed - earlier.failed,
            self.requested_bytes - earlier.requested_bytes,
        );
    }
}

/// Plays a warm-up round, then `rounds` rounds between the marks "tally begin" and
/// "tally end", and prints the tally. `round` starts [`THREADS`] threads that each call
/// [`work`] with the seed it was given and their own number, and joins them.
pub fn play(rounds: u64, seed: u64, mark: impl Fn(&str), round: impl Fn(u64)) {
    round(seed);
    mark("tally begin");
    let before = Tally::now();
    for number in 1..=rounds {
        round(seed + number);
    }
    let after = Tally::now();
    mark("tally end");
    after.print_since(before);
}

/// Rounds, steps per thread and round, and seed from the command line, with defaults.
pub fn arguments() -> (u64, u64, u64) {
    let mut numbers = std::env::args()
        .skip(1)
        .map(|a| a.parse().expect("a number"));
    let mut next = |default| numbers.next().unwrap_or(default);
    (next(5), next(2000), next(1))
}

/// Begins every block that this program allocates by hand.
#[repr(C)]
struct Block {
    size: usize,
    align: usize,
}

const SLOTS: usize = 256;
static EXCHANGE: [AtomicPtr<Block>; SLOTS] = [const { AtomicPtr::new(null_mut()) }; SLOTS];

/// One thread's share of a round.
pub fn work(steps: u64, seed: u64, thread: u64) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ ((thread + 1) << 32 | 1));
    for step in 0..steps {
        let mut mine = make(&mut random);
        if step % 5 == 0 {
            mine = resize(mine, random.size());
        }
        if step % 97 == 0 {
            fail();
            collections(&mut random);
        }
        // What comes out was as a rule made by another thread, maybe one long gone.
        let slot = &EXCHANGE[random.next() as usize % SLOTS];
        if let Some(other) = NonNull::new(slot.swap(mine.as_ptr(), SeqCst)) {
            let other = if step % 3 == 0 {
                resize(other, random.size())
            } else {
                other
            };
            release(other);
        }
    }
}

fn make(random: &mut Random) -> NonNull<Block> {
    let align = if random.next().is_multiple_of(4) {
        16 << (random.next() % 9)
    } else {
        8
    };
    let layout = Layout::from_size_align(random.size(), align).expect("a valid layout");
    let zeroed = random.next().is_multiple_of(3);
    // SAFETY: the layout is not empty.
    let raw = unsafe {
        if zeroed {
            alloc_zeroed(layout)
        } else {
            alloc(layout)
        }
    };
    label(raw, layout)
}

fn label(raw: *mut u8, layout: Layout) -> NonNull<Block> {
    let block = NonNull::new(raw.cast::<Block>()).expect("memory for a small block");
    let header = Block {
        size: layout.size(),
        align: layout.align(),
    };
    // SAFETY: the block is ours, at least 16 bytes long and 8-aligned.
    unsafe { block.write(header) };
    block
}

fn layout_of(block: NonNull<Block>) -> Layout {
    // SAFETY: whoever holds a block's address owns it, and `label` wrote its header.
    let header = unsafe { block.as_ref() };
    Layout::from_size_align(header.size, header.align).expect("a valid layout")
}

fn resize(block: NonNull<Block>, size: usize) -> NonNull<Block> {
    let layout = layout_of(block);
    // SAFETY: allocated with this layout; the new size is not zero.
    let raw = unsafe { realloc(block.as_ptr().cast(), layout, size) };
    label(
        raw,
        Layout::from_size_align(size, layout.align()).expect("a valid layout"),
    )
}

fn release(block: NonNull<Block>) {
    let layout = layout_of(block);
    // SAFETY: allocated with this layout and owned by us alone.
    unsafe { dealloc(block.as_ptr().cast(), layout) }
}

/// A call that fails leaves everything as it was.
fn fail() {
    let layout = Layout::from_size_align(isize::MAX as usize / 2, 8).expect("a valid layout");
    // SAFETY: the layout is not empty.
    let block = unsafe { alloc(std::hint::black_box(layout)) };
    assert!(std::hint::black_box(block).is_null());
}

/// What a program does without thinking: vectors that grow, strings, boxes.
fn collections(random: &mut Random) {
    let mut words = Vec::new();
    for _ in 0..random.next() % 40 {
        words.push(format!("word {}", random.next()));
    }
    words.shrink_to_fit();
    std::hint::black_box(Box::new(words));
}

/// xorshift64: small, fixed, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 16
    }

    /// Mostly small, now and then past the size from which glibc maps each block.
    fn size(&mut self) -> usize {
        let spread = match self.next() % 1000 {
            0..800 => 240,
            800..995 => 8000,
            _ => 300_000,
        };
        16 + (self.next() % spread) as usize
    }
}
