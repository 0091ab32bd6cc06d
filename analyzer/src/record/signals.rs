//! Signals that reach this process while the game runs.
//!
//! Ctrl-C and Ctrl-\ come from the terminal to the whole foreground group: the game has
//! them already, and this process must outlive it to write its trace. What somebody
//! sends to this process alone is meant for the game and passed on.

use super::proc;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGXFSZ,
};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Origin;
use std::io;

const CAUGHT: &[i32] = &[
    SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGXFSZ,
];
/// Meant for this process itself: a trace has reached the limit on file sizes, which the
/// write says as well.
const OWN: i32 = SIGXFSZ;
/// Those that end a program.
const ENDING: &[i32] = &[SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// Catches signals from now on. Programs started meanwhile see none of it: exec gives
/// a caught signal its default action again, and ignored ones are left ignored.
pub struct Signals {
    caught: SignalsInfo<WithOrigin>,
    /// Meant for this process: it asks for a clip.
    clip: Option<i32>,
    wants_clip: bool,
}

impl Signals {
    /// Begins to catch; `clip` asks for a clip and is not passed on.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn catch(clip: Option<i32>) -> io::Result<Signals> {
        let ignored = proc::ignored_signals();
        let is_heeded = |signal: &&i32| ignored & 1 << (**signal - 1) == 0;
        let caught = CAUGHT.iter().filter(is_heeded);
        Ok(Signals {
            caught: SignalsInfo::new(caught)?,
            clip,
            wants_clip: false,
        })
    }

    /// Passes on to `program` what came for it since the last call.
    ///
    /// True where the program is gone (`None`) and somebody wants this one to end, too.
    pub fn forward(&mut self, program: Option<u32>) -> bool {
        let mut end = false;
        for origin in self.caught.pending() {
            if origin.signal == OWN {
                continue;
            }
            if self.clip == Some(origin.signal) {
                self.wants_clip = true;
                continue;
            }
            match program {
                Some(program) => pass_on(&origin, program),
                None => end |= ENDING.contains(&origin.signal),
            }
        }
        end
    }

    /// Whether a clip was asked for and nobody has taken the wish yet.
    pub fn wants_clip(&mut self) -> &mut bool {
        &mut self.wants_clip
    }
}

fn pass_on(origin: &Origin, program: u32) {
    // The kernel sends to the whole foreground group, a person to one process.
    let was_sent = origin.process.is_some();
    let pid = Pid::from_raw(program as i32);
    let signal = Signal::from_named_raw(origin.signal);
    if let (true, Some(pid), Some(signal)) = (was_sent, pid, signal) {
        _ = kill_process(pid, signal);
    }
}
