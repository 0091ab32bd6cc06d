//! `heapreel record`: runs a program and writes every allocation of it to a trace.

use super::capture::{self, Capture, SymbolFlags};
use super::program::{locate, refuse_what_cannot_run};
use super::text::count;
use crate::exit_code;
use crate::failure::Failure;
use crate::inspect::{Elf, Kind, Program};
use crate::record::clips::{ClipFlags, Clipping, Symbolicate};
use crate::record::environment::{self, Switches};
use crate::record::finished::{Finished, WORTH_KEEPING};
use crate::record::{Naming, preload, session::Session};
use anyhow::Context;
use heapreel_format::{FrameSource, LoopId, Rare, Trace};
use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Flags of `heapreel record`.
#[derive(clap::Args)]
#[command(
    after_help = "Each process of the program writes its own trace, NAME.PID.PROGRAM.hreel; those with \
fewer than 1,000 events leave nothing behind without --keep-all. The last line names the one with frame marks or, failing that, \
the most events: it has the name given by -o. The program's exit code is passed on (128 + signal where a signal \
ended it). Should heapreel itself be killed, the program runs on, and `heapreel recover` makes the trace whole.

Examples:
  heapreel record -o run.hreel -- ./mygame --level 3
  heapreel record -o run.hreel --frame-symbol game_frame -- ./mygame
  heapreel record -o 'run-%e-%p.hreel' --only 'mygame*' -- ./start.sh
  heapreel record --clips 300frames --frame-budget 16.67ms -o clips -- ./mygame"
)]
pub struct Args {
    /// The trace: a file, or a pattern with %p process id, %e program, %t start in seconds since 1970
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Record only programs with this name (* and ? allowed; may be repeated)
    #[arg(long, value_name = "GLOB")]
    only: Vec<String>,
    /// Keep the traces of processes with fewer than 1,000 events too
    #[arg(long)]
    keep_all: bool,
    #[command(flatten)]
    switches: Switches,
    #[command(flatten)]
    clips: ClipFlags,
    #[command(flatten)]
    symbols: SymbolFlags,
    /// The recorder's library, instead of the one that this program carries
    #[arg(long, value_name = "FILE")]
    preload_lib: Option<PathBuf>,
    /// Folder for what is not yet in the trace, instead of shared memory
    #[arg(long, value_name = "FOLDER")]
    spill_dir: Option<PathBuf>,
    /// Run a program that cannot be recorded itself, for the sake of those that it starts
    #[arg(long)]
    anyway: bool,
    /// The program and its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = false,
        required = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

/// Records; exits as the program does.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let path = locate(&args.command[0])?;
    let program = inspect(&path);
    if let Some(program) = &program {
        refuse_what_cannot_run(program)?;
        check_recordable(program, args.anyway)?;
    }
    let clipping = clipping(&args)?;
    let output = args.output.as_deref().filter(|_| clipping.is_none());
    let naming = Naming::new(output, args.force, capture::unix_seconds())?;
    let library = preload::library(args.preload_lib.as_deref(), naming.folder())?;
    let session = session(args.spill_dir.as_deref(), naming.folder())?;
    let mut command = command(&path, program.as_ref(), &args.command);
    environment::set(
        &mut command,
        session.folder(),
        Some(&library),
        &args.switches,
    );
    let capture = Capture {
        session: &session,
        naming: &naming,
        clips: clipping.as_ref(),
        only: &args.only,
        library: Some(&library),
        force: args.force,
        keep_all: args.keep_all,
        symbols: &args.symbols,
    };
    let captured = capture
        .run(&mut command)
        .map_err(|error| cannot_start(&path, &error))?;
    if let Some(clipping) = clipping {
        tell_clips(clipping);
        return Ok(captured.exit_code());
    }
    if let (Some(program), Some(main)) = (&program, captured.main())
        && let Some(line) = unseen(program, main)
    {
        eprintln!("heapreel: {line}");
    }
    if let Some(main) = captured.main() {
        for line in without_frames(&args.switches.frame_symbol, main) {
            eprintln!("heapreel: {line}");
        }
    }
    let why = || why_nothing(program.as_ref(), &args.only);
    captured.tell(why);
    Ok(captured.exit_code())
}

/// The folder for clips, where clips are wanted.
fn clipping(args: &Args) -> anyhow::Result<Option<Clipping>> {
    let folder = args.output.as_deref().unwrap_or(Path::new("clips"));
    let flags = args.symbols.clone();
    let symbolicate: Symbolicate = if flags.no_symbols {
        Box::new(|_| ())
    } else {
        Box::new(move |clip| capture::name_functions(clip, &flags))
    };
    Clipping::new(&args.clips, folder, symbolicate).map_err(|error| {
        let folder = folder.display();
        Failure::error(
            exit_code::MISUSE,
            format!("{folder}: cannot be a folder for clips: {error}; name another one by -o"),
        )
    })
}

