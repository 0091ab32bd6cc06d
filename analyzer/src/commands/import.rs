//! `heapreel import`: makes a trace of what others wrote down.

use super::output::{refuse_to_overwrite, write_whole};
use super::text::count;
use anyhow::Context;
use heapreel_analyzer::import::{BadLine, parse_ops, write_ops};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bad lines that are told one by one.
const TOLD: usize = 20;

/// Flags of `heapreel import`.
#[derive(clap::Args)]
#[command(after_help = "Formats:
  ops   one operation a line: a THREAD ID SIZE allocates, A THREAD ID SIZE ALIGN allocates aligned,
        r THREAD ID SIZE reallocates, f THREAD ID frees, x THREAD is a thread's exit, m THREAD ends a
        frame, t THREAD ROLE says critical or background. All lines may leave THREAD out. Calls may
        end with took=60ns by=FUNCTION in=SEGMENT, frames with took=16.67ms. Addresses are made up.

Examples:
  heapreel import --from ops list.txt -o list.hreel
  heapreel import --from ops list.txt -o list.hreel --force")]
pub struct Args {
    /// The file to read
    file: PathBuf,
    /// Its format
    #[arg(long, value_name = "FORMAT")]
    from: From,
    /// The trace to write
    #[arg(short, long, value_name = "TRACE")]
    output: PathBuf,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum From {
    /// One operation a line
    Ops,
}

/// Imports and says what came of it.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let name = args.file.display().to_string();
    let From::Ops = args.from;
    refuse_to_overwrite(&args.file, &args.output, args.force)?;
    let text = std::fs::read_to_string(&args.file).with_context(|| name.clone())?;
    let ops = parse_ops(&text).map_err(|bad| refused(&name, &bad))?;
    let source = file_name(&args.file);
    let done = write_whole(&args.output, |sink| Ok(write_ops(&ops, &source, sink)?))?;
    println!(
        "{}: {} by {}, {} never freed",
        args.output.display(),
        count(done.events, "event"),
        count(u64::from(done.threads), "thread"),
        count(done.live, "block"),
    );
    Ok(ExitCode::SUCCESS)
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// All bad lines but the last that is told go to stderr here, that one is the error.
fn refused(file: &str, bad: &[BadLine]) -> anyhow::Error {
    let (last, others) = bad.split_last().expect("a refusal has a cause");
    if bad.len() <= TOLD {
        others.iter().for_each(|line| tell(file, line));
        return anyhow::anyhow!("{file}: {last}");
    }
    bad[..TOLD].iter().for_each(|line| tell(file, line));
    anyhow::anyhow!(
        "{file}: and {} more",
        count((bad.len() - TOLD) as u64, "bad line")
    )
}

fn tell(file: &str, line: &BadLine) {
    eprintln!("heapreel: {file}: {line}");
}
