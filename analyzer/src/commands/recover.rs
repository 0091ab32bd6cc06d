//! `heapreel recover`: rewrites a broken trace, and what lies in its spill, as a whole one.

use super::capture::quoted;
use super::output::{refuse_to_overwrite, write_whole};
use super::text::count;
use anyhow::{Context, bail};
use heapreel_format::{Recovered, Trace, recover};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Flags of `heapreel recover`.
#[derive(clap::Args)]
#[command(
    after_help = "A trace needs this when the computer, the game or heapreel itself was killed and you want \
one file with everything: reading such a trace works without. Damaged parts are left out, and said to be.

Examples:
  heapreel recover run.hreel
  heapreel recover run.hreel -o whole.hreel --remove-spill"
)]
pub struct Args {
    /// The broken trace
    trace: PathBuf,
    /// The whole one [default: TRACE with .recovered before its extension]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
    /// Remove the spill afterwards: the shared memory that the recording left
    #[arg(long)]
    remove_spill: bool,
}

/// Recovers and says what is missing.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let name = args.trace.display();
    let trace = Trace::open(&args.trace).map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
    if trace.health().running {
        bail!("{name}: its program is still running; recover it when that has ended");
    }
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| recovered_name(&args.trace));
    refuse_to_overwrite(&args.trace, &output, args.force)?;
    let recovered = write_whole(&output, |sink| Ok(recover(&trace, sink)?))?;
    tell(&trace, &recovered, &output);
    if args.remove_spill {
        remove_spill(&trace.header().spill)?;
    } else if Path::new(&trace.header().spill).exists() {
        eprintln!(
            "heapreel: the spill {} is kept; --remove-spill removes it",
            trace.header().spill
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// `run.hreel` becomes `run.recovered.hreel`.
fn recovered_name(trace: &Path) -> PathBuf {
    let extension = trace
        .extension()
        .map_or("hreel".into(), |e| e.to_string_lossy().into_owned());
    trace.with_extension(format!("recovered.{extension}"))
}

fn tell(trace: &Trace, recovered: &Recovered, output: &Path) {
    let missing = recovered.missing_records;
    println!(
        "{}: {} saved, {}",
        output.display(),
        count(recovered.records, "record"),
        if missing == 0 {
            "none known to be missing".to_owned()
        } else {
            format!("{} missing", count(missing, "record"))
        }
    );
    if recovered.damaged_chunks > 0 {
        println!(
            "  {} left out: damaged inside",
            count(recovered.damaged_chunks, "chunk")
        );
    }
    for remark in trace.health().remarks() {
        println!("  {remark}");
    }
    println!("next: heapreel report {}", quoted(output));
}

/// The spill and, if that was the last one in it, its session's folder.
fn remove_spill(spill: &str) -> anyhow::Result<()> {
    if spill.is_empty() || !Path::new(spill).exists() {
        return Ok(());
    }
    if !spill.ends_with(".spill") {
        bail!("{spill}: does not look like a spill; remove it yourself if it is one");
    }
    fs::remove_file(spill).with_context(|| spill.to_owned())?;
    let folder = Path::new(spill).parent();
    let is_session = |folder: &&Path| {
        folder
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("heapreel-"))
    };
    if let Some(folder) = folder.filter(is_session) {
        // Fails where other spills are left in it, which is meant.
        _ = fs::remove_dir(folder);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapreel_format::testing;

    fn args(trace: &Path) -> Args {
        Args {
            trace: trace.to_owned(),
            output: None,
            force: false,
            remove_spill: false,
        }
    }

    #[test]
    fn a_cut_trace_becomes_whole() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("run.hreel");
        let bytes = testing::small_trace();
        fs::write(&trace, &bytes[..bytes.len() - 3]).unwrap();
        run(args(&trace)).unwrap();
        let whole = Trace::open(&folder.path().join("run.recovered.hreel")).unwrap();
        assert!(!whole.health().cut && whole.health().ended.is_some());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn nothing_is_overwritten_unasked() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("run.hreel");
        fs::write(&trace, testing::small_trace()).unwrap();
        let there = folder.path().join("run.recovered.hreel");
        fs::write(&there, "precious").unwrap();
        assert!(
            run(args(&trace))
                .unwrap_err()
                .to_string()
                .contains("--force")
        );
        assert_eq!(fs::read(&there).unwrap(), b"precious");
        let onto_itself = Args {
            output: Some(trace.clone()),
            force: true,
            ..args(&trace)
        };
        assert!(run(onto_itself).is_err());
        run(Args {
            force: true,
            ..args(&trace)
        })
        .unwrap();
        assert!(Trace::open(&there).is_ok());
    }

    #[test]
    fn only_what_looks_like_a_spill_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let session = folder.path().join("heapreel-1-0");
        fs::create_dir(&session).unwrap();
        let spill = session.join("2-aa.spill");
        fs::write(&spill, "x").unwrap();
        remove_spill(spill.to_str().unwrap()).unwrap();
        assert!(!session.exists());
        let other = folder.path().join("letter.txt");
        fs::write(&other, "x").unwrap();
        assert!(remove_spill(other.to_str().unwrap()).is_err());
        assert!(other.exists());
        remove_spill("").unwrap();
    }
}
