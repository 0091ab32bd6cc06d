//! Pieces of code that stand in for functions which end frames.
//!
//! Two kinds. *Around*: the function is called and something is done after it; for
//! functions whose arguments are known to be at most six integers. *Before*: something is
//! done and then jumped on, with every argument in its place; for any function.
//!
//! Each stub stands for one function at one address, and is never used for another.
#![expect(unsafe_code, reason = "stands between a caller and a function")]

use super::{Does, FUNCTIONS, asked_was_called, in_place_of, picture_was_shown};
use std::arch::naked_asm;
use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Stubs of each kind: a function is met in one or two libraries, and at a few more
/// addresses by look-up functions.
const STUBS: usize = 64;
/// Bytes from one stub to the next.
const STUB_BYTES: usize = 16;
/// How far into a stub the address lies that it leaves in r11.
const STUB_MARK: usize = 7;

/// What one stub stands for.
struct Stub {
    /// The function's address; 0 while the stub is free.
    real: AtomicUsize,
    /// Which function it is, plus one; 0 until that is told.
    number: AtomicUsize,
}

/// The stubs of one kind.
struct Stubs([Stub; STUBS]);

static AROUND: Stubs = Stubs::none();
static BEFORE: Stubs = Stubs::none();

impl Stubs {
    const fn none() -> Stubs {
        Stubs(
            [const {
                Stub {
                    real: AtomicUsize::new(0),
                    number: AtomicUsize::new(0),
                }
            }; STUBS],
        )
    }

    /// The address of the stub for a function, a new one where it is not known yet; `None`
    /// where all are taken, or where it is a stub itself.
    fn of(&self, code: usize, number: usize, real: usize) -> Option<usize> {
        if is_stub(real) {
            return None;
        }
        let at = self.0.iter().position(|stub| stub.becomes(real))?;
        self.0.get(at)?.number.store(number + 1, Release);
        Some(code + at * STUB_BYTES)
    }

    /// What the stub stands for that left this address, by its number and address.
    fn met(&self, code: usize, mark: usize) -> (usize, usize) {
        let at = mark.wrapping_sub(code + STUB_MARK) / STUB_BYTES;
        self.0.get(at).map_or((0, 0), |stub| {
            (
                stub.number.load(Acquire).saturating_sub(1),
                stub.real.load(Relaxed),
            )
        })
    }
}

impl Stub {
    /// Whether it stands for this function, or does so from now on.
    fn becomes(&self, real: usize) -> bool {
        match self.real.compare_exchange(0, real, AcqRel, Acquire) {
            Ok(_) => true,
            Err(taken) => taken == real,
        }
    }
}

/// The stub around function `number` of [`FUNCTIONS`], which lies at `real`.
pub(super) fn around(number: usize, real: usize) -> Option<usize> {
    AROUND.of(around_stubs as *const () as usize, number, real)
}

/// The stub before the function that the user named as number so many.
pub(super) fn before(number: usize, real: usize) -> Option<usize> {
    BEFORE.of(before_stubs as *const () as usize, number, real)
}

fn is_stub(address: usize) -> bool {
    [
        around_stubs as *const () as usize,
        before_stubs as *const () as usize,
    ]
    .into_iter()
    .any(|code| address.wrapping_sub(code) < STUBS * STUB_BYTES)
}

/// The arguments of a call that a stub stands around, as its code below keeps them.
#[repr(C)]
struct Call {
    arguments: [u64; 6],
    /// The address that the stub left; later unused.
    mark: usize,
    /// What the function returned.
    result: u64,
}

thread_local! {
    /// Where the outermost call lies on the stack that shows a picture and has not
    /// returned; 0 for none.
    static OUTERMOST: Cell<usize> = const { Cell::new(0) };
}

/// Before the function: gives its address.
extern "C" fn entered(call: &Call) -> usize {
    let (number, real) = AROUND.met(around_stubs as *const () as usize, call.mark);
    if is_showing(number) {
        let here = (&raw const *call).addr();
        let outermost = OUTERMOST.get();
        // One that lies further in than this call was left without returning.
        if outermost == 0 || outermost <= here {
            OUTERMOST.set(here);
        }
    }
    real
}

/// After it: gives what its caller gets.
extern "C" fn left(call: &Call) -> u64 {
    let (number, _) = AROUND.met(around_stubs as *const () as usize, call.mark);
    let Some(function) = FUNCTIONS.get(number) else {
        return call.result;
    };
    match function.does {
        Does::Shows => {
            if OUTERMOST.get() == (&raw const *call).addr() {
                OUTERMOST.set(0);
                picture_was_shown(function);
            }
            call.result
        }
        Does::Gives(argument) => {
            let name = call.arguments.get(argument).copied().unwrap_or(0);
            in_place_of(call.result as *mut c_void, name as *const c_char).addr() as u64
        }
    }
}

