//! `heapreel sweep`: one model with many values of its parameters.

use super::analysis::{finish_trace, print, print_json};
use super::models::{ModelArgs, Stage};
use anyhow::bail;
use heapreel_analyzer::report::sweep_document;
use heapreel_analyzer::what_if::{
    Choice, Configuration, HeldMost, ModelName, Run, Setting, Swept, SweptRow, Vary, combinations,
    held_by_size, mark_best, report,
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

/// A combination whose run can be made.
struct Tried {
    values: Vec<String>,
    configuration: Configuration,
    run: Run,
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
    let (mut tried, mut refused) = (Vec::new(), Vec::new());
    for settings in combined {
        let values: Vec<String> = settings.iter().map(|it| it.value.clone()).collect();
        let mut configuration = configuration.clone();
        configuration.settings.extend(settings);
        match stage.run(choice, &configuration) {
            Ok(run) => tried.push(Tried {
                values,
                configuration,
                run,
            }),
            Err(error) => refused.push((values, error)),
        }
    }
    if tried.is_empty() {
        return Err(refused.swap_remove(0).1);
    }
    Ok(Swept {
        trace: stage.file.clone(),
        model: choice.to_string(),
        parameters,
        rows: rows(stage, choice, tried)?,
        refused: refused
            .into_iter()
            .map(|(values, error)| (values, error.to_string()))
            .collect(),
    })
}

/// Replays all, and those that nothing beats once more, to where they hold most.
fn rows(stage: &Stage, choice: &Choice, tried: Vec<Tried>) -> anyhow::Result<Vec<SweptRow>> {
    let (mut names, mut runs) = (Vec::new(), Vec::new());
    for it in tried {
        names.push((it.values, it.configuration));
        runs.push((it.run, HeldMost::default()));
    }
    let (runs, fed) = stage.replay(runs)?;
    let (runs, peaks): (Vec<Run>, Vec<HeldMost>) = runs.into_iter().unzip();
    let replayed = report(&stage.file, &stage.trace, &stage.scene, &runs, fed);
    drop(runs);
    let named = names.iter().zip(&replayed.models);
    let mut rows: Vec<_> = named
        .map(|((values, _), it)| SweptRow::new(values.clone(), it))
        .collect();
    mark_best(&mut rows);
    let best: Vec<usize> = (0..rows.len()).filter(|at| rows[*at].best).collect();
    let again = best.iter().map(|&at| {
        let run = stage.run(choice, &names[at].1)?;
        Ok((run, peaks[at].until()))
    });
    let (again, _) = stage.replay(again.collect::<anyhow::Result<Vec<_>>>()?)?;
    for (at, (run, _)) in best.into_iter().zip(&again) {
        rows[at].at_peak = Some(held_by_size(run));
    }
    Ok(rows)
}
