//! Whether a recorded process still writes to its spill.

use super::{exit_status, proc};
use heapreel_format::Ended;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::time::{Duration, Instant};

/// A process whose mappings cannot be read is believed to have left its spill this
/// long after it said that it would exec.
const EXEC_TAKES: Duration = Duration::from_secs(1);

/// One process and the spill it writes to.
pub struct Watch {
    pid: u32,
    /// Its spill's file name, as it stands in the process's mappings.
    spill: String,
    pidfd: Option<OwnedFd>,
    start: Option<u64>,
    gone: bool,
    exec_since: Option<Instant>,
}

impl Watch {
    /// Watches the process that calls itself `pid` and has mapped `spill`.
    ///
    /// In a pid namespace of its own it has another number here: then it is looked for
    /// among our descendants.
    pub fn new(pid: u32, spill: String) -> Watch {
        let owner = owner(pid, &spill);
        let pid = owner.unwrap_or(pid);
        let mut watch = Watch {
            pid,
            pidfd: owner
                .and_then(|pid| Pid::from_raw(pid as i32))
                .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()),
            start: proc::state(pid).map(|(_, start)| start),
            spill,
            gone: owner.is_none(),
            exec_since: None,
        };
        // The number may have passed to another process before the descriptor was ours.
        watch.gone |= proc::maps(pid, &watch.spill) == Some(false);
        watch
    }

    /// Its number here.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// A descriptor that becomes readable when the process is gone.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().filter(|_| !self.gone).map(AsFd::as_fd)
    }

    /// The process is gone, zombies included.
    pub fn is_gone(&mut self) -> bool {
        self.gone = self.gone || self.look();
        self.gone
    }

    fn look(&self) -> bool {
        match &self.pidfd {
            Some(pidfd) => {
                let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
                let now = Timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                };
                poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
            }
            None => match proc::state(self.pid) {
                None | Some(('Z' | 'X', _)) => true,
                Some((_, start)) => Some(start) != self.start,
            },
        }
    }

    /// The process said that it would replace itself, and has done so.
    pub fn has_replaced_itself(&mut self) -> bool {
        let since = *self.exec_since.get_or_insert_with(Instant::now);
        match proc::maps(self.pid, &self.spill) {
            Some(mapped) => !mapped,
            None => since.elapsed() > EXEC_TAKES,
        }
    }

    /// The exec that was announced has failed.
    pub fn stays(&mut self) {
        self.exec_since = None;
    }

    /// How the process ended, where the kernel tells: until its parent has asked by
    /// /proc, afterwards by the descriptor.
    pub fn status(&self) -> Option<Ended> {
        let pidfd = self.pidfd.as_ref()?.as_fd();
        proc::zombie_status(self.pid)
            .map(exit_status::from_raw)
            .or_else(|| exit_status::of(pidfd))
    }
}

/// The process that has mapped `spill`.
fn owner(pid: u32, spill: &str) -> Option<u32> {
    match proc::maps(pid, spill) {
        Some(true) => Some(pid),
        // Not readable: it made itself private, or is about to end. Its number is all we have.
        None if proc::state(pid).is_some() => Some(pid),
        _ => proc::descendants(std::process::id())
            .into_iter()
            .find(|pid| proc::maps(*pid, spill) == Some(true)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// A program that waits; returns when its file is mapped, a moment after its start.
    fn cat() -> std::process::Child {
        let mut command = Command::new("cat");
        let child = command.stdin(Stdio::piped()).spawn().unwrap();
        while proc::maps(child.id(), "bin/cat") != Some(true) {
            std::thread::yield_now();
        }
        child
    }

    #[test]
    fn the_end_of_a_process_is_seen_before_and_after_it_is_reaped() {
        let mut child = cat();
        let mut watch = Watch::new(child.id(), "bin/cat".to_owned());
        assert!(!watch.is_gone() && watch.descriptor().is_some());
        child.kill().unwrap();
        let mut fds = [PollFd::from_borrowed_fd(
            watch.descriptor().unwrap(),
            PollFlags::IN,
        )];
        poll(&mut fds, None).unwrap();
        assert!(watch.is_gone());
        assert_eq!(watch.status(), Some(Ended::Signal(9)));
        child.wait().unwrap();
        assert!(watch.is_gone() && watch.descriptor().is_none());
        // Older kernels do not tell; newer ones do, though the status was taken.
        assert!(matches!(watch.status(), None | Some(Ended::Signal(9))));
    }

    #[test]
    fn a_process_without_the_spill_has_left_it() {
        let mut child = cat();
        let mut watch = Watch::new(child.id(), "12-abcd.spill".to_owned());
        assert!(watch.is_gone());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn an_exec_is_over_when_the_spill_is_no_longer_mapped() {
        let mut child = cat();
        let mut watch = Watch::new(child.id(), "bin/cat".to_owned());
        assert!(!watch.has_replaced_itself());
        watch.spill = "nothing.spill".to_owned();
        assert!(watch.has_replaced_itself());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
