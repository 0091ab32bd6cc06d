//! `heapreel demo`: a small game, recorded and reported, to see what heapreel is about.

use super::capture::{self, Capture, SymbolFlags, quoted};
use super::record::session;
use super::report;
use crate::exit_code;
use crate::failure::Failure;
use crate::record::environment::{self, Switches};
use crate::record::{Naming, preload};
use anyhow::bail;
use clap::FromArgMatches;
use heapreel_format::Trace;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// The game's name, as it stands in the traces it makes.
const GAME: &str = "skirmish";

/// Flags of `heapreel demo`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  heapreel demo
  heapreel demo --scene leak -o leak.hreel")]
pub struct Args {
    /// The trace; an older demo's is replaced
    #[arg(short, long, value_name = "FILE", default_value = "demo.hreel")]
    output: PathBuf,
    /// Replace the file even if no demo made it
    #[arg(long)]
    force: bool,
    /// What the game plays: hits, stages, openworld, leak, overrun, padded, patrol or segments
    #[arg(long, value_name = "SCENE", default_value = "hits")]
    scene: String,
    /// Further arguments for the game
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

/// Plays, reports, and says what to try next.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let force = args.force || is_older_demo(&args.output);
    let naming = Naming::new(Some(&args.output), force, capture::unix_seconds())?;
    let Some(game) = preload::skirmish(naming.folder())? else {
        bail!("this heapreel was built without its demo; build it from the whole repository");
    };
    let session = session(None, naming.folder())?;
    let mut command = Command::new(game);
    command
        .arg0(GAME)
        .arg(&args.scene)
        .args(&args.arguments)
        .stdout(Stdio::null());
    environment::set(&mut command, session.folder(), None, &Switches::default());
    eprintln!(
        "heapreel: playing {GAME}'s scene {:?} under the recorder …",
        args.scene
    );
    let symbols = SymbolFlags {
        no_symbols: false,
        symbol_time: Duration::from_secs(60),
        symbol_path: Vec::new(),
    };
    let capture = Capture {
        session: &session,
        naming: &naming,
        clips: None,
        only: &[],
        library: None,
        force,
        keep_all: false,
        symbols: &symbols,
    };
    let captured = capture.run(&mut command)?;
    captured.tell(|| format!("{GAME} did not start its recorder"));
    match captured.kept.first() {
        Some(main) => report_and_advise(&main.trace),
        None => Err(Failure::error(
            exit_code::MISUSE,
            "the demo recorded nothing",
        )),
    }
}

fn report_and_advise(trace: &Path) -> anyhow::Result<ExitCode> {
    let code = report_on(trace)?;
    let trace = quoted(trace);
    println!("\nNext, try:");
    for (command, what) in [
        (
            format!("heapreel frames {trace}"),
            "each game frame and what it allocated",
        ),
        (
            format!("heapreel spikes {trace}"),
            "the frames over budget, and the calls to blame",
        ),
        (
            format!("heapreel leaks {trace}"),
            "what was never given back",
        ),
        (format!("heapreel view {trace}"), "the same in a window"),
        (
            "heapreel record -o run.hreel -- ./mygame".to_owned(),
            "your own game",
        ),
    ] {
        println!("  {command:<42} {what}");
    }
    Ok(code)
}

/// As `heapreel report TRACE` does it, with its own defaults.
fn report_on(trace: &Path) -> anyhow::Result<ExitCode> {
    let command = <report::Args as clap::Args>::augment_args(clap::Command::new("report"));
    let words = [std::ffi::OsStr::new("report"), trace.as_os_str()];
    let matches = command.try_get_matches_from(words)?;
    report::run(report::Args::from_arg_matches(&matches)?)
}

/// A trace of skirmish under this name may go: a demo or the like made it.
fn is_older_demo(path: &Path) -> bool {
    Trace::open(path).is_ok_and(|trace| {
        let program = Path::new(&trace.header().process.executable);
        program.file_name().is_some_and(|name| name == GAME)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapreel_format::testing::TraceBuilder;

    #[test]
    fn only_a_demo_of_old_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("demo.hreel");
        assert!(!is_older_demo(&path));
        std::fs::write(&path, "my letters").unwrap();
        assert!(!is_older_demo(&path));
        let made_by = |program: &str| {
            let program = program.to_owned();
            TraceBuilder::new()
                .header(|header| header.process.executable = program)
                .bytes()
        };
        std::fs::write(&path, made_by("/games/openttd")).unwrap();
        assert!(!is_older_demo(&path));
        std::fs::write(&path, made_by("/cache/skirmish-0/skirmish")).unwrap();
        assert!(is_older_demo(&path));
    }
}
