//! Who wrote there: an address among a model's blocks, or among those that were recorded,
//! with names for all that is known of the blocks round it.

mod heaps;

pub use heaps::{HeapAt, HeapParty, heaps_at};

use crate::StackFrame;
use crate::fragmentation::{Act, Books, Names, Tenure, TraceNames};
use heapreel_models::lookup::{self, Actor, Lookup, Neighbour, Part, Suspicion};
use heapreel_models::{BlockId, Model};
use serde::Serialize;

/// Something that was done to a block, with names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Deed {
    /// The function to blame.
    pub function: String,
    /// The functions of its backtrace, innermost first; none where none was taken.
    pub stack: Vec<StackFrame>,
    /// The thread.
    pub thread: String,
    /// The game frame.
    pub frame: u32,
    /// Nanoseconds since the trace began, where known.
    pub nanos: Option<u64>,
    /// The segment that the thread worked in, where known.
    pub segment: Option<String>,
    /// The context, outermost first, where it was in one.
    pub context: Option<String>,
}

/// A block or a free range near the address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Party {
    /// Whether the program holds it.
    pub live: bool,
    /// First address of its header; of its payload where there is none.
    pub start: u64,
    /// First address of its payload.
    pub payload: u64,
    /// First address behind its payload.
    pub end: u64,
    /// Bytes asked for; of a free range's last owner where known.
    pub requested: u64,
    /// Bytes from its end to the address, 1 for the first behind it; below zero, from the
    /// address to its payload; 0 inside.
    pub distance: i64,
    /// Number of the allocation, from 1; 0 where unknown.
    pub serial: u64,
    /// Its allocation; of a free range's last owner where known.
    pub allocated: Option<Deed>,
    /// How a free range's last owner gave it back, where known.
    pub freed: Option<Deed>,
}

/// A block whose owner may have written at the address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Suspect {
    /// Why.
    pub suspicion: Suspicion,
    /// Which.
    #[serde(flatten)]
    pub party: Party,
}

/// A block that held the address, now or once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Number of the allocation, from 1.
    pub serial: u64,
    /// First address of its payload.
    pub payload: u64,
    /// First address behind it.
    pub end: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// How far into it the address lies.
    pub offset: u64,
    /// Its allocation.
    pub allocated: Deed,
    /// How it was given back or moved away; `None` while it lives.
    pub freed: Option<Deed>,
}

/// The answer: plain values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Overrun {
    /// The trace's file.
    pub trace: String,
    /// The model whose addresses these are.
    pub model: String,
    /// The address.
    pub address: u64,
    /// The frame that the moment lies in.
    pub frame: u32,
    /// The moment, in nanoseconds since the trace began.
    pub nanos: u64,
    /// The region that holds the address, else the nearest; empty where there is none.
    pub region: String,
    /// Its segment.
    pub segment: Option<String>,
    /// Bytes from that region to the address; 0 inside it.
    pub outside_by: u64,
    /// What it hits.
    pub part: Part,
    /// The block or free range that contains it.
    pub block: Option<Party>,
    /// The one in front of that.
    pub previous: Option<Party>,
    /// The one behind it.
    pub next: Option<Party>,
    /// Likeliest first.
    pub suspects: Vec<Suspect>,
    /// All blocks that held the address up to this moment, newest first.
    pub holders: Vec<Holder>,
    /// The announced heaps that the address belongs to, innermost first; of addresses of the
    /// program itself alone.
    pub heaps: Vec<HeapAt>,
}

/// Looks the books' watched address up. With `headers` the model answers through its own
/// headers; else from what the trace says of its blocks.
pub fn look_up(
    model: &dyn Model,
    books: &Books,
    address: u64,
    headers: bool,
    names: &mut TraceNames<'_>,
) -> Overrun {
    let answer = if headers {
        model.lookup(address)
    } else {
        lookup::in_regions_with(&model.regions(), address, |block| {
            describe(block, model, books, address);
        })
    };
    named(answer, books, names)
}

