//! The first instructions of each entry: they pass the return address on as one more
//! argument and jump to the Rust function, so that no stack frame is in the way. The
//! `.cfi` lines tell unwinders that the caller's frame is right behind.

/// The register of the argument behind the first `$count` ones.
#[cfg(target_arch = "x86_64")]
macro_rules! caller_into {
    (1) => {
        "mov rsi, [rsp]"
    };
    (2) => {
        "mov rdx, [rsp]"
    };
    (3) => {
        "mov rcx, [rsp]"
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! caller_into {
    (1) => {
        "mov x1, x30"
    };
    (2) => {
        "mov x2, x30"
    };
    (3) => {
        "mov x3, x30"
    };
}

/// Defines the exported symbol `$name`, which calls `$body` with its own `$count`
/// arguments and the address it will return to.
#[cfg(target_arch = "x86_64")]
macro_rules! entry {
    ($name:ident, $count:tt, $body:path) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                $crate::shim::caller_into!($count),
                "jmp {body}",
                ".cfi_endproc",
                body = sym $body,
            )
        }
    };
    // Jumps on to `$next` at once while the byte `$counts` is 0.
    ($name:ident, $count:tt, $body:path, where $counts:path, else $next:path) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "cmp byte ptr [rip + {counts}], 0",
                "je 2f",
                $crate::shim::caller_into!($count),
                "jmp {body}",
                "2: jmp qword ptr [rip + {next}]",
                ".cfi_endproc",
                body = sym $body, counts = sym $counts, next = sym $next,
            )
        }
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! entry {
    ($name:ident, $count:tt, $body:path) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                $crate::shim::caller_into!($count),
                "b {body}",
                ".cfi_endproc",
                body = sym $body,
            )
        }
    };
    ($name:ident, $count:tt, $body:path, where $counts:path, else $next:path) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "adrp x16, {counts}",
                "ldrb w16, [x16, :lo12:{counts}]",
                "cbz w16, 2f",
                $crate::shim::caller_into!($count),
                "b {body}",
                "2: adrp x16, {next}",
                "ldr x16, [x16, :lo12:{next}]",
                "br x16",
                ".cfi_endproc",
                body = sym $body, counts = sym $counts, next = sym $next,
            )
        }
    };
}

pub(crate) use caller_into;
pub(crate) use entry;
