//! What was live at the end, by call site.

use super::clock::Times;
use super::contexts::Contexts;
use super::loops::frame_at;
use super::sites::Sites;
use super::values::{ContextShare, LeakSite, Leaks};
use crate::facts::Facts;
use crate::replay::Block;
use std::collections::BTreeMap;

/// What the live blocks at the end are to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeakWord {
    /// The program had its chance to give them back.
    Leaked,
    /// It had not.
    Abrupt,
    /// The window ends before the program did.
    Window,
}

impl LeakWord {
    fn text(self) -> &'static str {
        match self {
            LeakWord::Leaked => "leaked",
            LeakWord::Abrupt => "live when the process ended abruptly",
            LeakWord::Window => "allocated in this window and live at its end",
        }
    }
}

/// Groups the blocks that were acquired in the window and are live at its end.
pub(crate) fn leaks(
    blocks: &[(u64, Block)],
    facts: &Facts,
    sites: &Sites,
    contexts: &Contexts<'_>,
    times: &Times,
    word: LeakWord,
) -> Leaks {
    let mut groups: BTreeMap<u32, Group> = BTreeMap::new();
    let first_mark = first_mark(facts);
    // Without a window also what a snapshot brought along from before the start.
    let from = if word == LeakWord::Window {
        facts.from
    } else {
        0
    };
    for (_, block) in blocks.iter().filter(|(_, block)| block.key >= from) {
        groups.entry(sites.of_any(block.stack)).or_default().add(
            block,
            contexts.index_of(block.context),
            first_mark,
        );
    }
    let mut rows: Vec<LeakSite> = groups
        .into_iter()
        .map(|(site, group)| group.row(site, facts, contexts, times))
        .collect();
    rows.sort_by_key(|row| {
        (
            std::cmp::Reverse(row.bytes),
            std::cmp::Reverse(row.blocks),
            row.site,
        )
    });
    for row in &mut rows {
        row.name = sites.name(row.site);
    }
    Leaks {
        word: word.text().to_owned(),
        leaked: word == LeakWord::Leaked,
        blocks: rows.iter().map(|row| row.blocks).sum(),
        bytes: rows.iter().map(|row| row.bytes).sum(),
        sites: rows,
    }
}

/// Where the main loop's first frame begins; 0 without frames.
fn first_mark(facts: &Facts) -> u64 {
    let main = facts.frames.loops.get(&facts.frames.primary);
    main.filter(|facts| facts.marks > 0)
        .map_or(0, |facts| facts.before.end)
}

fn shares(held: BTreeMap<u32, (u64, u64)>, contexts: &Contexts<'_>) -> Vec<ContextShare> {
    let mut shares: Vec<_> = held
        .into_iter()
        .map(|(context, (blocks, bytes))| ContextShare {
            context,
            path: contexts.path(context),
            blocks,
            bytes,
        })
        .collect();
    shares.sort_by_key(|share| (std::cmp::Reverse(share.bytes), share.context));
    shares
}

#[derive(Clone, Debug)]
struct Group {
    blocks: u64,
    bytes: u64,
    later_blocks: u64,
    later_bytes: u64,
    oldest: u64,
    newest: u64,
    contexts: BTreeMap<u32, (u64, u64)>,
}

impl Default for Group {
    fn default() -> Self {
        Group {
            blocks: 0,
            bytes: 0,
            later_blocks: 0,
            later_bytes: 0,
            oldest: u64::MAX,
            newest: 0,
            contexts: BTreeMap::new(),
        }
    }
}

impl Group {
    fn add(&mut self, block: &Block, context: Option<u32>, first_mark: u64) {
        self.blocks += 1;
        if let Some(context) = context {
            let (blocks, bytes) = self.contexts.entry(context).or_default();
            *blocks += 1;
            *bytes = bytes.saturating_add(block.size);
        }
        if block.key >= first_mark {
            self.later_blocks += 1;
            self.later_bytes = self.later_bytes.saturating_add(block.size);
        }
        self.bytes = self.bytes.saturating_add(block.size);
        self.oldest = self.oldest.min(block.key);
        self.newest = self.newest.max(block.key);
    }

    fn row(self, site: u32, facts: &Facts, contexts: &Contexts<'_>, times: &Times) -> LeakSite {
        let primary = facts.frames.primary;
        let frame = |key| {
            let frames = facts.frames.loops.get(&primary)?;
            frame_at(frames, facts.first_frame(primary), key)
        };
        LeakSite {
            site,
            name: String::new(),
            blocks: self.blocks,
            bytes: self.bytes,
            later_blocks: self.later_blocks,
            later_bytes: self.later_bytes,
            oldest_nanos: times.since_start(self.oldest),
            newest_nanos: times.since_start(self.newest),
            frames: frame(self.oldest).zip(frame(self.newest)),
            contexts: shares(self.contexts, contexts),
        }
    }
}
