//! Which phases each game frame lies in, for rules that name one.

use heapreel_format::{LoopId, NameId, Rare, Trace};

/// By frame: the phases that touch it. Frame 0 begins with the trace.
pub(super) fn phases_of_frames(trace: &Trace) -> Vec<Vec<NameId>> {
    let mut records = rare_records(trace);
    records.sort_by_key(|(key, _)| *key);
    let marks = records.iter().filter_map(|(_, rare)| match rare {
        Rare::FrameMark { id } => Some(*id),
        _ => None,
    });
    let main = marks.min().unwrap_or(LoopId(0));
    let mut frames: Vec<Vec<NameId>> = vec![Vec::new()];
    let mut open: Vec<NameId> = Vec::new();
    let mut begun = false;
    for (_, rare) in records {
        match rare {
            // What lies before the first mark counts for frame 0, as for the models.
            Rare::FrameMark { id } if id == main && std::mem::replace(&mut begun, true) => {
                frames.push(open.clone());
            }
            Rare::PhaseBegin { name } => {
                open.push(name);
                frames.last_mut().expect("never empty").push(name);
            }
            Rare::PhaseEnd { name } => {
                if let Some(at) = open.iter().rposition(|known| *known == name) {
                    open.remove(at);
                }
            }
            _ => {}
        }
    }
    frames
}

/// Frame marks and phases with their keys; what is damaged is left out.
fn rare_records(trace: &Trace) -> Vec<(u64, Rare)> {
    let decoded = trace.chunks().iter().filter_map(|it| trace.decode(it).ok());
    let rares = decoded.flat_map(|chunk| chunk.rares);
    rares
        .filter(|(_, _, rare)| {
            matches!(
                rare,
                Rare::FrameMark { .. } | Rare::PhaseBegin { .. } | Rare::PhaseEnd { .. }
            )
        })
        .map(|(key, _, rare)| (key, rare))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapreel_format::testing::TraceBuilder;

    #[test]
    fn a_phase_is_of_every_frame_that_it_touches() {
        let phase = |begin: bool| {
            let name = NameId(7);
            match begin {
                true => Rare::PhaseBegin { name },
                false => Rare::PhaseEnd { name },
            }
        };
        let mut trace = TraceBuilder::new();
        for (number, key) in [2_000, 3_000, 4_000, 5_000].into_iter().enumerate() {
            trace = trace.frame_mark(1, key, 0);
            trace = match number {
                1 => trace.rare(1, 3_500, phase(true)),
                2 => trace.rare(1, 4_500, phase(false)),
                _ => trace,
            };
        }
        let trace = Trace::from_bytes(trace.bytes()).unwrap();
        let expected = [vec![], vec![NameId(7)], vec![NameId(7)], vec![]];
        assert_eq!(phases_of_frames(&trace), expected);
    }
}
