//! Replays a trace into facts and reports.
//!
//! [`analyze`] reads a trace in one pass and gives an [`Analysis`]: plain values that
//! [`report`] renders and the viewer draws. [`place`] is how instants and frames are
//! written on the command line, [`symbols`] finds names of code addresses.
//!
//! ```no_run
//! use heapreel_analyzer::{Options, analyze};
//!
//! let analysis = analyze("run.hreel".as_ref(), &Options::default(), |_| ())?;
//! println!("{} live bytes at most", analysis.peak.bytes);
//! for finding in &analysis.findings {
//!     println!("{} ({})", finding.text, finding.command);
//! }
//! # Ok::<(), heapreel_analyzer::AnalysisError>(())
//! ```

mod analysis;
mod facts;
pub mod fragmentation;
pub mod import;
pub mod overrun;
pub mod place;
pub mod replay;
pub mod report;
pub mod sharing;
pub mod symbolicate;
pub mod symbols;
#[doc(hidden)]
pub mod testing;
pub mod units;
pub mod what_if;

pub use analysis::*;
