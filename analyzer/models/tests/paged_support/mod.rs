//! What the tests of the models share.
#![allow(dead_code, reason = "each test file uses some of it")]

pub mod golden;
pub mod random;
