//! Levels of detail: what is drawn of a stretch of time on so many pixels.
//!
//! The work grows with the width of the picture and the logarithm of the trace,
//! so 100,000 frames draw as fast as 100.

use crate::metric::Metric;
use crate::view_model::{FrameLoop, FrameRow, LiveCurve};
use std::ops::Range;

/// A stretch of time in seconds since the recording began; not empty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Its start.
    pub from: f64,
    /// Its end.
    pub to: f64,
}

impl Span {
    /// Its length.
    pub fn length(self) -> f64 {
        self.to - self.from
    }

    /// The instant at a share of its length.
    pub fn at(self, share: f64) -> f64 {
        self.from + self.length() * share
    }
}

/// A bar: one frame, or all frames that share a column of pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// Where it is on the time axis.
    pub span: Span,
    /// Smallest figure of its frames.
    pub min: f64,
    /// Largest figure of its frames.
    pub max: f64,
    /// Index of the frame with the largest figure.
    pub top: usize,
    /// How many frames it stands for.
    pub frames: usize,
    /// How many of them are spikes.
    pub spikes: usize,
    /// At least half of them lie in a phase.
    pub in_phase: bool,
}

/// Frames are drawn one by one as long as there are no more than this many on a
/// pixel; beyond, a column shows the extremes of those it stands for.
const FRAMES_PER_PIXEL: f64 = 1.0;

/// The bars for a stretch of time on a picture of so many pixels.
pub fn columns(game: &FrameLoop, metric: Metric, view: Span, pixels: usize) -> Vec<Column> {
    let visible = game.overlapping(view.from, view.to);
    if visible.len() as f64 <= pixels as f64 * FRAMES_PER_PIXEL {
        return visible
            .filter_map(|index| column(game, metric, index..index + 1, None))
            .collect();
    }
    buckets(view, pixels)
        .scan(visible.start, |start, bucket| {
            let rest = &game.frames()[*start..visible.end];
            let end = *start + started_before(rest, bucket.to);
            let range = std::mem::replace(start, end)..end;
            Some((range, bucket))
        })
        .filter_map(|(range, bucket)| column(game, metric, range, Some(bucket)))
        .collect()
}

fn column(
    game: &FrameLoop,
    metric: Metric,
    range: Range<usize>,
    bucket: Option<Span>,
) -> Option<Column> {
    let extremes = game.values(metric).extremes(range.start, range.end)?;
    let (first, last) = (game.frames()[range.start], game.frames()[range.end - 1]);
    // A frame that goes on beyond its bucket fills those behind, where none starts.
    let span = match bucket {
        Some(bucket) => Span {
            from: bucket.from,
            to: bucket.to.max(last.end),
        },
        None => Span {
            from: first.start,
            to: last.end,
        },
    };
    Some(Column {
        span,
        min: extremes.min,
        max: extremes.max,
        top: extremes.max_at,
        frames: range.len(),
        spikes: game.spikes(range.clone()),
        in_phase: game.in_phase(range.clone()) * 2 >= range.len(),
    })
}

/// How many frames started before an instant. It looks near the beginning first:
/// a column's frames are few beside all that follow.
fn started_before(frames: &[FrameRow], time: f64) -> usize {
    let mut near = 1;
    while near < frames.len() && frames[near].start < time {
        near *= 2;
    }
    let near = &frames[..(near + 1).min(frames.len())];
    near.partition_point(|frame| frame.start < time)
}

/// One span per pixel.
fn buckets(view: Span, pixels: usize) -> impl Iterator<Item = Span> {
    let edge = move |pixel: usize| view.at(pixel as f64 / pixels as f64);
    (0..pixels).map(move |pixel| Span {
        from: edge(pixel),
        to: edge(pixel + 1),
    })
}

/// Markers that lie at least `distance` seconds apart: where they crowd, the
/// highest of each crowd stays. Takes and gives points by time.
pub fn thin_markers(points: &[[f64; 2]], distance: f64) -> Vec<[f64; 2]> {
    let mut kept: Vec<[f64; 2]> = Vec::new();
    for &point in points {
        match kept.last_mut() {
            Some(last) if point[0] - last[0] < distance => {
                if point[1] > last[1] {
                    *last = point;
                }
            }
            _ => kept.push(point),
        }
    }
    kept
}

