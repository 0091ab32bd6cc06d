//! Commands that run among mounts of their own: a small disk, a folder that cannot be written
//! to, shared memory that is full.

use super::compile::skipped;
use super::run::{Ran, run};
use std::ffi::OsStr;
use std::process::Command;
use std::sync::OnceLock;

/// Runs a shell script in a mount namespace of its own, stopping at its first failure; `None`
/// with a line that says why where this system permits none. Variables are the script's.
pub fn run_script<V: AsRef<OsStr>>(script: &str, variables: &[(&str, V)]) -> Option<Ran> {
    let mut command = command(script)?;
    for (name, value) in variables {
        command.env(name, value);
    }
    Some(run(&mut command))
}

fn command(script: &str) -> Option<Command> {
    let flag = unshare_flag()?;
    let mut command = Command::new("unshare");
    command.args([flag, "sh", "-euc", script]);
    Some(command)
}

/// As root a mount namespace is enough; others are root of a user namespace of their own.
fn unshare_flag() -> Option<&'static str> {
    static FLAG: OnceLock<Option<&str>> = OnceLock::new();
    let permitted = |flag: &&str| {
        let mut unshare = Command::new("unshare");
        let tried = unshare.args([flag, "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"]);
        tried.output().is_ok_and(|output| output.status.success())
    };
    let flag = *FLAG.get_or_init(|| ["-m", "-rm"].into_iter().find(permitted));
    if flag.is_none() {
        skipped("this system permits no mount namespace");
    }
    flag
}
