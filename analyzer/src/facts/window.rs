//! Which part of a trace is asked about, and the replay's way through it.

use heapreel_format::NameId;

/// An end of a window, in the trace's own terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// This key.
    Key(u64),
    /// The mark with one of these names, counted from 1.
    Mark { names: Vec<NameId>, occurrence: u64 },
    /// Where this frame of the main loop begins.
    Frame(u64),
}

/// A part of the trace; missing ends are the trace's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from: Option<Bound>,
    pub(crate) to: Option<Bound>,
}

/// How far a replay has come in a window.
#[derive(Clone, Debug)]
pub(crate) struct Passage {
    window: Window,
    pub(crate) begun: Option<u64>,
    pub(crate) ended: Option<u64>,
    from_seen: u64,
    to_seen: u64,
}

/// What a rare record is to a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crossing {
    None,
    Begins,
    Ends,
}

impl Passage {
    pub(crate) fn new(window: Window, start: u64) -> Passage {
        let begun = window.from.is_none().then_some(start);
        Passage {
            window,
            begun,
            ended: None,
            from_seen: 0,
            to_seen: 0,
        }
    }

    /// The key that is crossed next, if that is a matter of keys.
    pub(crate) fn next_key(&self) -> Option<u64> {
        let bound = if self.begun.is_none() {
            &self.window.from
        } else {
            &self.window.to
        };
        match bound {
            Some(Bound::Key(key)) if self.ended.is_none() => Some(*key),
            _ => None,
        }
    }

    /// Goes over the next end of the window.
    pub(crate) fn cross(&mut self, key: u64) -> Crossing {
        if self.begun.is_none() {
            self.begun = Some(key);
            Crossing::Begins
        } else {
            self.ended = Some(key);
            Crossing::Ends
        }
    }

    /// A mark stands here.
    pub(crate) fn on_mark(&mut self, key: u64, name: NameId) -> Crossing {
        self.on(key, |bound, seen| match bound {
            Bound::Mark { names, occurrence } if names.contains(&name) => {
                *seen += 1;
                *seen == *occurrence
            }
            _ => false,
        })
    }

    /// A frame mark of the main loop stands here: the frame with this number begins.
    pub(crate) fn on_frame(&mut self, key: u64, number: u64) -> Crossing {
        self.on(key, |bound, _| *bound == Bound::Frame(number))
    }

    fn on(&mut self, key: u64, is_there: impl Fn(&Bound, &mut u64) -> bool) -> Crossing {
        let from = self
            .window
            .from
            .as_ref()
            .is_some_and(|bound| is_there(bound, &mut self.from_seen));
        let to = self
            .window
            .to
            .as_ref()
            .is_some_and(|bound| is_there(bound, &mut self.to_seen));
        if self.ended.is_none() && (from && self.begun.is_none() || to && self.begun.is_some()) {
            return self.cross(key);
        }
        Crossing::None
    }
}
