//! Which block lies where, by the number that the replay gave it.

use super::heap::BlockAt;
use super::queue::NIL;
use crate::model::{BlockId, SegmentId};

/// A live block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) requested: u64,
    /// Its page, or `NIL` where no block is live under this number.
    pub(crate) page: u32,
    /// The thread that allocated it.
    pub(crate) thread: u32,
    /// How far inside the block its address is, for the sake of alignment.
    pub(crate) shift: u32,
    pub(crate) index: u16,
    /// The segment of the engine that it is charged to.
    pub(crate) segment: SegmentId,
}

const _: () = assert!(size_of::<Record>() == 24);

impl Record {
    pub(crate) fn at(&self) -> BlockAt {
        BlockAt {
            page: self.page,
            index: self.index,
        }
    }
}

const DEAD: Record = Record {
    requested: 0,
    page: NIL,
    thread: 0,
    shift: 0,
    index: 0,
    segment: SegmentId(0),
};

#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks(Vec<Record>);

impl Blocks {
    #[inline]
    pub(crate) fn put(&mut self, id: BlockId, record: Record) {
        let index = id.0 as usize;
        if index >= self.0.len() {
            self.0.resize(index + 1, DEAD);
        }
        self.0[index] = record;
    }

    #[inline]
    pub(crate) fn take(&mut self, id: BlockId) -> Record {
        std::mem::replace(&mut self.0[id.0 as usize], DEAD)
    }

    pub(crate) fn get(&self, id: BlockId) -> &Record {
        &self.0[id.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, id: BlockId) -> &mut Record {
        &mut self.0[id.0 as usize]
    }

    pub(crate) fn live(&self, id: BlockId) -> Option<&Record> {
        self.0
            .get(id.0 as usize)
            .filter(|record| record.page != NIL)
    }

    /// All live blocks, in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (BlockId, &Record)> {
        self.0
            .iter()
            .enumerate()
            .filter(|(_, record)| record.page != NIL)
            .map(|(id, record)| (BlockId(id as u32), record))
    }
}
