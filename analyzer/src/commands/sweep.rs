//! `heapreel sweep`: one model with many values of its parameters.

use super::analysis::{finish_trace, print, print_json};
use super::models::{ModelArgs, Stage};
use anyhow::bail;
use heapreel_analyzer::report::sweep_document;
use heapreel_analyzer::what_if::{
    Choice, Configuration, ModelName, Run, Setting, Swept, SweptRow, Vary, combinations, mark_best,
    report,
};
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs over one decode: each has a thread and its books.
const MOST: usize = 256;

/// Flags of `heapreel sweep`.
#[derive(clap::Args)]
#[command(
    after_help = "All combinations are replayed over one decode. Those that nothing beats are marked with *: none of
the others holds less with as few system calls. A range's end is excluded, 12..=18 includes it.

Examples:
  heapreel sweep run.hreel --model virtual --vary virtual.lru_entries=0,8,16,32,64
  heapreel sweep run.hreel --vary virtual.slice_shift=12..18 --vary virtual.lru_entries=0,16"
)]
pub struct Args {
    /// The trace
    trace: PathBuf,
    #[command(flatten)]
    models: ModelArgs,
    /// Values of a parameter to try: MODEL.PARAMETER=0,8,16 or =12..18
    #[arg(long, value_name = "PARAMETER=VALUES", required = true)]
    vary: Vec<Vary>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Replays all combinations.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let choice = args
        .models
        .only("sweep varies one model", ModelName::Virtual)?;
    let combined = combinations(&args.vary);
    if combined.len() > MOST {
        bail!(
            "{} combinations; sweep tries {MOST} at most",
            combined.len()
        );
    }
    let configuration = args.models.configuration()?;
    let stage = Stage::open(&args.trace)?;
    let swept = sweep(&stage, &choice, &configuration, combined)?;
    if args.json {
        print_json(&swept)?;
    } else {
        print(&sweep_document(&swept))?;
    }
    Ok(finish_trace(&stage.file, &stage.trace))
}

fn sweep(
    stage: &Stage,
    choice: &Choice,
    configuration: &Configuration,
    combined: Vec<Vec<Setting>>,
) -> anyhow::Result<Swept> {
    let named = |it: &Setting| format!("{}.{}", it.model.name(), it.name);
    let parameters = combined
        .first()
        .map_or_else(Vec::new, |settings| settings.iter().map(named).collect());
    let (mut runs, mut refused) = (Vec::new(), Vec::new());
    for settings in combined {
        let values: Vec<String> = settings.iter().map(|it| it.value.clone()).collect();
        let mut configuration = configuration.clone();
        configuration.settings.extend(settings);
        match stage.run(choice, &configuration) {
            Ok(run) => runs.push((run, values)),
            Err(error) => refused.push((values, error)),
        }
    }
    let Some(_) = runs.first() else {
        return Err(refused.swap_remove(0).1);
    };
    let (runs, values): (Vec<Run>, Vec<_>) = runs.into_iter().unzip();
    let (runs, fed) = stage.replay(runs.into_iter().map(|run| (run, ())).collect())?;
    let runs: Vec<Run> = runs.into_iter().map(|(run, ())| run).collect();
    let replayed = report(&stage.file, &stage.trace, &stage.scene, &runs, fed);
    let rows = values.into_iter().zip(&replayed.models);
    let mut rows: Vec<_> = rows.map(|(values, it)| SweptRow::new(values, it)).collect();
    mark_best(&mut rows);
    Ok(Swept {
        trace: stage.file.clone(),
        model: choice.to_string(),
        parameters,
        rows,
        refused: refused
            .into_iter()
            .map(|(values, error)| (values, error.to_string()))
            .collect(),
    })
}
