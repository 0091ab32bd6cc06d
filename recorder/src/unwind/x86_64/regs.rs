//! The three registers that a walk follows.

#![expect(unsafe_code, reason = "reads rip, rsp and rbp")]

use core::arch::asm;

/// Where a walk starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Regs {
    /// Instruction pointer (`rip`).
    pub ip: u64,
    /// Stack pointer (`rsp`).
    pub sp: u64,
    /// Frame pointer (`rbp`), whatever the code uses it for.
    pub fp: u64,
}

/// The registers of the stack frame this is inlined into. They describe it for
/// as long as that function has not returned.
#[inline(always)]
pub(crate) fn here() -> Regs {
    let (ip, sp, fp);
    // SAFETY: copies three registers; no memory, stack or flag is touched.
    unsafe {
        asm!(
            "lea {ip}, [rip]",
            "mov {sp}, rsp",
            "mov {fp}, rbp",
            ip = out(reg) ip,
            sp = out(reg) sp,
            fp = out(reg) fp,
            options(nomem, nostack, preserves_flags),
        );
    }
    Regs { ip, sp, fp }
}
