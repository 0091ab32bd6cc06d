//! Unwind information with changed bytes: any rule will do, a fault will not.

use super::garbage::Random;
use crate::unwind::eh_frame::{Encoding, Entry, Reader, Section, entry_at, find_entry};
use crate::unwind::module_of;
use crate::unwind::x86_64::{Special, rule_at};

/// A function of this program, its unwind table and its entry in it.
struct Sample {
    pc: u64,
    bytes: Vec<u8>,
    address: u64,
    header: u64,
    entry: u64,
}

impl Sample {
    fn of(pc: u64) -> Self {
        crate::unwind::init();
        let module = module_of(pc).unwrap();
        let (bytes, address) = module.segment_at(module.eh_frame_hdr).unwrap();
        let section = Section { bytes, address };
        let entry = find_entry(section, module.eh_frame_hdr, pc).unwrap();
        Self {
            pc,
            bytes: bytes.to_vec(),
            address,
            header: module.eh_frame_hdr,
            entry,
        }
    }

    fn section(&self) -> Section<'_> {
        Section {
            bytes: &self.bytes,
            address: self.address,
        }
    }

    fn rule(&self) -> Option<Special> {
        let entry = find_entry(self.section(), self.header, self.pc)?;
        let entry = entry_at(self.section(), entry)?;
        Some(rule_at(&entry, self.pc).special())
    }

    /// Where the common information of the entry begins.
    fn common(&self) -> u64 {
        let mut at = self.section().reader_at(self.entry + 4).unwrap();
        self.entry + 4 - u64::from(at.u32().unwrap())
    }
}

#[test]
fn changed_bytes_are_no_fault() {
    let mut sample = Sample::of(libc::qsort as *const () as u64 + 40);
    assert!(matches!(sample.rule(), Some(Special::General(_))));
    let places = [
        (sample.header - sample.address, 12),
        (sample.header - sample.address + 12, 4_096),
        (sample.entry - sample.address, 40),
        (sample.common() - sample.address, 32),
    ];
    let mut random = Random(4);
    for _ in 0..20_000 {
        let mut changed = Vec::new();
        for _ in 0..=random.below(3) {
            let (start, len) = places[random.below(4) as usize];
            let at = (start + random.below(len)) as usize;
            changed.push((at, sample.bytes[at]));
            sample.bytes[at] = random.next() as u8;
        }
        sample.rule();
        for (at, byte) in changed.into_iter().rev() {
            sample.bytes[at] = byte;
        }
    }
    assert!(matches!(sample.rule(), Some(Special::General(_))));
}

#[test]
fn random_programs_are_no_fault() {
    let mut random = Random(5);
    for _ in 0..100_000 {
        let mut bytes = [0; 48];
        for byte in &mut bytes {
            // Half of the bytes are small, as operands are.
            let word = random.next();
            *byte = (word >> 8) as u8 >> ((word & 1) * 4);
        }
        let reader = |bytes| -> Reader<'_> { Section { bytes, address: 0 }.reader_at(0).unwrap() };
        let entry = Entry {
            start: 0x1000,
            end: 0x2000,
            code_alignment: random.below(3),
            data_alignment: -8,
            return_address: 16,
            encoding: Encoding::WORD,
            is_signal: random.below(8) == 0,
            initial: reader(&bytes[..8]),
            program: reader(&bytes[8..]),
        };
        rule_at(&entry, 0x1000 + random.below(0x1000));
    }
}
