//! Stack frames as compilers and assembler files make them now and then:
//! realigned, of run-time size, without unwind information.

use std::arch::global_asm;
use std::ffi::c_void;

use super::compare::{Ours, assert_same_here, ours_from};
use super::through::{Caller, through};
use crate::unwind::{End, here};

global_asm!(
    // No unwind information, but a frame pointer.
    ".type heapreel_test_bare_fp, @function",
    "heapreel_test_bare_fp:",
    "push rbp",
    "mov rbp, rsp",
    "sub rsp, 64",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "leave",
    "ret",
    ".size heapreel_test_bare_fp, . - heapreel_test_bare_fp",
    // Neither unwind information nor a frame pointer.
    ".type heapreel_test_bare, @function",
    "heapreel_test_bare:",
    "push rbp",
    "sub rsp, 64",
    "mov ebp, 8",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "add rsp, 64",
    "pop rbp",
    "ret",
    ".size heapreel_test_bare, . - heapreel_test_bare",
    // The same with a zero for a frame pointer, as where a process starts.
    ".type heapreel_test_start, @function",
    "heapreel_test_start:",
    "push rbp",
    "sub rsp, 64",
    "xor ebp, ebp",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "add rsp, 64",
    "pop rbp",
    "ret",
    ".size heapreel_test_start, . - heapreel_test_start",
    // A realigned stack as GCC makes it: the CFA is loaded from [rbp - 8].
    ".type heapreel_test_realigned, @function",
    "heapreel_test_realigned:",
    ".cfi_startproc",
    "lea r10, [rsp + 8]",
    ".cfi_def_cfa r10, 0",
    "and rsp, -64",
    "push qword ptr [r10 - 8]",
    "push rbp",
    ".cfi_escape 0x10, 0x06, 0x02, 0x76, 0x00",
    "mov rbp, rsp",
    "push r10",
    ".cfi_escape 0x0f, 0x03, 0x76, 0x78, 0x06",
    "sub rsp, 8",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "mov r10, [rbp - 8]",
    ".cfi_def_cfa r10, 0",
    "leave",
    "lea rsp, [r10 - 8]",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    ".size heapreel_test_realigned, . - heapreel_test_realigned",
    // A stack frame whose size is known at run time only, as alloca makes it.
    ".type heapreel_test_alloca, @function",
    "heapreel_test_alloca:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "mov eax, edi",
    "and eax, 0xff0",
    "sub rsp, rax",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "leave",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    ".size heapreel_test_alloca, . - heapreel_test_alloca",
    // The stack pointer is kept in memory, as OpenSSL's assembler files do it:
    // CFA = [rsp + 40] + 8. Remembered and recalled rows on the way.
    ".type heapreel_test_stored, @function",
    "heapreel_test_stored:",
    ".cfi_startproc",
    "mov rax, rsp",
    ".cfi_def_cfa_register rax",
    ".cfi_remember_state",
    "sub rsp, 56",
    "and rsp, -32",
    "mov [rsp + 40], rax",
    ".cfi_escape 0x0f, 0x05, 0x77, 0x28, 0x06, 0x23, 0x08",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "mov rsp, [rsp + 40]",
    ".cfi_restore_state",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    ".size heapreel_test_stored, . - heapreel_test_stored",
    // The CFA is counted from a register that a walk does not follow, as in
    // glibc's lazy binding.
    ".type heapreel_test_rbx, @function",
    "heapreel_test_rbx:",
    ".cfi_startproc",
    "push rbx",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbx, -16",
    "mov rbx, rsp",
    ".cfi_def_cfa_register rbx",
    "and rsp, -64",
    "sub rsp, 64",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "mov rsp, rbx",
    ".cfi_def_cfa_register rsp",
    "pop rbx",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_endproc",
    ".size heapreel_test_rbx, . - heapreel_test_rbx",
);

unsafe extern "C" {
    fn heapreel_test_bare_fp(then: extern "C" fn(*mut c_void), data: *mut c_void);
    fn heapreel_test_bare(then: extern "C" fn(*mut c_void), data: *mut c_void);
    fn heapreel_test_start(then: extern "C" fn(*mut c_void), data: *mut c_void);
    fn heapreel_test_realigned(then: extern "C" fn(*mut c_void), data: *mut c_void);
    fn heapreel_test_alloca(then: extern "C" fn(*mut c_void), data: *mut c_void);
    fn heapreel_test_stored(then: extern "C" fn(*mut c_void), data: *mut c_void);
    fn heapreel_test_rbx(then: extern "C" fn(*mut c_void), data: *mut c_void);
}

#[test]
fn realigned_stack_frames_are_walked() {
    assert_same_through(heapreel_test_realigned);
}

#[test]
fn stack_frames_of_any_size_are_walked() {
    assert_same_through(heapreel_test_alloca);
}

#[test]
fn stored_stack_pointers_are_followed() {
    assert_same_through(heapreel_test_stored);
}

#[test]
fn a_frame_pointer_leads_on_without_unwind_information() {
    let (outer, inner) = around(heapreel_test_bare_fp);
    assert_eq!(inner.ended, End::Outermost);
    assert!(inner.addresses.ends_with(&outer.addresses));
}

#[test]
fn no_frame_pointer_and_no_unwind_information_ends_the_walk() {
    let (_, inner) = around(heapreel_test_bare);
    assert_eq!(inner.ended, End::NoCfi);
    assert_ends_in(&inner, heapreel_test_bare);
}

#[test]
fn a_frame_pointer_of_zero_marks_the_outermost_stack_frame() {
    let (_, inner) = around(heapreel_test_start);
    assert_eq!(inner.ended, End::Outermost);
    assert_ends_in(&inner, heapreel_test_start);
}

#[test]
fn a_register_that_is_not_followed_is_no_fault() {
    let (_, inner) = around(heapreel_test_rbx);
    let start = heapreel_test_rbx as *const () as u64;
    let mut addresses = inner.addresses.iter();
    assert!(addresses.any(|address| (start..start + 64).contains(address)));
}

fn assert_ends_in(ours: &Ours, function: Caller) {
    let last = *ours.addresses.last().unwrap();
    let start = function as *const () as u64;
    assert!((start..start + 32).contains(&last));
}

fn assert_same_through(caller: Caller) {
    let mut called = 0;
    through(caller, &mut || {
        assert_same_here();
        through(caller, &mut || {
            assert_same_here();
            called += 1;
        });
    });
    assert_eq!(called, 1);
}

/// A backtrace taken here and one taken through `caller`.
#[inline(never)]
fn around(caller: Caller) -> (Ours, Ours) {
    let outer = ours_from(here(), 4096);
    let mut inner = None;
    through(caller, &mut || inner = Some(ours_from(here(), 4096)));
    (outer, inner.unwrap())
}
