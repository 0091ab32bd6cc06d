//! Wrong input gets one line that names file and cause, exit 2, and costs no memory.

use heapreel_format::testing::TraceBuilder;
use heapreel_format::{Entry, Trace};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Address space that reading a small broken file may take, in KiB: the program
/// itself, its threads' stacks, and a few MiB.
const ROOM_KIB: u32 = 256 << 10;

struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a temporary folder"))
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).expect("a file in it");
        path
    }
}

fn trace() -> Vec<u8> {
    let mut builder = TraceBuilder::new()
        .chunk_records(40)
        .stack(1, Entry::Malloc, &[0x10_0000, 0x10_2000])
        .stack(2, Entry::New, &[0x10_4000]);
    for i in 0..400u64 {
        let thread = (i % 3) as u32 + 1;
        let at = 10_000 + i * 1_000;
        let address = 0x1_0000_0000 + i * 256;
        builder = builder.alloc(thread, at, at + 60, address, 100 + i, (i % 2) as u32 + 1);
        if i % 2 == 0 {
            builder = builder.free(thread, at + 400, at + 430, address);
        }
        if i % 10 == 9 {
            builder = builder.frame_mark(1, at + 900, 0);
        }
    }
    builder.bytes()
}

/// Runs `heapreel COMMAND FILE` in little memory.
fn run(command: &str, path: &Path) -> Output {
    let script = format!("ulimit -v {ROOM_KIB}; exec \"$0\" {command} \"$1\"");
    Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_heapreel")])
        .arg(path)
        .env("RAYON_NUM_THREADS", "1")
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("sh")
}

/// One line on stderr that begins with the program and names the file; exit 2.
#[track_caller]
fn refused(output: &Output, path: &Path) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        output.status.code(),
        Some(2),
        "{}: {stderr}",
        path.display()
    );
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("heapreel: "), "{stderr}");
    let name = path.file_name().expect("a name").to_string_lossy();
    assert!(stderr.contains(name.as_ref()), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    stderr
}

const COMMANDS: [&str; 5] = ["report", "info", "frames", "spikes", "leaks"];

#[test]
fn what_is_no_trace_is_named() {
    let folder = Folder::new();
    let mut newer = trace();
    newer[8] = 9;
    let crc = crc32c::crc32c(&newer[..20]).to_le_bytes();
    newer[20..24].copy_from_slice(&crc);
    let cases: [(&str, &[u8], &str); 5] = [
        ("empty.hreel", b"", "empty"),
        (
            "text.hreel",
            b"once upon a time there was a heap\n",
            "not a heapreel trace",
        ),
        ("short.hreel", b"heapr", "header"),
        ("newer.hreel", &newer, "version 9"),
        ("cut.hreel", &trace()[..30], "header"),
    ];
    for (name, bytes, cause) in cases {
        let path = folder.file(name, bytes);
        for command in COMMANDS {
            let line = refused(&run(command, &path), &path);
            assert!(line.contains(cause), "{command}: {line}");
        }
    }
}

#[test]
fn what_cannot_be_opened_is_named() {
    let folder = Folder::new();
    let missing = folder.0.path().join("missing.hreel");
    let line = refused(&run("report", &missing), &missing);
    assert!(line.contains("No such file"), "{line}");
    let line = refused(&run("report", folder.0.path()), folder.0.path());
    assert!(line.contains("folder"), "{line}");
}

/// A cut trace is reported as far as it goes, and cannot be trusted.
#[test]
fn each_cut_is_told_in_one_line() {
    let folder = Folder::new();
    let bytes = trace();
    for step in 0..200 {
        let cut = step * bytes.len() / 200;
        let path = folder.file("part.hreel", &bytes[..cut]);
        let command = COMMANDS[step % COMMANDS.len()];
        refused(&run(command, &path), &path);
    }
}

#[test]
fn flipped_bits_are_told_or_harmless() {
    let folder = Folder::new();
    let bytes = trace();
    let mut told = 0;
    for step in 0..200 {
        let at = step * bytes.len() / 200;
        let mut bad = bytes.clone();
        bad[at] ^= 1 << (step % 8);
        let path = folder.file("flipped.hreel", &bad);
        refused(&run(COMMANDS[step % COMMANDS.len()], &path), &path);
        told += 1;
    }
    assert_eq!(told, 200, "every byte of a trace is covered by a checksum");
}

/// Headers with right checksums that promise the world.
#[test]
fn lengths_from_a_stranger_cost_nothing() {
    let folder = Folder::new();
    let bytes = trace();
    let chunk = {
        let whole = Trace::from_bytes(bytes.clone()).expect("a whole trace");
        let heapreel_format::Place::File(payload) = whole.chunks()[0].place else {
            panic!("in the file")
        };
        payload as usize - heapreel_format::CHUNK_HEADER_BYTES
    };
    for (field, value) in [
        (8, u32::MAX),
        (12, u32::MAX),
        (12, 16 << 20),
        (16, u32::MAX),
        (20, u32::MAX),
    ] {
        let mut bad = bytes.clone();
        bad[chunk + field..chunk + field + 4].copy_from_slice(&value.to_le_bytes());
        let crc = crc32c::crc32c(&bad[chunk..chunk + 60]).to_le_bytes();
        bad[chunk + 60..chunk + 64].copy_from_slice(&crc);
        let path = folder.file("promise.hreel", &bad);
        let output = run("info", &path);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            matches!(output.status.code(), Some(0 | 2)),
            "field {field}: {:?} {stderr}",
            output.status
        );
        assert!(
            !stderr.contains("panicked") && !stderr.contains("memory allocation"),
            "{stderr}"
        );
    }
    let mut header = bytes;
    header[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    let crc = crc32c::crc32c(&header[..20]).to_le_bytes();
    header[20..24].copy_from_slice(&crc);
    let path = folder.file("header.hreel", &header);
    refused(&run("info", &path), &path);
}

#[test]
fn a_file_that_may_not_be_read_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let path = folder.file("secret.hreel", &trace());
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).expect("its owner may");
    if std::fs::File::open(&path).is_ok() {
        // Root reads everything: ask as nobody, with a copy that nobody may run.
        let program = folder.0.path().join("heapreel");
        // By a process of its own: no child of another thread must hold it open for writing.
        let copied = Command::new("cp")
            .arg(env!("CARGO_BIN_EXE_heapreel"))
            .arg(&program)
            .status();
        assert!(copied.expect("cp runs").success());
        std::fs::set_permissions(folder.0.path(), PermissionsExt::from_mode(0o755))
            .expect("its owner may");
        let mut command = Command::new(&program);
        std::os::unix::process::CommandExt::uid(&mut command, 65534);
        let output = command
            .arg("report")
            .arg(&path)
            .output()
            .expect("to run as nobody");
        let line = refused(&output, &path);
        assert!(line.contains("ermission denied"), "{line}");
    } else {
        let line = refused(&run("report", &path), &path);
        assert!(line.contains("ermission denied"), "{line}");
    }
}
