//! The analyzer's way of writing figures, for the viewer's floating point ones,
//! and what axes need besides.

use heapreel_analyzer::units;

/// A number of bytes: `812 B`, `1.50 KiB`, `64.0 MiB`.
pub fn bytes(value: f64) -> String {
    units::bytes(value.round() as u64)
}

/// A time given in seconds: `840 ns`, `16.7 ms`, `12.5 s`.
pub fn seconds(value: f64) -> String {
    match (value * 1e9).round() as u64 {
        0 => "0 s".to_owned(),
        nanos => units::nanos(nanos),
    }
}

/// A whole number with thousands separated: `1,234,567`.
pub fn count(value: u64) -> String {
    units::count(value)
}

/// A number of things: `1 spike`, `1,234 spikes`.
pub fn counted(value: u64, thing: &str) -> String {
    units::plural(value, thing)
}

/// A frame's budget given in seconds: `16.67 ms`.
pub fn budget(value: f64) -> String {
    format!("{:.2} ms", value * 1e3)
}

/// An instant on an axis whose lines are `step` seconds apart: as many decimals
/// as the step needs, so that neighbours differ.
pub fn axis_seconds(value: f64, step: f64) -> String {
    let decimals = (-step.log10()).ceil().clamp(0.0, 9.0) as usize;
    format!("{value:.decimals$} s")
}

/// A figure for an axis: without zeros behind the point.
pub fn short(figure: &str) -> String {
    match figure.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            let number = number.trim_end_matches('0').trim_end_matches('.');
            format!("{number} {unit}")
        }
        _ => figure.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_as_in_reports() {
        assert_eq!(bytes(1536.2), "1.50 KiB");
        assert_eq!(seconds(0.0167), "16.7 ms");
        assert_eq!(seconds(0.0), "0 s");
        // A figure that is no number must not panic.
        assert_eq!(bytes(f64::NAN), "0 B");
        assert_eq!(seconds(-1.0), "0 s");
    }

    #[test]
    fn axes_leave_out_zeros() {
        assert_eq!(short("5.00 ms"), "5 ms");
        assert_eq!(short("2.50 MiB"), "2.5 MiB");
        assert_eq!(short("100 KiB"), "100 KiB");
        assert_eq!(short("1,000"), "1,000");
    }

    #[test]
    fn neighbours_on_an_axis_differ() {
        assert_eq!(axis_seconds(12.0, 1.0), "12 s");
        assert_ne!(axis_seconds(12.01, 0.01), axis_seconds(12.02, 0.01));
    }
}
