//! How places in a trace are written on the command line, the same in every command:
//! frames `4213`, `4000..4300` (end excluded), `last`; times `12.5s`; marks
//! `@"level loaded"`, `@"level loaded"#2`; durations `16.67ms`, or `60fps` for a frame's.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// One instant of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where this frame of the main loop begins.
    Frame(u64),
    /// So many nanoseconds after recording started.
    Time(u64),
    /// A mark that the game set.
    Mark {
        /// Its name.
        name: String,
        /// Which of this name, from 1.
        occurrence: u64,
    },
}

/// Frames of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameRange {
    /// From a number to below another one; `None` is the end.
    Numbers(u64, Option<u64>),
    /// The last frame.
    Last,
}

/// A duration in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub u64);

/// Why a text names no place. One line, with an example of what would.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}; write {example}")]
pub struct PlaceError {
    text: String,
    what: &'static str,
    example: &'static str,
}

impl PlaceError {
    fn place(text: &str) -> PlaceError {
        let example =
            "a frame 4213, a time 12.5s, or a mark @\"level loaded\" or @\"level loaded\"#2";
        PlaceError {
            text: text.to_owned(),
            what: "place",
            example,
        }
    }

    fn frames(text: &str) -> PlaceError {
        let example = "4213, 4000..4300 (end excluded), 4000.. or last";
        PlaceError {
            text: text.to_owned(),
            what: "range of frames",
            example,
        }
    }

    fn span(text: &str) -> PlaceError {
        let example = "a number with its unit: 16.67ms, 500us, 2s or 60fps";
        PlaceError {
            text: text.to_owned(),
            what: "duration",
            example,
        }
    }
}

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let fail = || PlaceError::place(text);
        if let Some(mark) = text.strip_prefix('@') {
            return mark_from(mark).ok_or_else(fail);
        }
        if let Ok(number) = text.parse() {
            return Ok(Place::Frame(number));
        }
        text.parse::<Span>()
            .map(|span| Place::Time(span.0))
            .map_err(|_| fail())
    }
}

/// `"name"`, `"name"#2`, `name` or `name#2`.
fn mark_from(text: &str) -> Option<Place> {
    let (name, rest) = match text.strip_prefix('"') {
        Some(quoted) => quoted_name(quoted)?,
        None => match text.rsplit_once('#') {
            Some((name, number)) if number.parse::<u64>().is_ok() => {
                (name.to_owned(), &text[name.len()..])
            }
            _ => (text.to_owned(), ""),
        },
    };
    let occurrence = match rest.strip_prefix('#') {
        Some(number) => number.parse().ok().filter(|number| *number > 0)?,
        None if rest.is_empty() => 1,
        None => return None,
    };
    (!name.is_empty()).then_some(Place::Mark { name, occurrence })
}

/// The name up to the closing quote, and what follows. `\"` and `\\` stand for themselves.
fn quoted_name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((name, &text[at + 1..])),
            '\\' => name.push(characters.next()?.1),
            other => name.push(other),
        }
    }
    None
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Frame(number) => write!(f, "{number}"),
            Place::Time(nanos) => write!(f, "{}s", *nanos as f64 / 1e9),
            Place::Mark {
                name,
                occurrence: 1,
            } => write!(f, "@{name:?}"),
            Place::Mark { name, occurrence } => write!(f, "@{name:?}#{occurrence}"),
        }
    }
}

impl FromStr for FrameRange {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let fail = || PlaceError::frames(text);
        if text == "last" {
            return Ok(FrameRange::Last);
        }
        let Some((from, to)) = text.split_once("..") else {
            let number: u64 = text.parse().map_err(|_| fail())?;
            return Ok(FrameRange::Numbers(number, number.checked_add(1)));
        };
        let from = if from.is_empty() {
            0
        } else {
            from.parse().map_err(|_| fail())?
        };
        let to = if to.is_empty() {
            None
        } else {
            Some(to.parse().map_err(|_| fail())?)
        };
        if to.is_some_and(|to| to <= from) {
            return Err(fail());
        }
        Ok(FrameRange::Numbers(from, to))
    }
}

