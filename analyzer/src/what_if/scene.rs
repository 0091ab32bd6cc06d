//! What a trace tells models before the first call.

use super::trace_names::TraceNames;
use crate::analysis::clock::Times;
use crate::replay::Dense;
use heapreel_format::{ContextId, Role, ThreadId, Trace};
use heapreel_models::ThreadRole;
use std::collections::HashMap;
use std::sync::Arc;

/// A segment that the game registered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceSegment {
    /// Its name; empty for a number that the trace leaves out.
    pub name: String,
    /// Its budget in bytes, where the game set one.
    pub budget: Option<u64>,
}

/// A thread of the game.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceThread {
    /// Its name; empty where none is known.
    pub name: String,
    /// What it works for: the game's word, else performance.
    pub role: ThreadRole,
    /// It is the program's first thread.
    pub main: bool,
}

/// A trace as models need to know it.
pub struct Scene {
    /// Positions of backtraces and threads.
    pub dense: Dense,
    /// Segments by the trace's number.
    pub segments: Vec<TraceSegment>,
    /// Threads by their position.
    pub threads: Vec<TraceThread>,
    /// Contexts by their position; position 0 is none.
    pub contexts: Vec<ContextId>,
    /// By a backtrace's position: requested alignment as a power of two, 0 for none.
    pub(super) aligns: Vec<u8>,
    pub(super) context_positions: HashMap<ContextId, u32>,
    pub(super) times: Times,
}

impl Scene {
    /// The scene of a trace.
    pub fn of(trace: &Trace) -> Scene {
        let dense = Dense::of(trace);
        let definitions = trace.definitions();
        let mut contexts: Vec<_> = definitions.contexts.keys().copied().collect();
        contexts.retain(|id| *id != ContextId::NONE);
        contexts.insert(0, ContextId::NONE);
        let positions = contexts.iter().enumerate();
        let align = |id| {
            let stack = definitions.stacks.get(id);
            stack.map_or(0, |stack| stack.align_log2)
        };
        Scene {
            aligns: dense.stacks.iter().map(align).collect(),
            segments: segments(trace),
            threads: dense.threads.iter().map(|id| thread(trace, *id)).collect(),
            context_positions: positions.map(|(at, id)| (*id, at as u32)).collect(),
            contexts,
            times: Times::of(&trace.header().clock),
            dense,
        }
    }

    /// A key in nanoseconds since recording started.
    pub fn nanos(&self, key: u64) -> u64 {
        self.times.since_start(key)
    }

    /// The position of the program's first thread.
    pub fn main_thread(&self) -> Option<u32> {
        let main = self.threads.iter().position(|thread| thread.main);
        main.map(|at| at as u32)
    }

    /// What the numbers of calls are called, for rules.
    pub fn names(&self, trace: &Trace) -> Arc<dyn heapreel_models::layout::Names> {
        Arc::new(TraceNames::of(trace, self))
    }
}

fn segments(trace: &Trace) -> Vec<TraceSegment> {
    let defined = &trace.definitions().segments;
    let count = defined.keys().last().map_or(0, |id| usize::from(id.0)) + 1;
    let mut segments = vec![TraceSegment::default(); count];
    segments[0].name = "Default".to_owned();
    for (id, (name, budget)) in defined {
        segments[usize::from(id.0)] = TraceSegment {
            name: name.clone(),
            budget: Some(*budget).filter(|bytes| *bytes > 0),
        };
    }
    segments
}

fn thread(trace: &Trace, id: ThreadId) -> TraceThread {
    let Some(known) = trace.definitions().threads.get(&id) else {
        return TraceThread::default();
    };
    TraceThread {
        name: known.name.clone(),
        role: match known.role {
            Role::Background => ThreadRole::Low,
            Role::Unknown | Role::Critical => ThreadRole::Performance,
        },
        main: known.tid == trace.header().process.pid,
    }
}
