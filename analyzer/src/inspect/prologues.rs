//! Whether a program keeps frame pointers, guessed from how its functions begin.

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection};

/// What functions' beginnings show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct FramePointers {
    /// Functions looked at.
    pub functions: u32,
    /// Those that begin with `push rbp; mov rbp, rsp`.
    pub with_frame_pointer: u32,
}

/// Looks at no more functions than this: enough to tell.
const LOOK_AT: usize = 20_000;
/// Fewer functions than this tell nothing.
const ENOUGH: u32 = 8;

impl FramePointers {
    /// Most functions keep one. Small leaf functions often need none, so half is most.
    pub fn kept(&self) -> Option<bool> {
        (self.functions >= ENOUGH).then_some(self.with_frame_pointer * 2 >= self.functions)
    }
}

/// Counts functions by the unwind tables' index (`.eh_frame_hdr`).
pub fn count(file: &ElfFile64<'_, Endianness>) -> FramePointers {
    let mut counted = FramePointers::default();
    let Some(header) = file.section_by_name(".eh_frame_hdr") else {
        return counted;
    };
    let Ok(table) = header.data() else {
        return counted;
    };
    let text: Vec<(u64, &[u8])> = file
        .sections()
        .filter(|s| s.kind() == object::SectionKind::Text)
        .filter_map(|s| Some((s.address(), s.data().ok()?)))
        .collect();
    for start in starts(table, header.address()).take(LOOK_AT) {
        let Some(code) = text
            .iter()
            .find_map(|(base, code)| code.get(usize::try_from(start.checked_sub(*base)?).ok()?..))
        else {
            continue;
        };
        counted.functions += 1;
        counted.with_frame_pointer += u32::from(keeps_frame_pointer(code));
    }
    counted
}

/// Functions' first addresses as the usual table gives them: version 1, sorted pairs
/// of signed 32-bit offsets from the table's own address (encoding 0x3b).
fn starts(table: &[u8], address: u64) -> impl Iterator<Item = u64> {
    const ROWS_AT: usize = 12;
    let usual = table.first() == Some(&1) && table.get(3) == Some(&0x3b);
    let rows = table
        .get(ROWS_AT..)
        .filter(|_| usual)
        .unwrap_or_default()
        .chunks_exact(8);
    rows.map(move |row| {
        let offset = i32::from_le_bytes([row[0], row[1], row[2], row[3]]);
        address.wrapping_add_signed(i64::from(offset))
    })
}

/// `push rbp; mov rbp, rsp` in either encoding, behind an optional `endbr64`.
fn keeps_frame_pointer(code: &[u8]) -> bool {
    let code = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code);
    code.starts_with(&[0x55, 0x48, 0x89, 0xe5]) || code.starts_with(&[0x55, 0x48, 0x8b, 0xec])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prologues_are_recognised() {
        assert!(keeps_frame_pointer(&[0x55, 0x48, 0x89, 0xe5, 0xc3]));
        assert!(keeps_frame_pointer(&[
            0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x8b, 0xec
        ]));
        assert!(!keeps_frame_pointer(&[0x48, 0x83, 0xec, 0x08]));
    }

    #[test]
    fn few_functions_tell_nothing() {
        let few = FramePointers {
            functions: 3,
            with_frame_pointer: 3,
        };
        assert_eq!(few.kept(), None);
        let half = FramePointers {
            functions: 10,
            with_frame_pointer: 5,
        };
        assert_eq!(half.kept(), Some(true));
    }
}
