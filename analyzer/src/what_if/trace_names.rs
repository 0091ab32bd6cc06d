//! The trace's names, for the rules of a layout.

use super::Scene;
use super::phases::phases_of_frames;
use crate::analysis::naming::Naming;
use heapreel_format::{ContextId, Trace};
use heapreel_models::SegmentId;
use heapreel_models::layout::Names;
use std::collections::HashMap;

/// All names, owned: rules run in threads of their own.
pub(super) struct TraceNames {
    segments: Vec<String>,
    threads: Vec<String>,
    functions: Vec<String>,
    /// By a backtrace's position: its functions, innermost first.
    sites: Vec<Vec<u32>>,
    /// By a context's position: kind and name, its own and of those around it.
    contexts: Vec<Vec<(String, String)>>,
    /// By game frame: the phases that it lies in.
    phases: Vec<Vec<String>>,
}

/// Contexts around a context that are looked at; a damaged trace may have a ring of them.
const DEEPEST: usize = 64;

impl TraceNames {
    pub(super) fn of(trace: &Trace, scene: &Scene) -> TraceNames {
        let mut names = TraceNames {
            segments: scene.segments.iter().map(|it| it.name.clone()).collect(),
            threads: scene.threads.iter().map(|it| it.name.clone()).collect(),
            functions: Vec::new(),
            sites: Vec::new(),
            contexts: scene.contexts.iter().map(|id| around(trace, *id)).collect(),
            phases: phases(trace),
        };
        names.name_sites(trace, scene);
        names
    }

    fn name_sites(&mut self, trace: &Trace, scene: &Scene) {
        let mut naming = Naming::new(trace);
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let definitions = trace.definitions();
        for id in &scene.dense.stacks {
            let mut site = Vec::new();
            let stack = definitions.stacks.get(id);
            for functions in stack.map_or_else(Vec::new, |stack| naming.functions(stack)) {
                for function in functions.iter() {
                    let next = numbers.len() as u32;
                    let number = *numbers.entry(function.full.clone()).or_insert(next);
                    if number == next {
                        self.functions.push(function.full.clone());
                    }
                    site.push(number);
                }
            }
            self.sites.push(site);
        }
    }
}

/// The names of the phases of each frame; no frames where nothing was named.
fn phases(trace: &Trace) -> Vec<Vec<String>> {
    let names = &trace.definitions().names;
    if names.is_empty() {
        return Vec::new();
    }
    let name = |id| names.get(&id).cloned();
    phases_of_frames(trace)
        .into_iter()
        .map(|frame| frame.into_iter().filter_map(name).collect())
        .collect()
}

/// Kinds and names of a context and of those around it, the innermost first.
fn around(trace: &Trace, id: ContextId) -> Vec<(String, String)> {
    let contexts = &trace.definitions().contexts;
    let parent = |id: &ContextId| contexts.get(id).map(|(parent, ..)| *parent);
    std::iter::successors(Some(id), parent)
        .take(DEEPEST)
        .filter_map(|id| {
            let (_, kind, name) = contexts.get(&id)?;
            Some((kind.clone(), name.clone()))
        })
        .collect()
}

fn known(names: &[String], at: usize) -> Option<&str> {
    names
        .get(at)
        .map(String::as_str)
        .filter(|name| !name.is_empty())
}

impl Names for TraceNames {
    fn segment(&self, segment: SegmentId) -> Option<&str> {
        known(&self.segments, usize::from(segment.0))
    }

    fn thread(&self, thread: u32) -> Option<&str> {
        known(&self.threads, thread as usize)
    }

    fn site(&self, site: u32, each: &mut dyn FnMut(&str)) {
        let functions = self.sites.get(site as usize).into_iter().flatten();
        functions.for_each(|&function| each(&self.functions[function as usize]));
    }

    fn context(&self, context: u32, each: &mut dyn FnMut(&str)) {
        let names = self.contexts.get(context as usize).into_iter().flatten();
        names.for_each(|(_, name)| each(name));
    }

    fn tags(&self, context: u32, each: &mut dyn FnMut(&str)) {
        let tags = self.contexts.get(context as usize).into_iter().flatten();
        for (kind, name) in tags {
            each(kind);
            each(&format!("{kind}:{name}"));
        }
    }

    fn phases(&self, frame: u32, each: &mut dyn FnMut(&str)) {
        let names = self.phases.get(frame as usize).into_iter().flatten();
        names.for_each(|name| each(name));
    }
}
