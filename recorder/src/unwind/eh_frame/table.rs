//! The sorted table in `.eh_frame_hdr`.
//!
//! ```text
//! u8 version = 1 │ u8 encoding of eh_frame │ u8 of the count │ u8 of the table
//! pointer to .eh_frame │ count │ count × (first address, address of the FDE)
//! ```

use super::reader::{Encoding, Reader, Section};

/// The address of the frame description entry whose function may contain `pc`:
/// the last one that starts at or before it. `header` is the address of
/// `.eh_frame_hdr` and `section` the segment around it.
///
/// A header without a table gives none.
pub(in crate::unwind) fn find_entry(section: Section<'_>, header: u64, pc: u64) -> Option<u64> {
    let mut at = section.reader_at(header)?;
    if at.u8()? != 1 {
        return None;
    }
    let frames = Encoding(at.u8()?);
    let count = Encoding(at.u8()?);
    let table = Encoding(at.u8()?);
    if count == Encoding::OMITTED || table == Encoding::OMITTED {
        return None;
    }
    if frames != Encoding::OMITTED {
        at.number(frames)?;
    }
    let count = at.number(count)?;
    search(at, count, table, header, pc)
}

fn search(at: Reader<'_>, count: u64, encoding: Encoding, header: u64, pc: u64) -> Option<u64> {
    let size = 2 * encoding.size()? as u64;
    let count = count.min(at.remaining() as u64 / size);
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        let mut row = at;
        row.skip(middle * size)?;
        if row.pointer(encoding, header)? <= pc {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let mut row = at;
    row.skip(low.checked_sub(1)? * size)?;
    row.pointer(encoding, header)?;
    row.pointer(encoding, header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(rows: &[(i32, i32)]) -> Vec<u8> {
        let mut bytes = vec![1, 0x1b, 0x03, 0x3b];
        bytes.extend(0_i32.to_le_bytes());
        bytes.extend((rows.len() as u32).to_le_bytes());
        for (start, entry) in rows {
            bytes.extend(start.to_le_bytes());
            bytes.extend(entry.to_le_bytes());
        }
        bytes
    }

    fn find(bytes: &[u8], pc: u64) -> Option<u64> {
        let section = Section {
            bytes,
            address: 0x4000,
        };
        find_entry(section, 0x4000, pc)
    }

    #[test]
    fn the_last_start_at_or_before_wins() {
        let bytes = header(&[(-0x3000, 0x100), (-0x2000, 0x140), (-0x1000, 0x180)]);
        assert_eq!(find(&bytes, 0x0fff), None);
        assert_eq!(find(&bytes, 0x1000), Some(0x4100));
        assert_eq!(find(&bytes, 0x1fff), Some(0x4100));
        assert_eq!(find(&bytes, 0x2000), Some(0x4140));
        assert_eq!(find(&bytes, 0x9999), Some(0x4180));
        assert_eq!(find(&header(&[]), 0x1000), None);
    }

    #[test]
    fn a_count_beyond_the_segment_is_cut() {
        let mut bytes = header(&[(-0x3000, 0x100), (-0x2000, 0x140)]);
        bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(find(&bytes, 0x2000), Some(0x4140));
        for len in 0..bytes.len() {
            find(&bytes[..len], 0x2000);
        }
    }

    #[test]
    fn a_header_without_table_gives_none() {
        let mut bytes = header(&[(-0x3000, 0x100)]);
        bytes[3] = 0xff;
        assert_eq!(find(&bytes, 0x1000), None);
    }
}
