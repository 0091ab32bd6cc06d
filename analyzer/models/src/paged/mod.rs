//! Segments, slices, pages and free lists: what allocators of mimalloc's kind have in common.
//!
//! A segment is a range of addresses, aligned to its size and cut into slices. Slices in a
//! row are a page, whose blocks all have one size, or a free span. A heap has a queue of
//! pages for each class of block sizes and a queue of spans for each class of lengths. A
//! block that its own heap frees goes back to its page; one that another thread frees goes
//! through a list. What the allocators differ in is a value: [`Rules`].
//!
//! Nothing here takes a block's bytes: a page has one small number for each block that it
//! has handed out so far, and a live block has a record of 24 bytes.

mod abandon;
mod blocks;
mod census;
mod core;
mod geometry;
mod heap;
mod heap_census;
mod mask;
mod page;
mod page_search;
mod queue;
mod regions;
mod rules;
mod segment;
mod segment_cache;
mod size_class;
mod spans;

pub(crate) use self::core::{Core, Sharing};
pub use census::Waste;
pub use geometry::Geometry;
pub use heap_census::{HeapFacts, HeapKind};
pub use rules::{Abandon, CollectScope, FreeMode, Rules};
