//! Where an axis has its lines: round values, far enough apart to be labelled.

use crate::lod::Span;
use crate::view_model::FrameLoop;

/// Which values are round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// 1, 2 and 5 times powers of ten.
    Decimal,
    /// Powers of two.
    Binary,
}

impl Round {
    /// The least round step that is not below a number; 1 where there is none.
    pub fn step(self, least: f64) -> f64 {
        if !(least.is_finite() && least > 0.0) {
            return 1.0;
        }
        match self {
            Self::Binary => least.log2().ceil().exp2(),
            Self::Decimal => {
                let power = 10f64.powf(least.log10().floor());
                let factors = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
                factors
                    .into_iter()
                    .find(|&step| step >= least * 0.999_999)
                    .unwrap_or(least)
            }
        }
    }
}

/// The most lines that an axis ever gets.
const MOST: f64 = 200.0;

/// Multiples of `step` in a stretch, ascending.
pub fn multiples(from: f64, to: f64, step: f64) -> Vec<f64> {
    let (first, last) = ((from / step).ceil(), (to / step).floor());
    if !(first.is_finite() && last.is_finite()) || last - first > MOST {
        return Vec::new();
    }
    (0..=(last - first).max(-1.0) as i64)
        .map(|index| (first + index as f64) * step)
        .filter(|&value| value <= to)
        .collect()
}

/// Starts of frames with round numbers, at least `apart` seconds from each other
/// on average: `(start, number)`.
pub fn frames(game: &FrameLoop, view: Span, apart: f64) -> Vec<(f64, u64)> {
    let visible = game.overlapping(view.from, view.to);
    let Some([first, .., last]) = game.frames().get(visible.clone()) else {
        return Vec::new();
    };
    let each = (last.end - first.start) / visible.len() as f64;
    let step = Round::Decimal.step((apart / each.max(f64::MIN_POSITIVE)).max(1.0));
    let numbers = multiples(first.number as f64, last.number as f64, step);
    let indices = numbers
        .into_iter()
        .filter_map(|number| game.numbered(number as u64));
    indices
        .map(|index| &game.frames()[index])
        .filter(|frame| frame.start >= view.from)
        .map(|frame| (frame.start, frame.number))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn steps_are_round_and_never_too_small() {
        assert_eq!(Round::Decimal.step(0.0131), 0.02);
        assert_eq!(Round::Decimal.step(3.0), 5.0);
        assert_eq!(Round::Decimal.step(70.0), 100.0);
        assert_eq!(Round::Binary.step(3.0 * 1024.0), 4096.0);
        assert_eq!(Round::Binary.step(4096.0), 4096.0);
        for hopeless in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Round::Decimal.step(hopeless), 1.0);
        }
    }

    #[test]
    fn lines_lie_within_the_stretch() {
        assert_eq!(multiples(-0.5, 2.5, 1.0), [0.0, 1.0, 2.0]);
        assert_eq!(multiples(2.1, 2.9, 1.0), [0.0; 0]);
        assert_eq!(multiples(0.0, 1e300, 1.0), [0.0; 0]);
        assert_eq!(multiples(f64::NAN, 1.0, 1.0), [0.0; 0]);
    }

    #[test]
    fn frames_are_numbered_roundly() {
        let model = sample::model(3000);
        let view = Span {
            from: 10.0,
            to: 20.0,
        };
        let marks = frames(&model.loops[0], view, 1.0);
        assert!((5..=10).contains(&marks.len()), "{marks:?}");
        assert!(marks.iter().all(|(_, number)| number % 100 == 0));
        assert!(frames(&FrameLoop::default(), view, 1.0).is_empty());
    }
}
