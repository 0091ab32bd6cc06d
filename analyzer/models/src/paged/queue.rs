//! Doubly linked lists through a table: pages in size queues, spans in span queues.

/// No element.
pub(crate) const NIL: u32 = u32::MAX;

/// An element's neighbours in the one list that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) prev: u32,
    pub(crate) next: u32,
}

impl Default for Link {
    fn default() -> Link {
        Link {
            prev: NIL,
            next: NIL,
        }
    }
}

/// A table whose elements carry a link.
pub(crate) trait Links {
    /// The link of element `id`.
    fn link(&mut self, id: u32) -> &mut Link;
}

/// The two ends of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    pub(crate) first: u32,
    pub(crate) last: u32,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue {
            first: NIL,
            last: NIL,
        }
    }
}

impl Queue {
    pub(crate) fn push_front(&mut self, table: &mut impl Links, id: u32) {
        *table.link(id) = Link {
            prev: NIL,
            next: self.first,
        };
        match self.first {
            NIL => self.last = id,
            first => table.link(first).prev = id,
        }
        self.first = id;
    }

    pub(crate) fn push_back(&mut self, table: &mut impl Links, id: u32) {
        *table.link(id) = Link {
            prev: self.last,
            next: NIL,
        };
        match self.last {
            NIL => self.first = id,
            last => table.link(last).next = id,
        }
        self.last = id;
    }

    pub(crate) fn remove(&mut self, table: &mut impl Links, id: u32) {
        let Link { prev, next } = std::mem::take(table.link(id));
        match prev {
            NIL => self.first = next,
            prev => table.link(prev).next = next,
        }
        match next {
            NIL => self.last = prev,
            next => table.link(next).prev = prev,
        }
    }

    /// Whether `id`, which is in this list, is alone in it.
    pub(crate) fn is_only(&self, id: u32) -> bool {
        self.first == id && self.last == id
    }
}
