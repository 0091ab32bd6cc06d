//! The folder in which recorded processes leave their spills.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

const PREFIX: &str = "heapreel-";
/// Extension of the empty file by which a recorder says that it could not start.
const REFUSED: &str = "refused";

/// A private folder in shared memory. Dropping it removes it if no spill is left in it.
#[derive(Debug)]
pub struct Session {
    folder: PathBuf,
}

impl Session {
    /// Makes a folder in `place`, or else in shared memory, or, where that is full or not
    /// there, in the temporary folder or `beside` the trace.
    ///
    /// # Errors
    ///
    /// The last place's, where none takes a folder.
    pub fn create(place: Option<&Path>, beside: &Path) -> io::Result<Session> {
        if let Some(place) = place {
            return Session::create_in(place);
        }
        let shared = Path::new("/dev/shm");
        remove_deserted(shared);
        let temporary = std::env::temp_dir();
        let places = [shared, &temporary, beside];
        // Where all are full, programs run on and say that they cannot be recorded.
        let roomy = places.iter().filter(|place| has_room(place));
        let mut refused = io::Error::from(io::ErrorKind::NotFound);
        for place in roomy.chain(&places) {
            match Session::create_in(place) {
                Ok(session) => return Ok(session),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    fn create_in(place: &Path) -> io::Result<Session> {
        let random: u32 = random();
        let name = format!("{PREFIX}{}-{random:08x}", std::process::id());
        // Programs work in folders of their own.
        let folder = std::path::absolute(place)?.join(name);
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Session { folder })
    }

    /// Its path.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Spills that are there now, sorted by name.
    pub fn spills(&self) -> Vec<PathBuf> {
        files_in(&self.folder, "spill")
    }
}

impl Session {
    /// A program left word that it could not be recorded, and has said why on stderr.
    pub fn has_refusals(&self) -> bool {
        !self.refusals().is_empty()
    }

    fn refusals(&self) -> Vec<PathBuf> {
        files_in(&self.folder, REFUSED)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for word in self.refusals() {
            _ = fs::remove_file(word);
        }
        _ = fs::remove_dir(&self.folder);
    }
}

/// Files with this extension, sorted by name.
fn files_in(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut files: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == extension))
        .collect();
    files.sort();
    files
}

/// Where less is free, shared memory is as good as full: a busy game fills a few MiB
/// before the drain's first look.
const LEAST_FREE: u64 = 4 << 20;

/// Whether a place has memory for spills. One without a limit of its own says 0 of 0.
fn has_room(place: &Path) -> bool {
    rustix::fs::statvfs(place).is_ok_and(|facts| {
        let free = facts.f_bavail.saturating_mul(facts.f_frsize);
        facts.f_blocks == 0 || free >= LEAST_FREE
    })
}

/// Removes folders of recordings whose wrapper was killed, once nothing is left in them.
fn remove_deserted(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(owner_of);
        let deserted = owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        if deserted {
            // Fails where a spill is left, which is meant: it belongs to a trace.
            _ = fs::remove_dir(entry.path());
        }
    }
}

/// The process that made a folder of this name.
fn owner_of(name: &str) -> Option<u32> {
    let (pid, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
    pid.parse().ok()
}

/// A number that nobody else has at this moment.
fn random() -> u32 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library seeds each of these from the operating system.
    std::hash::RandomState::new().build_hasher().finish() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_spills_stays() {
        let place = tempfile::tempdir().unwrap();
        let session = Session::create(Some(place.path()), place.path()).unwrap();
        let folder = session.folder().to_owned();
        fs::write(folder.join("12-aa.spill"), "").unwrap();
        fs::write(folder.join("12-bb.spill.tmp"), "").unwrap();
        assert_eq!(session.spills(), [folder.join("12-aa.spill")]);
        drop(session);
        assert!(folder.exists());
    }

    #[test]
    fn word_of_a_refusal_goes_with_the_folder() {
        let place = tempfile::tempdir().unwrap();
        let session = Session::create(Some(place.path()), place.path()).unwrap();
        let folder = session.folder().to_owned();
        assert!(!session.has_refusals());
        fs::write(folder.join("12-aa.refused"), "").unwrap();
        assert!(session.has_refusals() && session.spills().is_empty());
        drop(session);
        assert!(!folder.exists());
    }

    #[test]
    fn an_empty_folder_goes() {
        let place = tempfile::tempdir().unwrap();
        let session = Session::create(Some(place.path()), place.path()).unwrap();
        let folder = session.folder().to_owned();
        drop(session);
        assert!(!folder.exists());
    }

    #[test]
    fn deserted_folders_are_recognised() {
        assert_eq!(owner_of("heapreel-77-0a0b0c0d"), Some(77));
        assert_eq!(owner_of("heapreel-77.spill"), None);
        let place = tempfile::tempdir().unwrap();
        // No process can have this number: it is above the kernel's limit.
        let deserted = place.path().join("heapreel-4194305-00000000");
        let own = place
            .path()
            .join(format!("heapreel-{}-00000000", std::process::id()));
        fs::create_dir(&deserted).unwrap();
        fs::create_dir(&own).unwrap();
        remove_deserted(place.path());
        assert!(!deserted.exists() && own.exists());
    }
}
