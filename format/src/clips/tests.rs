use super::*;
use crate::definition::StackId;
use crate::event::Entry;
use crate::reader::Trace;
use crate::testing::TraceBuilder;
use std::sync::{Arc, Mutex};

const FRAME: u64 = 16_000;
const SLOW: u64 = 40_000;

fn plan() -> ClipPlan {
    ClipPlan {
        length: ClipLength::Frames(10),
        budget_nanos: Some(20_000),
        most_bytes: 1 << 20,
        every_nanos: 0,
    }
}

/// The run's trace, chunk by chunk as their times are, each followed by the watermark.
fn clips_of(run: TraceBuilder, plan: ClipPlan) -> (Vec<Clip>, Unmade) {
    let bytes = run.bytes();
    let (header, begin) = FileHeader::read(&bytes.as_slice()).unwrap();
    let mut rest = &bytes[begin as usize..];
    let mut chunks = Vec::new();
    while let Some(front) = rest.first_chunk() {
        let chunk = ChunkHeader::from_bytes(front).unwrap();
        let (whole, behind) = rest.split_at(CHUNK_HEADER_BYTES + chunk.stored as usize);
        let key = match chunk.kind {
            ChunkKind::Definitions => 0,
            ChunkKind::Events => chunk.first_key,
            _ => u64::MAX,
        };
        chunks.push((key, whole));
        rest = behind;
    }
    chunks.sort_by_key(|(key, _)| *key);
    let made = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&made);
    let keep = move |clip| taken.lock().unwrap().push(clip);
    let mut clips = Clips::new(header, plan, Box::new(keep));
    clips.write_all(&bytes[..begin as usize]).unwrap();
    for (key, chunk) in chunks {
        let mut writer = TraceWriter::resume(Vec::new());
        writer.watermark(key).unwrap();
        clips.write_all(&writer.finish().unwrap()).unwrap();
        clips.write_all(chunk).unwrap();
    }
    let unmade = clips.unmade();
    drop(clips);
    (Arc::into_inner(made).unwrap().into_inner().unwrap(), unmade)
}

/// `frames` frames, each with a block that lives on (backtrace 1) and one that does not
/// (backtrace 2); those in `slow` take longer.
fn run(frames: u64, slow: &[u64]) -> TraceBuilder {
    let mut run = TraceBuilder::new()
        .chunk_records(7)
        .stack(1, Entry::Malloc, &[0x5000_0010])
        .stack(2, Entry::Malloc, &[0x5000_0020])
        .stack(3, Entry::Malloc, &[0x5000_0030])
        .alloc(1, 1_000, 1_010, 0x9000_0000, 77, 3)
        .free(1, 1_020, 1_030, 0x9000_0000)
        .frame_mark(1, 2_000, 0);
    let mut key = 2_000;
    for frame in 1..=frames {
        let address = 0x7f00_0000 + frame * 0x100;
        run = run
            .alloc(1, key + 100, key + 150, address, 24, 1)
            .alloc(1, key + 200, key + 250, address + 0x40, 32, 2)
            .free(1, key + 300, key + 350, address + 0x40);
        key += if slow.contains(&frame) { SLOW } else { FRAME };
        run = run.frame_mark(1, key, 0);
    }
    run
}

fn opened(clip: &Clip) -> Trace {
    let trace = Trace::from_bytes(clip.bytes.clone()).unwrap();
    let health = trace.health();
    assert_eq!((health.missing_records, health.lost_events), (0, 0));
    assert!(health.damage.is_empty() && !health.cut, "{health:?}");
    trace
}

fn marks(trace: &Trace) -> usize {
    let decoded = trace.chunks().iter().map(|it| trace.decode(it).unwrap());
    let rares = decoded.flat_map(|it| it.rares);
    rares
        .filter(|(.., it)| matches!(it, Rare::FrameMark { .. }))
        .count()
}

#[test]
fn a_frame_over_budget_makes_a_clip_of_the_frames_before_it() {
    let (clips, unmade) = clips_of(run(100, &[40, 80]), plan());
    let frames: Vec<_> = clips.iter().map(|it| (it.cause, it.frame)).collect();
    assert_eq!(frames, [(ClipCause::Budget, 40), (ClipCause::Budget, 80)]);
    assert_eq!(unmade, Unmade::default());
    for clip in &clips {
        let trace = opened(clip);
        assert_eq!(marks(&trace), 11);
        let told = trace.definitions().clip.as_ref().unwrap();
        assert_eq!((told.took, told.budget), (SLOW, 20_000));
        // Blocks of all the frames before the clip, with the time of their birth.
        let live = trace.snapshot();
        assert_eq!(live.len() as u64, clip.frame - 10);
        assert!(
            live.iter()
                .all(|it| it.size == 24 && it.stack == StackId(1))
        );
        assert_eq!(live[0].key, 2_150);
        assert!(trace.definitions().stacks.contains_key(&StackId(2)));
        assert!(!trace.definitions().stacks.contains_key(&StackId(3)));
    }
}

