//! heapreel
