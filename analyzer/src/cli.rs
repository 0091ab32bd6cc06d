//! The command line: which commands there are, and how their help is grouped.

use crate::commands::{
    compare, contexts, demo, doctor, frag, frames, import, info, leaks, overrun, record, recover,
    replay, report, sharing, spikes, sweep, symbols, trend, view,
};
use crate::exit_code;
use crate::failure::Failure;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "heapreel", version, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a program and write every allocation of it to a trace
    Record(record::Args),
    /// Play a small game under the recorder and report on it
    Demo(demo::Args),
    /// Say beforehand what a recording of a program will show
    Doctor(doctor::Args),
    /// Tell what the game did with memory, worst findings first
    Report(report::Args),
    /// Look through a trace in the interactive viewer
    View(view::Args),
    /// Print what a trace holds and how complete it is
    Info(info::Args),
    /// List game frames with their allocations and times
    Frames(frames::Args),
    /// Find frames over budget and the calls to blame
    Spikes(spikes::Args),
    /// List what was never given back, by call site
    Leaks(leaks::Args),
    /// Group clips by the call site to blame
    Trend(trend::Args),
    /// Show what memory is for: assets, levels, entities
    Contexts(contexts::Args),
    /// Feed a trace to models of other allocators
    Replay(replay::Args),
    /// Compare models of allocators on one trace
    Compare(compare::Args),
    /// Try many values of a model's parameters
    Sweep(sweep::Args),
    /// Say who may have written at an address, and who owned it before
    Overrun(overrun::Args),
    /// Find cache lines that threads share, and how many lines and pages blocks need
    Sharing(sharing::Args),
    /// Show how scattered memory is, really or in a model
    Frag(frag::Args),
    /// Add function names to a trace that has none
    Symbols(symbols::Args),
    /// Rewrite a broken trace as a whole one
    Recover(recover::Args),
    /// Make a trace of a list of operations
    Import(import::Args),
}

/// What a person wants, and the commands that serve it.
const GROUPS: &[(&str, &[&str])] = &[
    ("Capture", &["record", "demo", "doctor"]),
    ("Look", &["report", "view", "info"]),
    (
        "Find",
        &[
            "frames", "spikes", "trend", "leaks", "contexts", "overrun", "sharing",
        ],
    ),
    ("What if", &["frag", "replay", "compare", "sweep"]),
    ("Move", &["symbols", "recover", "import"]),
];

const ABOUT: &str = "Records what a game does with memory and plays it back, frame by frame.";

const EXAMPLES: &str = "Examples:
  heapreel demo                              a small game, recorded and reported
  heapreel record -o run.hreel -- ./mygame   record your own
  heapreel run.hreel                         the same as heapreel report run.hreel";

/// Does what the arguments ask for.
///
/// # Errors
///
/// Whatever the command could not do, as one line.
pub fn run(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    quiet_when_stdout_is_closed();
    let arguments = with_command_name(arguments)?;
    match Cli::try_parse_from(&arguments) {
        Ok(cli) => dispatch(cli.command),
        Err(error) => answer(&error, &arguments),
    }
}

fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Record(args) => record::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Report(args) => report::run(args),
        Command::View(args) => view::run(args),
        Command::Info(args) => info::run(args),
        Command::Frames(args) => frames::run(args),
        Command::Spikes(args) => spikes::run(args),
        Command::Leaks(args) => leaks::run(args),
        Command::Trend(args) => trend::run(args),
        Command::Contexts(args) => contexts::run(args),
        Command::Overrun(args) => overrun::run(args),
        Command::Sharing(args) => sharing::run(args),
        Command::Frag(args) => frag::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Sweep(args) => sweep::run(args),
        Command::Symbols(args) => symbols::run(args),
        Command::Recover(args) => recover::run(args),
        Command::Import(args) => import::run(args),
    }
}

/// `heapreel TRACE` means `heapreel report TRACE`; any other unknown word is a
/// mistyped command.
fn with_command_name(mut arguments: Vec<OsString>) -> anyhow::Result<Vec<OsString>> {
    let Some(first) = arguments.get(1) else {
        return Ok(arguments);
    };
    if first.as_encoded_bytes().starts_with(b"-") || is_command(first) {
        return Ok(arguments);
    }
    if looks_like_a_file(first) {
        arguments.insert(1, "report".into());
        return Ok(arguments);
    }
    Err(unknown_command(&first.to_string_lossy()))
}

fn is_command(word: &OsStr) -> bool {
    command_names().any(|name| word == OsStr::new(&name))
}

fn looks_like_a_file(word: &OsStr) -> bool {
    let path = Path::new(word);
    path.extension().is_some() || path.components().count() > 1 || path.exists()
}

