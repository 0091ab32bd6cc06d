//! Walks where there is no unwinder of our own: the `backtrace` crate's.
//!
//! It is slower, takes locks and may allocate, which the recorder's flag for
//! its own calls then has to bear with.

use core::ffi::c_void;
use core::ops::Deref;
use core::sync::atomic::{AtomicU32, Ordering};

use super::{End, Walk};

/// Where a walk starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Regs {
    /// Not known here: zero.
    pub ip: u64,
    /// An address in the stack frame.
    pub sp: u64,
    /// Not known here: zero.
    pub fp: u64,
}

/// What is known about one thread's stack: nothing is needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackBounds {
    /// Unused.
    pub low: u64,
    /// Unused.
    pub high: u64,
}

/// A loaded module: not found here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModuleInfo {
    /// First address of its mapping.
    pub start: u64,
    /// Address behind its mapping.
    pub end: u64,
    /// Address in memory minus address in the file.
    pub bias: u64,
    /// The loader's name of it.
    pub name: *const core::ffi::c_char,
}

/// A build-id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BuildId(());

static GENERATION: AtomicU32 = AtomicU32::new(0);

impl StackBounds {
    /// Nothing known.
    pub const EMPTY: Self = Self { low: 0, high: 0 };
}

impl ModuleInfo {
    /// None is known.
    pub fn build_id(&self) -> Option<BuildId> {
        None
    }
}

impl Deref for BuildId {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &[]
    }
}

/// Nothing to prepare.
pub(crate) fn init() {}

/// How often modules were unloaded so far.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Acquire)
}

/// Notes that modules were unloaded.
pub(crate) fn forget_modules() {
    GENERATION.fetch_add(1, Ordering::AcqRel);
}

/// Modules are not looked up here.
pub(crate) fn module_of(_pc: u64) -> Option<ModuleInfo> {
    None
}

/// Marks the stack frame this is inlined into.
#[inline(always)]
pub(crate) fn here() -> Regs {
    let marker = 0_u8;
    Regs {
        ip: 0,
        sp: &raw const marker as u64,
        fp: 0,
    }
}

/// Writes return addresses, innermost first, from the one that the stack frame
/// of `regs` returns to.
#[expect(unsafe_code, reason = "the unsynchronised walk of the backtrace crate")]
pub(crate) fn walk(regs: Regs, _bounds: &mut StackBounds, out: &mut [u64]) -> Walk {
    let mut len = 0;
    let mut ended = End::Outermost;
    let mut is_above = false;
    // SAFETY: only capturing, not resolving, is done without the crate's lock;
    // on the platforms this is for, capturing shares no state.
    unsafe {
        backtrace::trace_unsynchronized(|frame| {
            let sp = frame.sp() as u64;
            // A platform that does not tell stack pointers shows every frame.
            is_above |= sp == 0 || sp > regs.sp;
            if !is_above {
                return true;
            }
            let Some(slot) = out.get_mut(len) else {
                ended = End::Full;
                return false;
            };
            *slot = frame.ip() as *const c_void as u64;
            len += 1;
            true
        });
    }
    Walk { len, ended }
}
