//! What a damaged file costs: itself and nothing else.

use heapreel_format::testing::TraceBuilder;
use heapreel_format::{Ended, Entry, EventKind, Trace};

fn builder() -> TraceBuilder {
    let mut builder = TraceBuilder::new()
        .chunk_records(10)
        .stack(1, Entry::Malloc, &[0x10_0000]);
    for i in 0..200u64 {
        let thread = (i % 2) as u32 + 1;
        let at = 10_000 + i * 100;
        let address = 0x1_0000_0000 + i * 64;
        builder = builder.alloc(thread, at, at + 20, address, 48, 1);
        if i % 3 == 0 {
            builder = builder.free(thread, at + 40, at + 50, address);
        }
    }
    builder
}

fn events(trace: &Trace) -> Vec<(u64, EventKind)> {
    let mut events = Vec::new();
    for entry in trace.chunks() {
        if let Ok(chunk) = trace.decode(entry) {
            events.extend(chunk.events.iter().map(|e| (e.address, e.kind)));
        }
    }
    events
}

#[test]
fn a_whole_trace_is_whole() {
    let trace = Trace::from_bytes(builder().bytes()).unwrap();
    assert_eq!(events(&trace).len(), 267);
    assert!(trace.health().complete(), "{:?}", trace.health());
    assert_eq!(trace.health().ended, Some(Ended::Exit(0)));
}

#[test]
fn every_cut_gives_a_prefix_or_an_error() {
    let bytes = builder().bytes();
    let all = events(&Trace::from_bytes(bytes.clone()).unwrap());
    let mut before = 0;
    for cut in 0..bytes.len() {
        let Ok(trace) = Trace::from_bytes(bytes[..cut].to_vec()) else {
            assert_eq!(before, 0, "a longer cut must not read worse");
            continue;
        };
        let got = events(&trace);
        assert!(got.len() >= before && got.iter().all(|e| all.contains(e)));
        assert!(trace.health().cut && !trace.health().complete());
        before = got.len();
    }
    assert_eq!(before, all.len());
}

#[test]
fn a_flipped_bit_costs_at_most_its_chunk() {
    let bytes = builder().bytes();
    let all = events(&Trace::from_bytes(bytes.clone()).unwrap());
    for at in (0..bytes.len()).step_by(7) {
        let mut bad = bytes.clone();
        bad[at] ^= 1 << (at % 8);
        let Ok(trace) = Trace::from_bytes(bad) else {
            continue;
        };
        let got = events(&trace);
        assert!(
            got.len() + 10 >= all.len(),
            "byte {at}: {} of {}",
            got.len(),
            all.len()
        );
        assert!(got.iter().all(|e| all.contains(e)));
    }
}

#[test]
fn a_lost_chunk_is_counted() {
    let bytes = builder().bytes();
    let trace = Trace::from_bytes(bytes.clone()).unwrap();
    let heapreel_format::Place::File(payload) = trace.chunks()[3].place else {
        panic!("no spill here")
    };
    let mut bad = bytes;
    bad[payload as usize - 60] ^= 0xff;
    let trace = Trace::from_bytes(bad).unwrap();
    assert_eq!(trace.health().missing_records, 10);
    assert_eq!(trace.health().damage.len(), 1);
}

#[test]
fn recovery_makes_a_cut_trace_whole() {
    let bytes = builder().bytes();
    let cut = Trace::from_bytes(bytes[..bytes.len() - 100].to_vec()).unwrap();
    let mut whole = Vec::new();
    let recovered = heapreel_format::recover(&cut, &mut whole).unwrap();
    let again = Trace::from_bytes(whole).unwrap();
    assert_eq!(events(&again), events(&cut));
    assert_eq!(recovered.records as usize, events(&cut).len());
    assert!(!again.health().cut && again.health().damage.is_empty());
}
