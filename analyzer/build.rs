//! Builds the recorder's two artifacts that the program `heapreel` carries: the library
//! for LD_PRELOAD and skirmish, the game of `heapreel demo`.
//!
//! Cargo cannot depend on another package's cdylib or example, so a cargo of its own
//! builds them, always in release mode and with unwinding, in a target directory below
//! OUT_DIR. `HEAPREEL_PRELOAD_LIB` and `HEAPREEL_SKIRMISH` name ready files instead; an
//! empty file means to do without.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the artifacts are made of, from the workspace's root.
const SOURCES: &[&str] = &[
    "Cargo.lock",
    "Cargo.toml",
    "format/Cargo.toml",
    "format/src",
    "recorder/Cargo.toml",
    "recorder/src",
    "recorder/preload",
    "recorder/examples/skirmish",
];

fn main() {
    let analyzer = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let root = analyzer.join("..");
    let out = PathBuf::from(variable("OUT_DIR"));
    println!("cargo:rerun-if-env-changed=HEAPREEL_PRELOAD_LIB");
    println!("cargo:rerun-if-env-changed=HEAPREEL_SKIRMISH");
    println!("cargo:rerun-if-changed=build.rs");
    for source in SOURCES {
        let path = root.join(source);
        if path.exists() {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    let build = Nested {
        root: &root,
        out: &out,
    };
    embed(
        "HEAPREEL_EMBEDDED_PRELOAD",
        ready("HEAPREEL_PRELOAD_LIB").or_else(|| build.preload()),
        &out,
    );
    embed(
        "HEAPREEL_EMBEDDED_SKIRMISH",
        ready("HEAPREEL_SKIRMISH").or_else(|| build.skirmish()),
        &out,
    );
}

fn variable(name: &str) -> OsString {
    env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}"))
}

/// A file that a packager has made already.
fn ready(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env::var_os(name).filter(|value| !value.is_empty())?);
    println!("cargo:rerun-if-changed={}", path.display());
    let path = fs::canonicalize(&path)
        .unwrap_or_else(|error| panic!("{name}: {}: {error}", path.display()));
    Some(path)
}

/// Tells the program where to take the bytes from; an empty file where there are none.
fn embed(name: &str, artifact: Option<PathBuf>, out: &Path) {
    let artifact = artifact.unwrap_or_else(|| {
        let empty = out.join("none");
        fs::write(&empty, "").expect("OUT_DIR takes files");
        empty
    });
    println!("cargo:rustc-env={name}={}", artifact.display());
}

/// A cargo within this one.
struct Nested<'a> {
    root: &'a Path,
    out: &'a Path,
}

impl Nested<'_> {
    fn preload(&self) -> Option<PathBuf> {
        // Its own stack frames are never shown: no need to carry their lines.
        self.rustc(&["--package", "heapreel-preload"], "strip=debuginfo")?;
        self.artifact("libheapreel_preload.so")
    }

    fn skirmish(&self) -> Option<PathBuf> {
        // Its lines are what the demo's report is about.
        let what = ["--package", "heapreel", "--example", "skirmish"];
        self.rustc(&what, "strip=none")?;
        self.artifact("examples/skirmish")
    }

    /// Only on the platform that they are for, and only where the sources are: a
    /// packaged crate has none, and then a library beside the program serves.
    fn is_possible(&self) -> bool {
        let is = |name, value: &str| variable(name) == value;
        is("CARGO_CFG_TARGET_OS", "linux")
            && is("CARGO_CFG_TARGET_ARCH", "x86_64")
            && self.root.join("recorder/preload/Cargo.toml").exists()
    }

    /// Builds one target, the last step with one more option of rustc's.
    fn rustc(&self, what: &[&str], option: &str) -> Option<()> {
        if !self.is_possible() {
            return None;
        }
        let mut cargo = Command::new(variable("CARGO"));
        cargo.current_dir(self.root);
        cargo
            .args(["rustc", "--release", "--locked", "--quiet"])
            .args(what);
        cargo.arg("--target-dir").arg(self.out.join("nested"));
        cargo.args(["--config", "profile.release.panic=\"unwind\""]);
        cargo.args(["--config", "profile.release.package.\"*\".debug=false"]);
        if variable("TARGET") != variable("HOST") {
            cargo.arg("--target").arg(variable("TARGET"));
        }
        for (name, _) in env::vars_os().filter(|(name, _)| steers_a_build(&name.to_string_lossy()))
        {
            cargo.env_remove(name);
        }
        cargo.args(["--", "-C", option]);
        let status = cargo.status().expect("cargo starts cargo");
        assert!(
            status.success(),
            "{cargo:?} failed; HEAPREEL_PRELOAD_LIB and HEAPREEL_SKIRMISH name ready files instead"
        );
        Some(())
    }

    fn artifact(&self, name: &str) -> Option<PathBuf> {
        let mut folder = self.out.join("nested");
        if variable("TARGET") != variable("HOST") {
            folder.push(variable("TARGET"));
        }
        Some(folder.join("release").join(name)).filter(|path| path.exists())
    }
}

/// What the outer build was told must not reach the inner one: its flags, its wrappers
/// (clippy is one), its profile, its target. Where registries and networks are is kept.
fn steers_a_build(name: &str) -> bool {
    const KEPT: &[&str] = &["CARGO_HOME", "CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR"];
    let steers = name.starts_with("CARGO") && !KEPT.iter().any(|kept| name.starts_with(kept));
    steers
        || ["RUSTC", "RUSTDOC", "CLIPPY", "DEP_"]
            .iter()
            .any(|p| name.starts_with(p))
        || matches!(name, "RUSTFLAGS" | "MAKEFLAGS")
}
