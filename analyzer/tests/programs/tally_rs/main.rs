//! The tally of a Rust program that knows nothing of any recorder, for the preload
//! library. Compiled with plain rustc.
//!
//! Threads are made with pthread_create itself: std asks glibc for each new thread's stack
//! bounds, for which glibc allocates memory that no `GlobalAlloc` sees. A first round
//! fills glibc's cache of stacks; later rounds allocate nothing for theirs.

#[path = "../../../../recorder/examples/tally/game.rs"]
mod game;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

#[global_allocator]
static ALLOCATOR: game::Counting = game::Counting;

/// pthread_attr_t of glibc on 64-bit machines: 56 bytes, nothing of it for us to read.
#[repr(C, align(8))]
struct Attributes([u8; 64]);

unsafe extern "C" {
    fn pthread_attr_init(attributes: *mut Attributes) -> c_int;
    fn pthread_attr_setstacksize(attributes: *mut Attributes, size: usize) -> c_int;
    fn pthread_create(
        thread: *mut usize,
        attributes: *const Attributes,
        body: extern "C" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int;
    fn pthread_join(thread: usize, result: *mut *mut c_void) -> c_int;
    fn dlsym(library: *const c_void, name: *const c_char) -> *mut c_void;
}

static STEPS: AtomicU64 = AtomicU64::new(0);
static SEED: AtomicU64 = AtomicU64::new(0);

fn main() {
    let (rounds, steps, seed) = game::arguments();
    STEPS.store(steps, SeqCst);
    let recorder = find_mark();
    game::play(rounds, seed, |name| mark(recorder, name), round);
}

extern "C" fn body(number: *mut c_void) -> *mut c_void {
    game::work(STEPS.load(SeqCst), SEED.load(SeqCst), number as u64);
    null_mut()
}

fn round(seed: u64) {
    SEED.store(seed, SeqCst);
    let mut attributes = Attributes([0; 64]);
    let mut threads = [0usize; game::THREADS as usize];
    // SAFETY: plain C calls; every thread is joined before its data goes.
    unsafe {
        pthread_attr_init(&mut attributes);
        pthread_attr_setstacksize(&mut attributes, 256 * 1024);
        for (number, thread) in threads.iter_mut().enumerate() {
            assert_eq!(
                pthread_create(thread, &attributes, body, number as *mut c_void),
                0
            );
        }
        for thread in threads {
            assert_eq!(pthread_join(thread, null_mut()), 0);
        }
    }
}

type Mark = extern "C" fn(*const c_char);

/// The recorder's function, where one is loaded.
fn find_mark() -> Option<Mark> {
    // SAFETY: heapreel.h declares the function with this signature.
    unsafe {
        let address = dlsym(null(), c"heapreel_mark".as_ptr());
        (!address.is_null()).then(|| std::mem::transmute::<*mut c_void, Mark>(address))
    }
}

fn mark(recorder: Option<Mark>, name: &str) {
    let mut text = [0u8; 64];
    text[..name.len()].copy_from_slice(name.as_bytes());
    if let (Some(recorder), Ok(name)) = (recorder, CStr::from_bytes_until_nul(&text)) {
        recorder(name.as_ptr());
    }
}
