//! Merges on a thread of its own and hands batches over, a few ahead.

use super::cursor::DecodeFaults;
use super::merge::{Batch, Merge};
use super::names::Dense;
use heapreel_format::{ReadError, Trace};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

/// Batches that may wait: few, so that they stay in the processor's caches.
const AHEAD: usize = 8;

/// Calls `take` with each batch of the merged sequence, until it gives false; tells
/// what could not be decoded.
///
/// # Errors
///
/// [`ReadError::Io`].
pub(crate) fn with_batches(
    trace: &Trace,
    dense: &Dense,
    mut take: impl FnMut(&mut Batch) -> bool,
) -> Result<DecodeFaults, ReadError> {
    std::thread::scope(|scope| {
        let (send, receive) = sync_channel(AHEAD);
        let (send_back, spare) = channel();
        let merging = std::thread::Builder::new().name("merge".to_owned());
        let merging = merging.spawn_scoped(scope, || merge(trace, dense, send, spare))?;
        drain(receive, &send_back, &mut take);
        // A panic over there is a bug; it must not be taken for the trace's end.
        merging
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn merge(
    trace: &Trace,
    dense: &Dense,
    send: SyncSender<Batch>,
    spare: Receiver<Batch>,
) -> Result<DecodeFaults, ReadError> {
    let mut merge = Merge::new(trace, dense)?;
    loop {
        let mut batch = spare.try_recv().unwrap_or_default();
        // A closed channel: whoever reads has seen enough.
        if !merge.next_batch(&mut batch)? || send.send(batch).is_err() {
            return Ok(merge.faults());
        }
    }
}

fn drain(
    receive: Receiver<Batch>,
    send_back: &Sender<Batch>,
    take: &mut impl FnMut(&mut Batch) -> bool,
) {
    for mut batch in receive {
        if !take(&mut batch) {
            return;
        }
        _ = send_back.send(batch);
    }
}
