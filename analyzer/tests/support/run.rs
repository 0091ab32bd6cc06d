//! Runs a command to its end and keeps what it said.

use std::ffi::OsStr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// No program here works for more than a few seconds: one that reaches this hangs.
const HANGS_AFTER: Duration = Duration::from_secs(120);

/// How a command ended and what it wrote.
#[derive(Debug, PartialEq, Eq)]
pub struct Ran {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            signal: output.status.signal(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The exit code as a shell tells it: 128 and the signal's number for a killed process.
    pub fn shell_code(&self) -> i32 {
        self.code
            .unwrap_or_else(|| 128 + self.signal.expect("an ended process"))
    }

    /// The objects of a program that prints one JSON object a line.
    pub fn json_lines(&self) -> Vec<serde_json::Value> {
        let parse = |line| {
            serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in {line:?} of {self:?}"))
        };
        self.stdout.lines().map(parse).collect()
    }
}

/// Runs `command`; a hang is ended and fails the test.
pub fn run(command: &mut Command) -> Ran {
    let what = format!("{command:?}");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let child = command
        .spawn()
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    let process = child.id();
    let (sender, ended) = channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = ended.recv_timeout(HANGS_AFTER) else {
        send_signal("KILL", &format!("-{process}"));
        panic!("{what} hangs");
    };
    Ran::of(&output.expect("the output of a child"))
}

/// Runs a program as it is.
pub fn plain<A: AsRef<OsStr>>(program: &Path, arguments: &[A]) -> Ran {
    run(Command::new(program).args(arguments))
}

/// Sends a signal to a process, or with `-` in front to a process group.
pub fn send_signal(name: &str, target: &str) {
    let kill = format!("kill -s {name} -- {target}");
    let status = Command::new("sh")
        .args(["-c", &kill])
        .status()
        .expect("a shell");
    assert!(status.success(), "{kill} failed");
}
