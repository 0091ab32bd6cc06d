//! A trace's contexts as a tree.
//!
//! Contexts with the same parent, kind and name are one, whatever their numbers. In a tree
//! of one kind the others between are left out: what is done in them counts for the
//! nearest context around that is of the kind.

use heapreel_format::{ContextId, Definitions};
use std::collections::{BTreeMap, HashMap};

/// Position of the root: outside of any context.
pub(crate) const OUTSIDE: u32 = 0;
/// Contexts nested deeper count for the one at this depth: every event is counted for all
/// contexts around it, and a trace comes from strangers.
const MOST_DEPTH: u32 = 64;

/// One context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// The position of the context around.
    pub(crate) parent: u32,
    /// 0 for the root.
    pub(crate) depth: u32,
    pub(crate) kind: String,
    pub(crate) name: String,
}

/// All contexts; a parent stands before its children.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContextTree {
    pub(crate) nodes: Vec<Node>,
    positions: Positions,
    /// Where contexts count that have no definition.
    unknown: u32,
}

/// By number: the position, and whether that is the context itself.
#[derive(Clone, Debug)]
enum Positions {
    Table(Vec<(u32, bool)>),
    Map(HashMap<u32, (u32, bool)>),
}

impl Default for Positions {
    fn default() -> Self {
        Positions::Table(Vec::new())
    }
}

impl Positions {
    /// Tables are as long as the definitions are many, however large the numbers are.
    fn of(found: HashMap<u32, (u32, bool)>) -> Positions {
        let highest = found.keys().max().copied().unwrap_or(0) as usize;
        if highest > found.len() * 4 + 1024 {
            return Positions::Map(found);
        }
        let mut table = vec![(u32::MAX, false); highest + 1];
        for (number, place) in found {
            table[number as usize] = place;
        }
        Positions::Table(table)
    }

    #[inline(always)]
    fn get(&self, number: u32) -> Option<(u32, bool)> {
        let place = match self {
            Positions::Table(table) => table.get(number as usize),
            Positions::Map(map) => map.get(&number),
        };
        place.copied().filter(|(position, _)| *position != u32::MAX)
    }
}

impl ContextTree {
    /// The tree of all contexts, or of those of one kind.
    pub(crate) fn of(definitions: &Definitions, kind: Option<&str>) -> ContextTree {
        if definitions.contexts.is_empty() {
            return ContextTree::default();
        }
        let mut builder = Builder {
            definitions,
            kind,
            nodes: vec![Node::default()],
            by_identity: HashMap::new(),
            found: HashMap::from([(0, (OUTSIDE, false))]),
        };
        for id in definitions.contexts.keys() {
            builder.place(*id);
        }
        let unknown = match kind {
            None => builder.node(OUTSIDE, "", UNKNOWN),
            // It may be of any kind.
            Some(_) => OUTSIDE,
        };
        ContextTree {
            nodes: builder.nodes,
            positions: Positions::of(builder.found),
            unknown,
        }
    }

    /// The trace has no contexts.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Where a context of this number counts.
    #[inline(always)]
    pub(crate) fn position(&self, number: u32) -> u32 {
        self.positions
            .get(number)
            .map_or(self.unknown, |(position, _)| position)
    }

    /// Where contexts count that have no definition; the root where they count for that.
    pub(crate) fn unknown(&self) -> u32 {
        self.unknown
    }

    /// The position of a context itself; `None` where it counts for the one around.
    pub(crate) fn itself(&self, number: u32) -> Option<u32> {
        match self.positions.get(number) {
            Some((position, is_itself)) => is_itself.then_some(position),
            None => (self.unknown != OUTSIDE).then_some(self.unknown),
        }
    }
}

/// The name of all contexts whose definition is missing.
const UNKNOWN: &str = "(unknown)";

struct Builder<'a> {
    definitions: &'a Definitions,
    kind: Option<&'a str>,
    nodes: Vec<Node>,
    by_identity: HashMap<(u32, &'a str, &'a str), u32>,
    found: HashMap<u32, (u32, bool)>,
}

