//! A model with many values of its parameters, and which of them nothing beats.

use super::choice::Setting;
use super::deciding::HeldBySize;
use super::report::ModelReport;
use heapreel_models::BadParameter;
use serde::Serialize;
use std::str::FromStr;

/// Values of one parameter that are to be tried: `virtual.lru_entries=0,8,16`, or
/// `virtual.slice_shift=12..18` (end excluded), `12..=18`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vary {
    /// One setting for each value.
    pub settings: Vec<Setting>,
}

/// Values of a parameter.
const MOST_VALUES: u64 = 1000;

impl FromStr for Vary {
    type Err = BadParameter;

    fn from_str(text: &str) -> Result<Vary, BadParameter> {
        let first: Setting = text.parse()?;
        let bad = || {
            let expected = "values such as 0,8,16 or a range such as 12..18 or 12..=18";
            BadParameter::value(&first.name, &first.value, expected)
        };
        let values = match first.value.split_once("..") {
            Some((from, to)) => range(from, to).ok_or_else(bad)?,
            None => first
                .value
                .split(',')
                .map(|it| it.trim().to_owned())
                .collect(),
        };
        if values.is_empty() || values.iter().any(String::is_empty) {
            return Err(bad());
        }
        let with = |value| Setting {
            value,
            ..first.clone()
        };
        Ok(Vary {
            settings: values.into_iter().map(with).collect(),
        })
    }
}

fn range(from: &str, to: &str) -> Option<Vec<String>> {
    let from: u64 = from.trim().parse().ok()?;
    let end = match to.trim().strip_prefix('=') {
        Some(last) => last.trim().parse::<u64>().ok()?.checked_add(1)?,
        None => to.trim().parse().ok()?,
    };
    let few = end.saturating_sub(from) <= MOST_VALUES;
    few.then(|| (from..end).map(|value| value.to_string()).collect())
}

/// All combinations, the last parameter varying fastest.
pub fn combinations(vary: &[Vary]) -> Vec<Vec<Setting>> {
    vary.iter().fold(vec![Vec::new()], |combined, vary| {
        let extended = combined.iter().flat_map(|before| {
            let with =
                |setting: &Setting| [before.as_slice(), std::slice::from_ref(setting)].concat();
            vary.settings.iter().map(with)
        });
        extended.collect()
    })
}

/// What came of all combinations.
#[derive(Clone, Debug, Serialize)]
pub struct Swept {
    /// The trace's file.
    pub trace: String,
    /// The model.
    pub model: String,
    /// The parameters that vary.
    pub parameters: Vec<String>,
    /// A row for each combination.
    pub rows: Vec<SweptRow>,
    /// Combinations that make no sense: values, and why.
    pub refused: Vec<(Vec<String>, String)>,
}

/// One combination. Bytes, unless a field says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweptRow {
    /// The values, as [`Swept::parameters`] has their names.
    pub values: Vec<String>,
    /// Most bytes held at once.
    pub peak_held: u64,
    /// `1 - requested / held` in the mean over all events.
    pub mean_waste: f64,
    /// Requests to the operating system in all.
    pub os_calls: u64,
    /// The most of them in one frame.
    pub worst_frame: u64,
    /// Bytes cleared.
    pub zeroed: u64,
    /// Requests that failed.
    pub failures: u64,
    /// No other combination holds less with as few system calls, or the other way round,
    /// among those that fail the fewest requests.
    pub best: bool,
    /// Of the best: what is held when most is held. (After a call: while a call moves a
    /// block, `peak_held` may be more.)
    pub at_peak: Option<HeldBySize>,
}

impl SweptRow {
    /// The row of a combination whose run is at its end.
    pub fn new(values: Vec<String>, report: &ModelReport) -> SweptRow {
        let worst = report.os_calls.worst.first();
        SweptRow {
            values,
            peak_held: report.peak_held,
            mean_waste: report.mean_waste,
            os_calls: report.end.os.all(),
            worst_frame: worst.map_or(0, |frame| frame.value),
            zeroed: report.end.zeroed,
            failures: report.tally.failures,
            best: false,
            at_peak: None,
        }
    }

    fn beats(&self, other: &SweptRow) -> bool {
        let (a, b) = (
            (self.peak_held, self.os_calls),
            (other.peak_held, other.os_calls),
        );
        a.0 <= b.0 && a.1 <= b.1 && a != b
    }
}

/// Marks the Pareto front of bytes held against system calls.
pub fn mark_best(rows: &mut [SweptRow]) {
    let fewest = rows.iter().map(|row| row.failures).min().unwrap_or(0);
    let eligible: Vec<_> = rows
        .iter()
        .filter(|row| row.failures == fewest)
        .cloned()
        .collect();
    for row in rows {
        row.best = row.failures == fewest && !eligible.iter().any(|other| other.beats(row));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_listed_or_ranged() {
        let values = |text: &str| {
            let vary: Result<Vary, _> = text.parse();
            vary.map(|vary| {
                vary.settings
                    .into_iter()
                    .map(|it| it.value)
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(values("virtual.lru_entries=0, 8").unwrap(), ["0", "8"]);
        assert_eq!(values("virtual.slice_shift=12..14").unwrap(), ["12", "13"]);
        assert_eq!(values("virtual.slice_shift=12..=14").unwrap().len(), 3);
        for wrong in [
            "virtual.x=",
            "virtual.x=1,,2",
            "virtual.x=3..2",
            "virtual.x=0..99999",
        ] {
            assert!(values(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_combination_comes_once() {
        let vary = ["heap.a=1,2".parse().unwrap(), "heap.b=3,4".parse().unwrap()];
        let combined = combinations(&vary);
        let values: Vec<Vec<&str>> = combined
            .iter()
            .map(|settings| settings.iter().map(|it| it.value.as_str()).collect())
            .collect();
        assert_eq!(values, [["1", "3"], ["1", "4"], ["2", "3"], ["2", "4"]]);
    }

    #[test]
    fn the_front_is_what_nothing_beats() {
        let row = |peak_held, os_calls, failures| SweptRow {
            values: Vec::new(),
            peak_held,
            mean_waste: 0.0,
            os_calls,
            worst_frame: 0,
            zeroed: 0,
            failures,
            best: false,
            at_peak: None,
        };
        let mut rows = [
            row(10, 5, 0),
            row(8, 7, 0),
            row(8, 9, 0),
            row(10, 5, 0),
            row(1, 1, 3),
        ];
        mark_best(&mut rows);
        assert_eq!(rows.map(|row| row.best), [true, true, false, true, false]);
    }
}
