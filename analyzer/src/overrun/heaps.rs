//! Which announced heaps an address belongs to, and to which of their blocks.

use crate::StackFrame;
use crate::analysis::clock::Times;
use crate::analysis::heaps::kind_name;
use crate::analysis::naming::Naming;
use crate::analysis::threads::thread_name;
use crate::analysis::{AnalysisError, Options, replay};
use crate::facts::{HeapBlock, HeapFacts};
use crate::place::Place;
use crate::replay::Dense;
use heapreel_format::{HeapId, Trace};
use serde::Serialize;

/// A heap whose range holds the address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeapAt {
    /// The heap's name.
    pub heap: String,
    /// Its kind.
    pub kind: String,
    /// First address of the range; of the block where the heap announced no ranges.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// The live block that contains the address.
    pub block: Option<HeapParty>,
    /// The nearest one in front of the address.
    pub previous: Option<HeapParty>,
    /// The nearest one behind it.
    pub next: Option<HeapParty>,
}

/// A live block of an announced heap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeapParty {
    /// First address.
    pub address: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// The function to blame for it.
    pub function: String,
    /// Functions of its backtrace, innermost first.
    pub stack: Vec<StackFrame>,
    /// The thread.
    pub thread: String,
    /// When, in nanoseconds since the recording began.
    pub nanos: u64,
}

/// The heaps that an address belongs to at a moment, in nanoseconds since the recording
/// began, else at the trace's end; the innermost first, as a heap may lie in another one's block.
///
/// # Errors
///
/// A file that cannot be read any more.
pub fn heaps_at(
    trace: &Trace,
    nanos: Option<u64>,
    address: u64,
) -> Result<Vec<HeapAt>, AnalysisError> {
    if trace.definitions().heaps.is_empty() {
        return Ok(Vec::new());
    }
    let dense = Dense::of(trace);
    let options = Options {
        to: nanos.map(|nanos| Place::Time(nanos.saturating_add(1))),
        ..Options::default()
    };
    let replayed = replay(trace, &dense, &options, |_| ())?;
    let mut named = Named {
        trace,
        dense: &dense,
        times: Times::of(&trace.header().clock),
        naming: Naming::new(trace),
    };
    let heaps = replayed.facts.heaps.heaps.iter();
    let mut found: Vec<HeapAt> = heaps
        .filter_map(|(id, facts)| named.heap(*id, facts, address))
        .collect();
    found.sort_by_key(|heap| heap.end - heap.start);
    Ok(found)
}

struct Named<'a> {
    trace: &'a Trace,
    dense: &'a Dense,
    times: Times,
    naming: Naming<'a>,
}

impl Named<'_> {
    fn heap(&mut self, id: HeapId, facts: &HeapFacts, address: u64) -> Option<HeapAt> {
        let before = facts.blocks.range(..=address).next_back();
        let inside = before.filter(|(start, block)| address - **start < block.size);
        let (start, length) = facts
            .range_of(address)
            .or(inside.map(|(start, block)| (*start, block.size)))?;
        let previous = match inside {
            Some((start, _)) => facts.blocks.range(..start).next_back(),
            None => before,
        };
        let next = facts.blocks.range(address.saturating_add(1)..).next();
        let (name, kind, ..) = self.trace.definitions().heaps.get(&id)?;
        Some(HeapAt {
            heap: name.replace(char::is_control, " "),
            kind: kind_name(*kind).to_owned(),
            start,
            end: start.saturating_add(length),
            block: inside.map(|it| self.party(it)),
            previous: previous.map(|it| self.party(it)),
            next: next.map(|it| self.party(it)),
        })
    }

    fn party(&mut self, (address, block): (&u64, &HeapBlock)) -> HeapParty {
        let stack = self.trace.definitions().stacks.get(&block.stack);
        let blamed = stack.and_then(|stack| self.naming.blamed(stack));
        let thread = self.dense.threads.get(block.thread as usize);
        HeapParty {
            address: *address,
            requested: block.size,
            function: blamed.map_or_else(|| "no backtrace".to_owned(), |it| it.short),
            stack: stack.map_or_else(Vec::new, |stack| self.naming.frames(stack)),
            thread: thread.map_or_else(String::new, |id| thread_name(self.trace, *id)),
            nanos: self.times.since_start(block.key),
        }
    }
}
