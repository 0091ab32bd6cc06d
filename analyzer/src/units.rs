//! Figures for people: sizes in binary units, times in SI units, three digits.

/// A size: `0 B`, `640 B`, `1.50 KiB`, `12.3 MiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 999.5 would be printed as 1000: the next unit has fewer digits.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), UNITS[unit])
}

/// A duration: `0 ns`, `640 ns`, `1.50 µs`, `12.3 ms`, `4.05 s`, `12 min 3 s`.
pub fn nanos(nanos: u64) -> String {
    if nanos < 1000 {
        return format!("{nanos} ns");
    }
    let seconds = nanos as f64 / 1e9;
    if seconds >= 600.0 {
        let whole = seconds.round() as u64;
        return format!("{} min {} s", whole / 60, whole % 60);
    }
    let mut value = nanos as f64 / 1e3;
    for unit in ["µs", "ms"] {
        if value < 999.5 {
            return format!("{} {unit}", three_digits(value));
        }
        value /= 1e3;
    }
    format!("{} s", three_digits(value))
}

/// A count with thin groups of three digits: `1,234,567`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A mean of counts: `6.50`, `1,234`.
pub fn mean(value: f64) -> String {
    if value >= 999.5 {
        count(value.round() as u64)
    } else {
        three_digits(value)
    }
}

/// A share as percentage: `0 %`, `0.4 %`, `12 %`.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value == 0.0 {
        "0 %".to_owned()
    } else if value < 0.05 {
        "<0.1 %".to_owned()
    } else if value < 9.95 {
        format!("{value:.1} %")
    } else {
        format!("{value:.0} %")
    }
}

/// "1 block", "2 blocks".
pub fn plural(number: u64, word: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} {word}{s}", count(number))
}

fn three_digits(value: f64) -> String {
    if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary() {
        let told: Vec<_> = [
            0,
            640,
            1023,
            1024,
            1536,
            10_240,
            1_023_488,
            1 << 20,
            3 << 40,
            u64::MAX,
        ]
        .into_iter()
        .map(bytes)
        .collect();
        let expected = [
            "0 B", "640 B", "1023 B", "1.00 KiB", "1.50 KiB", "10.0 KiB", "0.98 MiB", "1.00 MiB",
            "3.00 TiB", "16.0 EiB",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn times_are_decimal() {
        let told: Vec<_> = [
            0,
            999,
            1000,
            31_200_000,
            999_600,
            4_050_000_000,
            723_000_000_000,
        ]
        .into_iter()
        .map(nanos)
        .collect();
        assert_eq!(
            told,
            [
                "0 ns",
                "999 ns",
                "1.00 µs",
                "31.2 ms",
                "1.00 ms",
                "4.05 s",
                "12 min 3 s"
            ]
        );
    }

    #[test]
    fn counts_and_shares() {
        assert_eq!(
            (count(0), count(999), count(1_234_567)),
            ("0".into(), "999".into(), "1,234,567".into())
        );
        assert_eq!((mean(6.5), mean(1234.4)), ("6.50".into(), "1,234".into()));
        assert_eq!(
            (percent(0.0), percent(0.0001), percent(0.004)),
            ("0 %".into(), "<0.1 %".into(), "0.4 %".into())
        );
        assert_eq!(
            (percent(0.5), percent(1.0)),
            ("50 %".into(), "100 %".into())
        );
        assert_eq!(
            (plural(1, "block"), plural(1200, "block")),
            ("1 block".into(), "1,200 blocks".into())
        );
    }
}
