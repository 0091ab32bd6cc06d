//! A folder of one test's own.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Removed at the end, unless the test failed: then it stays and is named.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("scratch-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).expect("a folder in the target directory");
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// All traces in the folder, sorted by name.
    pub fn traces(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.0).expect("the scratch folder");
        let paths = entries.map(|entry| entry.expect("a folder's entry").path());
        let mut traces: Vec<_> = paths
            .filter(|p| p.extension().is_some_and(|e| e == "hreel"))
            .collect();
        traces.sort();
        traces
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("kept for inspection: {}", self.0.display());
        } else {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
