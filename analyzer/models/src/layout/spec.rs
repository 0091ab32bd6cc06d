//! A layout as a person writes it, in `heapreel.toml`:
//!
//! ```toml
//! [layout]
//! default = "general"
//!
//! [layout.instance.general]
//! model = "heap:best"
//!
//! [layout.instance.scratch]
//! model = "arena"
//! on_full = "general"
//! set = { capacity = "8MiB" }
//!
//! [[layout.rule]]
//! into = "scratch"
//! segment = "Temp"
//! size = "..=4KiB"
//! role = "performance"
//! ```
//!
//! Rules are tried in order and the first that matches decides; where none does, the
//! default serves. All that a rule names must hold; a list of patterns holds where one of
//! them does. What a rule does not name is not asked for.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use serde::Deserialize;

use super::router::{Names, Router};
use super::{Instance, Layout};
use crate::model::{Model, ThreadRole};
use crate::parameters::{BadParameter, bytes};

/// Rules that a layout may have.
pub const MOST_RULES: usize = 63;

/// A layout that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadLayout {
    /// A name of no instance.
    #[error("{place} names no instance of the layout: {name:?}; there are {}", known.join(", "))]
    UnknownInstance {
        /// Where the name stands.
        place: String,
        /// The name.
        name: String,
        /// The instances.
        known: Vec<String>,
    },
    /// More rules than a layout can have.
    #[error("{rules} rules, a layout has at most {MOST_RULES}")]
    TooManyRules {
        /// How many.
        rules: usize,
    },
    /// A range that cannot be read.
    #[error("rule {rule}: {field} cannot be {value:?}: {expected}")]
    Range {
        /// The rule, from 1.
        rule: usize,
        /// Its field.
        field: &'static str,
        /// What it says.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// A model's parameter.
    #[error("instance {instance:?}: {error}")]
    Parameter {
        /// The instance.
        instance: String,
        /// What is wrong.
        error: BadParameter,
    },
}

/// One pattern or several.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Patterns {
    /// One.
    One(String),
    /// Several, of which one must match.
    Any(Vec<String>),
}

impl Patterns {
    /// Whether one of them matches.
    pub(super) fn match_name(&self, name: &str) -> bool {
        match self {
            Patterns::One(pattern) => super::glob::matches(pattern, name),
            Patterns::Any(patterns) => patterns
                .iter()
                .any(|pattern| super::glob::matches(pattern, name)),
        }
    }
}

/// A number or a range of them, as text: `64`, `64..`, `..4KiB`, `16..=4096`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum RangeText {
    /// Exactly this.
    Number(u64),
    /// A range; without `=` its end is excluded.
    Text(String),
}

impl RangeText {
    /// The numbers it stands for; `None` where it cannot be read or is empty.
    pub fn range(&self) -> Option<RangeInclusive<u64>> {
        let text = match self {
            RangeText::Number(number) => return Some(*number..=*number),
            RangeText::Text(text) => text,
        };
        let number = |text: &str| bytes("", text).ok();
        let Some((from, to)) = text.split_once("..") else {
            let exact = number(text)?;
            return Some(exact..=exact);
        };
        let from = if from.trim().is_empty() {
            0
        } else {
            number(from)?
        };
        let to = match to.trim() {
            "" => u64::MAX,
            to => match to.strip_prefix('=') {
                Some(last) => number(last)?,
                None => number(to)?.checked_sub(1)?,
            },
        };
        (from <= to).then_some(from..=to)
    }
}

/// A thread's role, as a rule names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Works for the frame.
    Performance,
    /// Anything else.
    Low,
}

impl From<Role> for ThreadRole {
    fn from(role: Role) -> ThreadRole {
        match role {
            Role::Performance => ThreadRole::Performance,
            Role::Low => ThreadRole::Low,
        }
    }
}

/// Which requests go where.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The instance that serves them.
    pub into: String,
    /// Pattern of the segment's name.
    pub segment: Option<Patterns>,
    /// Pattern of the context's name, or of one around it.
    pub context: Option<Patterns>,
    /// Pattern of the context's kind, or of one around it: `asset`, `asset:rock_*`.
    pub tag: Option<Patterns>,
    /// Pattern of a function on the stack.
    pub site: Option<Patterns>,
    /// Requested bytes.
    pub size: Option<RangeText>,
    /// Requested alignment in bytes, 0 where none was.
    pub align: Option<RangeText>,
    /// Pattern of the thread's name.
    pub thread: Option<Patterns>,
    /// The thread's role.
    pub role: Option<Role>,
    /// Pattern of a phase that the frame lies in.
    pub phase: Option<Patterns>,
    /// Game frames.
    pub frames: Option<RangeText>,
    /// How many frames end while the block lives: 0 where it is freed in the frame that
    /// allocated it. `"permanent"` for blocks that are never freed; an open range such as
    /// `"60.."` has them, too. A game cannot know: rules by lifetime tell what is to be won.
    pub lifetime: Option<RangeText>,
}

