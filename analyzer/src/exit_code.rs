//! What `heapreel` answers its caller with.
//!
//! `heapreel record` passes on the code of the program that it wraps, so these
//! can stand for the program as well; its last line on stderr tells which.

/// All went well.
pub const FINE: u8 = 0;
/// A check failed: the answer was no.
pub const CHECK_FAILED: u8 = 1;
/// The command line makes no sense, or the input cannot be trusted.
pub const MISUSE: u8 = 2;
/// The program to run exists and cannot be executed, as shells have it.
pub const CANNOT_EXECUTE: u8 = 126;
/// The program to run was not found, as shells have it.
pub const NOT_FOUND: u8 = 127;
/// Added to a signal's number where a signal ended the program, as shells have it.
pub const SIGNAL_BASE: u8 = 128;
