//! How complete a trace is: what its reader, its decoder and its replay found.

use super::values::HealthFacts;
use crate::facts::Calls;
use crate::replay::DecodeFaults;
use heapreel_format::{Ended, Trace};
use std::collections::BTreeMap;

/// What the replay found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReplayFaults {
    pub(crate) decode: DecodeFaults,
    pub(crate) acquired_while_live: u64,
    pub(crate) acquired_after_gap: u64,
    pub(crate) released_twice: u64,
}

/// Joins all findings about completeness.
pub(crate) fn health(trace: &Trace, calls: &Calls, faults: ReplayFaults) -> HealthFacts {
    let read = trace.health();
    let decode = faults.decode;
    let lossy = read.lost_events
        + read.missing_records
        + decode.damaged_records
        + decode.unreadable_records
        > 0;
    // Where events are missing, an address may well be acquired twice.
    let acquired_while_live = if lossy { 0 } else { faults.acquired_while_live };
    let released_twice = if lossy { 0 } else { faults.released_twice };
    let explained = faults.acquired_after_gap
        + if lossy {
            faults.acquired_while_live + faults.released_twice
        } else {
            0
        };
    let mut facts = HealthFacts {
        complete: false,
        ended: ended_word(read.ended, read.running),
        orderly: read.ended.is_some_and(Ended::orderly),
        cut: read.cut,
        remarks: read.remarks(),
        damaged_parts: read.damage.len() as u64 + decode.damaged_chunks,
        damaged_bytes: read.damage.iter().map(|damage| damage.length).sum(),
        missing_records: read.missing_records + decode.damaged_records,
        lost_events: read.lost_events,
        unreadable_records: decode.unreadable_records,
        from_spill: read.from_spill,
        in_flight: read.in_flight.max(calls.in_flight),
        order_anomalies: acquired_while_live + released_twice + decode.late_steps,
        acquired_while_live,
        released_twice,
        explained_anomalies: explained,
        late_steps: decode.late_steps,
        unknown_releases: calls
            .unknown_releases()
            .map(|(entry, count)| (entry.name().to_owned(), count))
            .collect(),
        stacks_cut: read.stacks_cut,
        contexts_cut: read.contexts_cut,
        unwinds_checked: read.unwinds_checked,
        unwinds_differing: read.unwinds_differing,
    };
    if calls.unknown_reallocations > 0 {
        facts
            .unknown_releases
            .insert("realloc".to_owned(), calls.unknown_reallocations);
    }
    add_remarks(&mut facts, &decode);
    facts.complete = read.complete() && !lossy && facts.order_anomalies == 0;
    facts
}

fn add_remarks(facts: &mut HealthFacts, decode: &DecodeFaults) {
    if decode.damaged_chunks > 0 {
        let (chunks, records) = (decode.damaged_chunks, decode.damaged_records);
        facts.remarks.insert(
            0,
            format!("{chunks} damaged chunk(s) with {records} records"),
        );
    }
    if decode.unreadable_records > 0 {
        facts.remarks.push(format!(
            "{} records make no sense",
            decode.unreadable_records
        ));
    }
    if facts.acquired_while_live > 0 {
        let count = facts.acquired_while_live;
        facts.remarks.push(format!(
            "{count} blocks were acquired at addresses that were live"
        ));
    }
    if facts.released_twice > 0 {
        facts.remarks.push(format!(
            "{} addresses were released twice",
            facts.released_twice
        ));
    }
    if decode.late_steps > 0 {
        facts.remarks.push(format!(
            "{} events came too late to be put in order",
            decode.late_steps
        ));
    }
    if facts.explained_anomalies > 0 {
        let count = facts.explained_anomalies;
        facts.remarks.push(format!(
            "{count} addresses were acquired or released again; missing events explain it"
        ));
    }
    if facts.in_flight > 0 {
        facts.remarks.push(format!(
            "{} releases had begun when the program ended",
            facts.in_flight
        ));
    }
}

fn ended_word(ended: Option<Ended>, running: bool) -> Option<String> {
    let word = match ended {
        Some(Ended::Exit(status)) => format!("exit {status}"),
        Some(Ended::Signal(number)) => format!("signal {number}"),
        Some(Ended::Exec) => "exec".to_owned(),
        Some(Ended::Unknown) => "unknown".to_owned(),
        Some(Ended::Stopped) => "stopped".to_owned(),
        Some(Ended::RecorderLeft) => "recorder left".to_owned(),
        Some(Ended::Confined) => "confined".to_owned(),
        None if running => "running".to_owned(),
        None => return None,
    };
    Some(word)
}

/// Of the unknown releases those of addresses that had been acquired before: released
/// twice. `unknown` are (key, address) pairs; `acquired` calls its argument with the
/// key and address of every acquisition of the trace.
pub(crate) fn released_twice<E>(
    unknown: &[(u64, u64)],
    acquired: impl FnOnce(&mut dyn FnMut(u64, u64)) -> Result<(), E>,
) -> Result<u64, E> {
    // The earliest acquisition of each address in question.
    let mut first: BTreeMap<u64, u64> = unknown
        .iter()
        .map(|(_, address)| (*address, u64::MAX))
        .collect();
    acquired(&mut |key, address| {
        if let Some(earliest) = first.get_mut(&address) {
            *earliest = key.min(*earliest);
        }
    })?;
    let twice = unknown
        .iter()
        .filter(|(key, address)| first.get(address).is_some_and(|first| first < key));
    Ok(twice.count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_release_is_told_from_one_of_an_older_block() {
        let unknown = [(50, 0x10), (60, 0x20), (70, 0x30)];
        let twice = released_twice::<()>(&unknown, |tell| {
            tell(10, 0x10);
            tell(65, 0x20);
            tell(5, 0x40);
            Ok(())
        });
        assert_eq!(twice, Ok(1));
    }
}
