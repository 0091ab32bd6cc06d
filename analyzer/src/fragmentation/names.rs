//! Names of what a replay knows by number.

use super::groups::Names;
use crate::StackFrame;
use crate::analysis::naming::Naming;
use crate::analysis::threads::thread_name;
use crate::what_if::Scene;
use heapreel_format::{SegmentId, StackDef, Trace};

/// Names from a trace's definitions and symbols.
pub struct TraceNames<'a> {
    trace: &'a Trace,
    scene: &'a Scene,
    naming: Naming<'a>,
}

impl<'a> TraceNames<'a> {
    /// The names of a trace; backtraces and threads are known by their positions.
    pub fn new(trace: &'a Trace, scene: &'a Scene) -> TraceNames<'a> {
        let naming = Naming::new(trace);
        TraceNames {
            trace,
            scene,
            naming,
        }
    }

    /// The functions of a backtrace, innermost first; none where none was taken.
    pub fn stack(&mut self, site: u32) -> Vec<StackFrame> {
        let stack = self.definition(site);
        stack.map_or_else(Vec::new, |stack| self.naming.frames(stack))
    }

    /// A context and those around it, outermost first; `None` outside of any.
    pub fn context(&self, number: u32) -> Option<String> {
        let contexts = &self.trace.definitions().contexts;
        let mut parts = Vec::new();
        let mut at = *self.scene.contexts.get(number as usize)?;
        // A damaged trace may have a ring.
        while let Some((parent, kind, name)) = contexts.get(&at).filter(|_| parts.len() < 64) {
            parts.push(format!("{kind}:{name}"));
            at = *parent;
        }
        parts.reverse();
        (!parts.is_empty()).then(|| parts.join(" / "))
    }

    fn definition(&self, site: u32) -> Option<&'a StackDef> {
        let id = self.scene.dense.stacks.get(site as usize)?;
        self.trace.definitions().stacks.get(id)
    }
}

impl Names for TraceNames<'_> {
    fn segment(&mut self, number: u16) -> String {
        let segments = &self.trace.definitions().segments;
        match segments.get(&SegmentId(number)) {
            Some((name, _)) => name.clone(),
            None if number == 0 => "Default".to_owned(),
            None => format!("segment {number}"),
        }
    }

    fn site(&mut self, number: u32) -> String {
        let stack = self.definition(number);
        let blamed = stack.and_then(|stack| self.naming.blamed(stack));
        blamed.map_or_else(|| "no backtrace".to_owned(), |function| function.short)
    }

    fn thread(&mut self, number: u32) -> String {
        let id = self.scene.dense.threads.get(number as usize);
        id.map_or_else(
            || format!("thread {number}"),
            |id| thread_name(self.trace, *id),
        )
    }
}
