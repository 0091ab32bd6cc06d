//! The first instructions of each entry: they pass two more arguments on, the stack
//! pointer and the frame pointer of the call, and jump to the Rust function, so that no
//! stack frame is in the way. The `.cfi` lines tell unwinders that the caller's frame is
//! right behind.

/// Puts where the call stands into the registers behind the first `$count` arguments.
macro_rules! site_into {
    (1) => {
        "mov rsi, rsp\nmov rdx, rbp"
    };
    (2) => {
        "mov rdx, rsp\nmov rcx, rbp"
    };
    (3) => {
        "mov rcx, rsp\nmov r8, rbp"
    };
}

/// Defines the exported symbol `$name`, which calls `$body` with its own `$count`
/// arguments and where the call stands, for [`CallSite::at_entry`](heapreel::raw::CallSite::at_entry).
macro_rules! entry {
    ($name:ident, $count:tt, $body:path) => {
        $crate::shim::entry!(@ $name, $count, $body, "", "",);
    };
    // Jumps on to `$next` at once while the byte `$counts` is 0.
    ($name:ident, $count:tt, $body:path, where $counts:path, else $next:path) => {
        $crate::shim::entry!(@ $name, $count, $body,
            "cmp byte ptr [rip + {counts}], 0\nje 2f", "2: jmp qword ptr [rip + {next}]",
            counts = sym $counts, next = sym $next,);
    };
    (@ $name:ident, $count:tt, $body:path, $first:literal, $last:literal, $($operand:tt)*) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                $first,
                $crate::shim::site_into!($count),
                "jmp {body}",
                $last,
                ".cfi_endproc",
                body = sym $body,
                $($operand)*
            )
        }
    };
}

pub(crate) use entry;
pub(crate) use site_into;