impl FrameRange {
    /// The positions of these frames among `count` frames, the first numbered `first`.
    pub fn positions(&self, first: u64, count: usize) -> Range<usize> {
        let position = |number: u64| {
            usize::try_from(number.saturating_sub(first))
                .unwrap_or(count)
                .min(count)
        };
        match self {
            FrameRange::Last => count.saturating_sub(1)..count,
            FrameRange::Numbers(from, to) => {
                let end = to.map_or(count, position);
                position(*from).min(end)..end
            }
        }
    }
}

impl fmt::Display for FrameRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameRange::Last => f.write_str("last"),
            FrameRange::Numbers(from, Some(to)) if *to == from + 1 => write!(f, "{from}"),
            FrameRange::Numbers(from, Some(to)) => write!(f, "{from}..{to}"),
            FrameRange::Numbers(from, None) => write!(f, "{from}.."),
        }
    }
}

impl FromStr for Span {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let fail = || PlaceError::span(text);
        let unit_at = text.find(|c: char| c.is_alphabetic()).ok_or_else(fail)?;
        let (number, unit) = text.split_at(unit_at);
        let number: f64 = number.trim_end().parse().map_err(|_| fail())?;
        let nanos = match unit {
            // One of so many equal parts of a second.
            "fps" => 1e9 / number / number,
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "min" => 60e9,
            _ => return Err(fail()),
        };
        let value = (number * nanos).round();
        if value.is_finite() && (0.0..=u64::MAX as f64).contains(&value) {
            Ok(Span(value as u64))
        } else {
            Err(fail())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(name: &str, occurrence: u64) -> Place {
        Place::Mark {
            name: name.to_owned(),
            occurrence,
        }
    }

    #[test]
    fn places_are_read_as_they_are_written() {
        for (text, place) in [
            ("4213", Place::Frame(4213)),
            ("12.5s", Place::Time(12_500_000_000)),
            ("300ms", Place::Time(300_000_000)),
            ("@\"level loaded\"", mark("level loaded", 1)),
            ("@\"level loaded\"#2", mark("level loaded", 2)),
            ("@\"a \\\"quoted\\\" one\"#3", mark("a \"quoted\" one", 3)),
            ("@start", mark("start", 1)),
            ("@start#4", mark("start", 4)),
            ("@wave #1 over", mark("wave #1 over", 1)),
        ] {
            assert_eq!(text.parse::<Place>(), Ok(place.clone()), "{text}");
            assert_eq!(place.to_string().parse::<Place>(), Ok(place), "{text}");
        }
    }

    #[test]
    fn what_is_no_place_is_told_with_an_example() {
        for text in [
            "",
            "@",
            "@\"open",
            "@\"a\"#0",
            "@\"a\"x",
            "12.5",
            "soon",
            "-3",
            "5 parsecs",
        ] {
            let error = text.parse::<Place>().unwrap_err().to_string();
            assert!(error.contains("write a frame 4213"), "{text}: {error}");
        }
    }

    #[test]
    fn ranges_exclude_their_end() {
        let range = |text: &str| text.parse::<FrameRange>().unwrap();
        assert_eq!(range("4000..4300").positions(0, 10_000), 4000..4300);
        assert_eq!(range("4213").positions(0, 10_000), 4213..4214);
        assert_eq!(range("9..").positions(0, 12), 9..12);
        assert_eq!(range("..3").positions(0, 12), 0..3);
        assert_eq!(range("last").positions(0, 12), 11..12);
        assert_eq!(range("last").positions(0, 0), 0..0);
        assert_eq!(range("50..60").positions(0, 12), 12..12);
        assert_eq!(range("105..107").positions(100, 12), 5..7);
        for text in ["", "a", "3..3", "5..2", "1...2", "first"] {
            assert!(text.parse::<FrameRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!("16.67ms".parse(), Ok(Span(16_670_000)));
        assert_eq!("5us".parse(), Ok(Span(5_000)));
        assert_eq!("5 µs".parse(), Ok(Span(5_000)));
        assert_eq!("60fps".parse(), Ok(Span(16_666_667)));
        for text in [
            "16.67", "ms", "1e400s", "-1s", "NaNs", "3 weeks", "0fps", "-60fps",
        ] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