/// Says on stderr which clips there are; the last line names the newest.
fn tell_clips(clipping: Clipping) {
    let folder = clipping.folder().display().to_string();
    let clips = clipping.finish();
    let Some(newest) = clips.last() else {
        eprintln!(
            "heapreel: {folder}: no clip was made: no frame broke a budget, nothing asked for one, nothing crashed"
        );
        return;
    };
    eprintln!("heapreel: {folder}: {}", count(clips.len() as u64, "clip"));
    let newest = capture::quoted(newest);
    eprintln!("heapreel: to read the newest: heapreel report {newest}");
}

/// A program that may be run but not read is recorded without being looked at.
fn inspect(path: &Path) -> Option<Program> {
    Program::inspect(path).ok()
}

pub fn session(place: Option<&Path>, beside: &Path) -> anyhow::Result<Session> {
    Session::create(place, beside).with_context(|| {
        let place = place.unwrap_or(Path::new("/dev/shm"));
        format!(
            "{}: no folder for records can be made there; name another one by --spill-dir",
            place.display()
        )
    })
}

/// The program under its own name; a text without `#!` by the shell, as shells do it.
fn command(path: &Path, program: Option<&Program>, words: &[OsString]) -> Command {
    let is_plain_text = program.is_some_and(|p| matches!(p.kind, Kind::Unknown));
    let mut command = if is_plain_text {
        let mut command = Command::new("/bin/sh");
        command.arg(path);
        command
    } else {
        let mut command = Command::new(path);
        command.arg0(&words[0]);
        command
    };
    command.args(&words[1..]);
    command
}

fn cannot_start(path: &Path, error: &std::io::Error) -> anyhow::Error {
    let code = match error.kind() {
        std::io::ErrorKind::NotFound => exit_code::NOT_FOUND,
        _ => exit_code::CANNOT_EXECUTE,
    };
    // The kernel says "not found" of a script whose interpreter is missing, too.
    Failure::error(
        code,
        format!("{}: cannot be started: {error}", path.display()),
    )
}

/// Refuses a program in which nothing would be seen.
fn check_recordable(program: &Program, anyway: bool) -> anyhow::Result<()> {
    let name = program.path.display();
    if let Some(interpreter) = program.interpreter() {
        // What a script starts is what matters; its interpreter may go unseen.
        if let Some(obstacle) = obstacle(&interpreter) {
            let reader = interpreter.path.display();
            eprintln!(
                "heapreel: {name}: its interpreter {reader} {}; only programs that it starts are recorded",
                obstacle.found
            );
        }
        return Ok(());
    }
    match obstacle(program) {
        Some(obstacle) if !anyway => Err(Failure::error(
            exit_code::MISUSE,
            format!(
                "{name}: {}; {} (--anyway runs it, to record programs that it starts)",
                obstacle.found, obstacle.advice
            ),
        )),
        _ => Ok(()),
    }
}

/// Why nothing can be seen in a program.
struct Obstacle {
    found: String,
    advice: &'static str,
}

fn obstacle(program: &Program) -> Option<Obstacle> {
    let obstacle = |found: &str, advice| {
        Some(Obstacle {
            found: found.to_owned(),
            advice,
        })
    };
    if let Some(privilege) = program.privilege {
        return obstacle(
            &format!("{privilege}, and the loader ignores recorders in it"),
            "record a copy of the file, which has no such right",
        );
    }
    let Kind::Elf(elf) = &program.kind else {
        return None;
    };
    match &**elf {
        Elf {
            is_32_bit: true, ..
        } => obstacle(
            "is a 32-bit program, and the recorder is made for 64 bits",
            "build the game for x86-64",
        ),
        Elf {
            is_damaged: true, ..
        } => None,
        Elf {
            is_native: false, ..
        } => obstacle("is made for another processor", "build it for this machine"),
        Elf {
            is_dynamic: false,
            has_recorder: false,
            ..
        } => obstacle(
            "is statically linked, and nothing can be loaded beside it",
            "link it dynamically, or use the heapreel crate in it",
        ),
        _ => None,
    }
}

