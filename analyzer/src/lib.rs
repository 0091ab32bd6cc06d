//! heapreel-analyzer