/// A model in a layout.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceSpec {
    /// The model's name, with a preset after a colon where one is wanted.
    pub model: String,
    /// The instance that serves what this one cannot.
    pub on_full: Option<String>,
    /// Parameters of the model.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
}

/// A parameter's value.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Yes or no.
    Truth(bool),
    /// A whole number.
    Integer(i64),
    /// Any other.
    Float(f64),
    /// Text.
    Text(String),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Truth(value) => value.fmt(f),
            Value::Integer(value) => value.fmt(f),
            Value::Float(value) => value.fmt(f),
            Value::Text(value) => value.fmt(f),
        }
    }
}

/// A whole layout: the table `layout` of the file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayoutSpec {
    /// The instance that serves what no rule matches.
    pub default: String,
    /// The instances by name.
    pub instance: BTreeMap<String, InstanceSpec>,
    /// The rules in the order in which they are tried.
    #[serde(default)]
    pub rule: Vec<Rule>,
}

impl LayoutSpec {
    /// Whether a rule asks how long blocks live, so that whoever replays must look ahead.
    pub fn asks_lifetimes(&self) -> bool {
        self.rule.iter().any(|rule| rule.lifetime.is_some())
    }

    /// The layout's names of instances: the default first, the others sorted.
    pub fn instances(&self) -> Vec<&str> {
        let others = self.instance.keys().filter(|&name| *name != self.default);
        std::iter::once(&self.default)
            .chain(others)
            .map(String::as_str)
            .collect()
    }

    /// Builds the layout; `make` makes the model of an instance with its parameters.
    ///
    /// # Errors
    ///
    /// [`BadLayout`].
    pub fn build(
        &self,
        names: Arc<dyn Names>,
        mut make: impl FnMut(&InstanceSpec) -> Result<Box<dyn Model>, BadParameter>,
    ) -> Result<Layout, BadLayout> {
        let router = Router::new(self.compile()?, names);
        let mut instances = Vec::new();
        for name in self.instances() {
            let spec = &self.instance[name];
            let on_full = match &spec.on_full {
                Some(to) => Some(self.number(&format!("on_full of {name}"), to)?),
                None => None,
            };
            let model = make(spec).map_err(|error| {
                let instance = name.to_owned();
                BadLayout::Parameter { instance, error }
            })?;
            instances.push(Instance::new(name, model, on_full));
        }
        Ok(Layout::new(instances, router))
    }

    fn compile(&self) -> Result<Vec<(Rule, Ranges, usize)>, BadLayout> {
        self.number("default", &self.default)?;
        if self.rule.len() > MOST_RULES {
            return Err(BadLayout::TooManyRules {
                rules: self.rule.len(),
            });
        }
        let compiled = self.rule.iter().enumerate().map(|(index, rule)| {
            let into = self.number(&format!("rule {}", index + 1), &rule.into)?;
            Ok((rule.clone(), Ranges::of(rule, index + 1)?, into))
        });
        compiled.collect()
    }

    fn number(&self, place: &str, name: &str) -> Result<usize, BadLayout> {
        let known = self.instances();
        let exists = self.instance.contains_key(name);
        let number = known
            .iter()
            .position(|&known| known == name)
            .filter(|_| exists);
        number.ok_or_else(|| BadLayout::UnknownInstance {
            place: place.to_owned(),
            name: name.to_owned(),
            known: self.instance.keys().cloned().collect(),
        })
    }
}

/// A rule's ranges as numbers.
#[derive(Clone, Debug)]
pub(super) struct Ranges {
    pub(super) size: RangeInclusive<u64>,
    pub(super) align: RangeInclusive<u64>,
    pub(super) frames: RangeInclusive<u64>,
    pub(super) lifetime: RangeInclusive<u64>,
}

/// The lifetime of blocks that are never freed, as a rule names it.
const PERMANENT: &str = "permanent";

impl Ranges {
    fn of(rule: &Rule, number: usize) -> Result<Ranges, BadLayout> {
        let read = |field, text: &Option<RangeText>| {
            let Some(text) = text else {
                return Ok(0..=u64::MAX);
            };
            text.range().ok_or_else(|| BadLayout::Range {
                rule: number,
                field,
                value: match text {
                    RangeText::Number(number) => number.to_string(),
                    RangeText::Text(text) => text.clone(),
                },
                expected: match field {
                    "lifetime" => "frames such as 0, ..=3 or 60.., or \"permanent\"",
                    _ => "a number, or a range such as 64.., ..4KiB or 16..=4096",
                },
            })
        };
        let permanent = RangeText::Text(PERMANENT.to_owned());
        Ok(Ranges {
            size: read("size", &rule.size)?,
            align: read("align", &rule.align)?,
            frames: read("frames", &rule.frames)?,
            lifetime: match &rule.lifetime {
                Some(text) if *text == permanent => u64::MAX..=u64::MAX,
                other => read("lifetime", other)?,
            },
        })
    }
}
