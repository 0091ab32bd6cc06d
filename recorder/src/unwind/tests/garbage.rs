//! Walks over nonsense: any result will do, a fault will not.

use crate::unwind::{Regs, StackBounds, forget_modules, here, init, walk};

/// A small generator with a fixed start (splitmix64).
pub(super) struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Addresses in code, from all over: real ones and some near them.
fn code_addresses() -> Vec<u64> {
    let mut out = [0; 64];
    let mut bounds = StackBounds::EMPTY;
    let taken = walk(here(), &mut bounds, &mut out);
    let mut all = out[..taken.len].to_vec();
    all.push(libc::qsort as *const () as u64 + 20);
    all.push(libc::raise as *const () as u64 + 9);
    all.push(libc::memcpy as *const () as u64);
    all.push(libc::dl_iterate_phdr as *const () as u64 + 33);
    all
}

fn word(random: &mut Random, code: &[u64], stack: (u64, u64)) -> u64 {
    match random.below(6) {
        0 => random.next(),
        1 => random.below(1 << 47),
        2 => stack.0 + random.below(stack.1 - stack.0),
        3 => stack.0 + random.below(stack.1 - stack.0) / 8 * 8,
        4 => 0,
        _ => {
            let index = random.below(code.len() as u64) as usize;
            code[index]
                .wrapping_add(random.below(2_000))
                .wrapping_sub(1_000)
        }
    }
}

#[test]
fn random_registers_are_no_fault() {
    init();
    let code = code_addresses();
    let mut random = Random(1);
    let mut bounds = StackBounds::EMPTY;
    let mut out = [0; 64];
    let sp = here().sp & !4095;
    for round in 0..8_000 {
        if round % 500 == 0 {
            bounds = StackBounds::EMPTY;
        }
        let mut next = || word(&mut random, &code, (sp - 8_192, sp + 8_192));
        let regs = Regs {
            ip: next(),
            sp: next(),
            fp: next(),
        };
        let limit = (round % 65) as usize;
        assert!(walk(regs, &mut bounds, &mut out[..limit]).len <= limit);
    }
}

#[test]
fn a_stack_of_random_words_is_no_fault() {
    init();
    let code = code_addresses();
    let mut random = Random(2);
    let mut memory = vec![0_u64; 4_096];
    let low = memory.as_ptr() as u64;
    let high = low + 8 * memory.len() as u64;
    let mut bounds = StackBounds::EMPTY;
    let mut out = [0; 256];
    for round in 0..3_000 {
        if round % 50 == 0 {
            memory.fill_with(|| word(&mut random, &code, (low, high)));
        }
        if round % 100 == 0 {
            forget_modules();
        }
        let regs = Regs {
            ip: code[random.below(code.len() as u64) as usize],
            sp: low + random.below(high - low) / 8 * 8,
            fp: word(&mut random, &code, (low, high)),
        };
        walk(regs, &mut bounds, &mut out);
    }
}

/// The own stack, copied, with some words changed.
#[test]
fn a_damaged_stack_is_no_fault() {
    init();
    let code = code_addresses();
    let mut random = Random(3);
    let mut bounds = StackBounds::EMPTY;
    let mut out = [0; 256];
    let regs = here();
    walk(regs, &mut bounds, &mut out);
    let len = ((bounds.high - regs.sp) / 8).min(2_048) as usize;
    // SAFETY: the walk found this part of the stack to be mapped; it is only
    // copied.
    let original = unsafe { std::slice::from_raw_parts(regs.sp as *const u64, len) }.to_vec();
    for _ in 0..3_000 {
        let mut copy = original.clone();
        let low = copy.as_ptr() as u64;
        let moved = low.wrapping_sub(regs.sp);
        // Pointers into the stack follow it to its new place.
        for word in &mut copy {
            if (regs.sp..bounds.high).contains(word) {
                *word = word.wrapping_add(moved);
            }
        }
        for _ in 0..random.below(20) {
            let at = random.below(len as u64) as usize;
            copy[at] = word(&mut random, &code, (low, low + 8 * len as u64));
        }
        let regs = Regs {
            ip: regs.ip,
            sp: low,
            fp: regs.fp.wrapping_add(moved),
        };
        walk(regs, &mut bounds, &mut out);
    }
}
