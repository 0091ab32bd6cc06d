//! What the tests of the models share.
#![allow(dead_code, reason = "each test file uses some of it")]

pub mod golden;
#[path = "../support/holdings.rs"]
pub mod holdings;
pub mod random;