/// Upper end of the value axis for the frames in view.
///
/// Frames in a phase, such as loading, do not stretch it: one long frame would
/// flatten all others. They are cut at the edge instead.
pub fn ceiling(game: &FrameLoop, metric: Metric, view: Span) -> f64 {
    let visible = game.overlapping(view.from, view.to);
    let largest = |tree: &crate::range_tree::RangeTree| {
        tree.extremes(visible.start, visible.end)
            .map_or(0.0, |extremes| extremes.max)
    };
    let steady = largest(game.steady_values(metric));
    let top = match steady > 0.0 {
        true => steady,
        false => largest(game.values(metric)),
    };
    let floor = match metric {
        Metric::FrameTime => game.budget,
        _ => 0.0,
    };
    match top.max(floor) * HEADROOM {
        ceiling if ceiling > 0.0 && ceiling.is_finite() => ceiling,
        _ => 1.0,
    }
}

/// Room above the highest bar for its marker.
const HEADROOM: f64 = 1.15;

/// The live curve's points for a stretch of time on so many pixels, by time.
///
/// Bytes hold until the next point, so the curve is drawn as steps; where points
/// crowd, each column of pixels goes through its lowest and highest one.
pub fn curve(live: &LiveCurve, view: Span, pixels: usize) -> Vec<[f64; 2]> {
    let points = live.points();
    let pixels = pixels.max(1);
    // One point beyond either edge, so that the line runs through them.
    let first = points
        .partition_point(|point| point.time < view.from)
        .saturating_sub(1);
    let end = (points.partition_point(|point| point.time <= view.to) + 1).min(points.len());
    if end.saturating_sub(first) <= pixels * 2 {
        return steps(points[first..end].iter().map(|p| [p.time, p.bytes]));
    }
    let mut line = vec![[points[first].time, points[first].bytes]];
    let mut start = first;
    for bucket in buckets(view, pixels) {
        let stop = start + points[start..end].partition_point(|point| point.time < bucket.to);
        line.extend(extremes_by_time(live, start..stop));
        start = stop;
    }
    line.extend(points[start..end].iter().map(|p| [p.time, p.bytes]));
    line
}

fn extremes_by_time(live: &LiveCurve, range: Range<usize>) -> impl Iterator<Item = [f64; 2]> {
    let extremes = live.tree().extremes(range.start, range.end);
    let both = extremes.map(|e| [e.min_at.min(e.max_at), e.min_at.max(e.max_at)]);
    both.into_iter()
        .flatten()
        .map(|index| live.points()[index])
        .map(|point| [point.time, point.bytes])
}

/// Each point's value holds until the next one.
fn steps(points: impl Iterator<Item = [f64; 2]>) -> Vec<[f64; 2]> {
    let mut line: Vec<[f64; 2]> = Vec::new();
    for point in points {
        if let Some(&last) = line.last() {
            line.push([point[0], last[1]]);
        }
        line.push(point);
    }
    line
}

/// Upper end of the byte axis for a stretch of time; `room` is the share of the
/// height to leave free above the curve.
pub fn live_ceiling(live: &LiveCurve, view: Span, room: f64) -> f64 {
    let top = curve(live, view, 1)
        .iter()
        .map(|point| point[1])
        .chain(high_water_in(live, view))
        .fold(0.0, f64::max);
    if top > 0.0 {
        top / (1.0 - room.clamp(0.0, 0.5))
    } else {
        1.0
    }
}

