//! One word per thread, reached in two instructions and without any function.
//!
//! Stable Rust cannot choose the TLS model, and the default one for libraries
//! calls `__tls_get_addr`, which may allocate. So the word is defined and read in
//! assembly with the initial-exec model (ELF Handling For Thread-Local Storage,
//! section 4.4): its offset from `fs` is fixed when the library is loaded. It has no
//! destructor, so it can be read until the thread's last instruction.
#![expect(unsafe_code, reason = "thread-local storage by hand")]

use std::arch::{asm, global_asm};

global_asm!(
    ".pushsection .tbss.heapreel_thread_word,\"awT\",@nobits",
    ".globl heapreel_thread_word",
    ".hidden heapreel_thread_word",
    ".balign 8",
    ".type heapreel_thread_word, @object",
    ".size heapreel_thread_word, 8",
    "heapreel_thread_word:",
    ".zero 8",
    ".popsection",
);

/// This thread's word; 0 in a new thread.
#[inline(always)]
pub(crate) fn get() -> usize {
    let word: usize;
    // SAFETY: reads eight bytes of this thread's TLS block, which the loader has
    // set up before any code of this library runs in the thread.
    unsafe {
        asm!(
            "mov {word}, qword ptr [rip + heapreel_thread_word@GOTTPOFF]",
            "mov {word}, qword ptr fs:[{word}]",
            word = out(reg) word,
            options(nostack, preserves_flags, readonly),
        );
    }
    word
}

/// Sets this thread's word.
#[inline(always)]
pub(crate) fn set(word: usize) {
    // SAFETY: as for `get`; only this module knows the word's place.
    unsafe {
        asm!(
            "mov {place}, qword ptr [rip + heapreel_thread_word@GOTTPOFF]",
            "mov qword ptr fs:[{place}], {word}",
            place = out(reg) _,
            word = in(reg) word,
            options(nostack, preserves_flags),
        );
    }
}
