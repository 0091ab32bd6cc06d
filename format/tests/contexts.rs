//! Contexts as a reader finds them: which call was made in which, and when each was entered.

use heapreel_format::testing::{TraceBuilder, blank};
use heapreel_format::{ContextId, Event, EventKind, Trace};

fn alloc(start: u64, end: u64, address: u64, context: u32) -> Event {
    Event {
        address,
        size: 16,
        context: ContextId(context),
        ..blank(1, start, end, EventKind::Alloc)
    }
}

#[test]
fn an_entry_lies_between_its_neighbours() {
    let bytes = TraceBuilder::new()
        .context(1, 0, "level", "forest")
        .context(2, 1, "asset", "rock")
        .event(alloc(2_000, 2_050, 0x1000, 0))
        .enter(1, 1)
        .enter(1, 2)
        .event(alloc(3_000, 3_050, 0x2000, 2))
        .event(alloc(3_100, 3_150, 0x3000, 1))
        .enter(1, 2)
        .frame_mark(1, 4_000, 0)
        .enter(1, 2)
        .bytes();
    let trace = Trace::from_bytes(bytes).expect("a trace");
    let chunk = trace.decode(&trace.chunks()[0]).expect("a sound chunk");
    let contexts: Vec<u32> = chunk.events.iter().map(|event| event.context.0).collect();
    assert_eq!(contexts, [0, 2, 1]);
    let entered: Vec<_> = chunk
        .entered
        .iter()
        .map(|(k, n, id)| (*k, *n, id.0))
        .collect();
    // As late as can be: where the next call begins; behind the last record at its end.
    let expected = [(3_000, 1, 1), (3_000, 1, 2), (4_000, 3, 2), (4_000, 3, 2)];
    assert_eq!(entered, expected);
    let (parent, kind, name) = &trace.definitions().contexts[&ContextId(2)];
    assert_eq!(
        (parent.0, kind.as_str(), name.as_str()),
        (1, "asset", "rock")
    );
}

#[test]
fn a_chunk_begins_in_the_context_of_the_one_before() {
    let bytes = TraceBuilder::new()
        .chunk_records(2)
        .enter(1, 5)
        .event(alloc(2_000, 2_050, 0x1000, 5))
        .event(alloc(3_000, 3_050, 0x2000, 5))
        .bytes();
    let trace = Trace::from_bytes(bytes).expect("a trace");
    assert_eq!(trace.chunks().len(), 2);
    for chunk in trace.chunks() {
        let chunk = trace.decode(chunk).expect("a sound chunk");
        assert_eq!(chunk.events[0].context, ContextId(5));
    }
}
