//! What the recording tests share: compiling the small programs in `tests/programs`,
//! running them plainly and under `heapreel record`, and reading what was recorded.

#![allow(dead_code, reason = "each test file uses its own part of this")]

pub mod compile;
pub mod killme;
pub mod namespace;
pub mod plugins;
pub mod preload;
pub mod record;
pub mod run;
pub mod scratch;
pub mod tally;
pub mod undisturbed;

use serde_json::Value;

/// The number under `key`, which must be there.
#[track_caller]
pub fn number(object: &Value, key: &str) -> u64 {
    object[key]
        .as_u64()
        .unwrap_or_else(|| panic!("no number {key:?} in {object}"))
}

/// A number from the environment, for runs longer than the usual ones.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}
