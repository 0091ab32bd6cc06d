//! The threads beside the main one: streams load and free in the background, jobs do what
//! the frame waits for.

use super::ASSETS;
use super::asset::{self, Asset, Catalogue, Loaded, Order};
use crate::mailbox::Mailbox;
use crate::tally;
use crate::telemetry::{self, Role};
use crate::work::Work;
use std::io;
use std::sync::Mutex;
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// All of them.
pub struct Crew {
    /// The background threads' ends.
    pub streams: Vec<Stream>,
    /// The critical threads' ends.
    pub jobs: Vec<Job>,
    /// What the streams have loaded. It holds every asset there is, so no stream ever
    /// waits for the main thread, which may be waiting for a stream.
    pub results: Mailbox<Loaded>,
    work: Work,
    intensity: usize,
}

impl Crew {
    /// A crew that makes `threads` with the main thread, a third of them critical.
    pub fn new(threads: usize, intensity: usize, work: Work) -> Self {
        let jobs = (threads / 3).max(2) - 1;
        let streams = threads - 1 - jobs;
        Self {
            streams: (0..streams).map(|_| Stream::new()).collect(),
            jobs: (0..jobs).map(|_| Job::new()).collect(),
            results: Mailbox::new(ASSETS),
            work,
            intensity,
        }
    }

    /// Starts the threads. If one cannot be, those before it wait to be dismissed.
    pub fn start<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        catalogue: &'env Catalogue,
    ) -> io::Result<Vec<ScopedJoinHandle<'scope, ()>>> {
        let mut handles = Vec::with_capacity(self.streams.len() + self.jobs.len());
        for (number, stream) in self.streams.iter().enumerate() {
            let thread = Builder::new().name(format!("stream {number:02}"));
            handles.push(thread.spawn_scoped(scope, || stream.run(self, catalogue))?);
        }
        for (number, job) in self.jobs.iter().enumerate() {
            let thread = Builder::new().name(format!("job {number}"));
            handles.push(thread.spawn_scoped(scope, || job.run(self))?);
        }
        Ok(handles)
    }

    /// Tells all that nothing more will come.
    pub fn dismiss(&self) {
        self.streams.iter().for_each(|stream| stream.tasks.close());
        self.jobs.iter().for_each(|job| job.ticks.close());
    }
}

/// What a background thread is asked to do.
pub enum Task {
    /// Load an asset.
    Load(Order),
    /// Free one that another thread loaded.
    Unload(Asset),
}

/// A background thread's end of the wire.
pub struct Stream {
    /// Up to 64 on their way.
    pub tasks: Mailbox<Task>,
}

impl Stream {
    fn new() -> Self {
        Self {
            tasks: Mailbox::new(64),
        }
    }

    /// Until the main thread closes the mailbox.
    #[inline(never)]
    fn run(&self, crew: &Crew, catalogue: &Catalogue) {
        tally::join_game();
        telemetry::thread_role(Role::Background);
        while let Some(task) = self.tasks.receive() {
            match task {
                Task::Load(order) => {
                    crew.work.micros(100);
                    let name = &catalogue.names[order.number];
                    crew.results.send(asset::load(&order, name, crew.intensity));
                }
                Task::Unload(asset) => asset.unload(),
            }
            self.tasks.done();
        }
    }
}

/// A frame's work for one critical thread.
pub struct Tick {
    /// Which one.
    pub frame: u64,
    /// What the neighbour found out in the last frame; freed by who reads it.
    pub inbox: Option<Vec<u64>>,
}

/// A critical thread's end of the wire.
pub struct Job {
    /// One at a time.
    pub ticks: Mailbox<Tick>,
    outbox: Mutex<Option<Vec<u64>>>,
}

impl Job {
    fn new() -> Self {
        Self {
            ticks: Mailbox::new(1),
            outbox: Mutex::new(None),
        }
    }

    /// Until the main thread closes the mailbox.
    #[inline(never)]
    fn run(&self, crew: &Crew) {
        tally::join_game();
        telemetry::thread_role(Role::Critical);
        while let Some(tick) = self.ticks.receive() {
            crew.work.micros(40);
            let found = sweep_collisions(tick.frame, tick.inbox, crew.intensity);
            self.put_outbox(found);
            self.ticks.done();
        }
    }

    fn put_outbox(&self, found: Vec<u64>) {
        if let Ok(mut outbox) = self.outbox.lock() {
            *outbox = Some(found);
        }
    }

    /// What was found out in the last frame.
    pub fn take_outbox(&self) -> Option<Vec<u64>> {
        self.outbox.lock().ok().and_then(|mut outbox| outbox.take())
    }
}

/// Makes and throws away a few lists, and keeps one for the neighbour.
#[inline(never)]
fn sweep_collisions(frame: u64, inbox: Option<Vec<u64>>, intensity: usize) -> Vec<u64> {
    let known = inbox.map_or(0, |contacts| contacts.len());
    for island in 0..4 * intensity {
        let mut pairs = Vec::with_capacity(8 + island % 24);
        pairs.push(frame + known as u64);
        std::hint::black_box(&pairs);
    }
    let mut contacts = Vec::with_capacity(32);
    contacts.push(frame);
    contacts
}
