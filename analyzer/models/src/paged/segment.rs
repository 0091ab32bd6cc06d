//! A segment, tiled by its header, by pages and by free spans.

use std::ops::Range;

use super::Geometry;
use super::mask::SliceMask;
use super::queue::{Link, Links, NIL};

/// What lies in one slice. Only the entries of a tile's first and last slice mean anything.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slice {
    /// In a tile's first slice: slices of the tile.
    pub(crate) count: u32,
    /// In a tile's last slice: slices before it in the tile.
    back: u32,
    /// In a tile's first slice: the page, or `NIL` for a free span.
    pub(crate) page: u32,
    /// In a free span's first slice: its neighbours in the span queue.
    link: Link,
    /// In a free span's first slice: it is in a span queue.
    pub(crate) queued: bool,
}

/// The page number of a segment's header.
pub(crate) const HEADER: u32 = NIL - 1;

/// A segment, or what is left of one: numbers are used again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segment {
    pub(crate) base: u64,
    pub(crate) bytes: u64,
    /// Made for a single block that is larger than a segment would hold.
    pub(crate) huge: bool,
    /// It exists, in use or in the cache.
    pub(crate) live: bool,
    /// It is in the cache.
    pub(crate) cached: bool,
    /// The heap it belongs to, or `NIL`.
    pub(crate) owner: u32,
    /// Pages in it.
    pub(crate) used: u32,
    /// Pages in it that no heap owns.
    pub(crate) abandoned: u32,
    /// Looks at it since it was abandoned.
    pub(crate) visits: u32,
    /// Slices with memory.
    pub(crate) commit: SliceMask,
    /// Slices whose memory is to go.
    pub(crate) purge: SliceMask,
    /// When it goes, in milliseconds.
    pub(crate) purge_at: u64,
    slices: Vec<Slice>,
    /// The page of a huge segment.
    pub(crate) huge_page: u32,
}

impl Segment {
    /// Makes it new, at `base`, without memory.
    pub(crate) fn reset(&mut self, base: u64, bytes: u64, geometry: &Geometry, huge: bool) {
        let (mut commit, mut purge) = (
            std::mem::take(&mut self.commit),
            std::mem::take(&mut self.purge),
        );
        commit.reset(geometry.slices());
        purge.reset(geometry.slices());
        let mut slices = std::mem::take(&mut self.slices);
        if !huge {
            slices.clear();
            slices.resize(geometry.slices() as usize, Slice::default());
        }
        *self = Segment {
            base,
            bytes,
            huge,
            live: true,
            owner: NIL,
            commit,
            purge,
            slices,
            huge_page: NIL,
            ..Segment::default()
        };
    }

    /// Marks `count` slices from `first` on as one tile: a page, the header, or free.
    pub(crate) fn set_tile(&mut self, first: u32, count: u32, page: u32) {
        let slice = &mut self.slices[first as usize];
        (slice.count, slice.page, slice.queued) = (count, page, false);
        self.slices[(first + count - 1) as usize].back = count - 1;
    }

    /// The tile that begins at `first`.
    pub(crate) fn tile(&self, first: u32) -> Slice {
        self.slices[first as usize]
    }

    pub(crate) fn tile_mut(&mut self, first: u32) -> &mut Slice {
        &mut self.slices[first as usize]
    }

    /// First slice of the tile before the one that begins at `first`.
    pub(crate) fn tile_before(&self, first: u32) -> u32 {
        first - 1 - self.slices[first as usize - 1].back
    }

    /// First slices of all tiles, in address order; none in a huge segment.
    pub(crate) fn tiles(&self) -> impl Iterator<Item = (Range<u32>, Slice)> + '_ {
        let end = if self.huge {
            0
        } else {
            self.slices.len() as u32
        };
        let mut next = 0;
        std::iter::from_fn(move || {
            let first = next;
            (first < end).then(|| {
                let tile = self.tile(first);
                next = first + tile.count.max(1);
                (first..next, tile)
            })
        })
    }
}

/// All segments, by number. The number of a span is its segment's and its first slice's.
#[derive(Clone, Debug)]
pub(crate) struct Segments {
    all: Vec<Segment>,
    unused: Vec<u32>,
    slices_log2: u32,
}

impl Segments {
    pub(crate) fn new(geometry: &Geometry) -> Segments {
        Segments {
            all: Vec::new(),
            unused: Vec::new(),
            slices_log2: geometry.slices().ilog2(),
        }
    }

    /// A number for a new segment.
    pub(crate) fn take(&mut self) -> u32 {
        self.unused.pop().unwrap_or_else(|| {
            self.all.push(Segment::default());
            (self.all.len() - 1) as u32
        })
    }

    /// A segment is gone.
    pub(crate) fn give_back(&mut self, segment: u32) {
        self[segment].live = false;
        self.unused.push(segment);
    }

    /// Those that exist, in the order of their numbers.
    pub(crate) fn live(&self) -> impl Iterator<Item = (u32, &Segment)> {
        self.all
            .iter()
            .enumerate()
            .filter(|(_, segment)| segment.live)
            .map(|(number, segment)| (number as u32, segment))
    }

    /// How many numbers were ever given out.
    pub(crate) fn numbers(&self) -> u32 {
        self.all.len() as u32
    }

    /// The number of a span.
    pub(crate) fn span(&self, segment: u32, first: u32) -> u32 {
        segment << self.slices_log2 | first
    }

    /// Segment and first slice of a span.
    pub(crate) fn of_span(&self, span: u32) -> (u32, u32) {
        (
            span >> self.slices_log2,
            span & ((1 << self.slices_log2) - 1),
        )
    }

    /// The span after `span` in its queue.
    pub(crate) fn next(&self, span: u32) -> u32 {
        let (segment, first) = self.of_span(span);
        self[segment].slices[first as usize].link.next
    }
}

impl std::ops::Index<u32> for Segments {
    type Output = Segment;

    #[inline]
    fn index(&self, segment: u32) -> &Segment {
        &self.all[segment as usize]
    }
}

impl std::ops::IndexMut<u32> for Segments {
    #[inline]
    fn index_mut(&mut self, segment: u32) -> &mut Segment {
        &mut self.all[segment as usize]
    }
}

impl Links for Segments {
    fn link(&mut self, span: u32) -> &mut Link {
        let (segment, first) = self.of_span(span);
        &mut self[segment].slices[first as usize].link
    }
}
