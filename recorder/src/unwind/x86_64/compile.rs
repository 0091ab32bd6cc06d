//! From a module's unwind information to the rule for one address.

use super::program;
use super::rule::Rule;
use crate::unwind::eh_frame::{Section, entry_at, find_entry};
use crate::unwind::linux::{ModuleInfo, module_of};

/// The rule for the instruction at `pc`, and whether it may be kept: an address
/// outside all modules may come into one without an unload.
#[cold]
#[inline(never)]
pub(super) fn compile(pc: u64) -> (Rule, bool) {
    match module_of(pc) {
        Some(module) => (rule_in(&module, pc), true),
        None => (Rule::NO_CFI, false),
    }
}

fn rule_in(module: &ModuleInfo, pc: u64) -> Rule {
    if module.eh_frame_hdr == 0 {
        return fallback(module, pc);
    }
    search(module, pc).unwrap_or_else(|| fallback(module, pc))
}

/// `None` where no entry covers `pc`.
fn search(module: &ModuleInfo, pc: u64) -> Option<Rule> {
    let table = section_of(module, module.eh_frame_hdr)?;
    let address = find_entry(table, module.eh_frame_hdr, pc)?;
    let entry = entry_at(section_of(module, address)?, address)?;
    (entry.start <= pc && pc < entry.end).then(|| program::rule_at(&entry, pc))
}

fn section_of(module: &ModuleInfo, address: u64) -> Option<Section<'_>> {
    let (bytes, address) = module.segment_at(address)?;
    Some(Section { bytes, address })
}

/// Signal trampolines without unwind information (musl's) are known by their
/// code: `mov $15, %rax; syscall` is `rt_sigreturn`.
fn fallback(module: &ModuleInfo, pc: u64) -> Rule {
    const RT_SIGRETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
    let code = section_of(module, pc.wrapping_add(1)).and_then(|section| {
        let at = (pc + 1 - section.address) as usize;
        section.bytes.get(at..at + RT_SIGRETURN.len())
    });
    match code {
        Some(code) if code == RT_SIGRETURN => Rule::SIGNAL,
        _ => Rule::NO_CFI,
    }
}
