//! Renderers of an [`Analysis`](crate::Analysis).
//!
//! A report is built as a [`Document`], paragraphs and tables without any looks, and
//! then written as text or Markdown. Same analysis, same bytes.

mod contexts;
mod document;
mod frag;
mod frames;
mod heaps;
mod info;
mod leaks;
mod markdown;
mod models;
mod overrun;
mod sharing;
mod spikes;
mod summary;
mod sweep;
mod text;
mod trend;
mod whole;

pub use contexts::{ContextSort, ContextsShown, contexts_document};
pub use document::{Align, Block, Document, Table};
pub use frag::{capacity_document, frag_document, series_document};
pub use frames::{FrameSort, frames_csv, frames_document};
pub use info::info_document;
pub use leaks::leaks_document;
pub use markdown::markdown;
pub use models::{compare_document, replay_document};
pub use overrun::overrun_document;
pub use sharing::sharing_document;
pub use spikes::spikes_document;
pub use sweep::sweep_document;
pub use text::text;
pub use trend::{ClipGroup, clip_group, joined, trend_document};
pub use whole::report_document;
