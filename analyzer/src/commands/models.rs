//! What the commands share that replay a trace through models.

use super::analysis::Bar;
use anyhow::{Context, bail};
use heapreel_analyzer::what_if::{
    Choice, Configuration, Fed, ModelName, Replayed, Run, Scene, Setting, Watch, build, replay,
    report,
};
use heapreel_format::Trace;
use std::path::{Path, PathBuf};

/// Which models, and how they are set.
#[derive(clap::Args)]
pub struct ModelArgs {
    /// Models, separated by commas: heap, virtual, mimalloc, arena, pool, recorded, each also with
    /// a preset as virtual:capcom4; layout is the layout as it stands in its file
    #[arg(long, value_name = "NAME[:PRESET]", value_delimiter = ',')]
    model: Vec<Choice>,
    /// A file with parameters in [model.NAME] and rules in [layout]; a model named by --model serves
    /// what no rule sends elsewhere
    #[arg(long, value_name = "FILE")]
    layout: Option<PathBuf>,
    /// Sets a parameter: virtual.lru_entries=64
    #[arg(long = "set", value_name = "MODEL.PARAMETER=VALUE")]
    settings: Vec<Setting>,
}

impl ModelArgs {
    /// The models that are asked for; `default` where none is.
    ///
    /// # Errors
    ///
    /// The same model twice.
    pub fn choices(&self, default: &[ModelName]) -> anyhow::Result<Vec<Choice>> {
        let plain = |model| Choice {
            model,
            preset: None,
        };
        let choices = match (self.model.as_slice(), &self.layout) {
            ([], Some(_)) => vec![plain(ModelName::Layout)],
            ([], None) => default.iter().copied().map(plain).collect(),
            (named, _) => named.to_vec(),
        };
        if choices.is_empty() {
            bail!("no model: name one by --model, such as --model virtual");
        }
        for (at, choice) in choices.iter().enumerate() {
            if choices[..at].contains(choice) {
                bail!("--model names {choice} twice");
            }
        }
        Ok(choices)
    }

    /// The one model that is asked for; `default` where none is. `what` begins the sentence
    /// that says why there may not be more.
    ///
    /// # Errors
    ///
    /// Several models.
    pub fn only(&self, what: &str, default: ModelName) -> anyhow::Result<Choice> {
        match <[Choice; 1]>::try_from(self.choices(&[default])?) {
            Ok([choice]) => Ok(choice),
            Err(choices) => bail!("{what}; --model names {}", choices.len()),
        }
    }

    /// The parameters and the layout: those of the file, then those of --set.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or makes no sense.
    pub fn configuration(&self) -> anyhow::Result<Configuration> {
        let mut configuration = match &self.layout {
            Some(path) => read(path)?,
            None => Configuration::default(),
        };
        configuration.settings.extend(self.settings.iter().cloned());
        Ok(configuration)
    }
}

fn read(path: &Path) -> anyhow::Result<Configuration> {
    let name = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(name)?;
    Configuration::parse(&text).with_context(name)
}

/// A trace that is open, and what it tells models beforehand.
pub struct Stage {
    /// The file's name.
    pub file: String,
    /// The trace.
    pub trace: Trace,
    /// Its scene.
    pub scene: Scene,
}

impl Stage {
    /// Opens a trace.
    ///
    /// # Errors
    ///
    /// What cannot be read.
    pub fn open(path: &Path) -> anyhow::Result<Stage> {
        let file = path.display().to_string();
        let trace = Trace::open(path).with_context(|| file.clone())?;
        let scene = Scene::of(&trace);
        Ok(Stage { file, trace, scene })
    }

    /// A run of a model.
    ///
    /// # Errors
    ///
    /// Parameters or a layout that make no sense.
    pub fn run(&self, choice: &Choice, configuration: &Configuration) -> anyhow::Result<Run> {
        let names = || self.scene.names(&self.trace);
        let built = build(choice, configuration, &self.scene, names)?;
        Ok(Run::new(
            choice.to_string(),
            built,
            &self.trace,
            &self.scene,
        ))
    }

    /// Replays the trace through all models that are asked for.
    ///
    /// # Errors
    ///
    /// As of the parts.
    pub fn replay_all(
        &self,
        choices: &[Choice],
        configuration: &Configuration,
    ) -> anyhow::Result<(Vec<Run>, Replayed)> {
        let runs = choices
            .iter()
            .map(|choice| Ok((self.run(choice, configuration)?, ())));
        let runs = runs.collect::<anyhow::Result<Vec<_>>>()?;
        let (runs, fed) = self.replay(runs)?;
        let runs: Vec<_> = runs.into_iter().map(|(run, ())| run).collect();
        let replayed = report(&self.file, &self.trace, &self.scene, &runs, fed);
        Ok((runs, replayed))
    }

    /// Feeds the trace to runs, with a progress bar where it takes long.
    ///
    /// # Errors
    ///
    /// A file that cannot be read on.
    pub fn replay<W: Watch>(&self, runs: Vec<(Run, W)>) -> anyhow::Result<(Vec<(Run, W)>, Fed)> {
        let mut bar = Bar::new();
        let done = replay(&self.trace, &self.scene, runs, |progress| {
            bar.show(progress)
        });
        bar.clear();
        done.with_context(|| self.file.clone())
    }
}
