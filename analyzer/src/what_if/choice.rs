//! Models and parameters as a person names them.

use heapreel_models::{BadParameter, arena, heap, mimalloc, pool, virtual_memory};
use std::fmt;
use std::str::FromStr;

/// A model's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ModelName {
    /// Segments of fixed capacity.
    Heap,
    /// The virtual memory allocator.
    Virtual,
    /// mimalloc.
    Mimalloc,
    /// Frame arenas.
    Arena,
    /// A pool of objects.
    Pool,
    /// What really happened.
    Recorded,
    /// The layout of the configuration, as it stands there.
    Layout,
}

/// All models with their names and presets, the default preset first.
pub const MODELS: &[(&str, ModelName, &[&str])] = &[
    ("heap", ModelName::Heap, heap::Parameters::PRESETS),
    (
        "virtual",
        ModelName::Virtual,
        virtual_memory::Parameters::PRESETS,
    ),
    (
        "mimalloc",
        ModelName::Mimalloc,
        mimalloc::Parameters::PRESETS,
    ),
    ("arena", ModelName::Arena, arena::Parameters::PRESETS),
    ("pool", ModelName::Pool, pool::Parameters::PRESETS),
    ("recorded", ModelName::Recorded, &[]),
    ("layout", ModelName::Layout, &[]),
];

impl ModelName {
    fn row(self) -> &'static (&'static str, ModelName, &'static [&'static str]) {
        let row = MODELS.iter().find(|(_, model, _)| *model == self);
        row.expect("every model stands in the table")
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Its presets, the default first; none for some.
    pub fn presets(self) -> &'static [&'static str] {
        self.row().2
    }
}

/// A model and its preset: `virtual`, `virtual:capcom4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Which model.
    pub model: ModelName,
    /// The preset, where one was named.
    pub preset: Option<String>,
}

impl Choice {
    /// The model of this name.
    pub(super) fn model_named(name: &str) -> Result<ModelName, BadParameter> {
        model(name)
    }

    /// The preset that counts; empty where the model has none.
    pub fn preset(&self) -> &str {
        let default = self.model.presets().first().copied().unwrap_or("");
        self.preset.as_deref().unwrap_or(default)
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.model.name())?;
        match &self.preset {
            Some(preset) => write!(f, ":{preset}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Choice {
    type Err = BadParameter;

    fn from_str(text: &str) -> Result<Choice, BadParameter> {
        let (name, preset) = match text.split_once(':') {
            Some((name, preset)) => (name, Some(preset.to_owned())),
            None => (text, None),
        };
        let model = model(name)?;
        if let Some(preset) = &preset
            && !model.presets().contains(&preset.as_str())
        {
            let known = match model.presets() {
                [] => &["none for this model"],
                known => known,
            };
            return Err(BadParameter::unknown("preset", preset, known));
        }
        Ok(Choice { model, preset })
    }
}

fn model(name: &str) -> Result<ModelName, BadParameter> {
    let found = MODELS.iter().find(|(known, ..)| *known == name);
    found.map(|(_, model, _)| *model).ok_or_else(|| {
        let known: Vec<_> = MODELS.iter().map(|(known, ..)| *known).collect();
        BadParameter::unknown("model", name, &known)
    })
}

/// One parameter of one model: `virtual.lru_entries=64`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Which model.
    pub model: ModelName,
    /// The parameter's name.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl FromStr for Setting {
    type Err = BadParameter;

    fn from_str(text: &str) -> Result<Setting, BadParameter> {
        let bad = || BadParameter::value("--set", text, "MODEL.PARAMETER=VALUE");
        let (name, value) = text.split_once('=').ok_or_else(bad)?;
        let (owner, name) = name.split_once('.').ok_or_else(bad)?;
        Ok(Setting {
            model: model(owner.trim())?,
            name: name.trim().to_owned(),
            value: value.trim().to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_named_with_presets() {
        let choice: Choice = "mimalloc:2.0.3-4mib".parse().unwrap();
        assert_eq!(
            (choice.model, choice.preset()),
            (ModelName::Mimalloc, "2.0.3-4mib")
        );
        assert_eq!(choice.to_string(), "mimalloc:2.0.3-4mib");
        let plain: Choice = "virtual".parse().unwrap();
        assert_eq!(
            (plain.preset(), plain.to_string()),
            ("capcom8", "virtual".to_owned())
        );
        let recorded: Choice = "recorded".parse().unwrap();
        assert_eq!(recorded.preset(), "");
    }

    #[test]
    fn a_wrong_name_is_told_with_the_right_ones() {
        let error = |text: &str| text.parse::<Choice>().unwrap_err().to_string();
        assert_eq!(
            error("hepa"),
            "no model \"hepa\"; there are heap, virtual, mimalloc, arena, pool, recorded, layout"
        );
        assert_eq!(
            error("virtual:capcom5"),
            "no preset \"capcom5\"; there are capcom8, capcom4, stock203"
        );
        assert_eq!(
            error("recorded:x"),
            "no preset \"x\"; there are none for this model"
        );
    }

    #[test]
    fn settings_name_model_parameter_and_value() {
        let setting: Setting = "heap.segment.Temp = 64MiB".parse().unwrap();
        assert_eq!(
            (setting.model, setting.name.as_str(), setting.value.as_str()),
            (ModelName::Heap, "segment.Temp", "64MiB")
        );
        assert!("lru_entries=1".parse::<Setting>().is_err());
        assert!("virtual.lru_entries".parse::<Setting>().is_err());
    }
}
