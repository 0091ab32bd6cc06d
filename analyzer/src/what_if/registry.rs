//! Makes models: preset, then what the trace says, then what the person sets.

use super::choice::{Choice, ModelName};
use super::configuration::Configuration;
use super::scene::{Scene, TraceSegment};
use heapreel_models::layout::{BadLayout, InstanceSpec, LayoutSpec, Names, NoNames};
use heapreel_models::{
    Arenas, BadParameter, Heap, Mimalloc, Model, Pool, Recorded, Virtual, arena, heap, mimalloc,
    pool, recorded, virtual_memory,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A model that is ready to be fed.
pub struct Built {
    /// The model.
    pub model: Box<dyn Model>,
    /// Names of the segments that [`Model::by_segment`] numbers.
    pub segments: Vec<String>,
    /// What segments may have, by name: capacities of a heap, budgets of others.
    pub budgets: BTreeMap<String, u64>,
    /// Whether it wants to know of each block how long it will live.
    pub asks_lifetimes: bool,
}

/// Why a model could not be made. One line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadModel {
    /// A parameter, of a model or of an instance's.
    #[error("{model}: {error}")]
    Parameter {
        /// The model.
        model: String,
        /// What is wrong.
        error: BadParameter,
    },
    /// The layout.
    #[error("layout: {0}")]
    Layout(BadLayout),
    /// The layout is asked for and there is none.
    #[error("no layout: name a file with a table [layout] by --layout")]
    NoLayout,
}

/// Makes a model for a trace.
///
/// With a layout in the configuration, any other model than `layout` stands in the place
/// of the layout's default instance: it serves what no rule sends elsewhere.
///
/// `names` is only called for a layout with rules.
///
/// # Errors
///
/// [`BadModel`].
pub fn build(
    choice: &Choice,
    configuration: &Configuration,
    scene: &Scene,
    names: impl FnOnce() -> Arc<dyn Names>,
) -> Result<Built, BadModel> {
    let Some(layout) = &configuration.layout else {
        return match choice.model {
            ModelName::Layout => Err(BadModel::NoLayout),
            _ => plain(choice, configuration, scene).map_err(|error| BadModel::Parameter {
                model: choice.to_string(),
                error,
            }),
        };
    };
    let layout = match choice.model {
        ModelName::Layout => layout.clone(),
        _ => with_default(layout, choice),
    };
    let names = match layout.rule.is_empty() {
        true => Arc::new(NoNames),
        false => names(),
    };
    let model = layout
        .build(names, |spec| instance(spec, configuration, scene))
        .map_err(BadModel::Layout)?;
    Ok(Built {
        asks_lifetimes: layout.asks_lifetimes(),
        ..built(model)
    })
}

/// The layout with another model as its default.
fn with_default(layout: &LayoutSpec, choice: &Choice) -> LayoutSpec {
    let mut layout = layout.clone();
    let default = layout.default.clone();
    let before = layout.instance.get(&default);
    let same = before
        .and_then(|spec| spec.model.parse::<Choice>().ok())
        .is_some_and(|named| named.model == choice.model);
    let spec = InstanceSpec {
        model: choice.to_string(),
        on_full: before.and_then(|spec| spec.on_full.clone()),
        set: match before {
            Some(spec) if same => spec.set.clone(),
            _ => Default::default(),
        },
    };
    layout.instance.insert(default, spec);
    layout
}

/// The model of an instance: what is set for its model, then what is set for itself.
fn instance(
    spec: &InstanceSpec,
    configuration: &Configuration,
    scene: &Scene,
) -> Result<Box<dyn Model>, BadParameter> {
    let choice: Choice = spec.model.parse()?;
    let own = spec.set.iter().map(|(name, value)| super::Setting {
        model: choice.model,
        name: name.clone(),
        value: value.to_string(),
    });
    let settings = configuration.settings.iter().cloned().chain(own).collect();
    let layout = None;
    let configuration = Configuration { settings, layout };
    Ok(plain(&choice, &configuration, scene)?.model)
}

fn plain(
    choice: &Choice,
    configuration: &Configuration,
    scene: &Scene,
) -> Result<Built, BadParameter> {
    let settings = || configuration.of(choice.model);
    match choice.model {
        ModelName::Heap => heap(choice, settings(), scene),
        ModelName::Virtual => virtual_memory(choice, settings(), scene),
        ModelName::Mimalloc => mimalloc(choice, settings(), scene),
        ModelName::Arena => {
            let mut parameters = arena::Parameters::preset(choice.preset())?;
            set_all(settings(), |name, value| parameters.set(name, value))?;
            Ok(built(Arenas::new(parameters)))
        }
        ModelName::Pool => {
            let mut parameters = pool::Parameters::preset(choice.preset())?;
            set_all(settings(), |name, value| parameters.set(name, value))?;
            Ok(built(Pool::new(parameters)?))
        }
        ModelName::Recorded => {
            let mut parameters = recorded::Parameters::default();
            set_all(settings(), |name, value| parameters.set(name, value))?;
            Ok(built(Recorded::new(parameters)))
        }
        ModelName::Layout => Err(BadParameter::value(
            "an instance's model",
            "layout",
            "no layout inside a layout",
        )),
    }
}

