//! How scattered memory is in a model, over time and at one moment; and what several
//! traces need together.

mod capacity;
mod figures;
#[cfg(test)]
mod fixtures;
mod groups;
pub mod image;
mod measures;
mod names;
mod picture;
mod series;
pub mod terminal;
mod until;
mod witness;

pub use capacity::{Capacity, Load, SegmentCapacity, SegmentPeak, Weighed, weigh};
pub use figures::Figures;
pub use groups::{ColourBy, Group, Groups, Names, Rgb};
pub use measures::{Measure, Pinned, PinningSite};
pub use names::TraceNames;
pub use picture::{
    FirstFailure, MapCell, Moment, NoSuchRegion, Picture, Question, RegionMap, SegmentFigures,
};
pub use series::{Series, SeriesRow, series_csv};
pub use until::{end_of_frame, until};
pub use witness::{Act, Books, Owner, Peak, Sample, Tenure, Until, Wanted, header_of};
