//! Numbers as people read them: sizes in binary units, times in SI units.

use std::time::Duration;

/// `1,234,567 events`, `1 event`.
pub fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(number))
}

/// Digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `3.0 MiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: &[&str] = &["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `12.3 s`, `4.5 ms`.
pub fn duration(nanos: f64) -> String {
    match nanos {
        n if n >= 1e9 => format!("{:.1} s", n / 1e9),
        n if n >= 1e6 => format!("{:.1} ms", n / 1e6),
        n => format!("{:.0} µs", n.max(0.0) / 1e3),
    }
}

/// `60s`, `2m`, `500ms`; a bare number means seconds.
///
/// # Errors
///
/// Says what was expected.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_alphabetic());
    let factor = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => f64::NAN,
    };
    let seconds = digits.parse().unwrap_or(f64::NAN) * factor;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| "write a number and its unit, as 60s or 2m".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(count(1, "frame"), "1 frame");
    }

    #[test]
    fn sizes_and_times_have_units() {
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1 << 20), "1.0 MiB");
        assert_eq!(duration(2.5e9), "2.5 s");
        assert_eq!(duration(2.5e6), "2.5 ms");
        assert_eq!(duration(-5.0), "0 µs");
    }

    #[test]
    fn durations_are_read() {
        assert_eq!(parse_duration("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("1.5"), Ok(Duration::from_millis(1500)));
        for wrong in ["", "s", "-1s", "5 parsecs", "inf"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
