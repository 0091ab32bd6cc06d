//! Contexts with their names, as reports show them.

use super::values::{ContextSums, ContextUse};
use crate::facts::{ContextLedger, Held, OUTSIDE};

/// A context's name in a report, without those around it.
pub(crate) fn label(kind: &str, name: &str) -> String {
    // A line of a report stays one.
    let name = name.replace(char::is_control, " ");
    match kind {
        "" => name,
        kind => format!("{}:{name}", kind.replace(char::is_control, " ")),
    }
}

/// What the root is called.
pub(crate) const NO_CONTEXT: &str = "(no context)";

/// A tree of contexts in the order in which it is shown: each before those within it,
/// siblings by kind and name.
pub(crate) struct Contexts<'a> {
    ledger: &'a ContextLedger,
    /// Positions in the ledger's tree.
    order: Vec<u32>,
    /// By position: the index in `order`.
    indices: Vec<u32>,
}

impl<'a> Contexts<'a> {
    /// All contexts that a replay has met.
    pub(crate) fn of(ledger: &'a ContextLedger) -> Contexts<'a> {
        let order = order(ledger);
        let mut indices = vec![0; ledger.tree.nodes.len()];
        for (index, position) in order.iter().enumerate() {
            indices[*position as usize] = index as u32;
        }
        Contexts {
            ledger,
            order,
            indices,
        }
    }

    /// The position in the tree of a context's number; `None` where the trace has none.
    pub(crate) fn position(&self, number: u32) -> Option<u32> {
        (!self.ledger.tree.is_empty()).then(|| self.ledger.tree.position(number))
    }

    /// The index among the values of a position.
    pub(crate) fn index(&self, position: u32) -> Option<u32> {
        self.indices.get(position as usize).copied()
    }

    /// The index among the values of a context's number; `None` where the trace has none.
    pub(crate) fn index_of(&self, number: u32) -> Option<u32> {
        self.index(self.position(number)?)
    }

    /// All contexts.
    pub(crate) fn values(&self) -> Vec<ContextUse> {
        let nodes = &self.ledger.tree.nodes;
        let totals = self.totals();
        let mut values: Vec<ContextUse> = Vec::with_capacity(self.order.len());
        for position in &self.order {
            let at = *position as usize;
            let node = &nodes[at];
            let parent = (*position != OUTSIDE).then(|| self.indices[node.parent as usize]);
            let sums = &self.ledger.sums[at];
            let instances = sums.instances;
            values.push(ContextUse {
                parent,
                depth: node.depth,
                kind: node.kind.clone(),
                name: node.name.clone(),
                path: self.path(values.len() as u32),
                instances,
                mean_bytes: (instances > 0)
                    .then(|| totals[at].requested_bytes as f64 / instances as f64),
                own: with_held(counted(sums), &sums.own),
                total: with_held(totals[at], &sums.total),
            });
        }
        values
    }

    /// A context and those around it, by its index among the values.
    pub(crate) fn path(&self, index: u32) -> String {
        let nodes = &self.ledger.tree.nodes;
        let mut at = self.order.get(index as usize).copied().unwrap_or(OUTSIDE);
        if at == OUTSIDE {
            return NO_CONTEXT.to_owned();
        }
        let mut parts = Vec::new();
        while at != OUTSIDE {
            let node = &nodes[at as usize];
            parts.push(label(&node.kind, &node.name));
            at = node.parent;
        }
        parts.reverse();
        parts.join(" / ")
    }

    /// By position what was done in a context and all within it, but for what they hold.
    fn totals(&self) -> Vec<ContextSums> {
        let nodes = &self.ledger.tree.nodes;
        let mut totals: Vec<_> = self.ledger.sums.iter().map(counted).collect();
        // A parent stands before its children.
        for at in (1..nodes.len()).rev() {
            let own = totals[at];
            totals[nodes[at].parent as usize].add(&own);
        }
        totals
    }
}

fn order(ledger: &ContextLedger) -> Vec<u32> {
    let nodes = &ledger.tree.nodes;
    if nodes.is_empty() {
        return Vec::new();
    }
    let mut children: Vec<Vec<u32>> = vec![Vec::new(); nodes.len()];
    let unknown = ledger.tree.unknown() as usize;
    let is_none_unknown = ledger.sums[unknown] == Default::default();
    for (at, node) in nodes.iter().enumerate().skip(1) {
        // A sound trace defines all: it need not be shown what it does not have.
        if at == unknown && is_none_unknown {
            continue;
        }
        children[node.parent as usize].push(at as u32);
    }
    let name = |at: &u32| {
        let node = &nodes[*at as usize];
        (node.kind.as_str(), node.name.as_str())
    };
    let mut order = Vec::new();
    let mut waiting = vec![OUTSIDE];
    while let Some(at) = waiting.pop() {
        order.push(at);
        let mut within = std::mem::take(&mut children[at as usize]);
        within.sort_unstable_by(|a, b| name(b).cmp(&name(a)));
        waiting.extend(within);
    }
    order
}

fn counted(sums: &crate::facts::ContextSums) -> ContextSums {
    ContextSums {
        allocations: sums.allocations,
        reallocations: sums.reallocations,
        deallocations: sums.frees,
        failed: sums.failed,
        requested_bytes: sums.requested_bytes,
        ..ContextSums::default()
    }
}

fn with_held(sums: ContextSums, held: &Held) -> ContextSums {
    ContextSums {
        live_bytes: held.bytes,
        live_blocks: held.blocks,
        peak_bytes: held.peak,
        ..sums
    }
}

impl ContextSums {
    fn add(&mut self, other: &ContextSums) {
        self.allocations += other.allocations;
        self.reallocations += other.reallocations;
        self.deallocations += other.deallocations;
        self.failed += other.failed;
        self.requested_bytes = self.requested_bytes.wrapping_add(other.requested_bytes);
    }
}
