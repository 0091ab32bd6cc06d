//! A program with the recorder inside that allocates in stretches, counts its calls, and
//! prints nothing but what must be the same whether or not it is recorded.
//!
//! ```text
//! HEAPREEL_OUT=stretches.hreel cargo run --release -p heapreel --example stretches -- 3 20000 4
//! ```
//!
//! Arguments: stretches, calls per thread and stretch, threads, exit code. Before each
//! stretch it prints "at N" and reads a line. Behind the mark "work begin"
//! nothing but the counted calls allocates: threads are there already, and output is written
//! without a buffer.

#![expect(unsafe_code, reason = "blocks handled by hand")]

use std::alloc::{Layout, alloc, dealloc, realloc};
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io::{Cursor, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::ptr::{NonNull, null_mut};
use std::sync::Barrier;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::AcqRel, Ordering::Relaxed};

#[global_allocator]
static ALLOCATOR: heapreel::Recorder<std::alloc::System> = heapreel::Recorder::system();

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static REALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static DEALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static REQUESTED_BYTES: AtomicU64 = AtomicU64::new(0);

const SLOTS: usize = 128;
static EXCHANGE: [AtomicPtr<usize>; SLOTS] = [const { AtomicPtr::new(null_mut()) }; SLOTS];

fn main() {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse().unwrap_or(0));
    let mut next = |default: usize| numbers.next().unwrap_or(default);
    let (stretches, calls, threads, code) = (next(3), next(20_000), next(4), next(7));
    // Leaked: the threads are still waiting for a stretch when the program exits.
    let barrier: &Barrier = Box::leak(Box::new(Barrier::new(threads + 1)));
    for thread in 0..threads {
        start(Box::new(Job {
            barrier,
            calls,
            random: Random((thread as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        }));
    }
    // All are there, and have what they need.
    barrier.wait();
    heapreel::mark("work begin");
    for number in 0..stretches {
        wait_for_line(number);
        barrier.wait();
        barrier.wait();
    }
    say(format_args!(
        "{{\"allocations\":{},\"reallocations\":{},\"deallocations\":{},\"requested_bytes\":{}}}\n",
        ALLOCATIONS.load(Relaxed),
        REALLOCATIONS.load(Relaxed),
        DEALLOCATIONS.load(Relaxed),
        REQUESTED_BYTES.load(Relaxed)
    ));
    unsafe extern "C" {
        fn exit(status: c_int) -> !;
    }
    // SAFETY: stdlib.h's function. std's own frees what its runtime has for this thread.
    unsafe { exit(code as c_int) };
}

struct Job {
    barrier: &'static Barrier,
    calls: usize,
    random: Random,
}

/// Without std, whose `spawn` leaves the main thread something to free when the program ends.
fn start(job: Box<Job>) {
    extern "C" fn body(job: *mut c_void) -> *mut c_void {
        // SAFETY: what `start` has made, for this thread alone.
        let job = unsafe { &mut *job.cast::<Job>() };
        job.barrier.wait();
        loop {
            job.barrier.wait();
            stretch(job.calls, &mut job.random);
            job.barrier.wait();
        }
    }
    unsafe extern "C" {
        fn pthread_create(
            thread: *mut usize,
            attributes: *const u8,
            body: extern "C" fn(*mut c_void) -> *mut c_void,
            job: *mut c_void,
        ) -> c_int;
    }
    let mut thread = 0;
    // SAFETY: pthread.h's function, a body of its type, and a job that is the thread's.
    let refused = unsafe {
        pthread_create(
            &raw mut thread,
            std::ptr::null(),
            body,
            Box::into_raw(job).cast(),
        )
    };
    assert_eq!(refused, 0, "no thread");
}

fn stretch(calls: usize, random: &mut Random) {
    for _ in 0..calls {
        let mut mine = make(16 + random.below(400));
        if random.below(5) == 0 {
            mine = resize(mine, 16 + random.below(800));
        }
        let other = EXCHANGE[random.below(SLOTS)].swap(mine.as_ptr(), AcqRel);
        if let Some(other) = NonNull::new(other) {
            release(other);
        }
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, align_of::<usize>()).expect("a small block")
}

fn make(size: usize) -> NonNull<usize> {
    ALLOCATIONS.fetch_add(1, Relaxed);
    // SAFETY: the layout is not empty.
    labelled(unsafe { alloc(layout(size)) }, size)
}

fn resize(block: NonNull<usize>, size: usize) -> NonNull<usize> {
    REALLOCATIONS.fetch_add(1, Relaxed);
    // SAFETY: whoever holds a block's address owns it, and it begins with its size.
    let moved = unsafe { realloc(block.as_ptr().cast(), layout(block.read()), size) };
    labelled(moved, size)
}

fn release(block: NonNull<usize>) {
    DEALLOCATIONS.fetch_add(1, Relaxed);
    // SAFETY: as in `resize`.
    unsafe { dealloc(block.as_ptr().cast(), layout(block.read())) };
}

fn labelled(block: *mut u8, size: usize) -> NonNull<usize> {
    REQUESTED_BYTES.fetch_add(size as u64, Relaxed);
    let block = NonNull::new(block.cast::<usize>()).expect("memory for a small block");
    // SAFETY: at least 16 bytes, aligned for a number, and nobody else's.
    unsafe { block.write(size) };
    block
}

fn wait_for_line(number: usize) {
    say(format_args!("at {number}\n"));
    // SAFETY: standard input, which is not closed here.
    let mut input = ManuallyDrop::new(unsafe { File::from_raw_fd(0) });
    let mut byte = [0];
    while input.read(&mut byte).is_ok_and(|read| read == 1) && byte != *b"\n" {}
}

fn say(text: std::fmt::Arguments<'_>) {
    let mut line = Cursor::new([0; 300]);
    line.write_fmt(text).expect("a short line");
    let length = line.position() as usize;
    // SAFETY: standard output, which is not closed here.
    let mut output = ManuallyDrop::new(unsafe { File::from_raw_fd(1) });
    output
        .write_all(&line.get_ref()[..length])
        .expect("standard output");
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }
}
