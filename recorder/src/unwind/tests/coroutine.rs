//! Walks on stacks that the thread library does not know.

use std::arch::global_asm;
use std::ffi::c_void;
use std::ptr;

use super::compare::{assert_same, theirs};
use crate::unwind::{End, Regs, StackBounds, Walk, forget_modules, here, init, walk};

const PAGE: usize = 4096;
/// A small stack of a coroutine, as games have them by the hundred.
const STACK: usize = 16 * 1024;

global_asm!(
    // heapreel_test_switch(then, data, top): calls then(data) on the stack that
    // ends at `top`. Whether the walk can go on from there is up to the CFI:
    // this one says that nobody called.
    ".type heapreel_test_switch, @function",
    "heapreel_test_switch:",
    ".cfi_startproc",
    ".cfi_undefined rip",
    "push rbp",
    "mov rbp, rsp",
    "mov rsp, rdx",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "mov rsp, rbp",
    "pop rbp",
    "ret",
    ".cfi_endproc",
    ".size heapreel_test_switch, . - heapreel_test_switch",
    // The same, but the CFI claims a return address above the end of the stack.
    ".type heapreel_test_switch_wrong, @function",
    "heapreel_test_switch_wrong:",
    ".cfi_startproc",
    "push rbp",
    "mov rbp, rsp",
    "mov rsp, rdx",
    ".cfi_def_cfa rsp, 8",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "mov rsp, rbp",
    "pop rbp",
    "ret",
    ".cfi_endproc",
    ".size heapreel_test_switch_wrong, . - heapreel_test_switch_wrong",
);

type Switch = unsafe extern "C" fn(extern "C" fn(*mut c_void), *mut c_void, *mut c_void);

unsafe extern "C" {
    pub(super) fn heapreel_test_switch(
        f: extern "C" fn(*mut c_void),
        data: *mut c_void,
        top: *mut c_void,
    );
    fn heapreel_test_switch_wrong(
        f: extern "C" fn(*mut c_void),
        data: *mut c_void,
        top: *mut c_void,
    );
}

/// A stack between two pages that cannot be touched.
pub(super) struct Stack {
    mapping: *mut c_void,
    len: usize,
}

impl Stack {
    pub(super) fn new(len: usize) -> Self {
        // SAFETY: a fresh mapping without access, of which the middle is opened.
        unsafe {
            let whole = len + 2 * PAGE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let mapping = libc::mmap(ptr::null_mut(), whole, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(mapping, libc::MAP_FAILED);
            let middle = mapping.byte_add(PAGE);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            assert_eq!(libc::mprotect(middle, len, access), 0);
            Self { mapping, len }
        }
    }

    fn words(&mut self) -> &mut [u64] {
        // SAFETY: the opened part of the mapping, owned by `self`; nothing runs
        // on it while it is borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.byte_add(PAGE).cast(), self.len / 8) }
    }

    fn run(&mut self, switch: Switch, mut then: &mut dyn FnMut()) {
        let data = (&raw mut then).cast();
        // SAFETY: the stack is mapped and used by nobody else; `then` outlives
        // the call and does not unwind out of it (the process would abort).
        unsafe { switch(enter, data, self.mapping.byte_add(PAGE + self.len)) };
    }
}

impl Stack {
    /// Runs `then` on this stack, where walks end at its first function.
    #[inline(never)]
    pub(super) fn run_alone(&mut self, then: &mut dyn FnMut()) {
        self.run(heapreel_test_switch, then);
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` and nothing runs on it.
        unsafe { libc::munmap(self.mapping, self.len + 2 * PAGE) };
    }
}

extern "C" fn enter(data: *mut c_void) {
    // SAFETY: `data` is the pointer made in `run`, whose frame is active.
    let then = unsafe { &mut *data.cast::<&mut dyn FnMut()>() };
    then();
}

#[test]
fn a_coroutine_is_walked_to_its_entry() {
    init();
    let mut bounds = StackBounds::EMPTY;
    let mut out = [0; 64];
    walk(here(), &mut bounds, &mut out);
    let own = bounds;
    for _ in 0..3 {
        // A larger stack, for the other unwinder needs more.
        Stack::new(1 << 18).run(heapreel_test_switch, &mut || {
            let taken = walk(here(), &mut bounds, &mut out);
            assert_eq!(taken.ended, End::Outermost);
            assert_same(&out[..taken.len], &theirs());
        });
    }
    assert!((bounds.low, bounds.high) == (own.low, own.high));
}

#[test]
fn a_claim_beyond_the_end_of_the_stack_is_refused() {
    init();
    let mut bounds = StackBounds::EMPTY;
    let mut out = [0; 64];
    Stack::new(STACK).run(heapreel_test_switch_wrong, &mut || {
        let taken = walk(here(), &mut bounds, &mut out);
        assert_eq!(taken.ended, End::BadStack);
        assert!(taken.len >= 2);
    });
}

#[test]
fn a_stack_that_became_smaller_is_noticed() {
    init();
    let mut bounds = StackBounds::EMPTY;
    let mut out = [0; 64];
    let mut stack = Stack::new(STACK);
    let half = STACK / 2;
    stack.run(heapreel_test_switch, &mut || {
        walk(here(), &mut bounds, &mut out);
    });
    // SAFETY: closes the upper half, on which nothing runs.
    unsafe { libc::mprotect(stack.mapping.byte_add(PAGE + half), half, libc::PROT_NONE) };
    stack.len = half;
    stack.run(heapreel_test_switch_wrong, &mut || {
        let taken = walk(here(), &mut bounds, &mut out);
        assert_eq!(taken.ended, End::BadStack);
    });
    stack.len = STACK;
}

/// Bytes of stack that `measured` uses, the call included.
fn stack_use(measured: &mut dyn FnMut(Regs) -> Walk) -> usize {
    const PAINT: u64 = 0x5AFE_57AC_5AFE_57AC;
    let mut stack = Stack::new(STACK);
    stack.words().fill(PAINT);
    let mut sp = 0;
    stack.run(heapreel_test_switch, &mut || {
        let regs = here();
        sp = regs.sp;
        assert_eq!(measured(regs).ended, End::Outermost);
    });
    let bottom = stack.mapping as u64 + PAGE as u64;
    let untouched = stack.words().iter().take_while(|word| **word == PAINT);
    (sp - bottom) as usize - untouched.count() * 8
}

#[test]
fn a_walk_fits_a_small_stack() {
    init();
    let mut bounds = StackBounds::EMPTY;
    let mut out = [0; 64];
    let mut cold = 0;
    let mut hot = 0;
    for round in 0..4 {
        forget_modules();
        cold = stack_use(&mut |regs| walk(regs, &mut bounds, &mut out));
        hot = stack_use(&mut |regs| walk(regs, &mut bounds, &mut out));
        eprintln!("round {round}: cold {cold} bytes, hot {hot} bytes");
    }
    // Without optimisation everything has a place on the stack.
    let factor = if cfg!(debug_assertions) { 3 } else { 1 };
    assert!(cold <= 4096 * factor, "cold {cold}");
    assert!(hot <= 1024 * factor, "hot {hot}");
}
