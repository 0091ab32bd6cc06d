//! A place for values that must outlive what borrows from them.

use std::cell::{Cell, OnceCell};

/// Keeps values until it is dropped and lends them for as long as it lives.
///
/// Debug sections are decompressed, and split debug files opened, while a reader that
/// borrows from earlier ones is already at work; a `Vec` could not grow under it.
/// Chunk `k` has 2^k places, made when the first is needed; none ever moves.
pub(super) struct Arena<T> {
    chunks: [OnceCell<Box<[OnceCell<T>]>>; usize::BITS as usize],
    kept: Cell<usize>,
}

impl<T> Arena<T> {
    /// An empty arena.
    pub(super) fn new() -> Self {
        Arena {
            chunks: [const { OnceCell::new() }; usize::BITS as usize],
            kept: Cell::new(0),
        }
    }

    /// Takes `value` and lends it.
    pub(super) fn keep(&self, value: T) -> &T {
        // Number n, counted from 1, lies in the chunk of its highest bit.
        let number = self.kept.get() + 1;
        self.kept.set(number);
        let chunk = number.ilog2() as usize;
        let places = self.chunks[chunk]
            .get_or_init(|| (0..1usize << chunk).map(|_| OnceCell::new()).collect());
        places[number - (1 << chunk)].get_or_init(|| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_where_they_are_while_more_come() {
        let arena = Arena::new();
        let first = arena.keep(String::from("first"));
        let kept: Vec<&String> = (0..1000).map(|n| arena.keep(n.to_string())).collect();
        assert_eq!(first, "first");
        for (n, text) in kept.iter().enumerate() {
            assert_eq!(**text, n.to_string());
        }
    }
}