/// A line for each function that was to end frames and ended none.
fn without_frames(symbols: &[String], main: &Finished) -> Vec<String> {
    if symbols.is_empty() {
        return Vec::new();
    }
    let Ok(trace) = Trace::open(&main.trace) else {
        return Vec::new();
    };
    let marked = marked_loops(&trace);
    let line = |name: &String| {
        let mut loops = trace.definitions().loops.iter();
        let found =
            loops.find(|(_, (_, source, symbol))| *source == FrameSource::Symbol && symbol == name);
        match found {
            None => Some(format!(
                "{name}: neither the program nor a library of it exports a function of that name, so no frame ends there"
            )),
            Some((id, _)) if !marked.contains(id) => Some(format!(
                "{name}: no call of it was seen; one from within the file that defines it cannot be"
            )),
            Some(_) => None,
        }
    };
    symbols.iter().filter_map(line).collect()
}

/// Loops with at least one frame mark.
fn marked_loops(trace: &Trace) -> HashSet<LoopId> {
    let decoded = trace.chunks().iter().filter_map(|it| trace.decode(it).ok());
    let rares = decoded.flat_map(|chunk| chunk.rares);
    rares
        .filter_map(|(.., rare)| match rare {
            Rare::FrameMark { id } => Some(id),
            _ => None,
        })
        .collect()
}

/// What the trace of a program does not have that brings its allocator along.
fn unseen(program: &Program, main: &Finished) -> Option<String> {
    let Kind::Elf(elf) = &program.kind else {
        return None;
    };
    let is_its_own = Path::new(&main.executable).file_name() == program.path.file_name();
    let few = main.counts.is_some_and(|c| c.events < WORTH_KEEPING);
    if !is_its_own || elf.has_recorder {
        return None;
    }
    match &elf.own_allocator {
        Some(own) if own.hides_blocks() => Some(format!(
            "an allocator ({}) is linked into the program: its calls are not in the trace",
            own.name
        )),
        None if few && !elf.asks_for_memory => Some(
            "the program asks no library for memory: an allocator inside it is not in the trace"
                .to_owned(),
        ),
        _ => None,
    }
}

/// The likeliest reason for an empty recording.
fn why_nothing(program: Option<&Program>, only: &[String]) -> String {
    if !only.is_empty() {
        return format!("no program's name matched --only {}", only.join(" "));
    }
    let elf = program.and_then(|program| match &program.kind {
        Kind::Elf(elf) => Some(elf),
        _ => None,
    });
    let command = program.map_or("COMMAND".into(), |p| p.path.to_string_lossy().into_owned());
    if elf.is_some_and(|elf| !elf.is_dynamic) {
        return "the program is static, and it started none that is not".to_owned();
    }
    match elf.and_then(|elf| elf.own_allocator.as_ref()) {
        Some(own) => format!(
            "an allocator ({}) is linked into the program: its calls cannot be seen",
            own.name
        ),
        None => format!("no process of it started a recorder; see `heapreel doctor {command}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    fn program(elf: Elf) -> Program {
        Program {
            path: "/games/x".into(),
            kind: Kind::Elf(Box::new(elf)),
            privilege: None,
        }
    }

    fn words(command: &Command) -> (&OsStr, Vec<&OsStr>) {
        (command.get_program(), command.get_args().collect())
    }

    fn usual() -> Elf {
        Elf {
            is_native: true,
            is_dynamic: true,
            ..Elf::default()
        }
    }

    fn refusal(elf: Elf) -> String {
        let program = program(elf);
        assert!(check_recordable(&program, true).is_ok());
        check_recordable(&program, false).unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_seen_is_refused_with_advice() {
        let found = refusal(Elf {
            is_dynamic: false,
            ..usual()
        });
        assert!(
            found.contains("statically linked") && found.contains("link it dynamically"),
            "{found}"
        );
        let found = refusal(Elf {
            is_32_bit: true,
            ..usual()
        });
        assert!(found.contains("32-bit"), "{found}");
        assert!(check_recordable(&program(usual()), false).is_ok());
        let with_crate = Elf {
            is_dynamic: false,
            has_recorder: true,
            ..usual()
        };
        assert!(check_recordable(&program(with_crate), false).is_ok());
    }

    #[test]
    fn a_text_without_a_first_line_goes_to_the_shell() {
        let script = Program {
            path: "/x/start".into(),
            kind: Kind::Unknown,
            privilege: None,
        };
        let given = ["start".into(), "-v".into()];
        let started = command(&script.path, Some(&script), &given);
        assert_eq!(
            words(&started),
            (
                OsStr::new("/bin/sh"),
                vec![OsStr::new("/x/start"), OsStr::new("-v")]
            )
        );
        let game = program(usual());
        let started = command(&game.path, Some(&game), &given);
        assert_eq!(
            words(&started),
            (OsStr::new("/games/x"), vec![OsStr::new("-v")])
        );
    }
}
