//! Random calls.
