//! A list that never grows: what the game notes down must not disturb what it counts.

use serde::Serialize;

/// The first few of many, and how many there were.
#[derive(Serialize)]
pub struct Bounded<T> {
    total: u64,
    first: Vec<T>,
}

impl<T> Bounded<T> {
    /// Room for `limit` entries, taken at once.
    pub fn new(limit: usize) -> Self {
        Self {
            total: 0,
            first: Vec::with_capacity(limit),
        }
    }

    /// Notes `entry` if there is room, and counts it in any case.
    pub fn push(&mut self, entry: T) {
        self.total += 1;
        if self.first.len() < self.first.capacity() {
            self.first.push(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut list = Bounded::new(2);
        let room = list.first.capacity() as u64;
        (0..room + 3).for_each(|entry| list.push(entry));
        assert_eq!(list.total, room + 3);
        assert_eq!(list.first.len() as u64, room);
    }
}
