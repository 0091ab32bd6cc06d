//! plugins.c and the libraries that it loads, each where it is to be found.

use super::compile;
use super::scratch::Scratch;
use std::path::{Path, PathBuf};

/// A program, and two libraries in a folder beside it.
pub struct Plugins {
    pub scratch: Scratch,
    /// plugins.c.
    pub program: PathBuf,
    /// The folder.
    pub folder: PathBuf,
}

/// Both have a RUNPATH of their own: the program to `plugins`, the wolf to `plugins/more`.
pub fn plugins() -> Option<Plugins> {
    let runpath = |folder: &str| format!("-Wl,--enable-new-dtags,-rpath,$ORIGIN/{folder}");
    let program = compile::c_with("plugins.c", &[&runpath("plugins")])?;
    let library = |animal: &str| {
        let animal = format!("-DANIMAL={animal}");
        compile::c_with("plugin.c", &["-shared", "-fPIC", &animal, &runpath("more")])
    };
    let (wolf, deer) = (library("wolf")?, library("deer")?);
    let scratch = Scratch::new();
    let plugins = scratch.join("plugins");
    std::fs::create_dir_all(plugins.join("more")).expect("a folder");
    let copy = |from: &Path, to: PathBuf| {
        compile::copy(from, &to);
        to
    };
    copy(&wolf, plugins.join("libwolf.so"));
    copy(&deer, plugins.join("more/libdeer.so"));
    Some(Plugins {
        program: copy(&program, scratch.join("plugins_c")),
        folder: plugins,
        scratch,
    })
}

impl Plugins {
    /// Both in one folder, where a path finds them.
    pub fn both(&self) {
        let (from, to) = ("more/libdeer.so", "libdeer.so");
        compile::copy(&self.folder.join(from), &self.folder.join(to));
    }
}