fn unknown_command(word: &str) -> anyhow::Error {
    let advice = match nearest(word) {
        Some(name) => format!("did you mean `heapreel {name}`?"),
        None => "see `heapreel --help`".to_owned(),
    };
    let message = format!("{word:?} is neither a command nor a file; {advice}");
    Failure::error(exit_code::MISUSE, message)
}

/// The command that is most like `word`, if any is like it at all.
fn nearest(word: &str) -> Option<String> {
    let likeness = |name: &String| strsim::jaro_winkler(word, name);
    command_names()
        .map(|name| (likeness(&name), name))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

fn command_names() -> impl Iterator<Item = String> {
    let command = Cli::command();
    let names: Vec<_> = command
        .get_subcommands()
        .map(|c| c.get_name().to_owned())
        .collect();
    names.into_iter()
}

/// Help and version go to stdout; any mistake becomes one line.
fn answer(error: &clap::Error, arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    match error.kind() {
        ErrorKind::DisplayHelp if arguments.get(1).is_none_or(|a| !is_command(a)) => {
            print!("{}", grouped_help());
            Ok(ExitCode::from(exit_code::FINE))
        }
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            error.print()?;
            Ok(ExitCode::from(exit_code::FINE))
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if arguments.len() < 2 => {
            eprint!("{}", grouped_help());
            Ok(ExitCode::from(exit_code::MISUSE))
        }
        _ => Err(Failure::error(
            exit_code::MISUSE,
            one_line(&error.render().to_string(), arguments),
        )),
    }
}

/// clap's paragraphs as one line: what is wrong, the tip, where to read on.
fn one_line(rendered: &str, arguments: &[OsString]) -> String {
    let told = rendered
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
        .filter(|line| !line.is_empty());
    let mut line = String::new();
    for part in told {
        let part = part.strip_prefix("error: ").unwrap_or(part);
        let gap = if line.is_empty() {
            ""
        } else if line.ends_with(':') {
            " "
        } else {
            "; "
        };
        let _ = write!(line, "{gap}{part}");
    }
    match arguments.get(1).filter(|a| is_command(a)) {
        Some(name) => {
            let _ = write!(line, "; see `heapreel {} --help`", name.to_string_lossy());
        }
        None => line.push_str("; see `heapreel --help`"),
    }
    line
}

/// The first page of help: commands by what a person wants.
fn grouped_help() -> String {
    let cli = Cli::command();
    let mut help = format!("{ABOUT}\n\nUsage: heapreel COMMAND …\n       heapreel TRACE\n");
    for (group, names) in GROUPS {
        let _ = write!(help, "\n{group}\n");
        for name in *names {
            let about = cli
                .find_subcommand(name)
                .and_then(|c| c.get_about())
                .map(ToString::to_string)
                .unwrap_or_default();
            let _ = writeln!(help, "  {name:<9} {about}");
        }
    }
    let _ = write!(
        help,
        "\nEach command has its own page: heapreel COMMAND --help\n\n{EXAMPLES}\n"
    );
    help
}

/// A reader that closed our stdout (`heapreel frames t.hreel | head`) ends the
/// program without a word, also where the text was printed by `println!`.
fn quiet_when_stdout_is_closed() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let told = panic.payload_as_str().unwrap_or_default();
        if told.starts_with("failed printing to stdout") && told.contains("Broken pipe") {
            std::process::exit(exit_code::FINE.into());
        }
        usual(panic);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_stands_in_one_group() {
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).collect();
        let mut names: Vec<_> = command_names().collect();
        grouped.sort();
        names.sort();
        assert_eq!(
            grouped,
            names
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .iter()
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn every_command_ends_its_help_with_two_examples() {
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            let help = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            let examples = help
                .lines()
                .filter(|line| line.trim().starts_with(&format!("heapreel {name}")));
            assert!(examples.count() >= 2, "{name}: {help:?}");
        }
    }

    #[test]
    fn a_trace_alone_is_reported() {
        let arguments = with_command_name(words("heapreel run.hreel")).unwrap();
        assert_eq!(arguments, words("heapreel report run.hreel"));
        let arguments = with_command_name(words("heapreel info run.hreel")).unwrap();
        assert_eq!(arguments, words("heapreel info run.hreel"));
    }

    #[test]
    fn a_mistyped_command_is_recognised() {
        let error = with_command_name(words("heapreel recrod x")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"recrod\" is neither a command nor a file; did you mean `heapreel record`?"
        );
        let error = with_command_name(words("heapreel qqq")).unwrap_err();
        assert!(
            error.to_string().ends_with("see `heapreel --help`"),
            "{error}"
        );
    }

    #[test]
    fn a_mistake_is_told_in_one_line() {
        let arguments = words("heapreel record --depth x prog");
        let error = run(arguments).unwrap_err().to_string();
        assert!(
            !error.contains('\n') && error.ends_with("see `heapreel record --help`"),
            "{error}"
        );
    }
}
