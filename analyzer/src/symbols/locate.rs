//! Finding a module's file and its separate debug file.

use super::elf::{Image, OpenError};
use super::module::{ModuleFile, ModuleOutcome, NoFileReason, Options};
use super::search_index::SearchIndex;
use object::Object;
use std::path::{Path, PathBuf};

/// The files of a module.
pub(super) struct Located {
    /// The module itself, or its debug file where only that is left.
    pub(super) file: Image,
    /// The separate debug file.
    pub(super) debug: Option<Image>,
    /// The trace's build-id was compared.
    pub(super) verified: bool,
}

/// Where to look and with what.
pub(super) struct Finder<'a> {
    pub(super) options: &'a Options,
    pub(super) index: &'a SearchIndex,
}

impl Finder<'_> {
    /// Finds the files of `module`; the error says what was found instead.
    pub(super) fn locate(&self, module: &ModuleFile<'_>) -> Result<Located, ModuleOutcome> {
        let (path, no_file) = file_path(module.path);
        if path.is_none() && module.build_id.is_empty() {
            return Err(ModuleOutcome::NoFile { reason: no_file });
        }
        let verified = !module.build_id.is_empty();
        match self.module_file(module, path, no_file) {
            Ok(file) => {
                let debug = if file.has_section(".debug_info") {
                    None
                } else {
                    self.debug_file(&file, path)
                };
                Ok(Located {
                    file,
                    debug,
                    verified,
                })
            }
            Err(outcome) if verified => {
                let orphan = self.debug_by_build_id(module.build_id, path, None);
                orphan
                    .map(|file| Located {
                        file,
                        debug: None,
                        verified,
                    })
                    .ok_or(outcome)
            }
            Err(outcome) => Err(outcome),
        }
    }

    /// The first file that may be used. What was wrong with the recorded path's own
    /// file is the error, if there was such a file.
    fn module_file(
        &self,
        module: &ModuleFile<'_>,
        path: Option<&Path>,
        no_file: NoFileReason,
    ) -> Result<Image, ModuleOutcome> {
        let mut refused = None;
        for candidate in self.module_candidates(module, path) {
            match self.check(&candidate, module.build_id) {
                Ok(image) => return Ok(image),
                Err(None) => {}
                Err(Some(outcome)) => {
                    // The recorded path tells the user most.
                    if refused.is_none() || path == Some(&candidate) {
                        refused = Some(outcome);
                    }
                }
            }
        }
        Err(refused.unwrap_or(ModuleOutcome::NoFile { reason: no_file }))
    }

    /// With a build-id any order is right and the recorded path the quickest; without,
    /// a folder that the user named for this trace is the better guess.
    fn module_candidates(&self, module: &ModuleFile<'_>, path: Option<&Path>) -> Vec<PathBuf> {
        let mut named: Vec<PathBuf> = path
            .and_then(Path::file_name)
            .map(|name| {
                self.options
                    .search
                    .iter()
                    .map(|folder| folder.join(name))
                    .collect()
            })
            .unwrap_or_default();
        let own = path.map(Path::to_owned);
        if module.build_id.is_empty() {
            named.extend(own);
            return named;
        }
        let mut all: Vec<PathBuf> = own.into_iter().chain(named).collect();
        // A file with sections of its own comes before its debug file of the same id.
        let (debug, whole): (Vec<_>, Vec<_>) = self
            .index
            .find(module.build_id)
            .iter()
            .cloned()
            .partition(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "debug")
            });
        all.extend(whole);
        all.extend(debug);
        all
    }

    /// Opens a candidate; `Err(None)` if it is not there.
    fn check(&self, path: &Path, build_id: &[u8]) -> Result<Image, Option<ModuleOutcome>> {
        let file = path.to_owned();
        let image = match Image::open(path) {
            Ok(image) => image,
            Err(OpenError::Missing) => return Err(None),
            Err(OpenError::Unreadable(cause)) => {
                return Err(Some(ModuleOutcome::Unreadable { file, cause }));
            }
        };
        if build_id.is_empty() {
            let changed = self.options.recorded_until.zip(image.modified());
            if changed.is_some_and(|(until, modified)| modified > until) {
                return Err(Some(ModuleOutcome::ChangedSince { file }));
            }
        } else if image.build_id() != build_id {
            let (expected, found) = (build_id.to_owned(), image.build_id().to_owned());
            return Err(Some(ModuleOutcome::BuildIdDiffers {
                file,
                expected,
                found,
            }));
        }
        Ok(image)
    }

    /// The debug file of a module that has none of its own inside.
    fn debug_file(&self, file: &Image, path: Option<&Path>) -> Option<Image> {
        let build_id = file.build_id();
        if !build_id.is_empty()
            && let Some(found) = self.debug_by_build_id(build_id, path, Some(file))
        {
            return Some(found);
        }
        self.debug_by_link(file)
    }

    fn debug_by_build_id(
        &self,
        build_id: &[u8],
        path: Option<&Path>,
        file: Option<&Image>,
    ) -> Option<Image> {
        let mut candidates = Vec::new();
        if let Some(relative) = build_id_path(build_id) {
            for root in self.options.debug_roots.iter().chain(&self.options.search) {
                candidates.push(root.join(".build-id").join(&relative));
            }
        }
        if let Some(name) = path
            .and_then(Path::file_name)
            .and_then(|name| name.to_str())
        {
            for folder in &self.options.search {
                candidates.push(folder.join(format!("{name}.debug")));
                candidates.push(folder.join(name));
            }
        }
        candidates.extend_from_slice(self.index.find(build_id));
        candidates
            .iter()
            .filter(|path| file.is_none_or(|file| file.path != **path))
            .filter_map(|path| Image::open(path).ok())
            .find(|image| image.build_id() == build_id && has_names(image))
    }

    /// `.gnu_debuglink`: a name and the CRC-32 of the file that bears it.
    fn debug_by_link(&self, file: &Image) -> Option<Image> {
        let elf = file.elf().ok()?;
        let (name, crc) = elf.gnu_debuglink().ok()??;
        let name = std::str::from_utf8(name)
            .ok()
            .filter(|name| !name.contains('/'))?;
        let mut folders = Vec::new();
        let real = file.path.canonicalize().ok();
        for folder in [Some(&file.path), real.as_ref()]
            .into_iter()
            .flatten()
            .filter_map(|p| p.parent())
        {
            folders.push(folder.to_owned());
            folders.push(folder.join(".debug"));
            let inside = folder.strip_prefix("/").unwrap_or(folder);
            folders.extend(
                self.options
                    .debug_roots
                    .iter()
                    .map(|root| root.join(inside)),
            );
        }
        folders.extend(self.options.search.iter().cloned());
        folders
            .iter()
            .map(|folder| folder.join(name))
            .filter(|path| *path != file.path && Some(path) != real.as_ref())
            .filter_map(|path| Image::open(&path).ok())
            .find(|image| belongs(file, image, crc) && has_names(image))
    }

    /// The file that `dwz` moved common parts of `debug` to.
    pub(super) fn alternate(&self, debug: &Image) -> Option<Image> {
        let elf = debug.elf().ok()?;
        let (name, build_id) = elf.gnu_debugaltlink().ok()??;
        let name = Path::new(std::str::from_utf8(name).ok()?);
        let mut candidates = Vec::new();
        for path in [Some(debug.path.clone()), debug.path.canonicalize().ok()]
            .into_iter()
            .flatten()
        {
            candidates.push(path.parent()?.join(name));
        }
        for root in self.options.debug_roots.iter().chain(&self.options.search) {
            if let Some(base) = name.file_name() {
                candidates.push(root.join(".dwz").join(base));
                candidates.push(root.join(base));
            }
            if let Some(relative) = build_id_path(build_id) {
                candidates.push(root.join(".build-id").join(relative));
            }
        }
        candidates.extend_from_slice(self.index.find(build_id));
        let mut images = candidates.iter().filter_map(|path| Image::open(path).ok());
        images.find(|image| image.build_id() == build_id)
    }
}

