//! heapreel-analyzer

pub mod symbols;
