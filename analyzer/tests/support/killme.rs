//! The programs that work until they are killed, `killme.c` and the recorder's example of
//! that name, and what must be found of them.
//!
//! They say in a shared page, which outlives them, which calls had returned. Each number
//! there is stored after its call has returned, so the truth is at most one call per
//! thread ahead.

use super::number;
use super::record::{assert_sound, info};
use super::run::send_signal;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

const THREADS: u64 = 8;
/// The largest request, as in the programs.
const LARGEST: u64 = 16 + 200_000;

/// The page's numbers, summed over the threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Returned {
    pub process: u64,
    allocations: u64,
    reallocations: u64,
    deallocations: u64,
    requested_bytes: u64,
}

impl Returned {
    pub fn read(page: &Path) -> Self {
        let bytes = std::fs::read(page).unwrap_or_default();
        let at = |offset: usize| {
            let eight = bytes
                .get(offset..offset + 8)
                .and_then(|b| b.try_into().ok());
            u64::from_le_bytes(eight.unwrap_or_default())
        };
        let mut sum = Self {
            process: at(0),
            ..Self::default()
        };
        for thread in 0..THREADS as usize {
            let first = 4096 + 128 * thread;
            sum.allocations += at(first);
            sum.reallocations += at(first + 8);
            sum.deallocations += at(first + 16);
            sum.requested_bytes += at(first + 24);
        }
        sum
    }

    pub fn calls(&self) -> u64 {
        self.allocations + self.reallocations + self.deallocations
    }
}

/// A recorder without a wrapper leaves its spill in shared memory when it is killed.
pub fn remove_spill_of(process: u64) {
    let entries = std::fs::read_dir("/dev/shm")
        .into_iter()
        .flatten()
        .flatten();
    for entry in entries.filter(|entry| is_spill_of(&entry.file_name().to_string_lossy(), process))
    {
        let _ = std::fs::remove_file(entry.path());
    }
}

fn is_spill_of(name: &str, process: u64) -> bool {
    name.starts_with(&format!("heapreel-{process}-")) && name.ends_with(".spill")
}

/// Looks at the page until so many calls have returned, then kills the program.
pub fn kill_at(calls: u64, page: &Path, runner: &mut Child) {
    let hangs_at = Instant::now() + Duration::from_secs(60);
    loop {
        let returned = Returned::read(page);
        if returned.process != 0 && returned.calls() >= calls {
            return send_signal("KILL", &returned.process.to_string());
        }
        let ended = runner.try_wait().expect("the child's state");
        assert!(ended.is_none(), "ended by itself: {ended:?}");
        assert!(Instant::now() < hangs_at, "no progress: {returned:?}");
        std::thread::yield_now();
    }
}

/// All that had returned is there, and at most one call per thread more.
#[track_caller]
pub fn assert_nothing_lost(returned: Returned, trace: &Path) {
    assert_sound(&info(trace, &[]));
    let seen = info(trace, &["--from", "@\"work begin\""]);
    let context = format!("program: {returned:?}\ntrace: {seen}");
    let mut ahead = 0;
    for (key, said) in [
        ("allocations", returned.allocations),
        ("reallocations", returned.reallocations),
        ("deallocations", returned.deallocations),
    ] {
        assert!(number(&seen, key) >= said, "{key} are missing\n{context}");
        ahead += number(&seen, key) - said;
    }
    assert!(ahead <= THREADS, "{ahead} events too many\n{context}");
    let bytes = number(&seen, "requested_bytes");
    let most = returned.requested_bytes + THREADS * LARGEST;
    assert!(
        (returned.requested_bytes..=most).contains(&bytes),
        "requested bytes\n{context}"
    );
}