#[test]
fn clips_keep_their_distance_in_the_time_of_the_trace() {
    let far = ClipPlan {
        every_nanos: 30 * FRAME,
        ..plan()
    };
    let (clips, unmade) = clips_of(run(100, &[20, 30, 70]), far);
    let frames: Vec<_> = clips.iter().map(|it| it.frame).collect();
    assert_eq!(frames, [20, 70]);
    assert_eq!(unmade.too_soon, 1);
}

#[test]
fn a_clip_is_never_larger_than_allowed() {
    let whole = clips_of(run(100, &[90]), plan()).0[0].bytes.len() as u64;
    let small = ClipPlan {
        most_bytes: whole - 100,
        ..plan()
    };
    let (clips, _) = clips_of(run(100, &[90]), small);
    assert!(clips[0].bytes.len() as u64 <= small.most_bytes);
    let trace = opened(&clips[0]);
    assert!((2..11).contains(&marks(&trace)), "{}", marks(&trace));
    let none = ClipPlan {
        most_bytes: 200,
        ..plan()
    };
    let (clips, unmade) = clips_of(run(100, &[90]), none);
    assert_eq!((clips.len(), unmade.too_large), (0, 1));
}

#[test]
fn calls_and_crashes_make_clips_too() {
    let called = run(30, &[]).define(Definition::Name {
        id: NameId(1),
        text: "clip: boss".into(),
    });
    let key = 2_000 + 30 * FRAME;
    let called = called
        .mark(1, key + 500, 1)
        .alloc(1, key + 600, key + 700, 0x10, 5, 1);
    let crashed = called.ended(Some(Ended::Signal(6)));
    let (clips, _) = clips_of(crashed, plan());
    let causes: Vec<_> = clips.iter().map(|it| it.cause).collect();
    assert_eq!(causes, [ClipCause::Call, ClipCause::Crash]);
    let (call, crash) = (opened(&clips[0]), opened(&clips[1]));
    assert_eq!(call.definitions().clip.as_ref().unwrap().name, "boss");
    assert_eq!(crash.health().ended, Some(Ended::Signal(6)));
    // The block behind the call is in the second one only.
    let events = |it: &Trace| {
        it.chunks()
            .iter()
            .map(|c| it.decode(c).unwrap().events.len())
            .sum::<usize>()
    };
    assert_eq!((events(&call), events(&crash)), (30, 31));
}

#[test]
fn a_phase_that_is_open_where_a_clip_begins_is_told() {
    let phase = |on| {
        let name = NameId(1);
        if on {
            Rare::PhaseBegin { name }
        } else {
            Rare::PhaseEnd { name }
        }
    };
    let mut run = TraceBuilder::new()
        .chunk_records(7)
        .frame_mark(1, 2_000, 0)
        .rare(1, 2_001, phase(true));
    for frame in 1..50 {
        run = run.frame_mark(1, 2_000 + frame * SLOW, 0);
    }
    let key = 2_000 + 49 * SLOW;
    run = run
        .rare(1, key + 1, phase(false))
        .frame_mark(1, key + 100, 0);
    let (clips, _) = clips_of(run.frame_mark(1, key + SLOW, 0), plan());
    // Long frames within the phase make none.
    assert_eq!(clips.len(), 1);
    let trace = opened(&clips[0]);
    let first = trace.decode(&trace.chunks()[0]).unwrap();
    assert_eq!(first.rares[0].2, phase(true));
}

#[test]
fn a_reallocation_is_not_cut_in_two() {
    let mut run = run(20, &[]);
    let at = 2_000 + 20 * FRAME;
    // Another thread's reallocation begins before a mark and ends behind it.
    run = run.alloc(2, 5_000, 5_010, 0x100, 10, 1);
    run = run.realloc(2, at - 5, at + 5, 0x100, 0x200, 20, 1);
    let mut key = at;
    for frame in 1..=10 {
        key += if frame == 10 { SLOW } else { FRAME };
        run = run.frame_mark(1, key, 0);
    }
    let (clips, _) = clips_of(run, plan());
    let trace = opened(&clips[0]);
    let held: Vec<_> = trace
        .snapshot()
        .iter()
        .filter(|it| it.address < 0x1000)
        .collect();
    assert_eq!(held.len(), 1);
    assert_eq!((held[0].address, held[0].key), (0x100, 5_010));
}
