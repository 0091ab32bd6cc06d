//! Parameters of models: set by name, one clear line where that fails.

/// The example's segments and their sizes in bytes. Names from sl. 12 of the talk, sizes
/// ours.
pub(crate) const EXAMPLE_SEGMENTS: [(&str, u64); 5] = [
    ("Default", 1 << 30),
    ("Permanent", 128 << 20),
    ("Resource", 1 << 30),
    ("Develop", 256 << 20),
    ("Temp", 64 << 20),
];

/// A parameter that could not be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadParameter {
    /// No parameter, preset or model has this name.
    #[error("no {kind} {name:?}; there are {}", known.join(", "))]
    Unknown {
        /// What was looked for: `parameter`, `preset`, `model`.
        kind: &'static str,
        /// The name that was given.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// The value does not say what the parameter needs.
    #[error("{name} cannot be {value:?}: {expected}")]
    Value {
        /// The parameter.
        name: String,
        /// The value that was given.
        value: String,
        /// What it may be.
        expected: String,
    },
}

impl BadParameter {
    /// There is no parameter of this name among those known.
    pub fn unknown(kind: &'static str, name: &str, known: &[&str]) -> BadParameter {
        let known = known.iter().map(|&name| name.to_owned()).collect();
        let name = name.to_owned();
        BadParameter::Unknown { kind, name, known }
    }

    /// The value is not what was expected.
    pub fn value(name: &str, value: &str, expected: &str) -> BadParameter {
        let (name, value) = (name.to_owned(), value.to_owned());
        let expected = expected.to_owned();
        BadParameter::Value {
            name,
            value,
            expected,
        }
    }
}

/// Bytes: a number, with a binary unit (`64KiB`, `8 MiB`, `1GiB`) where one is wanted.
///
/// # Errors
///
/// [`BadParameter::Value`]; a decimal unit (`8MB`) is refused rather than guessed.
pub fn bytes(name: &str, value: &str) -> Result<u64, BadParameter> {
    let bad = || BadParameter::value(name, value, "bytes, such as 4096, 64KiB or 8MiB");
    let text = value.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '_')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.replace('_', "").parse().map_err(|_| bad())?;
    let shift = match unit.trim() {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return Err(bad()),
    };
    number.checked_mul(1 << shift).ok_or_else(bad)
}

/// Bytes that are a power of two.
///
/// # Errors
///
/// [`BadParameter::Value`].
pub fn power_of_two(name: &str, value: &str) -> Result<u64, BadParameter> {
    let bytes = bytes(name, value)?;
    let bad = || BadParameter::value(name, value, "a power of two");
    bytes.is_power_of_two().then_some(bytes).ok_or_else(bad)
}

/// An address: hexadecimal after `0x`, else decimal.
///
/// # Errors
///
/// [`BadParameter::Value`].
pub fn address(name: &str, value: &str) -> Result<u64, BadParameter> {
    let text = value.trim().replace('_', "");
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
    .ok_or_else(|| BadParameter::value(name, value, "an address, such as 0x2000000000"))
}

/// A number of anything.
///
/// # Errors
///
/// [`BadParameter::Value`].
pub fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, BadParameter> {
    let bad = || BadParameter::value(name, value, "a number in its range");
    value.trim().parse().map_err(|_| bad())
}

/// Yes or no.
///
/// # Errors
///
/// [`BadParameter::Value`].
pub fn yes_or_no(name: &str, value: &str) -> Result<bool, BadParameter> {
    match value.trim() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err(BadParameter::value(name, value, "true or false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_binary_units() {
        assert_eq!(bytes("x", "64KiB"), Ok(65_536));
        assert_eq!(bytes("x", " 8 MiB "), Ok(8 << 20));
        assert_eq!(bytes("x", "4_096"), Ok(4096));
        for wrong in ["8MB", "", "-1", "1e3", "99999999999TiB"] {
            assert!(bytes("x", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_error_is_one_line_that_names_what_there_is() {
        let error = BadParameter::unknown("parameter", "hedaer", &["header", "granule"]);
        assert_eq!(
            error.to_string(),
            r#"no parameter "hedaer"; there are header, granule"#
        );
        let error = power_of_two("granule", "24").unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"granule cannot be "24": a power of two"#
        );
    }
}
