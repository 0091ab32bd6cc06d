//! How an address range is cut up: segment, slices, pages.

use super::size_class::{bin, span_bin};
use crate::parameters::BadParameter;

/// An OS page in bytes.
const OS_PAGE: u64 = 4096;

/// Bytes of a slice's descriptor in the segment's header.
const DESCRIPTOR: u64 = 80;

/// Bytes of the segment's header besides the descriptors and the two masks.
const HEADER_FIXED: u64 = 32;

/// The lengths that everything else follows from.
///
/// ```text
/// segment  |header|slice|slice|slice| ... |slice|
/// page            |one  |a medium page    |  a span that is free ... |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Smallest unit of a segment in bytes, and the length of a small page.
    pub slice_bytes: u64,
    /// A segment in bytes; segments are aligned to it.
    pub segment_bytes: u64,
    /// A page for medium blocks in bytes.
    pub medium_page_bytes: u64,
}

impl Geometry {
    /// Slices of 64 KiB in segments of 64 MiB: mimalloc 2.0.3 as it is shipped.
    pub const STOCK: Geometry = Geometry {
        slice_bytes: 64 << 10,
        segment_bytes: 64 << 20,
        medium_page_bytes: 512 << 10,
    };

    /// Slices of 16 KiB in segments of 4 MiB: the slide's macros as they are written.
    pub const SLIDE_MACROS: Geometry = Geometry {
        slice_bytes: 16 << 10,
        segment_bytes: 4 << 20,
        medium_page_bytes: 128 << 10,
    };

    /// Slices of 16 KiB in segments of 8 MiB: what the slide says that the macros give.
    pub const SLIDE_CAPTIONS: Geometry = Geometry {
        slice_bytes: 16 << 10,
        segment_bytes: 8 << 20,
        medium_page_bytes: 128 << 10,
    };

    /// Whether the lengths go together.
    ///
    /// # Errors
    ///
    /// [`BadParameter`], which says what does not.
    pub fn validate(&self) -> Result<(), BadParameter> {
        let bad = |name, bytes: u64, expected| {
            Err(BadParameter::value(name, &bytes.to_string(), expected))
        };
        let (slice, segment) = (self.slice_bytes, self.segment_bytes);
        if !slice.is_power_of_two() || !(4 << 10..=256 << 10).contains(&slice) {
            return bad("slice", slice, "a power of two from 4 KiB to 256 KiB");
        }
        if !segment.is_power_of_two() || !(32..=1 << 16).contains(&(segment / slice)) {
            return bad("segment", segment, "a power of two of 32 to 65536 slices");
        }
        if self.header_slices() * 4 > self.slices() {
            return bad("segment", segment, "longer than four of its headers");
        }
        let medium = self.medium_page_bytes;
        if !medium.is_multiple_of(slice) || !(slice..=segment / 2).contains(&medium) {
            return bad(
                "medium_page",
                medium,
                "whole slices, at most half a segment",
            );
        }
        Ok(())
    }

    /// Slices of a segment, header included.
    pub fn slices(&self) -> u32 {
        (self.segment_bytes / self.slice_bytes) as u32
    }

    /// What a segment's header needs in bytes: one descriptor a slice and one more, and two
    /// masks of one bit a slice.
    pub fn header_bytes(&self) -> u64 {
        let slices = u64::from(self.slices());
        DESCRIPTOR * (slices + 1) + 2 * slices / 8 + HEADER_FIXED
    }

    /// Slices that the header takes.
    pub fn header_slices(&self) -> u32 {
        let bytes = self.header_bytes().next_multiple_of(OS_PAGE);
        bytes.div_ceil(self.slice_bytes) as u32
    }

    /// Slices that blocks can lie in.
    pub fn usable_slices(&self) -> u32 {
        self.slices() - self.header_slices()
    }

    /// Largest block in bytes that lies in a page of one slice.
    pub fn small_max(&self) -> u64 {
        self.slice_bytes / 4
    }

    /// Largest block in bytes that shares a page with others.
    pub fn medium_max(&self) -> u64 {
        self.medium_page_bytes / 4
    }

    /// Largest block in bytes that lies in a segment with others.
    pub fn large_max(&self) -> u64 {
        self.segment_bytes / 2
    }

    /// The highest class of blocks that share pages.
    pub fn top_bin(&self) -> u8 {
        bin(self.medium_max(), self.medium_max())
    }

    /// Classes of blocks that share pages: of the first eight only 1, 2, 4, 6 and 8.
    pub fn size_classes(&self) -> u32 {
        u32::from(self.top_bin()) - 3
    }

    /// Queues for free spans.
    pub(crate) fn span_bins(&self) -> usize {
        span_bin(self.slices()) + 1
    }

    /// Length in slices of a page for blocks of `block_bytes`.
    pub(crate) fn page_slices(&self, block_bytes: u64) -> u32 {
        let bytes = if block_bytes <= self.small_max() {
            self.slice_bytes
        } else if block_bytes <= self.medium_max() {
            self.medium_page_bytes
        } else if block_bytes <= self.medium_page_bytes {
            block_bytes.next_multiple_of(self.slice_bytes)
        } else {
            block_bytes.next_multiple_of(self.medium_page_bytes)
        };
        (bytes / self.slice_bytes) as u32
    }
}