fn built(model: impl Model) -> Built {
    Built {
        model: Box::new(model),
        segments: Vec::new(),
        budgets: BTreeMap::new(),
        asks_lifetimes: false,
    }
}

fn set_all<'a>(
    settings: impl Iterator<Item = (&'a str, &'a str)>,
    mut set: impl FnMut(&str, &str) -> Result<(), BadParameter>,
) -> Result<(), BadParameter> {
    for (name, value) in settings {
        set(name, value)?;
    }
    Ok(())
}

/// The trace's budgets are capacities; a segment without one shares the first.
fn heap<'a>(
    choice: &Choice,
    settings: impl Iterator<Item = (&'a str, &'a str)>,
    scene: &Scene,
) -> Result<Built, BadParameter> {
    let mut parameters = heap::Parameters::preset(choice.preset())?;
    for (name, budget) in budgets(&scene.segments) {
        let known = parameters.segments.iter_mut().find(|it| it.name == name);
        match known {
            Some(known) => known.capacity = budget,
            None => {
                let segment = heap::SegmentSpec::new(name, budget);
                parameters.segments.push(segment);
            }
        }
    }
    set_all(settings, |name, value| parameters.set(name, value))?;
    let names: Vec<_> = parameters
        .segments
        .iter()
        .map(|it| it.name.clone())
        .collect();
    let place = |segment: &TraceSegment| {
        let place = names.iter().position(|name| *name == segment.name);
        place.unwrap_or(0) as u16
    };
    parameters.numbers = Some(scene.segments.iter().map(place).collect());
    let budgets = parameters.segments.iter();
    let budgets = budgets.map(|it| (it.name.clone(), it.capacity)).collect();
    Ok(Built {
        budgets,
        segments: names,
        ..built(Heap::new(parameters)?)
    })
}

/// The trace's budgets are the model's; segments are numbered as the trace does.
fn virtual_memory<'a>(
    choice: &Choice,
    settings: impl Iterator<Item = (&'a str, &'a str)>,
    scene: &Scene,
) -> Result<Built, BadParameter> {
    let mut parameters = virtual_memory::Parameters::preset(choice.preset())?;
    for (name, budget) in budgets(&scene.segments) {
        let known = parameters
            .segments
            .iter_mut()
            .find(|(known, _)| known == name);
        match known {
            Some((_, known)) => *known = budget,
            None => parameters.segments.push((name.to_owned(), budget)),
        }
    }
    set_all(settings, |name, value| parameters.set(name, value))?;
    let budgets = parameters.segments.iter().cloned().collect();
    parameters.phys_budget = Some(physical_bytes(&parameters));
    let budget = |segment: &TraceSegment| {
        let known = parameters
            .segments
            .iter()
            .find(|(name, _)| *name == segment.name);
        (
            segment.name.clone(),
            known.map_or(u64::MAX, |(_, budget)| *budget),
        )
    };
    parameters.segments = scene.segments.iter().map(budget).collect();
    Ok(Built {
        budgets,
        segments: scene.segments.iter().map(|it| it.name.clone()).collect(),
        ..built(Virtual::new(&parameters)?)
    })
}

/// The sum of all budgets, those of segments that the trace does not have included.
fn physical_bytes(parameters: &virtual_memory::Parameters) -> u64 {
    let budgets = parameters.segments.iter().map(|(_, budget)| *budget);
    let sum = || budgets.fold(0, u64::saturating_add);
    parameters.phys_budget.unwrap_or_else(sum)
}

/// The program's first thread has its block from the program.
fn mimalloc<'a>(
    choice: &Choice,
    settings: impl Iterator<Item = (&'a str, &'a str)>,
    scene: &Scene,
) -> Result<Built, BadParameter> {
    let mut parameters = mimalloc::Parameters::preset(choice.preset())?;
    parameters.main_thread = scene.main_thread();
    set_all(settings, |name, value| parameters.set(name, value))?;
    Ok(Built {
        segments: scene.segments.iter().map(|it| it.name.clone()).collect(),
        ..built(Mimalloc::new(&parameters)?)
    })
}

fn budgets(segments: &[TraceSegment]) -> impl Iterator<Item = (&str, u64)> {
    let budget = |it: &TraceSegment| it.budget;
    segments
        .iter()
        .filter_map(move |it| Some((it.name.as_str(), budget(it)?)))
}
