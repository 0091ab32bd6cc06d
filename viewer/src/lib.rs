//! Draws what heapreel's analyzer found in a trace: frames, live bytes, findings.
//!
//! Input becomes [commands](state::Command), commands change the
//! [state](state::State), the state is drawn; nothing else connects the three.
//! The same drawing goes to a window or, by the [rasteriser](raster), to a
//! picture without display and GPU.

mod app;
mod cli;
mod from_analysis;
pub mod headless;
mod icon;
mod keys;
pub mod load;
mod lod;
mod metric;
mod range_tree;
pub mod raster;
mod read;
mod run;
#[doc(hidden)]
pub mod sample;
pub mod state;
mod theme;
mod ticks;
mod ui;
mod units;
pub mod view_model;

pub use app::Viewer;
pub use cli::Args;
pub use lod::Span;
pub use metric::Metric;
pub use read::read_trace;
pub use run::run;
pub use theme::apply as apply_theme;
