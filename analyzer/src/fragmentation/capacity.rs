//! What several traces need together: segments of fixed capacity, each as large as its
//! largest user needs it, against one budget that all segments share.

use super::witness::Peak;
use serde::Serialize;
use std::collections::BTreeMap;

/// A segment's load in one trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SegmentPeak {
    /// The most bytes of live blocks at once, headers and rounding included.
    pub peak: u64,
    /// The frame of that.
    pub frame: u32,
    /// The least capacity, in steps of 64 KiB, with which no request fails: the peak and
    /// what fragmentation adds.
    pub needs: u64,
}

/// What one trace asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Load {
    /// The trace's file.
    pub trace: String,
    /// By the segments' names.
    pub segments: BTreeMap<String, SegmentPeak>,
    /// The most bytes of live blocks of all segments at once.
    pub peak: u64,
    /// The most bytes that the model with a shared budget held at once.
    pub shared_held: u64,
    /// Requests that model could not serve; then `shared_held` is too low.
    pub shared_failures: u64,
}

impl Load {
    /// Takes a segment's peak and the extent its model grew to.
    pub fn add(&mut self, name: &str, peak: &Peak, extent: u64) {
        let segment = self.segments.entry(name.to_owned()).or_default();
        *segment = SegmentPeak {
            peak: peak.bytes,
            frame: peak.frame,
            needs: extent,
        };
    }
}

/// A figure that one trace decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Weighed {
    /// Bytes with the margin.
    pub bytes: u64,
    /// The trace that sets it.
    pub set_by: String,
}

/// A segment over all traces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentCapacity {
    /// Its name.
    pub segment: String,
    /// The largest peak of all traces.
    pub peak: u64,
    /// The largest need of all traces.
    pub needs: u64,
    /// The capacity that fits all, and the trace that sets it.
    pub capacity: Weighed,
}

/// The answer: plain values, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capacity {
    /// The model with fixed segments.
    pub fixed_model: String,
    /// The model with a shared budget.
    pub shared_model: String,
    /// Hundredths added to each need.
    pub margin_percent: u64,
    /// The traces.
    pub loads: Vec<Load>,
    /// The segments, by name.
    pub segments: Vec<SegmentCapacity>,
    /// Sum of the segments' capacities.
    pub fixed: u64,
    /// The budget that fits all where segments share it.
    pub shared: Weighed,
    /// Sum of the segments' largest peaks: blocks only, whatever the model.
    pub sum_of_peaks: u64,
    /// The largest peak of the sum: what was ever live at once.
    pub peak_of_sum: Weighed,
    /// `sum_of_peaks - peak_of_sum`: set aside only because segments cannot share.
    pub set_aside: u64,
}

/// Weighs traces against each other.
pub fn weigh(
    loads: Vec<Load>,
    fixed_model: &str,
    shared_model: &str,
    margin_percent: u64,
) -> Capacity {
    let with_margin = |bytes: u64| {
        let margin = u128::from(bytes) * u128::from(margin_percent) / 100;
        bytes.saturating_add(margin as u64)
    };
    let most = |of: &dyn Fn(&Load) -> u64, scale: &dyn Fn(u64) -> u64| {
        // Of equal ones the first.
        let most = loads.iter().rev().max_by_key(|load| of(load));
        Weighed {
            bytes: most.map_or(0, |load| scale(of(load))),
            set_by: most.map_or_else(String::new, |load| load.trace.clone()),
        }
    };
    let mut names: Vec<&String> = loads.iter().flat_map(|load| load.segments.keys()).collect();
    names.sort();
    names.dedup();
    let segment = |name: &String| {
        let its = |load: &Load| load.segments.get(name).copied().unwrap_or_default();
        SegmentCapacity {
            segment: name.clone(),
            peak: loads.iter().map(|load| its(load).peak).max().unwrap_or(0),
            needs: loads.iter().map(|load| its(load).needs).max().unwrap_or(0),
            capacity: most(&|load| its(load).needs, &with_margin),
        }
    };
    let segments: Vec<_> = names.into_iter().map(segment).collect();
    let sum_of_peaks = segments.iter().map(|segment| segment.peak).sum();
    let peak_of_sum = most(&|load| load.peak, &|bytes| bytes);
    Capacity {
        fixed_model: fixed_model.to_owned(),
        shared_model: shared_model.to_owned(),
        margin_percent,
        fixed: segments.iter().map(|segment| segment.capacity.bytes).sum(),
        shared: most(&|load| load.shared_held, &with_margin),
        set_aside: u64::saturating_sub(sum_of_peaks, peak_of_sum.bytes),
        sum_of_peaks,
        peak_of_sum,
        segments,
        loads,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(trace: &str, segments: &[(&str, u64, u64)], peak: u64, shared_held: u64) -> Load {
        let mut load = Load {
            trace: trace.into(),
            peak,
            shared_held,
            ..Load::default()
        };
        for (name, bytes, needs) in segments {
            let peak = Peak {
                bytes: *bytes,
                ..Peak::default()
            };
            load.add(name, &peak, *needs);
        }
        load
    }

    #[test]
    fn each_segment_is_as_large_as_its_largest_user() {
        let forest = load(
            "forest",
            &[("Level", 900, 1000), ("Sound", 100, 100)],
            950,
            1010,
        );
        let city = load(
            "city",
            &[("Level", 500, 600), ("Sound", 300, 400)],
            700,
            800,
        );
        let told = weigh(vec![forest, city], "heap", "virtual", 10);
        let capacities: Vec<_> = told
            .segments
            .iter()
            .map(|it| {
                (
                    it.segment.as_str(),
                    it.capacity.bytes,
                    it.capacity.set_by.as_str(),
                )
            })
            .collect();
        assert_eq!(
            capacities,
            [("Level", 1100, "forest"), ("Sound", 440, "city")]
        );
        assert_eq!((told.fixed, told.shared.bytes), (1540, 1111));
        assert_eq!(told.shared.set_by, "forest");
        // 900 + 300 against 950 at once.
        assert_eq!((told.sum_of_peaks, told.set_aside), (1200, 250));
    }
}
