//! Where functions begin, for files without any names.

use super::arena::Arena;
use super::elf::{Image, section};
use addr2line::gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection};
use object::{Object, ObjectSection};

/// Ranges of functions, from the unwind tables in `.eh_frame`: even a stripped file
/// needs them for exceptions.
#[derive(Default)]
pub(super) struct FunctionStarts {
    /// Start and exclusive end, in ascending order.
    ranges: Vec<(u64, u64)>,
}

impl FunctionStarts {
    /// Reads the table of a file as far as it is whole.
    pub(super) fn read(image: &Image) -> Self {
        let mut ranges = read_ranges(image).unwrap_or_default();
        ranges.sort_unstable();
        FunctionStarts { ranges }
    }

    /// A name for the function that contains the address: `sub_` and its start.
    pub(super) fn find(&self, svma: u64) -> Option<String> {
        let after = self.ranges.partition_point(|(start, _)| *start <= svma);
        let (start, end) = self.ranges.get(after.checked_sub(1)?)?;
        (svma < *end).then(|| format!("sub_{start:x}"))
    }
}

fn read_ranges(image: &Image) -> Option<Vec<(u64, u64)>> {
    let elf = image.elf().ok()?;
    let store = Arena::new();
    let address = |name| {
        elf.section_by_name(name)
            .map_or(0, |section| section.address())
    };
    let bases = BaseAddresses::default()
        .set_eh_frame(address(".eh_frame"))
        .set_eh_frame_hdr(address(".eh_frame_hdr"))
        .set_text(address(".text"))
        .set_got(address(".got"));
    let eh_frame = EhFrame::new(section(&elf, &store, ".eh_frame"), LittleEndian);
    let mut ranges = Vec::new();
    let mut entries = eh_frame.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else {
            continue;
        };
        let start = fde.initial_address();
        // Start 0 marks functions that the linker dropped.
        if start != 0 && fde.len() > 0 {
            ranges.push((start, start.saturating_add(fde.len())));
        }
    }
    Some(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_function_that_contains_it() {
        let starts = FunctionStarts {
            ranges: vec![(0x1000, 0x1010), (0x1a2b30, 0x1a2b40)],
        };
        assert_eq!(starts.find(0xfff), None);
        assert_eq!(starts.find(0x100f).as_deref(), Some("sub_1000"));
        assert_eq!(starts.find(0x1010), None);
        assert_eq!(starts.find(0x1a2b33).as_deref(), Some("sub_1a2b30"));
    }
}