fn high_water_in(live: &LiveCurve, view: Span) -> Option<f64> {
    let peak = live.high_water?;
    (view.from <= peak.time && peak.time <= view.to).then_some(peak.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::view_model::LivePoint;

    const VIEW: Span = Span {
        from: 0.0,
        to: 1700.0,
    };

    #[test]
    fn few_frames_are_drawn_one_by_one() {
        let model = sample::model(300);
        let game = &model.loops[0];
        let drawn = columns(game, Metric::FrameTime, VIEW, 300);
        assert_eq!(drawn.len(), 300);
        assert!(drawn.iter().all(|c| c.frames == 1 && c.min == c.max));
    }

    #[test]
    fn many_frames_share_columns_and_none_is_lost() {
        let model = sample::model(100_000);
        let game = &model.loops[0];
        for metric in Metric::ALL {
            let drawn = columns(game, metric, VIEW, 1000);
            assert!(drawn.len() <= 1000);
            let frames: usize = drawn.iter().map(|c| c.frames).sum();
            assert_eq!(frames, game.overlapping(VIEW.from, VIEW.to).len());
            let spikes: usize = drawn.iter().map(|c| c.spikes).sum();
            assert_eq!(spikes, game.spikes(0..100_000));
            let highest = drawn.iter().map(|c| c.max).fold(0.0, f64::max);
            let truth = game.frames().iter().map(|f| metric.of(f));
            assert_eq!(highest, truth.fold(0.0, f64::max));
        }
    }

    #[test]
    fn columns_leave_no_gap_between_frames_that_follow_each_other() {
        let model = sample::model(3600);
        let game = &model.loops[0];
        let view = Span {
            from: 1.0,
            to: 40.0,
        };
        for pixels in [100, 1000, 1500, 2400, 5000] {
            let drawn = columns(game, Metric::FrameTime, view, pixels);
            assert!(drawn[0].span.from <= view.from + 0.1);
            let half_a_pixel = view.length() / pixels as f64 / 2.0;
            for pair in drawn.windows(2) {
                let gap = pair[1].span.from - pair[0].span.to;
                assert!(gap < half_a_pixel, "{gap} s at {pixels} pixels");
            }
        }
    }

    #[test]
    fn a_column_names_the_frame_of_its_highest_bar() {
        let model = sample::model(100_000);
        let game = &model.loops[0];
        for column in columns(game, Metric::Bytes, VIEW, 64) {
            let top = &game.frames()[column.top];
            assert_eq!(Metric::Bytes.of(top), column.max);
        }
    }

    #[test]
    fn nothing_in_view_draws_nothing() {
        let model = sample::model(100);
        let game = &model.loops[0];
        let far = Span {
            from: 9000.0,
            to: 9001.0,
        };
        assert!(columns(game, Metric::FrameTime, far, 800).is_empty());
        assert!(columns(game, Metric::FrameTime, VIEW, 0).is_empty());
        assert_eq!(ceiling(game, Metric::Allocations, far), 1.0);
        assert!(columns(&FrameLoop::default(), Metric::Bytes, VIEW, 800).is_empty());
    }

    #[test]
    fn a_loading_frame_does_not_flatten_the_others() {
        let model = sample::model(2000);
        let game = &model.loops[0];
        let longest = game.frames().iter().map(|f| f.time).fold(0.0, f64::max);
        assert!(ceiling(game, Metric::FrameTime, VIEW) < longest);
    }

    #[test]
    fn crowded_markers_keep_their_highest() {
        let points = [[0.0, 1.0], [0.4, 5.0], [0.8, 2.0], [3.0, 1.0]];
        assert_eq!(thin_markers(&points, 1.0), [[0.4, 5.0], [3.0, 1.0]]);
        assert_eq!(thin_markers(&points, 0.0), points);
    }

    #[test]
    fn the_curve_keeps_its_peak_at_any_width() {
        let points = (0..50_000)
            .map(|i| LivePoint {
                time: f64::from(i) * 0.01,
                bytes: if i == 31_337 { 1e6 } else { f64::from(i % 100) },
            })
            .collect();
        let live = LiveCurve::new(points, None);
        let all = Span {
            from: 0.0,
            to: 500.0,
        };
        for pixels in [1, 10, 1000] {
            let line = curve(&live, all, pixels);
            assert!(line.len() <= pixels * 2 + 3, "{} points", line.len());
            assert!(line.iter().any(|p| p[1] == 1e6));
            assert!(line.is_sorted_by(|a, b| a[0] <= b[0]));
        }
        assert_eq!(live_ceiling(&live, all, 0.2), 1.25e6);
    }

    #[test]
    fn bytes_hold_until_they_change() {
        let point = |time, bytes| LivePoint { time, bytes };
        let live = LiveCurve::new(vec![point(0.0, 1.0), point(1.0, 2.0)], None);
        assert_eq!(
            curve(&live, VIEW, 100),
            [[0.0, 1.0], [1.0, 1.0], [1.0, 2.0]]
        );
    }
}