fn is_showing(number: usize) -> bool {
    FUNCTIONS
        .get(number)
        .is_some_and(|function| function.does == Does::Shows)
}

extern "C" fn about_to_be_called(mark: usize) -> usize {
    let (number, real) = BEFORE.met(before_stubs as *const () as usize, mark);
    asked_was_called(number);
    real
}

/// The stubs that stand around functions, one behind the other.
#[unsafe(naked)]
unsafe extern "C" fn around_stubs() {
    naked_asm!(
        ".cfi_startproc",
        ".rept {stubs}",
        ".balign {bytes}",
        "lea r11, [rip]",
        "jmp {around}",
        ".endr",
        ".cfi_endproc",
        stubs = const STUBS,
        bytes = const STUB_BYTES,
        around = sym call_around,
    )
}

/// What the stubs around functions have in common: the layout of [`Call`] on the stack.
#[unsafe(naked)]
unsafe extern "C" fn call_around() {
    naked_asm!(
        ".cfi_startproc",
        "sub rsp, 72\n.cfi_adjust_cfa_offset 72",
        "mov [rsp], rdi",
        "mov [rsp + 8], rsi",
        "mov [rsp + 16], rdx",
        "mov [rsp + 24], rcx",
        "mov [rsp + 32], r8",
        "mov [rsp + 40], r9",
        "mov [rsp + 48], r11",
        "mov rdi, rsp",
        "call {entered}",
        "mov rdi, [rsp]",
        "mov rsi, [rsp + 8]",
        "mov rdx, [rsp + 16]",
        "mov rcx, [rsp + 24]",
        "mov r8, [rsp + 32]",
        "mov r9, [rsp + 40]",
        "call rax",
        "mov [rsp + 56], rax",
        "mov rdi, rsp",
        "call {left}",
        "add rsp, 72\n.cfi_adjust_cfa_offset -72",
        "ret",
        ".cfi_endproc",
        entered = sym entered,
        left = sym left,
    )
}

/// The stubs that stand before functions, one behind the other.
#[unsafe(naked)]
unsafe extern "C" fn before_stubs() {
    naked_asm!(
        ".cfi_startproc",
        ".rept {stubs}",
        ".balign {bytes}",
        "lea r11, [rip]",
        "jmp {before}",
        ".endr",
        ".cfi_endproc",
        stubs = const STUBS,
        bytes = const STUB_BYTES,
        before = sym jump_on,
    )
}

/// What the stubs before functions have in common: every register that may hold an
/// argument is kept (System V ABI, section 3.2.3), rax and r10 among them.
#[unsafe(naked)]
unsafe extern "C" fn jump_on() {
    naked_asm!(
        ".cfi_startproc",
        "sub rsp, 200\n.cfi_adjust_cfa_offset 200",
        "mov [rsp], rdi",
        "mov [rsp + 8], rsi",
        "mov [rsp + 16], rdx",
        "mov [rsp + 24], rcx",
        "mov [rsp + 32], r8",
        "mov [rsp + 40], r9",
        "mov [rsp + 48], rax",
        "mov [rsp + 56], r10",
        "movups [rsp + 64], xmm0",
        "movups [rsp + 80], xmm1",
        "movups [rsp + 96], xmm2",
        "movups [rsp + 112], xmm3",
        "movups [rsp + 128], xmm4",
        "movups [rsp + 144], xmm5",
        "movups [rsp + 160], xmm6",
        "movups [rsp + 176], xmm7",
        "mov rdi, r11",
        "call {about}",
        "mov r11, rax",
        "mov rdi, [rsp]",
        "mov rsi, [rsp + 8]",
        "mov rdx, [rsp + 16]",
        "mov rcx, [rsp + 24]",
        "mov r8, [rsp + 32]",
        "mov r9, [rsp + 40]",
        "mov rax, [rsp + 48]",
        "mov r10, [rsp + 56]",
        "movups xmm0, [rsp + 64]",
        "movups xmm1, [rsp + 80]",
        "movups xmm2, [rsp + 96]",
        "movups xmm3, [rsp + 112]",
        "movups xmm4, [rsp + 128]",
        "movups xmm5, [rsp + 144]",
        "movups xmm6, [rsp + 160]",
        "movups xmm7, [rsp + 176]",
        "add rsp, 200\n.cfi_adjust_cfa_offset -200",
        "jmp r11",
        ".cfi_endproc",
        about = sym about_to_be_called,
    )
}
