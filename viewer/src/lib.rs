//! heapreel-viewer
