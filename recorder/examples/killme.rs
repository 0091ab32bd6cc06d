//! Works until it is killed, and says in a shared page which calls had returned.
//!
//! The page is a file, mapped shared, so what is stored there outlives the process.
//! Little-endian 64-bit numbers: the process id at 0, once all threads work; then for
//! thread `t` at 4096 + 128 t: allocations, reallocations, deallocations, requested bytes.
//! A number is stored after its call has returned, so the truth is at most one call per
//! thread ahead of it.
//!
//! ```text
//! HEAPREEL_OUT=t.hreel cargo run --release -p heapreel --example killme -- page
//! ```

#![expect(
    unsafe_code,
    reason = "blocks handled by hand, and a page that is shared"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::sync::Barrier;
use std::sync::atomic::{
    AtomicPtr, AtomicU64, Ordering::AcqRel, Ordering::Relaxed, Ordering::Release,
};

#[global_allocator]
static ALLOCATOR: heapreel::Recorder<System> = heapreel::Recorder::system();

const THREADS: usize = 8;
const PAGE_SIZE: usize = 64 * 1024;
const SLOTS: usize = 128;
static EXCHANGE: [AtomicPtr<usize>; SLOTS] = [const { AtomicPtr::new(null_mut()) }; SLOTS];

/// The whole page, each thread writing its own row.
#[repr(C)]
struct Page {
    process: AtomicU64,
    unused: [u8; 4096 - 8],
    rows: [Row; THREADS],
}

#[repr(C, align(128))]
struct Row {
    allocations: AtomicU64,
    reallocations: AtomicU64,
    deallocations: AtomicU64,
    requested_bytes: AtomicU64,
}

const _: () = assert!(std::mem::size_of::<Page>() <= PAGE_SIZE);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("usage: killme PAGE [seed]");
    let seed: u64 = arguments
        .next()
        .map_or(1, |text| text.parse().expect("a number"));
    let page = shared_page(&path);
    let begin = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for number in 1..THREADS {
            let begin = &begin;
            scope.spawn(move || {
                begin.wait(); // all are there, and have allocated what a thread needs
                begin.wait(); // the mark is set
                work(&page.rows[number], seed, number as u64)
            });
        }
        begin.wait();
        heapreel::mark("work begin");
        page.process.store(u64::from(std::process::id()), Release);
        begin.wait();
        work(&page.rows[0], seed, 0)
    });
}

fn shared_page(path: &str) -> &'static Page {
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .expect("the page's file");
    file.set_len(PAGE_SIZE as u64).expect("room for the page");
    // SAFETY: a fresh mapping; page-aligned, zeroed, never unmapped, written through atomics.
    unsafe {
        let (access, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let start = libc::mmap(null_mut(), PAGE_SIZE, access, shared, file.as_raw_fd(), 0);
        assert!(start != libc::MAP_FAILED, "the page is mapped");
        &*start.cast::<Page>()
    }
}

/// Each row has one writer, so no read-modify-write is needed.
fn bump(counter: &AtomicU64, by: usize) {
    counter.store(counter.load(Relaxed) + by as u64, Release);
}

fn work(row: &Row, seed: u64, number: u64) -> ! {
    let mut random =
        Random((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ ((number + 1) << 40 | 1));
    loop {
        let mut mine = make(row, random.size());
        if random.next().is_multiple_of(3) {
            mine = resize(row, mine, random.size());
        }
        let slot = &EXCHANGE[random.next() as usize % SLOTS];
        let other = slot.swap(mine, AcqRel);
        if !other.is_null() {
            drop_block(row, other);
        }
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 16).expect("a valid layout")
}

/// A block begins with its size.
fn make(row: &Row, size: usize) -> *mut usize {
    // SAFETY: the layout is not empty; the block has room for its size.
    unsafe {
        let block = ALLOCATOR.alloc(layout(size)).cast::<usize>();
        bump(&row.allocations, 1);
        bump(&row.requested_bytes, size);
        block.write(size);
        block
    }
}

fn resize(row: &Row, block: *mut usize, size: usize) -> *mut usize {
    // SAFETY: whoever took the block from the exchange owns it alone.
    unsafe {
        let old = layout(block.read());
        let block = ALLOCATOR.realloc(block.cast(), old, size).cast::<usize>();
        bump(&row.reallocations, 1);
        bump(&row.requested_bytes, size);
        block.write(size);
        block
    }
}

fn drop_block(row: &Row, block: *mut usize) {
    // SAFETY: as in `resize`.
    unsafe { ALLOCATOR.dealloc(block.cast(), layout(block.read())) };
    bump(&row.deallocations, 1);
}

/// xorshift64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 16
    }

    fn size(&mut self) -> usize {
        let most = if self.next().is_multiple_of(500) {
            200_000
        } else {
            600
        };
        16 + (self.next() % most) as usize
    }
}
