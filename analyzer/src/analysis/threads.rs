//! Threads by name.

use super::clock::Times;
use super::recording::CostModel;
use super::values::ThreadUse;
use crate::facts::Facts;
use crate::replay::Dense;
use heapreel_format::{Role, ThreadId, Trace};

/// A thread's name: its own, "main", or its number.
pub(crate) fn thread_name(trace: &Trace, id: ThreadId) -> String {
    match trace.definitions().threads.get(&id) {
        Some(thread) if !thread.name.is_empty() => thread.name.clone(),
        Some(thread) if thread.tid == trace.header().process.pid => "main".to_owned(),
        _ => format!("thread {}", id.0),
    }
}

/// All threads of the trace.
pub(crate) fn threads(
    trace: &Trace,
    dense: &Dense,
    facts: &Facts,
    times: &Times,
    cost: &CostModel,
) -> Vec<ThreadUse> {
    let rows = dense
        .threads
        .iter()
        .zip(&facts.frames.threads)
        .map(|(id, counts)| {
            let counts = counts.counts();
            let known = trace.definitions().threads.get(id);
            ThreadUse {
                id: id.0,
                tid: known.map_or(0, |thread| thread.tid),
                name: thread_name(trace, *id),
                role: role_name(known.map_or(Role::Unknown, |thread| thread.role)).to_owned(),
                allocations: counts.allocations,
                reallocations: counts.reallocations,
                deallocations: counts.deallocations,
                requested_bytes: counts.requested_bytes,
                allocator_nanos: cost.allocator_nanos(times, counts.ticks, counts.events()),
                foreign_frees: counts.foreign_frees,
                lost_events: known.map_or(0, |thread| thread.lost),
            }
        });
    rows.collect()
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Unknown => "unknown",
        Role::Critical => "critical",
        Role::Background => "background",
    }
}
