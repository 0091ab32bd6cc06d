//! `heapreel symbols`: adds function names to a trace.

use super::capture::add_symbols;
use super::text::{grouped, parse_duration};
use heapreel_analyzer::symbolicate::{ModuleNames, Symbolicated};
use heapreel_analyzer::symbols::Options;
use heapreel_format::Trace;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

/// Flags of `heapreel symbols`.
#[derive(clap::Args)]
#[command(
    after_help = "Names are appended to the trace; its events stay as they are. A file that is another \
build than the one recorded is never used.

Examples:
  heapreel symbols run.hreel
  heapreel symbols run.hreel --path build/unstripped --path /usr/lib/debug"
)]
pub struct Args {
    /// The trace
    trace: PathBuf,
    /// Also look for binaries and debug files in this folder (may be repeated)
    #[arg(long, value_name = "FOLDER")]
    path: Vec<PathBuf>,
    /// Look no longer than this
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    time: Option<Duration>,
    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,
}

/// Adds names and says which modules lack them, and why.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let options = Options {
        search: args.path.clone(),
        deadline: args.time.map(|time| Instant::now() + time),
        recorded_until: recorded_until(&args.trace)?,
        ..Options::default()
    };
    let done = add_symbols(&args.trace, &options)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &as_json(&done))?;
        writeln!(out)?;
    } else {
        print(&mut out, &args.trace, &done)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// When recording ended: files changed since then are not to be trusted.
fn recorded_until(path: &Path) -> anyhow::Result<Option<SystemTime>> {
    let trace =
        Trace::open(path).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    let clock = trace.header().clock;
    let last = trace
        .chunks()
        .iter()
        .map(|chunk| chunk.header.last_key.max(chunk.header.first_key))
        .max();
    let since_start = last.map_or(0.0, |last| clock.nanos_since_start(last).max(0.0));
    let nanos = clock.start_unix_nanos.saturating_add(since_start as u64);
    // The file's own time is later by what the end took, and is no older than that.
    let until = SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos);
    Ok(Some(until + Duration::from_secs(1)))
}

fn print(out: &mut impl Write, trace: &Path, done: &Symbolicated) -> std::io::Result<()> {
    writeln!(
        out,
        "{}: {} of {} addresses have names",
        trace.display(),
        grouped(done.named() as u64),
        grouped(done.addresses() as u64)
    )?;
    for module in done.modules.iter().filter(|m| is_incomplete(m)) {
        writeln!(
            out,
            "  {}: {} of {} named; {}",
            module.path,
            grouped(module.named as u64),
            grouped(module.addresses as u64),
            module.outcome
        )?;
    }
    if done.homeless > 0 {
        writeln!(
            out,
            "  {} addresses lie in no module: code made at run time",
            grouped(done.homeless as u64)
        )?;
    }
    Ok(())
}

fn is_incomplete(module: &ModuleNames) -> bool {
    module.named < module.addresses || module.outcome.is_incomplete()
}

fn as_json(done: &Symbolicated) -> serde_json::Value {
    let modules: Vec<_> = done
        .modules
        .iter()
        .map(|module| {
            serde_json::json!({
                "path": module.path,
                "addresses": module.addresses,
                "named": module.named,
                "complete": !is_incomplete(module),
                "outcome": module.outcome.to_string(),
            })
        })
        .collect();
    serde_json::json!({
        "addresses": done.addresses(),
        "named": done.named(),
        "outside_modules": done.homeless,
        "skipped": done.skipped(),
        "modules": modules,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapreel_format::testing::TraceBuilder;
    use heapreel_format::{Definition, Entry};

    #[test]
    fn a_trace_only_grows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.hreel");
        let bytes = TraceBuilder::new()
            .define(Definition::Module {
                id: 1,
                generation: 0,
                path: "/no/such/file".into(),
                bias: 0,
                start: 0x1000,
                end: 0x2000,
                build_id: Vec::new().into(),
                key: 0,
            })
            .stack(1, Entry::Malloc, &[0x1010])
            .alloc(1, 2_000, 2_050, 0x7f00_0000, 24, 1)
            .bytes();
        std::fs::write(&path, &bytes).unwrap();
        run(Args {
            trace: path.clone(),
            path: Vec::new(),
            time: None,
            json: false,
        })
        .unwrap();
        let grown = std::fs::read(&path).unwrap();
        assert!(grown.starts_with(&bytes) && grown.len() > bytes.len());
        let trace = Trace::open(&path).unwrap();
        assert_eq!(trace.symbols().remarks.len(), 1);
        assert!(trace.health().complete());
    }
}
