//! A queue between two threads that never allocates after it was made.
//!
//! The standard channels allocate when a thread first has to wait, which is up to the
//! scheduler; a game whose truth must be the same in every run cannot use them.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Up to so many values on their way.
pub struct Mailbox<T> {
    inner: Mutex<Inner<T>>,
    changed: Condvar,
    room: usize,
}

struct Inner<T> {
    values: VecDeque<T>,
    /// Taken out and not yet [`done`](Mailbox::done).
    at_work: usize,
    closed: bool,
}

impl<T> Mailbox<T> {
    /// Room for `room` values.
    pub fn new(room: usize) -> Self {
        Self {
            inner: Mutex::new(Inner {
                values: VecDeque::with_capacity(room),
                at_work: 0,
                closed: false,
            }),
            changed: Condvar::new(),
            room,
        }
    }

    /// Puts `value` in, waiting for room.
    pub fn send(&self, value: T) {
        let mut inner = self.wait_while(|inner| inner.values.len() == self.room);
        inner.values.push_back(value);
        self.changed.notify_all();
    }

    /// Takes the oldest value out, waiting for one; none when it is closed and empty.
    /// The receiver says [`done`](Self::done) when it has done with it.
    pub fn receive(&self) -> Option<T> {
        let mut inner = self.wait_while(|inner| inner.values.is_empty() && !inner.closed);
        let value = inner.values.pop_front();
        inner.at_work += usize::from(value.is_some());
        self.changed.notify_all();
        value
    }

    /// One received value has been dealt with, and is gone.
    pub fn done(&self) {
        self.lock().at_work -= 1;
        self.changed.notify_all();
    }

    /// Waits until nothing is on its way or being dealt with.
    pub fn wait_until_idle(&self) {
        drop(self.wait_while(|inner| !inner.values.is_empty() || inner.at_work != 0));
    }

    /// Tells the receiver that nothing more will come.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// A panic elsewhere leaves nothing half done here, so poison is no obstacle.
    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, mut condition: impl FnMut(&Inner<T>) -> bool) -> MutexGuard<'_, Inner<T>> {
        self.changed
            .wait_while(self.lock(), |inner| condition(inner))
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_arrive_in_order_and_the_end_is_told() {
        let mailbox = Mailbox::new(2);
        let sum = std::thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                let mut last = 0;
                while let Some(value) = mailbox.receive() {
                    assert_eq!(value, last + 1);
                    last = value;
                    mailbox.done();
                }
                last
            });
            (1..=100).for_each(|value| mailbox.send(value));
            mailbox.wait_until_idle();
            mailbox.close();
            receiver.join()
        });
        assert_eq!(sum.ok(), Some(100));
    }
}
