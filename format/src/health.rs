//! How complete a trace is: one value that every report and view shows.

use crate::header::Ended;
use serde::{Deserialize, Serialize};

/// A stretch of the file that could not be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// Offset of the stretch in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
    /// What was wrong.
    pub cause: String,
}

/// What the reader found out about a trace's completeness.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// How the recording ended; `None` where the file does not say.
    pub ended: Option<Ended>,
    /// The file ends within a chunk, or without its end record.
    pub cut: bool,
    /// Parts that were skipped.
    pub damage: Vec<Damage>,
    /// Records missing from threads' streams: numbers that no chunk holds.
    pub missing_records: u64,
    /// Records that the recorder says it could not keep.
    pub lost_events: u64,
    /// Records taken from the spill because no chunk had them.
    pub from_spill: u64,
    /// Releases that had begun and not ended when the program ended.
    pub in_flight: u64,
    /// Backtraces that were cut to their call site because the table was full.
    pub stacks_cut: u64,
    /// Contexts that were not entered because the table was full.
    pub contexts_cut: u64,
    /// Backtraces that the recorder compared with a whole unwind, where asked to.
    pub unwinds_checked: u64,
    /// How many of them were different.
    pub unwinds_differing: u64,
    /// The program gave system calls up that would have told more.
    pub confined: bool,
    /// Children that it forked after that were not recorded.
    pub children_unrecorded: bool,
    /// The program may still be running.
    pub running: bool,
}

impl Health {
    /// Every event that happened is here.
    pub fn complete(&self) -> bool {
        self.ended.is_some_and(|how| how != Ended::Confined)
            && !self.cut
            && self.damage.is_empty()
            && self.missing_records == 0
            && self.lost_events == 0
    }

    /// One sentence a line, worst first; empty for a trace without fault.
    pub fn remarks(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.damage.is_empty() {
            let bytes: u64 = self.damage.iter().map(|d| d.length).sum();
            lines.push(format!(
                "{} damaged part(s), {bytes} bytes skipped",
                self.damage.len()
            ));
        }
        if self.missing_records > 0 {
            lines.push(format!("{} records are missing", self.missing_records));
        }
        if self.lost_events > 0 {
            lines.push(format!("{} events could not be recorded", self.lost_events));
        }
        match self.ended {
            None if self.running => lines.push("the program is still running".to_owned()),
            None => lines.push(
                "the trace has no end record: it was cut, or is still being written".to_owned(),
            ),
            Some(how) if !how.orderly() => lines.push(how.to_string()),
            Some(_) if self.cut => lines.push("the file is cut".to_owned()),
            Some(_) => {}
        }
        if self.from_spill > 0 {
            lines.push(format!(
                "{} records were found in the spill",
                self.from_spill
            ));
        }
        if self.children_unrecorded {
            lines.push(
                "children that the program forked after it gave system calls up are not recorded"
                    .to_owned(),
            );
        }
        if self.confined {
            lines.push(
                "the program gave system calls up: some causes of slow calls and names of threads are not known"
                    .to_owned(),
            );
        }
        if self.stacks_cut > 0 {
            lines.push(format!(
                "{} backtraces were cut to their call site: the table was full",
                self.stacks_cut
            ));
        }
        if self.contexts_cut > 0 {
            lines.push(format!(
                "a context was not entered {} times, since the table was full: what was done there counts for the one around",
                self.contexts_cut
            ));
        }
        if self.unwinds_differing > 0 {
            lines.push(format!(
                "{} of {} backtraces differ from a whole unwind",
                self.unwinds_differing, self.unwinds_checked
            ));
        }
        lines
    }
}
