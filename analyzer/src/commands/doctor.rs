//! `heapreel doctor`: what a recording of a program will show, said beforehand.

use super::program::{locate, refuse_what_cannot_run};
use crate::exit_code;
use crate::inspect::{Elf, Kind, OwnAllocator, Program, known_by_library};
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Flags of `heapreel doctor`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  heapreel doctor ./mygame
  heapreel doctor --json -- ./start.sh --fullscreen")]
pub struct Args {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    /// The program; arguments behind it are allowed and not looked at
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// One thing that was looked at.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Finding {
    /// Short name of what was looked at.
    about: &'static str,
    /// What it means for a recording.
    verdict: Verdict,
    /// What was found.
    found: String,
    /// What to do about it; empty where nothing needs to be done.
    advice: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// As it should be.
    Good,
    /// Something will be missing.
    Partly,
    /// Nothing can be recorded.
    Blocked,
}

#[derive(Serialize)]
struct Answer<'a> {
    program: &'a str,
    /// A recording will see the program's allocations.
    recordable: bool,
    findings: &'a [Finding],
    /// Facts of the file that runs in the end.
    elf: Option<&'a Elf>,
}

/// Looks at the program and prints one line for each finding.
///
/// Exits with [`exit_code::CHECK_FAILED`] where nothing could be recorded.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let path = locate(&args.command[0])?;
    let program = Program::inspect(&path).map_err(|error| {
        anyhow::anyhow!(
            "{}: cannot be read: {error}; doctor has to read the program",
            path.display()
        )
    })?;
    refuse_what_cannot_run(&program)?;
    let interpreter = program.interpreter();
    let findings = examine(&program, interpreter.as_ref());
    let recordable = findings.iter().all(|f| f.verdict != Verdict::Blocked);
    let answer = Answer {
        program: &path.to_string_lossy(),
        recordable,
        findings: &findings,
        elf: elf_of(interpreter.as_ref().unwrap_or(&program)),
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &answer)?;
        writeln!(out)?;
    } else {
        print(&mut out, &answer)?;
    }
    Ok(ExitCode::from(if recordable {
        exit_code::FINE
    } else {
        exit_code::CHECK_FAILED
    }))
}

fn print(out: &mut impl Write, answer: &Answer<'_>) -> std::io::Result<()> {
    writeln!(out, "{}", answer.program)?;
    for finding in answer.findings {
        let sign = match finding.verdict {
            Verdict::Good => "ok",
            Verdict::Partly => "note",
            Verdict::Blocked => "NO",
        };
        write!(out, "  {sign:<5}{:<16}{}", finding.about, finding.found)?;
        if !finding.advice.is_empty() {
            write!(out, "; {}", finding.advice)?;
        }
        writeln!(out)?;
    }
    let next = if answer.recordable {
        format!(
            "record it: heapreel record -o run.hreel -- {}",
            answer.program
        )
    } else {
        "it cannot be recorded as it is".to_owned()
    };
    writeln!(out, "{next}")
}

fn elf_of(program: &Program) -> Option<&Elf> {
    match &program.kind {
        Kind::Elf(elf) => Some(elf),
        _ => None,
    }
}

fn examine(program: &Program, interpreter: Option<&Program>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let target = match &program.kind {
        Kind::Elf(_) => program,
        Kind::Script(_) | Kind::Unknown => {
            findings.push(script(interpreter));
            match interpreter {
                Some(interpreter) => interpreter,
                None => return findings,
            }
        }
    };
    if let Some(privilege) = target.privilege {
        findings.push(blocked(
            "rights",
            format!("{privilege}: the loader ignores recorders in it"),
            "record a copy of the file without that right",
        ));
    }
    match &target.kind {
        // Of a script's interpreter only matters whether it passes the recorder on.
        Kind::Elf(elf) if !std::ptr::eq(target, program) => findings.push(linkage(elf)),
        Kind::Elf(elf) => examine_elf(elf, &mut findings),
        _ => findings.push(blocked(
            "file",
            "is no program of this system".to_owned(),
            "name the program itself",
        )),
    }
    if let (Some(name), false) = (interpreter_name(target), findings.is_empty())
        && name.starts_with("python")
    {
        findings.push(partly(
            "interpreter",
            "Python keeps small objects in arenas of its own".to_owned(),
            "set PYTHONMALLOC=malloc to see each object",
        ));
    }
    findings
}

