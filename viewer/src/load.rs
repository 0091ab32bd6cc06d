//! Reads a trace on a thread of its own, with progress and a way to stop.

use crate::view_model::ViewModel;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread;

/// How far the work is, and whether it is still wanted; shared by both threads.
#[derive(Debug, Default)]
pub struct Control {
    stopped: AtomicBool,
    done: AtomicU64,
    of: AtomicU64,
    stage: Mutex<&'static str>,
}

impl Control {
    /// Tells how far the work is.
    pub fn report(&self, stage: &'static str, done: u64, of: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.of.store(of, Ordering::Relaxed);
        if let Ok(mut current) = self.stage.lock() {
            *current = stage;
        }
    }

    /// Nobody waits for the result any more.
    pub fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// What is being done; empty before anything was reported.
    pub fn stage(&self) -> &'static str {
        self.stage.lock().map_or("", |stage| *stage)
    }

    /// The share done, 0 to 1; `None` where it is not known.
    pub fn share(&self) -> Option<f32> {
        let of = self.of.load(Ordering::Relaxed);
        let done = self.done.load(Ordering::Relaxed);
        (of > 0).then(|| (done as f32 / of as f32).min(1.0))
    }
}

/// Reads a trace, or says in a sentence why not.
pub type Work = fn(PathBuf, &Control) -> Result<ViewModel, String>;

/// A trace being read. Dropping it stops the work.
#[derive(Debug)]
pub struct Loader {
    control: Arc<Control>,
    result: Receiver<Result<ViewModel, String>>,
}

impl Loader {
    /// Starts `work`; `wake` is called on its thread once the result is there.
    pub fn start(path: PathBuf, work: Work, wake: impl FnOnce() + Send + 'static) -> Self {
        let control = Arc::new(Control::default());
        let (sender, result) = channel();
        let shared = Arc::clone(&control);
        let spawned = thread::Builder::new()
            .name("heapreel-loader".to_owned())
            .spawn({
                let sender = sender.clone();
                move || {
                    // Dropped in reverse order: the channel closes before the wake,
                    // also when the work panics.
                    let _wake = WakeOnDrop(Some(wake));
                    let sender = sender;
                    // The window may be gone; then nobody wants the result.
                    let _ = sender.send(work(path, &shared));
                }
            });
        if let Err(error) = spawned {
            let _ = sender.send(Err(format!("no thread could be started: {error}")));
        }
        Self { control, result }
    }

    /// How far it is.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// The result, once.
    pub fn poll(&self) -> Option<Result<ViewModel, String>> {
        match self.result.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(
                "the analysis stopped unexpectedly; please report this trace".to_owned(),
            )),
        }
    }
}

struct WakeOnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for WakeOnDrop<F> {
    fn drop(&mut self) {
        if let Some(wake) = self.0.take() {
            wake();
        }
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.control.stopped.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    fn result_of(work: Work) -> (Loader, Result<ViewModel, String>) {
        let (woken, wait) = sync_channel(1);
        let loader = Loader::start("x.hreel".into(), work, move || {
            woken.send(()).unwrap();
        });
        let _ = wait.recv();
        let result = loader.poll().expect("a result after the wake");
        (loader, result)
    }

    #[test]
    fn a_result_wakes_the_window_and_keeps_the_progress() {
        let (loader, result) = result_of(|path, control| {
            control.report("reading", 1, 2);
            Err(format!("{}: empty", path.display()))
        });
        assert_eq!(result.unwrap_err(), "x.hreel: empty");
        assert_eq!(loader.control().stage(), "reading");
        assert_eq!(loader.control().share(), Some(0.5));
    }

    #[test]
    fn a_panic_in_the_work_is_an_error_not_a_wait_for_ever() {
        let (_, result) = result_of(|_, _| panic!("a bug"));
        assert!(result.unwrap_err().contains("unexpectedly"));
    }

    #[test]
    fn dropping_the_loader_stops_the_work() {
        static SEEN: AtomicBool = AtomicBool::new(false);
        let (woken, wait) = sync_channel(1);
        let work: Work = |_, control| {
            while !control.stopped() {
                thread::yield_now();
            }
            SEEN.store(true, Ordering::Relaxed);
            Err(String::new())
        };
        drop(Loader::start("x".into(), work, move || {
            woken.send(()).unwrap()
        }));
        wait.recv().unwrap();
        assert!(SEEN.load(Ordering::Relaxed));
    }
}
