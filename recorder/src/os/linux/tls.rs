//! Two words per thread, each reached in two instructions and without any function.
//!
//! Stable Rust cannot choose the TLS model, and the default one for libraries
//! calls `__tls_get_addr`, which may allocate. So the words are defined and read in
//! assembly with the initial-exec model (ELF Handling For Thread-Local Storage,
//! section 4.4): their offsets from `fs` are fixed when the library is loaded. They have no
//! destructor, so they can be read until the thread's last instruction.
#![expect(unsafe_code, reason = "thread-local storage by hand")]

use std::arch::{asm, global_asm};

/// Defines a word by its symbol, with functions that read and set it.
macro_rules! word {
    ($symbol:literal, $get:ident, $set:ident, $what:literal) => {
        global_asm!(
            concat!(".pushsection .tbss.", $symbol, ",\"awT\",@nobits"),
            concat!(".globl ", $symbol),
            concat!(".hidden ", $symbol),
            ".balign 8",
            concat!(".type ", $symbol, ", @object"),
            concat!(".size ", $symbol, ", 8"),
            concat!($symbol, ":"),
            ".zero 8",
            ".popsection",
        );

        #[doc = concat!("This thread's word for ", $what, "; 0 in a new thread.")]
        #[inline(always)]
        pub(crate) fn $get() -> usize {
            let word: usize;
            // SAFETY: reads eight bytes of this thread's TLS block, which the loader has
            // set up before any code of this library runs in the thread.
            unsafe {
                asm!(
                    concat!("mov {word}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
                    "mov {word}, qword ptr fs:[{word}]",
                    word = out(reg) word,
                    options(nostack, preserves_flags, readonly),
                );
            }
            word
        }

        #[doc = concat!("Sets this thread's word for ", $what, ".")]
        #[inline(always)]
        pub(crate) fn $set(word: usize) {
            // SAFETY: as for reading it; only this module knows the word's place.
            unsafe {
                asm!(
                    concat!("mov {place}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
                    "mov qword ptr fs:[{place}], {word}",
                    place = out(reg) _,
                    word = in(reg) word,
                    options(nostack, preserves_flags),
                );
            }
        }
    };
}

word!("heapreel_thread_word", get, set, "what is recorded of it");
word!(
    "heapreel_counters_word",
    counters,
    set_counters,
    "what is counted of it"
);