fn interpreter_name(program: &Program) -> Option<String> {
    Some(program.path.file_name()?.to_string_lossy().into_owned())
}

fn script(interpreter: Option<&Program>) -> Finding {
    match interpreter {
        Some(program) => good(
            "script",
            format!(
                "read by {}; what it starts is followed (see doctor of that program)",
                program.path.display()
            ),
        ),
        None => blocked(
            "script",
            "its interpreter is not there or cannot be read".to_owned(),
            "install it, or name the program that the script starts",
        ),
    }
}

fn examine_elf(elf: &Elf, findings: &mut Vec<Finding>) {
    findings.push(linkage(elf));
    if findings.iter().any(|f| f.verdict == Verdict::Blocked) {
        return;
    }
    findings.push(allocator(elf));
    findings.push(names(elf));
    findings.push(stacks(elf));
    findings.push(frames(elf));
}

fn linkage(elf: &Elf) -> Finding {
    let about = "linked";
    if elf.is_damaged {
        return blocked(about, "the file is damaged".to_owned(), "build it again");
    }
    if elf.is_32_bit {
        let found = "a 32-bit program: the recorder is made for 64 bits".to_owned();
        return blocked(about, found, "build the game for x86-64");
    }
    if !elf.is_native {
        let found = "made for another processor".to_owned();
        return blocked(about, found, "build it for this machine");
    }
    match (elf.is_dynamic, elf.has_recorder) {
        (true, false) => good(
            about,
            "dynamically: a recorder can be loaded beside it".to_owned(),
        ),
        (_, true) => good(
            about,
            "with the heapreel crate inside, which records by itself".to_owned(),
        ),
        (false, false) => blocked(
            about,
            "statically: nothing can be loaded beside it".to_owned(),
            "link it dynamically, or use the heapreel crate in it",
        ),
    }
}

fn allocator(elf: &Elf) -> Finding {
    let about = "allocator";
    if elf.has_recorder {
        return good(about, "the one that the heapreel crate wraps".to_owned());
    }
    if let Some(own) = &elf.own_allocator {
        return own_allocator(own);
    }
    match elf.libraries.iter().find_map(|l| known_by_library(l)) {
        Some(name) => good(about, format!("{name}, as a library: its calls are seen")),
        None => good(about, "the C library's: every call is seen".to_owned()),
    }
}

fn own_allocator(own: &OwnAllocator) -> Finding {
    let about = "allocator";
    if own.c_functions.is_empty() && own.operator_new && own.name == "its own" {
        return partly(
            about,
            "it replaces operator new: only what lies beneath is seen, if that calls malloc"
                .to_owned(),
            "announce its pools through heapreel.h to see each object",
        );
    }
    let functions = if own.c_functions.is_empty() {
        String::new()
    } else {
        format!(" ({})", own.c_functions.join(", "))
    };
    partly(
        about,
        format!(
            "{} is linked into it{functions}: those calls are not seen",
            own.name
        ),
        "link it as a library, or wrap it with heapreel::Recorder::new in a Rust game",
    )
}

fn names(elf: &Elf) -> Finding {
    let about = "names";
    match (elf.is_stripped, elf.has_lines) {
        (_, true) => good(
            about,
            "functions, inlined calls and source lines".to_owned(),
        ),
        (false, false) => partly(
            about,
            "functions without source lines".to_owned(),
            "compile with -g, or debug = \"line-tables-only\" in Cargo.toml",
        ),
        (true, false) => {
            let build_id = elf
                .build_id
                .as_deref()
                .map_or("it has no build-id either".to_owned(), |id| {
                    format!("debug files are found by build-id {id}")
                });
            partly(
                about,
                format!("stripped; {build_id}"),
                "keep the unstripped file and run heapreel symbols TRACE --path FOLDER",
            )
        }
    }
}

