//! From a file to what is drawn of it: the one place where the viewer meets files.

use crate::from_analysis::view_model;
use crate::load::Control;
use crate::view_model::ViewModel;
use heapreel_analyzer::{Options, analyze};
use std::path::PathBuf;

/// Reads and analyses a trace.
///
/// # Errors
///
/// A sentence that names the file and the cause.
pub fn read_trace(path: PathBuf, control: &Control) -> Result<ViewModel, String> {
    control.report("opening", 0, 0);
    let analysis = analyze(&path, &Options::default(), |progress| {
        control.report("replaying events", progress.done, progress.total);
    });
    match analysis {
        Ok(analysis) => Ok(view_model(&analysis)),
        Err(error) => Err(format!("{} {error}", path.display())),
    }
}
