//! From a place as a person writes it to where a run stops.

use super::witness::Until;
use crate::analysis::nearest;
use crate::place::Place;
use crate::replay::{StepKind, with_batches};
use crate::what_if::Scene;
use heapreel_format::{NameId, Rare, ReadError, Trace};

/// Where a run stops that is to show a frame's end.
pub fn end_of_frame(number: u64) -> Until {
    Until::FrameEnds(number.saturating_add(2))
}

/// Where a run stops that is to show a place; inside is a message, a fragment for behind
/// the file's name, where the trace has no such place.
///
/// # Errors
///
/// [`ReadError::Io`].
pub fn until(
    trace: &Trace,
    scene: &Scene,
    place: &Place,
) -> Result<Result<Until, String>, ReadError> {
    Ok(match place {
        Place::Frame(number) => Ok(Until::FrameEnds(number.saturating_add(1))),
        Place::Time(nanos) => Ok(Until::Nanos(*nanos)),
        Place::Mark { name, occurrence } => mark(trace, scene, name, *occurrence)?,
    })
}

fn mark(
    trace: &Trace,
    scene: &Scene,
    name: &str,
    occurrence: u64,
) -> Result<Result<Until, String>, ReadError> {
    let names = &trace.definitions().names;
    let same: Vec<NameId> = names
        .iter()
        .filter(|(_, text)| *text == name)
        .map(|(id, _)| *id)
        .collect();
    if same.is_empty() {
        let known = names.values().map(String::as_str);
        return Ok(Err(format!("has no mark {name:?}{}", nearest(name, known))));
    }
    let mut met = 0;
    let mut found = None;
    with_batches(trace, &scene.dense, |batch| {
        let rare = batch
            .steps
            .iter()
            .filter(|step| step.kind == StepKind::Rare);
        for step in rare {
            let its = batch.rares.get(step.address as usize);
            if matches!(its, Some(Rare::Mark { name }) if same.contains(name)) {
                met += 1;
                if met == occurrence {
                    found = Some(scene.nanos(step.key));
                }
            }
        }
        found.is_none()
    })?;
    Ok(match found {
        Some(nanos) => Ok(Until::Nanos(nanos)),
        None => Err(format!("has mark {name:?} {met} time(s), not {occurrence}")),
    })
}
