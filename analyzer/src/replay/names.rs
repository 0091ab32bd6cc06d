//! Small dense numbers for a trace's backtraces and threads.
//!
//! Numbers in a file are a stranger's word: tables are as long as the definitions
//! are many, however large the numbers are.

use heapreel_format::{Definitions, StackId, ThreadId, Trace};
use std::collections::{BTreeSet, HashMap};

/// Positions of backtraces and threads, in ascending order of their numbers.
#[derive(Clone, Debug, Default)]
pub struct Dense {
    /// Position 0 stands for "no backtrace" and for undefined ones.
    pub stacks: Vec<StackId>,
    /// All threads that have records or a definition.
    pub threads: Vec<ThreadId>,
    by_number: Numbers,
}

#[derive(Clone, Debug)]
enum Numbers {
    Table(Vec<u32>),
    Map(HashMap<u32, u32>),
}

impl Default for Numbers {
    fn default() -> Self {
        Numbers::Table(Vec::new())
    }
}

impl Dense {
    /// The positions of a trace's numbers.
    pub fn of(trace: &Trace) -> Dense {
        let definitions = trace.definitions();
        let stacks = sorted_stacks(definitions);
        Dense {
            by_number: Numbers::new(&stacks),
            threads: threads(trace),
            stacks,
        }
    }

    /// The position of a backtrace.
    #[inline(always)]
    pub fn stack(&self, id: StackId) -> u32 {
        match &self.by_number {
            Numbers::Table(table) => table.get(id.0 as usize).copied().unwrap_or(0),
            Numbers::Map(map) => map.get(&id.0).copied().unwrap_or(0),
        }
    }

    /// The position of a thread.
    pub fn thread(&self, id: ThreadId) -> u32 {
        self.threads.binary_search(&id).unwrap_or(0) as u32
    }
}

impl Numbers {
    fn new(stacks: &[StackId]) -> Numbers {
        let highest = stacks.last().map_or(0, |id| id.0) as usize;
        let positions = stacks.iter().enumerate().map(|(at, id)| (id.0, at as u32));
        if highest <= stacks.len() * 4 + 1024 {
            let mut table = vec![0; highest + 1];
            positions.for_each(|(number, at)| table[number as usize] = at);
            Numbers::Table(table)
        } else {
            Numbers::Map(positions.collect())
        }
    }
}

fn sorted_stacks(definitions: &Definitions) -> Vec<StackId> {
    let mut stacks: Vec<_> = definitions
        .stacks
        .keys()
        .copied()
        .filter(|id| *id != StackId::NONE)
        .collect();
    stacks.sort_unstable();
    stacks.insert(0, StackId::NONE);
    stacks
}

fn threads(trace: &Trace) -> Vec<ThreadId> {
    let defined = trace.definitions().threads.keys().copied();
    let recorded = trace.chunks().iter().map(|chunk| chunk.header.thread);
    let in_flight = trace.in_flight().iter().map(|release| release.thread);
    let known: BTreeSet<_> = defined.chain(recorded).chain(in_flight).collect();
    known.into_iter().collect()
}
