//! What live blocks share at one moment: cache lines of blocks that different threads
//! allocated, and the lines and pages that blocks need where they lie.
//!
//! A trace knows who allocated a block, not who reads or writes it, and how often: both
//! answers are proxies. Where the blocks lie is the model's to say: where they were
//! recorded, or where another allocator would have put them.

mod false_sharing;
mod locality;

pub use false_sharing::{SharedLines, Side};
pub use locality::{Locality, Spread};

use crate::fragmentation::{Books, Names};
use heapreel_models::{BlockId, Model};
use serde::Serialize;
use std::collections::BTreeMap;

/// Bytes of a cache line on most processors.
pub const LINE: u64 = 64;

/// The answer: plain values, in bytes unless they say otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sharing {
    /// The trace's file.
    pub trace: String,
    /// The model that placed the blocks.
    pub model: String,
    /// The frame that the moment lies in.
    pub frame: u32,
    /// The moment, in nanoseconds since the trace began.
    pub nanos: u64,
    /// A cache line.
    pub line: u64,
    /// Lines with blocks of different threads.
    pub shared_lines: u64,
    /// Whose they are, those with the most lines first.
    pub shared: Vec<SharedLines>,
    /// All live blocks.
    pub all: Locality,
    /// Those that were allocated in the moment's frame.
    pub new_in_frame: Locality,
    /// By call site, those with the most lines beyond what they need first.
    pub sites: Vec<Locality>,
}

/// A live block.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lying {
    address: u64,
    bytes: u64,
    thread: u32,
    /// Position of its call site's name.
    site: usize,
    new: bool,
}

impl Lying {
    /// Units of so many bytes that it touches, by number.
    fn units(&self, bytes: u64) -> std::ops::RangeInclusive<u64> {
        let last = self.address.saturating_add(self.bytes - 1);
        self.address / bytes..=last / bytes
    }
}

/// What the live blocks of a model share, in cache lines of `line` bytes.
pub fn sharing(model: &dyn Model, books: &Books, line: u64, names: &mut dyn Names) -> Sharing {
    let mut sites = SiteNames::default();
    let mut blocks: Vec<Lying> = books
        .owners()
        .filter_map(|(id, owner)| {
            let block = model.block(BlockId(id))?;
            Some(Lying {
                address: block.address,
                // A block of no bytes has an address all the same.
                bytes: block.requested.max(1),
                thread: owner.allocated.thread,
                site: sites.of(owner.allocated.site, names),
                new: owner.allocated.frame == books.now.frame,
            })
        })
        .collect();
    blocks.sort_by_key(|block| block.address);
    let (shared_lines, shared) = false_sharing::shared(&blocks, line, &sites.names, names);
    Sharing {
        trace: String::new(),
        model: String::new(),
        frame: books.now.frame,
        nanos: books.now.nanos,
        line,
        shared_lines,
        shared,
        all: Locality::of("all", blocks.iter(), line),
        new_in_frame: Locality::of("new in this frame", blocks.iter().filter(|it| it.new), line),
        sites: locality::by_site(&blocks, &sites.names, line),
    }
}

/// Names of call sites; backtraces that share a function share a name.
#[derive(Default)]
struct SiteNames {
    names: Vec<String>,
    of_site: BTreeMap<u32, usize>,
    of_name: BTreeMap<String, usize>,
}

impl SiteNames {
    fn of(&mut self, site: u32, names: &mut dyn Names) -> usize {
        if let Some(&known) = self.of_site.get(&site) {
            return known;
        }
        let name = names.site(site);
        let at = *self.of_name.entry(name.clone()).or_insert_with(|| {
            self.names.push(name);
            self.names.len() - 1
        });
        self.of_site.insert(site, at);
        at
    }
}

#[cfg(test)]
fn lying(address: u64, bytes: u64, thread: u32, site: usize) -> Lying {
    Lying {
        address,
        bytes,
        thread,
        site,
        new: false,
    }
}