/// Splits off what the kernel adds to a path; `None` if it is no path of a file.
/// The reason counts if no file is found.
fn file_path(path: &str) -> (Option<&Path>, NoFileReason) {
    if path.starts_with("linux-vdso") || path.starts_with("linux-gate") || path == "[vdso]" {
        return (None, NoFileReason::Vdso);
    }
    if path.is_empty()
        || path.starts_with('[')
        || path.starts_with("//")
        || path.starts_with("/memfd:")
    {
        return (None, NoFileReason::Anonymous);
    }
    match path.strip_suffix(" (deleted)") {
        // A folder's file of that build-id may still serve, so the name stays.
        Some(path) => (Some(Path::new(path)), NoFileReason::Deleted),
        None => (Some(Path::new(path)), NoFileReason::Missing),
    }
}

/// `ab/cdef….debug`
fn build_id_path(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    if rest.is_empty() {
        return None;
    }
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(PathBuf::from(format!("{first:02x}/{rest}.debug")))
}

/// Equal build-ids prove it without reading the whole file; else the CRC must fit.
fn belongs(file: &Image, debug: &Image, crc: u32) -> bool {
    match (file.build_id(), debug.build_id()) {
        (ours, theirs) if !ours.is_empty() && !theirs.is_empty() => ours == theirs,
        _ => crc32fast::hash(debug.bytes()) == crc,
    }
}

fn has_names(image: &Image) -> bool {
    image.has_section(".debug_info") || image.has_section(".symtab")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_told_apart() {
        let reason = |path| file_path(path).1;
        assert_eq!(file_path("linux-vdso.so.1"), (None, NoFileReason::Vdso));
        assert_eq!(file_path("[vdso]"), (None, NoFileReason::Vdso));
        assert_eq!(file_path(""), (None, NoFileReason::Anonymous));
        assert_eq!(file_path("[anon:jit]"), (None, NoFileReason::Anonymous));
        assert_eq!(
            file_path("/memfd:doublemapper (deleted)"),
            (None, NoFileReason::Anonymous)
        );
        assert_eq!(
            file_path("/opt/game (deleted)").0,
            Some(Path::new("/opt/game"))
        );
        assert_eq!(reason("/opt/game (deleted)"), NoFileReason::Deleted);
        assert_eq!(reason("/opt/game"), NoFileReason::Missing);
    }

    #[test]
    fn build_id_paths_are_those_of_the_distributions() {
        assert_eq!(
            build_id_path(&[0xab, 0xcd, 0xef]),
            Some(PathBuf::from("ab/cdef.debug"))
        );
        assert_eq!(build_id_path(&[0xab]), None);
        assert_eq!(build_id_path(&[]), None);
    }
}
