//! A trace of each format version stays readable for ever.

use heapreel_format::{Ended, EventKind, Rare, Trace};
use std::path::Path;

/// skirmish's scene *overrun*, 120 frames; figures as its own truth had them.
#[test]
fn version_1() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1.hreel");
    let trace = Trace::open(&path).expect("version 1");
    let mut kinds = [0u32; 7];
    let mut marks = 0;
    for entry in trace.chunks() {
        let chunk = trace.decode(entry).expect("a sound chunk");
        assert_eq!(chunk.unreadable, 0);
        chunk
            .events
            .iter()
            .for_each(|event| kinds[event.kind as usize] += 1);
        marks += chunk
            .rares
            .iter()
            .filter(|(_, _, rare)| matches!(rare, Rare::FrameMark { .. }))
            .count();
    }
    assert_eq!(kinds[EventKind::Alloc as usize], 369);
    assert_eq!(kinds[EventKind::AllocZeroed as usize], 64);
    assert_eq!(kinds[EventKind::Realloc as usize], 20);
    assert_eq!(kinds[EventKind::Dealloc as usize], 444);
    assert_eq!(marks, 120);
    assert_eq!(trace.health().ended, Some(Ended::Exit(0)));
    assert!(trace.health().complete());
    let names: Vec<_> = trace.symbols().strings.iter().map(String::as_str).collect();
    assert!(
        names
            .iter()
            .any(|name| name.contains("InventoryGrid::write_slots")
                || name.contains("InventoryGrid"))
    );
}
