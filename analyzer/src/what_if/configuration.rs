//! What `heapreel.toml` and the command line say of models.
//!
//! ```toml
//! [model.virtual]
//! lru_entries = 64
//! segment.Temp = "64MiB"
//!
//! [layout]
//! default = "general"
//! # … instances and rules
//! ```
//!
//! Tables of other names are for other commands.

use super::choice::{ModelName, Setting};
use heapreel_models::BadParameter;
use heapreel_models::layout::LayoutSpec;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Parameters and a layout.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    /// Parameters in the order in which they are set.
    pub settings: Vec<Setting>,
    /// The layout, where there is one.
    pub layout: Option<LayoutSpec>,
}

/// A file that is no configuration. One line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// It is no TOML, or its tables hold something else than they should.
    #[error("line {line}: {cause}")]
    Toml {
        /// Where, from 1.
        line: usize,
        /// What is wrong.
        cause: String,
    },
    /// A table of a model that does not exist.
    #[error("[model]: {0}")]
    Model(BadParameter),
    /// A parameter that is a list or a date.
    #[error("[model.{model}]: {name} is no number, text, or truth value")]
    Value {
        /// The model.
        model: String,
        /// The parameter.
        name: String,
    },
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    model: BTreeMap<String, toml::Table>,
    layout: Option<LayoutSpec>,
}

impl Configuration {
    /// Reads the text of a `heapreel.toml`.
    ///
    /// # Errors
    ///
    /// [`ConfigurationError`].
    pub fn parse(text: &str) -> Result<Configuration, ConfigurationError> {
        let file: File = toml::from_str(text).map_err(|error| toml_error(text, &error))?;
        let mut settings = Vec::new();
        for (name, parameters) in &file.model {
            let model =
                super::choice::Choice::model_named(name).map_err(ConfigurationError::Model)?;
            flatten(model, "", parameters, &mut settings)?;
        }
        Ok(Configuration {
            settings,
            layout: file.layout,
        })
    }

    /// The parameters of one model, in order.
    pub fn of(&self, model: ModelName) -> impl Iterator<Item = (&str, &str)> {
        let its = self.settings.iter().filter(move |set| set.model == model);
        its.map(|set| (set.name.as_str(), set.value.as_str()))
    }
}

fn toml_error(text: &str, error: &toml::de::Error) -> ConfigurationError {
    let start = error.span().map_or(0, |span| span.start).min(text.len());
    let before = text.as_bytes()[..start].iter();
    ConfigurationError::Toml {
        line: 1 + before.filter(|byte| **byte == b'\n').count(),
        cause: error.message().replace('\n', "; "),
    }
}

/// Tables inside a model's table are names with dots.
fn flatten(
    model: ModelName,
    prefix: &str,
    table: &toml::Table,
    to: &mut Vec<Setting>,
) -> Result<(), ConfigurationError> {
    for (key, value) in table {
        let name = format!("{prefix}{key}");
        let value = match value {
            toml::Value::Table(inner) => {
                flatten(model, &format!("{name}."), inner, to)?;
                continue;
            }
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(_) | toml::Value::Float(_) | toml::Value::Boolean(_) => {
                value.to_string()
            }
            toml::Value::Datetime(_) | toml::Value::Array(_) => {
                let model = model.name().to_owned();
                return Err(ConfigurationError::Value { model, name });
            }
        };
        to.push(Setting { model, name, value });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_a_layout_are_read() {
        let text = "
            [model.virtual]
            lru_entries = 64
            zero_on_hit = false
            segment.Temp = \"64MiB\"
            [layout]
            default = \"general\"
            [layout.instance.general]
            model = \"heap\"
            [report]
            other = \"commands\"
        ";
        let read = Configuration::parse(text).unwrap();
        let set: Vec<_> = read.of(ModelName::Virtual).collect();
        assert_eq!(
            set,
            [
                ("lru_entries", "64"),
                ("segment.Temp", "64MiB"),
                ("zero_on_hit", "false")
            ]
        );
        assert_eq!(read.layout.unwrap().default, "general");
    }

    #[test]
    fn mistakes_are_one_line() {
        for (text, expected) in [
            ("\n[layout\n", "line 2: "),
            ("[model.hepa]\nx = 1\n", "[model]: no model \"hepa\""),
            (
                "[model.heap]\nsegments = [1]\n",
                "[model.heap]: segments is no number",
            ),
            ("[layout]\n\nnonsense = 1\n", "line "),
        ] {
            let error = Configuration::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