impl<'a> Builder<'a> {
    /// Finds the position of a context, after those of all around it.
    fn place(&mut self, id: ContextId) {
        let contexts = &self.definitions.contexts;
        let mut chain = Vec::new();
        // A damaged trace may have a ring, or a parent that nobody defined.
        let mut seen = BTreeMap::new();
        let mut at = id;
        while !self.found.contains_key(&at.0)
            && seen.insert(at, ()).is_none()
            && let Some((parent, ..)) = contexts.get(&at)
        {
            chain.push(at);
            at = *parent;
        }
        for id in chain.into_iter().rev() {
            self.place_within(id);
        }
    }

    fn place_within(&mut self, id: ContextId) {
        let Some((parent, kind, name)) = self.definitions.contexts.get(&id) else {
            return;
        };
        let around = self.found.get(&parent.0).map_or(OUTSIDE, |(at, _)| *at);
        let is_wanted = self.kind.is_none_or(|wanted| wanted == kind);
        let is_too_deep = self.nodes[around as usize].depth >= MOST_DEPTH;
        let place = if is_wanted && !is_too_deep {
            (self.node(around, kind, name), true)
        } else {
            (around, false)
        };
        self.found.insert(id.0, place);
    }

    fn node(&mut self, parent: u32, kind: &'a str, name: &'a str) -> u32 {
        *self
            .by_identity
            .entry((parent, kind, name))
            .or_insert_with(|| {
                self.nodes.push(Node {
                    parent,
                    depth: self.nodes[parent as usize].depth + 1,
                    kind: kind.to_owned(),
                    name: name.to_owned(),
                });
                (self.nodes.len() - 1) as u32
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definitions(contexts: &[(u32, u32, &str, &str)]) -> Definitions {
        let contexts = contexts.iter().map(|(id, parent, kind, name)| {
            let known = (ContextId(*parent), (*kind).to_owned(), (*name).to_owned());
            (ContextId(*id), known)
        });
        Definitions {
            contexts: contexts.collect(),
            ..Definitions::default()
        }
    }

    const GAME: &[(u32, u32, &str, &str)] = &[
        (1, 0, "level", "forest"),
        (2, 1, "asset", "rock"),
        (3, 0, "level", "desert"),
        (4, 3, "asset", "rock"),
        (5, 4, "system", "mip maps"),
        // Two threads met it at once.
        (6, 1, "asset", "rock"),
    ];

    #[test]
    fn equal_contexts_are_one() {
        let tree = ContextTree::of(&definitions(GAME), None);
        assert_eq!(tree.position(2), tree.position(6));
        assert_ne!(tree.position(2), tree.position(4));
        // The root, five contexts, and the unknown.
        assert_eq!(tree.nodes.len(), 7);
        let rock = &tree.nodes[tree.position(2) as usize];
        assert_eq!((rock.depth, rock.parent), (2, tree.position(1)));
    }

    #[test]
    fn a_kind_has_a_tree_of_its_own() {
        let tree = ContextTree::of(&definitions(GAME), Some("asset"));
        assert_eq!(tree.nodes.len(), 2);
        for number in [2, 4, 5, 6] {
            assert_eq!(tree.position(number), 1);
        }
        assert_eq!((tree.position(1), tree.position(77)), (OUTSIDE, OUTSIDE));
        // What is within a rock is no rock more.
        assert_eq!((tree.itself(4), tree.itself(5)), (Some(1), None));
    }

    #[test]
    fn rings_gaps_and_great_numbers_do_no_harm() {
        let strange = [
            (1, 2, "a", "x"),
            (2, 1, "a", "y"),
            (9, 9, "a", "itself"),
            (u32::MAX, 77, "a", "orphan"),
        ];
        let tree = ContextTree::of(&definitions(&strange), None);
        assert_eq!(tree.nodes.len(), 6);
        assert!(tree.nodes.iter().all(|node| node.depth <= 2));
        assert_eq!(tree.nodes[tree.position(u32::MAX) as usize].name, "orphan");
        assert_eq!(tree.nodes[tree.position(500) as usize].name, UNKNOWN);
    }

    #[test]
    fn a_deep_chain_ends_at_the_limit() {
        let chain: Vec<_> = (1..5_000).map(|id| (id, id - 1, "call", "again")).collect();
        let tree = ContextTree::of(&definitions(&chain), None);
        assert_eq!(
            tree.nodes.iter().map(|node| node.depth).max(),
            Some(MOST_DEPTH)
        );
        assert_eq!(tree.position(4_999), tree.position(MOST_DEPTH));
        assert_eq!(tree.itself(4_999), None);
    }
}
