//! heapreel-preload