/// Completes what the trace knows of a block: its owner; of a free range that holds the
/// address, the last one.
fn describe(block: &mut Neighbour, model: &dyn Model, books: &Books, address: u64) {
    if let Some(id) = block.id {
        let known = model.block(BlockId(id));
        block.requested = known.map_or(block.requested, |block| block.requested);
        if let Some(owner) = books.owner(id) {
            block.serial = owner.serial;
            block.allocated = Some(actor(&owner.allocated));
        }
    } else if (block.payload..block.end).contains(&address)
        && let Some(last) = books.tenures.last()
    {
        block.requested = last.requested;
        block.serial = last.serial;
        block.allocated = Some(actor(&last.allocated));
        block.freed = last.freed.as_ref().map(actor);
    }
}

fn actor(act: &Act) -> Actor {
    Actor {
        site: act.site,
        thread: act.thread,
        frame: act.frame,
    }
}

fn named(answer: Lookup, books: &Books, names: &mut TraceNames<'_>) -> Overrun {
    let mut party = |block: Neighbour| party(block, books, names);
    let (block, previous, next) = (
        answer.block.map(&mut party),
        answer.previous.map(&mut party),
        answer.next.map(&mut party),
    );
    let suspects = answer.suspects.into_iter().map(|suspect| Suspect {
        suspicion: suspect.suspicion,
        party: party(suspect.block),
    });
    Overrun {
        suspects: suspects.collect(),
        block,
        previous,
        next,
        trace: String::new(),
        model: String::new(),
        address: answer.address,
        frame: books.now.frame,
        nanos: books.now.nanos,
        region: answer.region,
        segment: answer.segment.map(|number| names.segment(number)),
        outside_by: answer.outside_by,
        part: answer.part,
        holders: holders(answer.address, books, names),
        heaps: Vec::new(),
    }
}

fn party(block: Neighbour, books: &Books, names: &mut TraceNames<'_>) -> Party {
    // What headers tell of an act, the trace knows in full.
    let tenure = books.tenures.iter().rev();
    let tenure = tenure
        .filter(|_| block.serial != 0)
        .find(|past| past.serial == block.serial);
    let owner = block.id.and_then(|id| books.owner(id));
    let allocated = owner
        .map(|owner| owner.allocated)
        .or(tenure.map(|past| past.allocated));
    let freed = tenure.and_then(|past| past.freed);
    Party {
        live: block.id.is_some(),
        start: block.start,
        payload: block.payload,
        end: block.end,
        requested: block.requested,
        distance: block.distance,
        serial: block.serial,
        allocated: block
            .allocated
            .map(|actor| complete(actor, allocated, names)),
        freed: block.freed.map(|actor| complete(actor, freed, names)),
    }
}

fn complete(known: Actor, act: Option<Act>, names: &mut TraceNames<'_>) -> Deed {
    match act.filter(|act| actor(act) == known) {
        Some(act) => deed(&act, names),
        None => Deed {
            function: names.site(known.site),
            stack: names.stack(known.site),
            thread: names.thread(known.thread),
            frame: known.frame,
            nanos: None,
            segment: None,
            context: None,
        },
    }
}

fn deed(act: &Act, names: &mut TraceNames<'_>) -> Deed {
    Deed {
        function: names.site(act.site),
        stack: names.stack(act.site),
        thread: names.thread(act.thread),
        frame: act.frame,
        nanos: Some(act.nanos),
        segment: Some(names.segment(act.segment)),
        context: names.context(act.context),
    }
}

fn holders(address: u64, books: &Books, names: &mut TraceNames<'_>) -> Vec<Holder> {
    let holder = |past: &Tenure| Holder {
        serial: past.serial,
        payload: past.payload,
        end: past.end,
        requested: past.requested,
        offset: address - past.payload,
        allocated: deed(&past.allocated, names),
        freed: past.freed.as_ref().map(|act| deed(act, names)),
    };
    books.tenures.iter().rev().map(holder).collect()
}
