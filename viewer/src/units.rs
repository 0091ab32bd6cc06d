//! Numbers as people read them: sizes in binary units, times in SI units.

/// A number of bytes: `812 B`, `1.50 KiB`, `64.0 MiB`.
pub fn bytes(value: f64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    scaled(value, 1024.0, &UNITS)
}

/// A time given in seconds: `840 ns`, `16.7 ms`, `12.5 s`.
pub fn seconds(value: f64) -> String {
    const UNITS: [&str; 4] = ["ns", "µs", "ms", "s"];
    if value == 0.0 {
        return "0 s".to_owned();
    }
    scaled(value * 1e9, 1000.0, &UNITS)
}

/// A whole number with thousands separated: `1,234,567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things: `1 spike`, `1,234 spikes`.
pub fn counted(value: u64, thing: &str) -> String {
    match value {
        1 => format!("1 {thing}"),
        _ => format!("{} {thing}s", count(value)),
    }
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

fn scaled(value: f64, base: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut unit = 0;
    // 999.5 would print as "1000": step up a little before the base.
    while value.abs() >= base - 0.5 && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    let decimals = match value.abs() {
        _ if unit == 0 => 0,
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary() {
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(1023.0), "1023 B");
        assert_eq!(bytes(1024.0), "1.00 KiB");
        assert_eq!(bytes(64.0 * 1024.0 * 1024.0), "64.0 MiB");
        assert_eq!(bytes(-2048.0), "-2.00 KiB");
    }

    #[test]
    fn times_are_decimal() {
        assert_eq!(seconds(0.0), "0 s");
        assert_eq!(seconds(840e-9), "840 ns");
        assert_eq!(seconds(0.0167), "16.7 ms");
        assert_eq!(seconds(0.9999), "1.00 s");
        assert_eq!(seconds(125.0), "125 s");
    }

    #[test]
    fn counts_have_separators() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1000), "1,000");
        assert_eq!(count(1_234_567), "1,234,567");
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
