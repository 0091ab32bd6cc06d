//! Builds the programs, runs them, and compares names.

use heapreel_analyzer::symbols::{
    ModuleFile, Options, ResolvedFrame, ResolvedModule, resolve_module,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The build-id that every program here is linked with, unless it asks for another.
pub const BUILD_ID: &[u8] = &[0xab, 0xcd, 0xef, 0x01, 0x23];

const LINK: [&str; 2] = ["-pie", "-Wl,--build-id=0xabcdef0123"];

/// A program in a folder of its own.
pub struct Program {
    pub folder: TempDir,
    pub file: PathBuf,
    /// What the program printed: the return address of each call that it names.
    pub returns: BTreeMap<String, u64>,
}

impl Program {
    /// Its path as a trace gives it.
    pub fn path(&self) -> &str {
        self.file.to_str().expect("temporary paths are UTF-8")
    }

    /// A file beside it.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Names the call, as an analyzer does: one byte before the return address.
    pub fn resolve(&self, call: &str, options: &Options) -> (Vec<ResolvedFrame>, ResolvedModule) {
        let module = ModuleFile {
            path: self.path(),
            build_id: BUILD_ID,
        };
        let mut resolved = resolve_module(&module, &[self.returns[call] - 1], options);
        (resolved.frames.remove(0), resolved)
    }
}

/// Options that look nowhere else on this machine.
pub fn nowhere() -> Options {
    Options {
        debug_roots: Vec::new(),
        ..Options::default()
    }
}

/// Says why a test proves nothing here.
pub fn skip(why: &str) {
    eprintln!("SKIPPED: {why}");
}

/// Whether a tool can be started; a test that needs it is skipped otherwise.
pub fn has_tool(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        skip(&format!("there is no {tool:?} here"));
    }
    found
}

/// Runs a tool that must succeed.
pub fn run(tool: &str, arguments: &[&str]) {
    assert!(try_run(tool, arguments), "{tool} {arguments:?} failed");
}

/// Runs a tool; false if it fails.
pub fn try_run(tool: &str, arguments: &[&str]) -> bool {
    let output = Command::new(tool)
        .args(arguments)
        .output()
        .expect("the tool was found before");
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    output.status.success()
}

/// Path of a program's source.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/symbols/programs")
        .join(name)
}

/// The line in a source that has this mark.
pub fn marked(name: &str, mark: &str) -> u32 {
    let text = std::fs::read_to_string(source(name)).expect("sources lie beside the tests");
    let wanted = format!("MARK: {mark}");
    let is_marked = |line: &str| {
        line.find(&wanted).is_some_and(|at| {
            !line[at + wanted.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
        })
    };
    text.lines().position(is_marked).expect("the mark is there") as u32 + 1
}

/// Builds `calls.c` or `calls.cpp` with the probe; `None` if there is no compiler or it
/// does not know the flags.
pub fn build(name: &str, flags: &[&str]) -> Option<Program> {
    let compiler = if name.ends_with(".c") { "cc" } else { "c++" };
    if !has_tool("cc") || !has_tool(compiler) {
        return None;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |file: &str| folder.path().join(file).to_str().expect("UTF-8").to_owned();
    let (probe, object, program) = (path("probe.o"), path("calls.o"), path("calls"));
    build_probe(&probe);
    let source = source(name);
    let compile = ["-O2", "-g", "-fPIE", "-c", source.to_str()?, "-o", &object];
    let link = [&LINK[..], &[&object, &probe, "-o", &program]].concat();
    if !try_run(compiler, &[&compile[..], flags].concat())
        || !try_run(compiler, &[&link[..], flags].concat())
    {
        skip(&format!("{compiler} does not know {flags:?}"));
        return None;
    }
    Some(finish(folder, PathBuf::from(program)))
}

/// Builds `calls.rs` with the probe.
pub fn build_rust(flags: &[&str]) -> Option<Program> {
    if !has_tool("cc") || !has_tool("rustc") {
        return None;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |file: &str| folder.path().join(file).to_str().expect("UTF-8").to_owned();
    let (probe, program) = (path("probe.o"), path("calls"));
    build_probe(&probe);
    let source = source("calls.rs");
    let link = [
        format!("-Clink-arg={probe}"),
        format!("-Clink-arg={}", LINK[1]),
    ];
    let mut arguments = vec!["--edition", "2024", "-O", "-g", source.to_str()?];
    arguments.extend(link.iter().map(String::as_str));
    arguments.extend(["-o", &program]);
    arguments.extend_from_slice(flags);
    if !try_run("rustc", &arguments) {
        skip(&format!("rustc cannot link with {flags:?}"));
        return None;
    }
    Some(finish(folder, PathBuf::from(program)))
}

/// Without debug information: only the lines of its callers are looked for.
fn build_probe(object: &str) {
    let source = source("probe.c");
    run(
        "cc",
        &[
            "-O1",
            "-fPIE",
            "-c",
            source.to_str().expect("UTF-8"),
            "-o",
            object,
        ],
    );
}

fn finish(folder: TempDir, file: PathBuf) -> Program {
    let output = Command::new(&file).output().expect("the program starts");
    let text = String::from_utf8(output.stdout).expect("it prints text");
    let returns = text.lines().map(|line| {
        let (name, address) = line.split_once(' ').expect("a name and an address");
        (
            name.to_owned(),
            u64::from_str_radix(address, 16).expect("an address"),
        )
    });
    Program {
        returns: returns.collect(),
        folder,
        file,
    }
}

/// Function and line of each frame, and the file's name of the first.
pub fn summary(frames: &[ResolvedFrame]) -> Vec<(String, Option<u32>)> {
    frames
        .iter()
        .map(|frame| (frame.function.clone(), frame.line))
        .collect()
}

/// What [`summary`] should be.
pub fn expected(frames: &[(&str, u32)]) -> Vec<(String, Option<u32>)> {
    frames
        .iter()
        .map(|(function, line)| ((*function).to_owned(), Some(*line)))
        .collect()
}

/// The three levels of `calls.c`.
#[track_caller]
pub fn assert_all_levels(program: &Program, options: &Options) -> ResolvedModule {
    let (frames, resolved) = program.resolve("inlined", options);
    let line = |mark| marked("calls.c", mark);
    let wanted = [
        ("innermost", line("innermost")),
        ("middle", line("middle")),
        ("outer", line("outer")),
    ];
    assert_eq!(summary(&frames), expected(&wanted), "{}", resolved.outcome);
    for frame in &frames {
        assert_eq!(frame.file.as_deref(), source("calls.c").to_str());
    }
    resolved
}