fn stacks(elf: &Elf) -> Finding {
    let about = "backtraces";
    let pointers = match elf.frame_pointers.kept() {
        Some(true) => "kept",
        Some(false) => "left out, which does not matter",
        None => "not judged",
    };
    if elf.has_unwind_tables {
        return good(
            about,
            format!("by unwind tables (frame pointers: {pointers})"),
        );
    }
    partly(
        about,
        format!("no unwind tables (frame pointers: {pointers}): they end in this program"),
        "compile with -fasynchronous-unwind-tables",
    )
}

fn frames(elf: &Elf) -> Finding {
    let about = "game frames";
    if elf.frame_calls.interface || elf.has_recorder {
        return good(about, "marked by the game itself".to_owned());
    }
    let how = "call heapreel_frame_mark() of heapreel.h once a frame";
    if elf.frame_calls.picture_libraries.is_empty() {
        return partly(about, "nothing marks them".to_owned(), how);
    }
    let libraries = elf.frame_calls.picture_libraries.join(", ");
    partly(
        about,
        format!(
            "nothing marks them; pictures shown through {libraries} will be recognised in a later version"
        ),
        how,
    )
}

fn good(about: &'static str, found: String) -> Finding {
    finding(about, Verdict::Good, found, "")
}

fn partly(about: &'static str, found: String, advice: &str) -> Finding {
    finding(about, Verdict::Partly, found, advice)
}

fn blocked(about: &'static str, found: String, advice: &str) -> Finding {
    finding(about, Verdict::Blocked, found, advice)
}

fn finding(about: &'static str, verdict: Verdict, found: String, advice: &str) -> Finding {
    Finding {
        about,
        verdict,
        found,
        advice: advice.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::FrameCalls;

    fn usual() -> Elf {
        Elf {
            is_native: true,
            is_dynamic: true,
            has_lines: true,
            has_unwind_tables: true,
            frame_calls: FrameCalls {
                interface: true,
                picture_libraries: Vec::new(),
            },
            ..Elf::default()
        }
    }

    fn verdicts(elf: Elf) -> Vec<(&'static str, Verdict)> {
        let program = Program {
            path: "/games/x".into(),
            kind: Kind::Elf(Box::new(elf)),
            privilege: None,
        };
        examine(&program, None)
            .iter()
            .map(|f| (f.about, f.verdict))
            .collect()
    }

    #[test]
    fn a_usual_program_is_good_in_all_points() {
        let verdicts = verdicts(usual());
        assert_eq!(verdicts.len(), 5);
        assert!(verdicts.iter().all(|(_, v)| *v == Verdict::Good));
    }

    #[test]
    fn a_static_program_is_blocked_and_nothing_else_is_said() {
        let elf = Elf {
            is_dynamic: false,
            ..usual()
        };
        assert_eq!(verdicts(elf), [("linked", Verdict::Blocked)]);
    }

    #[test]
    fn a_static_program_with_the_crate_inside_is_fine() {
        let elf = Elf {
            is_dynamic: false,
            has_recorder: true,
            ..usual()
        };
        assert!(verdicts(elf).iter().all(|(_, v)| *v == Verdict::Good));
    }

    #[test]
    fn what_will_be_missing_is_noted() {
        let elf = Elf {
            is_stripped: true,
            has_lines: false,
            has_unwind_tables: false,
            frame_calls: FrameCalls::default(),
            own_allocator: Some(OwnAllocator {
                name: "jemalloc".to_owned(),
                c_functions: Vec::new(),
                operator_new: false,
            }),
            ..usual()
        };
        let notes = verdicts(elf);
        for about in ["allocator", "names", "backtraces", "game frames"] {
            assert!(notes.contains(&(about, Verdict::Partly)), "{about}");
        }
    }
}
