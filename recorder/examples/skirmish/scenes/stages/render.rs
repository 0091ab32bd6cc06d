//! The second loop: draws what the simulation hands over.

use crate::frame_log::FrameLog;
use crate::mailbox::Mailbox;
use crate::tally;
use crate::telemetry::{self, Role};
use crate::work::Work;

/// What the renderer needs to know: made by the simulation, freed by the renderer.
pub struct Snapshot {
    draws: Vec<u64>,
    in_phase: bool,
}

impl Snapshot {
    /// So many things to draw, within a phase or outside any.
    #[inline(never)]
    pub fn take(draws: usize, in_phase: bool) -> Self {
        Self {
            draws: (0..draws as u64).collect(),
            in_phase,
        }
    }
}

/// Draws until the simulation ends.
#[inline(never)]
pub fn render_loop(
    snapshots: &Mailbox<Snapshot>,
    mut log: Option<FrameLog>,
    work: Work,
) -> Option<FrameLog> {
    tally::join_game();
    telemetry::thread_role(Role::Critical);
    if let Some(log) = &mut log {
        log.begin();
        // This thread starts within the phase "startup".
        log.phase_begins();
    }
    while let Some(snapshot) = snapshots.receive() {
        if let Some(log) = &mut log {
            log.follow_phase(snapshot.in_phase);
            log.temporary(|| record_commands(&snapshot.draws));
        }
        work.micros(700);
        drop(snapshot);
        if let Some(log) = &mut log {
            log.end_frame();
        }
        snapshots.done();
    }
    log
}

#[inline(never)]
fn record_commands(draws: &[u64]) {
    let mut commands = Vec::with_capacity(16);
    commands.extend(draws.iter().map(|draw| [*draw, draw + 1]));
    std::hint::black_box(&commands);
}
