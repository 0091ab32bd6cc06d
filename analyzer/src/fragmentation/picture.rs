//! How scattered a model's memory is at one moment: figures, measures and the map.

use super::figures::{Figures, by_segment};
use super::groups::{ColourBy, Group, Groups, Names};
use super::measures::{Measure, Pinned, measures, pinned};
use super::witness::{Books, Owner};
use heapreel_models::ledger::{Ledger, Tally};
use heapreel_models::map::{Cell, cells};
use heapreel_models::{BlockId, Counters, Region, RunState};
use serde::Serialize;

/// What is asked of a moment.
#[derive(Clone, Debug)]
pub struct Question {
    /// What decides the map's colours.
    pub colour: ColourBy,
    /// Cells of a region.
    pub width: usize,
    /// The size that `unusable` and `frag_index` are for; by default that of the last
    /// request that failed, else 1 MiB.
    pub request: Option<u64>,
    /// Only regions of this name.
    pub region: Option<String>,
    /// Bytes of a header in front of each block of this model.
    pub header: u64,
    /// The model hands out pages that it can get more of: what is free does not tell what
    /// will fail.
    pub paged: bool,
}

/// The answer: plain values, in bytes unless they say otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Picture {
    /// The trace's file.
    pub trace: String,
    /// The model.
    pub model: String,
    /// The frame that the moment lies in.
    pub frame: u32,
    /// The moment, in nanoseconds since the trace began.
    pub nanos: u64,
    /// Bytes of a block's header in this model.
    pub header: u64,
    /// See [`Question::paged`].
    pub paged: bool,
    /// The model's counters; of one segment where only it was asked for.
    pub counters: Counters,
    /// All regions shown, as one.
    pub whole: Figures,
    /// The segments that have regions of their own.
    pub segments: Vec<SegmentFigures>,
    /// The measures, over the regions in use.
    pub measures: Vec<Measure>,
    /// Pages that few live bytes keep.
    pub pinned: Pinned,
    /// What was done and what failed up to here.
    pub failures: Tally,
    /// The first request that failed.
    pub first_failure: Option<FirstFailure>,
    /// What `groups` have in common.
    pub coloured_by: ColourBy,
    /// The colours of the map.
    pub groups: Vec<Group>,
    /// The map, in address order.
    pub regions: Vec<RegionMap>,
}

/// A request that failed, and what was free then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FirstFailure {
    /// The game frame.
    pub frame: u32,
    /// The segment that the thread worked in.
    pub segment: String,
    /// The function that asked.
    pub site: String,
    /// Bytes that were asked for.
    pub size: u64,
    /// Bytes that were free.
    pub free: u64,
    /// The longest free range.
    pub largest_free: u64,
}

/// A segment's figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SegmentFigures {
    /// Its name.
    pub segment: String,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// A region and its map.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RegionMap {
    /// Its name.
    pub name: String,
    /// First address.
    pub start: u64,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
    /// Its cells, in address order.
    pub map: Vec<MapCell>,
}

/// A cell of a map.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MapCell {
    /// What lies there.
    #[serde(flatten)]
    pub cell: Cell,
    /// The position in [`Picture::groups`] of the block with the most bytes here.
    pub group: Option<usize>,
}

impl RegionMap {
    /// Down-samples a region to `width` cells; `group` tells a block's group.
    pub fn of(
        region: &Region,
        header: u64,
        width: usize,
        group: impl Fn(u32) -> Option<usize>,
    ) -> RegionMap {
        let cell = |cell: Cell| MapCell {
            group: cell.block.and_then(&group),
            cell,
        };
        RegionMap {
            name: region.name.clone(),
            start: region.start,
            figures: Figures::of(std::iter::once(region), header),
            map: cells(region, width).into_iter().map(cell).collect(),
        }
    }
}

/// A moment of a run, with its regions at hand.
pub struct Moment<'a> {
    ledger: &'a Ledger,
    books: &'a Books,
    /// The regions that were asked for, in address order.
    pub regions: Vec<Region>,
    question: Question,
}

/// No region has the name that was asked for. A fragment for behind the model's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("has no region {name:?}; there are {}", known.join(", "))]
pub struct NoSuchRegion {
    name: String,
    known: Vec<String>,
}

