//! Marks and phases.

use heapreel_format::NameId;

/// A named stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PhaseFacts {
    pub(crate) name: NameId,
    pub(crate) thread: u32,
    pub(crate) start: u64,
    /// `None` where the trace ends within it.
    pub(crate) end: Option<u64>,
}

/// All marks and phases, in order of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    /// (key, name)
    pub(crate) marks: Vec<(u64, NameId)>,
    pub(crate) phases: Vec<PhaseFacts>,
}

impl Timeline {
    pub(crate) fn on_mark(&mut self, key: u64, name: NameId) {
        self.marks.push((key, name));
    }

    pub(crate) fn on_phase_begin(&mut self, key: u64, thread: u32, name: NameId) {
        self.phases.push(PhaseFacts {
            name,
            thread,
            start: key,
            end: None,
        });
    }

    /// Ends the last such phase that its thread began, or, where it began none, any thread.
    /// False where none is open.
    pub(crate) fn on_phase_end(&mut self, key: u64, thread: u32, name: NameId) -> bool {
        let open = |phase: &&mut PhaseFacts| phase.end.is_none() && phase.name == name;
        let own = self
            .phases
            .iter()
            .rposition(|p| p.end.is_none() && p.name == name && p.thread == thread);
        let phase = match own {
            Some(at) => self.phases.get_mut(at),
            None => self.phases.iter_mut().rev().find(open),
        };
        match phase {
            Some(phase) => {
                phase.end = Some(key);
                true
            }
            None => false,
        }
    }
}
