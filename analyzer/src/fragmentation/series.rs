//! Fragmentation as frames end, one after the other.

use super::figures::Figures;
use super::witness::Sample;
use heapreel_models::metrics::{int_frag, waste};
use serde::Serialize;
use std::fmt::Write;

/// A series; plain values, in bytes unless they say otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// The trace's file.
    pub trace: String,
    /// The model.
    pub model: String,
    /// Frames from one row to the next.
    pub every: u64,
    /// Rows in the order of frames; of each frame that of all regions first.
    pub rows: Vec<SeriesRow>,
}

/// One segment, or all, as a frame ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeriesRow {
    /// The frame.
    pub frame: u64,
    /// When it ended, in nanoseconds since the trace began.
    pub nanos: u64,
    /// The segment; `all` for all regions in use as one.
    pub segment: String,
    /// Bytes asked for of live blocks; of all only.
    pub requested: Option<u64>,
    /// Bytes held from the operating system; of all only.
    pub held: Option<u64>,
    /// `1 - R/U`; of all only.
    pub int_frag: Option<f64>,
    /// `1 - R/H`; of all only.
    pub waste: Option<f64>,
    /// Requests that failed so far; of all only.
    pub failures: Option<u64>,
    /// The figures of its regions.
    #[serde(flatten)]
    pub figures: Figures,
}

impl Series {
    /// The rows of some samples: of all regions, and of the segments that were ever in
    /// use, where those are several. With `only`, that segment's rows.
    pub fn of(
        trace: &str,
        model: &str,
        every: u64,
        samples: &[Sample],
        only: Option<&str>,
    ) -> Self {
        let mut used: Vec<u16> = samples
            .iter()
            .flat_map(|sample| &sample.segments)
            .filter(|(_, _, figures)| figures.in_use())
            .map(|(number, ..)| *number)
            .collect();
        used.sort_unstable();
        used.dedup();
        let mut rows = Vec::new();
        for sample in samples {
            if only.is_none() {
                rows.push(all(sample));
            }
            let wanted = |number: &u16, name: &str| match only {
                Some(only) => name == only,
                None => used.len() > 1 && used.contains(number),
            };
            let segments = sample.segments.iter();
            let segments = segments.filter(|(number, name, _)| wanted(number, name));
            rows.extend(segments.map(|(_, name, figures)| SeriesRow {
                segment: name.clone(),
                figures: *figures,
                ..blank(sample)
            }));
        }
        let (trace, model) = (trace.to_owned(), model.to_owned());
        Series {
            trace,
            model,
            every,
            rows,
        }
    }
}

fn all(sample: &Sample) -> SeriesRow {
    let counters = &sample.counters;
    SeriesRow {
        segment: "all".to_owned(),
        requested: Some(counters.requested),
        held: Some(counters.held),
        int_frag: Some(int_frag(counters)),
        waste: Some(waste(counters)),
        failures: Some(sample.failures),
        figures: sample.whole,
        ..blank(sample)
    }
}

fn blank(sample: &Sample) -> SeriesRow {
    SeriesRow {
        frame: sample.frame,
        nanos: sample.nanos,
        segment: String::new(),
        requested: None,
        held: None,
        int_frag: None,
        waste: None,
        failures: None,
        figures: Figures::default(),
    }
}

/// The rows as CSV; what is not known is empty.
pub fn series_csv(series: &Series) -> String {
    let mut csv = String::from(
        "frame,nanos,segment,requested,held,used,meta,idle,free,reserved,blocks,free_ranges,\
         largest_free,avail,ext_frag,sq_frag,int_frag,waste,failures\n",
    );
    let known = |number: Option<u64>| number.map_or_else(String::new, |it| it.to_string());
    let share = |share: Option<f64>| share.map_or_else(String::new, |it| format!("{it:.6}"));
    for row in &series.rows {
        let figures = &row.figures;
        _ = writeln!(
            csv,
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{:.6},{:.6},{},{},{}",
            row.frame,
            row.nanos,
            quoted(&row.segment),
            known(row.requested),
            known(row.held),
            figures.used,
            figures.meta,
            figures.idle,
            figures.free,
            figures.reserved,
            figures.blocks,
            figures.free_ranges,
            figures.largest_free,
            figures.avail,
            figures.ext_frag,
            figures.sq_frag,
            share(row.int_frag),
            share(row.waste),
            known(row.failures),
        );
    }
    csv
}

fn quoted(name: &str) -> String {
    if name.contains([',', '"', '\n']) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_a_title_for_every_figure() {
        let sample = Sample {
            frame: 60,
            nanos: 1,
            counters: Default::default(),
            failures: 0,
            whole: Figures::default(),
            segments: vec![(0, "a,b".into(), Figures::default())],
        };
        let series = Series::of("t", "heap", 60, std::slice::from_ref(&sample), None);
        let csv = series_csv(&series);
        let widths: Vec<_> = csv.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(widths, [19, 19]);
        let series = Series::of("t", "heap", 60, &[sample], Some("a,b"));
        assert!(series_csv(&series).contains("\n60,1,\"a,b\",,,0"));
    }
}
