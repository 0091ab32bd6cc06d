//! Where a model takes its memory from.

/// Hands out address ranges, and counts what that costs.
pub trait PageSource: Send {
    /// Address space of `bytes` bytes, aligned to `align`; `None` where there is no more.
    fn reserve(&mut self, bytes: u64, align: u64) -> Option<u64>;

    /// Gives a reserved range back.
    fn release(&mut self, address: u64, bytes: u64);

    /// Puts memory behind a part of a reserved range; false where there is none.
    fn commit(&mut self, address: u64, bytes: u64) -> bool;

    /// Takes the memory from behind a part of a reserved range.
    fn decommit(&mut self, address: u64, bytes: u64);

    /// A copy to go on from later.
    fn checkpoint(&self) -> Box<dyn PageSource>;
}

impl PageSource for Box<dyn PageSource> {
    fn reserve(&mut self, bytes: u64, align: u64) -> Option<u64> {
        (**self).reserve(bytes, align)
    }

    fn release(&mut self, address: u64, bytes: u64) {
        (**self).release(address, bytes);
    }

    fn commit(&mut self, address: u64, bytes: u64) -> bool {
        (**self).commit(address, bytes)
    }

    fn decommit(&mut self, address: u64, bytes: u64) {
        (**self).decommit(address, bytes);
    }

    fn checkpoint(&self) -> Box<dyn PageSource> {
        (**self).checkpoint()
    }
}

impl Clone for Box<dyn PageSource> {
    fn clone(&self) -> Box<dyn PageSource> {
        (**self).checkpoint()
    }
}

/// Addresses one after the other, memory without end.
#[derive(Clone, Debug)]
pub struct Unlimited {
    next: u64,
}

impl Unlimited {
    /// Begins at `base`.
    pub fn new(base: u64) -> Unlimited {
        Unlimited { next: base }
    }
}

impl PageSource for Unlimited {
    fn reserve(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let address = self.next.checked_next_multiple_of(align.max(1))?;
        self.next = address.checked_add(bytes)?;
        Some(address)
    }

    fn release(&mut self, _address: u64, _bytes: u64) {}

    fn commit(&mut self, _address: u64, _bytes: u64) -> bool {
        true
    }

    fn decommit(&mut self, _address: u64, _bytes: u64) {}

    fn checkpoint(&self) -> Box<dyn PageSource> {
        Box::new(self.clone())
    }
}
