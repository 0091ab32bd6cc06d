//! What a frame's bar can show.

use crate::ticks::Round;
use crate::units;
use crate::view_model::FrameRow;

/// A figure that each frame has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Time of the frame, less the recorder's own share.
    #[default]
    FrameTime,
    /// Number of allocations.
    Allocations,
    /// Bytes asked for.
    Bytes,
    /// Time spent in the allocator.
    AllocatorTime,
}

impl Metric {
    /// All metrics, in the order in which they are offered.
    pub const ALL: [Self; 4] = [
        Self::FrameTime,
        Self::Allocations,
        Self::Bytes,
        Self::AllocatorTime,
    ];

    /// Its name.
    pub fn label(self) -> &'static str {
        match self {
            Self::FrameTime => "Frame time",
            Self::Allocations => "Allocations",
            Self::Bytes => "Bytes",
            Self::AllocatorTime => "Allocator time",
        }
    }

    /// What the figure means, in a sentence.
    pub fn definition(self) -> &'static str {
        match self {
            Self::FrameTime => {
                "Time from this frame's mark to the next one, less what recording itself cost."
            }
            Self::Allocations => {
                "Allocations and reallocations in this frame, on all threads; failed ones left out."
            }
            Self::Bytes => "Bytes that this frame's allocations asked for, on all threads.",
            Self::AllocatorTime => {
                "Time that the loop's own thread spent inside the allocator in this frame: \
                 a part of the frame's time."
            }
        }
    }

    /// The figure of a frame: seconds, a count or bytes.
    pub fn of(self, frame: &FrameRow) -> f64 {
        match self {
            Self::FrameTime => frame.time,
            Self::Allocations => frame.allocations as f64,
            Self::Bytes => frame.bytes as f64,
            Self::AllocatorTime => frame.allocator_time,
        }
    }

    /// The figure with its unit.
    pub fn format(self, value: f64) -> String {
        match self {
            Self::FrameTime | Self::AllocatorTime => units::seconds(value),
            Self::Allocations => units::count(value.max(0.0).round() as u64),
            Self::Bytes => units::bytes(value),
        }
    }

    /// A mean of the figure with its unit: counts have decimals then.
    pub fn format_mean(self, value: f64) -> String {
        match self {
            Self::Allocations => heapreel_analyzer::units::mean(value),
            _ => self.format(value),
        }
    }

    /// Which steps its axis may have.
    pub fn round(self) -> Round {
        match self {
            Self::Bytes => Round::Binary,
            _ => Round::Decimal,
        }
    }
}
