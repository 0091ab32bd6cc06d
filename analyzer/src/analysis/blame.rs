//! Who allocated in a few stretches of time.

use super::second_look::SecondLook;
use super::values::SpikeSite;
use heapreel_format::{DecodedChunk, Event, EventKind, ReadError, ThreadId};
use std::collections::BTreeMap;

/// A stretch of one thread's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub(crate) thread: ThreadId,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// Calls of one call site in a stretch.
#[derive(Clone, Debug, Default)]
struct Share {
    calls: u64,
    bytes: u64,
    ticks: u64,
    slowest: u64,
    /// Ticks by position in the tree of contexts.
    contexts: BTreeMap<u32, u64>,
}

impl SecondLook<'_> {
    /// For each stretch its thread's call sites by their time in the allocator.
    ///
    /// Deallocations without a backtrace of their own have no site and are left out.
    pub(crate) fn shares(&self, stretches: &[Stretch]) -> Result<Vec<Vec<SpikeSite>>, ReadError> {
        let mut shares = vec![BTreeMap::new(); stretches.len()];
        let chunks = self.trace.chunks();
        let mut decoded = DecodedChunk::default();
        for (at, chunk) in chunks.iter().enumerate() {
            let is_wanted = |stretch: &Stretch| {
                chunk.header.thread == stretch.thread
                    && self.overlaps(at, stretch.start, stretch.end)
            };
            let wanted: Vec<usize> = (0..stretches.len())
                .filter(|number| is_wanted(&stretches[*number]))
                .collect();
            if wanted.is_empty() || !self.decode(chunk, &mut decoded)? {
                continue;
            }
            for number in wanted {
                self.share(&decoded.events, &stretches[number], &mut shares[number]);
            }
        }
        Ok(shares
            .into_iter()
            .map(|shares| self.ranked(shares))
            .collect())
    }

    fn share(&self, events: &[Event], stretch: &Stretch, shares: &mut BTreeMap<u32, Share>) {
        for event in events {
            // As in the frame table: behind the mark at the start, up to the one at the end.
            if event.key() < stretch.start || event.key() > stretch.end {
                continue;
            }
            let Some(site) = self.sites.of(self.dense.stack(event.stack)) else {
                continue;
            };
            let share = shares.entry(site).or_default();
            share.calls += 1;
            share.ticks = share.ticks.saturating_add(event.latency());
            share.slowest = share.slowest.max(event.latency());
            if let Some(at) = self.contexts.position(event.context.0) {
                let ticks = share.contexts.entry(at).or_default();
                *ticks = ticks.saturating_add(event.latency());
            }
            if event.kind != EventKind::FailedAlloc && event.kind != EventKind::FailedRealloc {
                share.bytes = share.bytes.saturating_add(event.size);
            }
        }
    }

    fn ranked(&self, shares: BTreeMap<u32, Share>) -> Vec<SpikeSite> {
        let mut sites: Vec<_> = shares
            .into_iter()
            .map(|(site, share)| SpikeSite {
                site,
                calls: share.calls,
                bytes: share.bytes,
                nanos: self
                    .cost
                    .allocator_nanos(&self.times, share.ticks, share.calls),
                slowest_nanos: self.times.nanos(share.slowest),
                context: longest(&share.contexts).and_then(|at| self.contexts.index(at)),
            })
            .collect();
        sites.sort_by_key(|site| {
            (
                std::cmp::Reverse(site.nanos),
                std::cmp::Reverse(site.calls),
                site.site,
            )
        });
        sites
    }
}

/// Where most of the time went; of equals the first.
fn longest(contexts: &BTreeMap<u32, u64>) -> Option<u32> {
    let most = contexts
        .iter()
        .max_by_key(|(at, ticks)| (**ticks, std::cmp::Reverse(**at)));
    most.map(|(at, _)| *at)
}