impl<'a> Moment<'a> {
    /// The moment that a run has come to.
    ///
    /// # Errors
    ///
    /// [`NoSuchRegion`].
    pub fn of(
        ledger: &'a Ledger,
        books: &'a Books,
        question: Question,
    ) -> Result<Moment<'a>, NoSuchRegion> {
        let mut regions = ledger.model().regions();
        if let Some(name) = &question.region {
            let known: Vec<String> = regions.iter().map(|region| region.name.clone()).collect();
            regions.retain(|region| region.name == *name);
            if regions.is_empty() {
                let name = name.clone();
                return Err(NoSuchRegion { name, known });
            }
        }
        Ok(Moment {
            ledger,
            books,
            regions,
            question,
        })
    }

    /// The regions for a picture: those in use; all, where none is.
    pub fn drawn(&self) -> Vec<Region> {
        let used: Vec<_> = self.regions.iter().filter(|r| in_use(r)).cloned().collect();
        if used.is_empty() {
            self.regions.clone()
        } else {
            used
        }
    }

    /// The colours of the blocks in the regions.
    pub fn groups(&self, names: &mut dyn Names) -> Groups {
        let blocks: Vec<(u32, u64, Option<&Owner>)> = used(&self.regions)
            .map(|(id, bytes)| (id, bytes, self.books.owner(id)))
            .collect();
        Groups::of(&blocks, self.question.colour, self.books.now.nanos, names)
    }

    /// All about the moment.
    pub fn picture(
        &self,
        trace: &str,
        model: &str,
        groups: &Groups,
        names: &mut dyn Names,
    ) -> Picture {
        let Question { header, width, .. } = self.question;
        let counters = self.counters();
        let in_use: Vec<Region> = self.regions.iter().filter(|r| in_use(r)).cloned().collect();
        let segments = by_segment(&self.regions, header, self.books.segments()).into_iter();
        Picture {
            trace: trace.to_owned(),
            model: model.to_owned(),
            frame: self.books.now.frame,
            nanos: self.books.now.nanos,
            header,
            paged: self.question.paged,
            whole: Figures::of(self.regions.iter(), header),
            segments: segments
                .map(|(_, segment, figures)| SegmentFigures { segment, figures })
                .collect(),
            measures: measures(
                &in_use,
                &counters,
                self.ledger.johnstone_wilson(),
                self.request(),
            ),
            pinned: pinned(&in_use, self.books, names),
            failures: *self.ledger.tally(),
            first_failure: self.first_failure(names),
            coloured_by: self.question.colour,
            groups: groups.list.clone(),
            regions: self
                .regions
                .iter()
                .map(|region| RegionMap::of(region, header, width, |id| groups.group(id)))
                .collect(),
            counters,
        }
    }

    fn first_failure(&self, names: &mut dyn Names) -> Option<FirstFailure> {
        let first = self.ledger.failures().first()?;
        Some(FirstFailure {
            frame: first.frame,
            segment: names.segment(first.segment.0),
            site: names.site(first.site),
            size: first.size,
            free: first.failure.free,
            largest_free: first.failure.largest_free,
        })
    }

    /// Of the segment that was asked for, where the model knows it apart.
    fn counters(&self) -> Counters {
        let asked = self.question.region.as_ref().and(self.regions.first());
        let segment = asked.and_then(|region| region.segment);
        let mut apart = self.ledger.model().by_segment().into_iter();
        apart
            .find(|(of, _)| Some(*of) == segment)
            .map_or_else(|| self.ledger.model().counters(), |(_, counters)| counters)
    }

    fn request(&self) -> u64 {
        let failed = self.ledger.failures().last().map(|failed| failed.size);
        self.question.request.or(failed).unwrap_or(1 << 20).max(1)
    }
}

pub(super) fn in_use(region: &Region) -> bool {
    let taken = |run: &(u64, RunState)| matches!(run.1, RunState::Used(_) | RunState::Idle);
    region.runs.iter().any(taken)
}

/// (number, bytes) of the blocks in some regions.
pub(super) fn used(regions: &[Region]) -> impl Iterator<Item = (u32, u64)> {
    let runs = regions.iter().flat_map(|region| &region.runs);
    runs.filter_map(|(bytes, state)| match state {
        RunState::Used(BlockId(id)) => Some((*id, *bytes)),
        _ => None,
    })
}
