//! Frame description entries (FDE) and the common information (CIE) of each.
//!
//! ```text
//! FDE  u32 length │ u32 distance back to the CIE │ first address │ bytes covered
//!      │ augmentation data │ instructions
//! CIE  u32 length │ u32 0 │ u8 version │ augmentation text
//!      │ code and data alignment │ RA register │ augmentation data │ instructions
//! ```
//! A length of all ones is followed by the real one in eight bytes.

use super::reader::{Encoding, Reader, Section};

/// What is needed to compute the unwind row of an address.
#[derive(Clone, Copy)]
pub(in crate::unwind) struct Entry<'a> {
    /// The first address covered.
    pub start: u64,
    /// The address behind the last one covered.
    pub end: u64,
    /// What code advances are multiplied with.
    pub code_alignment: u64,
    /// What offsets are multiplied with.
    pub data_alignment: i64,
    /// The register that stands for the return address.
    pub return_address: u64,
    /// Encoding of addresses.
    pub encoding: Encoding,
    /// Whether the stack frame was made by the kernel for a signal handler.
    pub is_signal: bool,
    /// Instructions common to many entries, to be run first.
    pub initial: Reader<'a>,
    /// Instructions of this entry.
    pub program: Reader<'a>,
}

/// Reads the entry at `address`; none if it is damaged or of an unknown form.
pub(in crate::unwind) fn entry_at(section: Section<'_>, address: u64) -> Option<Entry<'_>> {
    let mut body = body_at(section, address)?;
    let id_address = body.address();
    let distance = u64::from(body.u32()?);
    if distance == 0 {
        return None;
    }
    let common = common_at(section, id_address.checked_sub(distance)?)?;
    let start = body.pointer(common.encoding, 0)?;
    let end = start.checked_add(body.number(Encoding(common.encoding.0 & 0x07))?)?;
    if common.has_data {
        let len = body.uleb()?;
        body.skip(len)?;
    }
    Some(Entry {
        start,
        end,
        code_alignment: common.code_alignment,
        data_alignment: common.data_alignment,
        return_address: common.return_address,
        encoding: common.encoding,
        is_signal: common.is_signal,
        initial: common.program,
        program: body,
    })
}

struct Common<'a> {
    code_alignment: u64,
    data_alignment: i64,
    return_address: u64,
    encoding: Encoding,
    has_data: bool,
    is_signal: bool,
    program: Reader<'a>,
}

fn common_at(section: Section<'_>, address: u64) -> Option<Common<'_>> {
    let mut body = body_at(section, address)?;
    if body.u32()? != 0 {
        return None;
    }
    let version = body.u8()?;
    if !matches!(version, 1 | 3) {
        return None;
    }
    let augmentation = body.text()?;
    let code_alignment = body.uleb()?;
    let data_alignment = body.sleb()?;
    let return_address = match version {
        1 => u64::from(body.u8()?),
        _ => body.uleb()?,
    };
    let mut common = Common {
        code_alignment,
        data_alignment,
        return_address,
        encoding: Encoding::WORD,
        has_data: false,
        is_signal: false,
        program: body,
    };
    read_augmentation(&mut common, augmentation)?;
    Some(common)
}

/// Reads the augmentation data and leaves `program` behind it.
fn read_augmentation(common: &mut Common<'_>, letters: &[u8]) -> Option<()> {
    let Some((b'z', letters)) = letters.split_first().map(|(first, rest)| (*first, rest)) else {
        return letters.is_empty().then_some(());
    };
    common.has_data = true;
    let len = common.program.uleb()?;
    let mut data = common.program.split(len)?;
    for letter in letters {
        match letter {
            b'R' => common.encoding = Encoding(data.u8()?),
            b'S' => common.is_signal = true,
            b'L' => data.skip(1)?,
            b'P' => skip_personality(&mut data)?,
            // What follows an unknown letter cannot be told apart.
            _ => return None,
        }
    }
    Some(())
}

fn skip_personality(data: &mut Reader<'_>) -> Option<()> {
    const ALIGNED: u8 = 0x50;
    let encoding = data.u8()?;
    if encoding == ALIGNED {
        data.skip(data.address().wrapping_neg() & 7)?;
        return data.skip(8);
    }
    data.number(Encoding(encoding)).map(|_| ())
}

/// The contents of the entry at `address`.
fn body_at(section: Section<'_>, address: u64) -> Option<Reader<'_>> {
    let mut at = section.reader_at(address)?;
    let len = match at.u32()? {
        0 => return None,
        u32::MAX => at.u64()?,
        short => u64::from(short),
    };
    at.split(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CIE at 0x8000 and behind it an FDE for 0x9000..0x9040. Returns the
    /// address of the FDE too.
    fn pair(augmentation: &[u8]) -> (Vec<u8>, u64) {
        let mut common = vec![0, 0, 0, 0, 1];
        common.extend(augmentation);
        common.extend([0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1]);
        let mut bytes = (common.len() as u32).to_le_bytes().to_vec();
        bytes.extend(&common);
        let entry = bytes.len() as u32;
        bytes.extend(20_u32.to_le_bytes());
        bytes.extend((entry + 4).to_le_bytes());
        bytes.extend((0x1000 - entry - 8).to_le_bytes());
        bytes.extend(0x40_u32.to_le_bytes());
        bytes.extend([0, 0x41, 0x0e, 16, 0, 0, 0, 0]);
        (bytes, 0x8000 + u64::from(entry))
    }

    fn section(bytes: &[u8]) -> Section<'_> {
        Section {
            bytes,
            address: 0x8000,
        }
    }

    #[test]
    fn a_usual_entry_is_read() {
        let (bytes, address) = pair(b"zR");
        let entry = entry_at(section(&bytes), address).unwrap();
        assert_eq!((entry.start, entry.end), (0x9000, 0x9040));
        assert_eq!((entry.code_alignment, entry.data_alignment), (1, -8));
        assert_eq!(entry.return_address, 16);
        assert!(!entry.is_signal);
        assert_eq!(
            (entry.initial.remaining(), entry.program.remaining()),
            (5, 7)
        );
    }

    #[test]
    fn a_signal_entry_is_marked() {
        let (bytes, address) = pair(b"zRS");
        assert!(entry_at(section(&bytes), address).unwrap().is_signal);
    }

    #[test]
    fn damage_is_none() {
        let (bytes, address) = pair(b"zR");
        assert!(
            entry_at(section(&bytes), 0x8000).is_none(),
            "a CIE is no FDE"
        );
        assert!(entry_at(section(&bytes), 0x7000).is_none());
        for len in 0..bytes.len() {
            assert!(entry_at(section(&bytes[..len]), address).is_none());
        }
        let (bytes, address) = pair(b"zX");
        assert!(entry_at(section(&bytes), address).is_none());
    }
}
