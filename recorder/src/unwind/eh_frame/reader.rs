//! Checked reads from a section of a loaded module.

/// Bytes that lie in memory at a known address.
#[derive(Clone, Copy)]
pub(in crate::unwind) struct Section<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Where the first of them lies.
    pub address: u64,
}

impl<'a> Section<'a> {
    /// A reader that starts at `address`, none if that lies elsewhere.
    pub fn reader_at(self, address: u64) -> Option<Reader<'a>> {
        let at = usize::try_from(address.checked_sub(self.address)?).ok()?;
        (at <= self.bytes.len()).then_some(Reader { section: self, at })
    }
}

/// A position in a section. Reading past the end gives `None`.
#[derive(Clone, Copy)]
pub(in crate::unwind) struct Reader<'a> {
    section: Section<'a>,
    at: usize,
}

impl<'a> Reader<'a> {
    /// The address of the next byte.
    pub fn address(&self) -> u64 {
        self.section.address.wrapping_add(self.at as u64)
    }

    /// Whether all bytes were read.
    pub fn is_at_end(&self) -> bool {
        self.at >= self.section.bytes.len()
    }

    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.section.bytes.len().saturating_sub(self.at)
    }

    /// Splits off a reader for the next `len` bytes and steps over them.
    pub fn split(&mut self, len: u64) -> Option<Reader<'a>> {
        let end = self.at.checked_add(usize::try_from(len).ok()?)?;
        let bytes = self.section.bytes.get(..end)?;
        let part = Reader {
            section: Section {
                bytes,
                ..self.section
            },
            at: self.at,
        };
        self.at = end;
        Some(part)
    }

    /// Steps over `len` bytes.
    pub fn skip(&mut self, len: u64) -> Option<()> {
        self.split(len).map(|_| ())
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let end = self.at.checked_add(N)?;
        let array = self.section.bytes.get(self.at..end)?.try_into().ok()?;
        self.at = end;
        Some(array)
    }

    /// One byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    /// A little-endian word of two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// A little-endian word of four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// A little-endian word of eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// LEB128, unsigned. Bits beyond the 64th are dropped.
    pub fn uleb(&mut self) -> Option<u64> {
        self.leb().map(|(value, _, _)| value)
    }

    /// LEB128, signed.
    pub fn sleb(&mut self) -> Option<i64> {
        let (value, shift, last) = self.leb()?;
        let is_negative = shift < 64 && last & 0x40 != 0;
        let sign = if is_negative { u64::MAX << shift } else { 0 };
        Some((value | sign) as i64)
    }

    fn leb(&mut self) -> Option<(u64, u32, u8)> {
        let mut value = 0;
        let mut shift = 0_u32;
        loop {
            let byte = self.u8()?;
            if shift < 64 {
                value |= u64::from(byte & 0x7f) << shift;
            }
            shift = shift.saturating_add(7);
            if byte & 0x80 == 0 {
                return Some((value, shift, byte));
            }
        }
    }

    /// A text that ends with a zero byte, without it.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let rest = self.section.bytes.get(self.at..)?;
        let len = rest.iter().position(|&byte| byte == 0)?;
        self.at += len + 1;
        rest.get(..len)
    }

    /// A pointer in `encoding`; `data` is the base of data-relative ones.
    pub fn pointer(&mut self, encoding: Encoding, data: u64) -> Option<u64> {
        let base = match encoding.0 & 0x70 {
            Encoding::ABSOLUTE => 0,
            Encoding::PC_RELATIVE => self.address(),
            Encoding::DATA_RELATIVE => data,
            _ => return None,
        };
        if encoding.0 & Encoding::INDIRECT != 0 {
            return None;
        }
        let value = self.number(encoding)?;
        Some(base.wrapping_add(value))
    }

    /// The number that a pointer in `encoding` is stored as.
    pub fn number(&mut self, encoding: Encoding) -> Option<u64> {
        Some(match encoding.0 & 0x0f {
            0x00 | 0x04 => self.u64()?,
            0x01 => self.uleb()?,
            0x02 => u64::from(self.u16()?),
            0x03 => u64::from(self.u32()?),
            0x09 => self.sleb()? as u64,
            0x0a => i64::from(self.u16()? as i16) as u64,
            0x0b => i64::from(self.u32()? as i32) as u64,
            0x0c => self.u64()?,
            _ => return None,
        })
    }
}

/// How a pointer is stored (`DW_EH_PE_…`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::unwind) struct Encoding(pub u8);

impl Encoding {
    const ABSOLUTE: u8 = 0x00;
    const PC_RELATIVE: u8 = 0x10;
    const DATA_RELATIVE: u8 = 0x30;
    const INDIRECT: u8 = 0x80;
    /// The pointer is not there.
    pub const OMITTED: Self = Self(0xff);
    /// A plain word.
    pub const WORD: Self = Self(0);

    /// Bytes a pointer takes, none for LEB128.
    pub fn size(self) -> Option<usize> {
        match self.0 & 0x07 {
            0 | 4 => Some(8),
            2 => Some(2),
            3 => Some(4),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(bytes: &[u8]) -> Reader<'_> {
        let section = Section {
            bytes,
            address: 0x1000,
        };
        section.reader_at(0x1000).unwrap()
    }

    #[test]
    fn leb128_has_sign_and_end() {
        // Examples of DWARF 5, tables 7.5 and 7.6.
        assert_eq!(reader(&[0xb9, 0x64]).uleb(), Some(12857));
        assert_eq!(reader(&[0x7f]).sleb(), Some(-1));
        assert_eq!(reader(&[0x80, 0x7f]).sleb(), Some(-128));
        assert_eq!(reader(&[0xff, 0x00]).sleb(), Some(127));
        assert_eq!(reader(&[0x80]).uleb(), None);
        assert_eq!(reader(&[0xff; 40]).sleb(), None);
        let mut long = [0x80; 40];
        long[39] = 0;
        assert_eq!(reader(&long).sleb(), Some(0));
    }

    #[test]
    fn pointers_are_relative_to_their_own_place() {
        let mut at = reader(&[0, 0, 0xfe, 0xff, 0xff, 0xff]);
        at.skip(2).unwrap();
        assert_eq!(at.pointer(Encoding(0x1b), 0), Some(0x1000));
        let bytes = 8_u32.to_le_bytes();
        assert_eq!(reader(&bytes).pointer(Encoding(0x3b), 0x50), Some(0x58));
        assert_eq!(reader(&bytes).pointer(Encoding(0x03), 0x50), Some(8));
        assert_eq!(reader(&bytes).pointer(Encoding(0x9b), 0x50), None);
        assert_eq!(reader(&bytes).pointer(Encoding(0x00), 0x50), None);
    }

    #[test]
    fn parts_end_where_they_were_cut() {
        let mut at = reader(&[1, 2, 3, 4]);
        let mut part = at.split(2).unwrap();
        assert_eq!((part.u8(), part.u8(), part.u8()), (Some(1), Some(2), None));
        assert_eq!(at.u8(), Some(3));
        assert!(at.split(2).is_none());
        assert!(at.split(u64::MAX).is_none());
    }
}
