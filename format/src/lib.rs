//! heapreel-format
